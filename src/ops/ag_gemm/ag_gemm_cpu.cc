// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_cpu.cc — AllGather+GEMM on threads: one thread waits, computes and writes in turn.
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "ops/host_launch.h"
#include "target/cpu/cpu_gemm.h"

namespace mk::ag_gemm_op {
namespace {

template <class T>
void compute(cpu::CpuMachine& m, const Layout& layout, const Post& post, const AgGemmArgs& args) {
  for_each_tile(layout, m.rank(), post, [&](const Tile& tile) {
    if (!wait_for_rows(m, layout, tile)) return false;
    m.note({EventKind::kTileBegin, tile.number, tile.source});
    const Range rows = layout.rows_of(tile.row_block);
    const Range cols = layout.cols_of(tile.col_block);
    const bool own = tile.source == m.rank();
    const uint64_t at = layout.chunk_bytes(tile.row_block).first + (own ? 0 : tile.source * layout.shard_bytes());
    const Place place{own ? kInputWindow : kGatheredWindow, m.rank(), at};
    const T* a = reinterpret_cast<const T*>(m.view().windows.resolve(m.world(), place));
    const auto b = cpu::right_operand<T>(args.b.data, args.b_order, layout.n, layout.k, cols.first);
    T* c = static_cast<T*>(args.c.data) + (tile.source * layout.shard_rows + rows.first) * layout.n + cols.first;
    const T* bias = args.bias.data == nullptr ? nullptr : static_cast<const T*>(args.bias.data) + cols.first;
    const cpu::Bias<T> hook{bias, args.activation};
    cpu::gemm_tile(a, b, c, rows.count, cols.count, layout.k, layout.n, hook);
    m.note({EventKind::kTileEnd, tile.number, tile.source});
    return true;
  });
}

void run_worker(cpu::CpuMachine& m, const Layout& layout, const Post& post, const AgGemmArgs& args) {
  if (post.role != Layout::kCompute) return communicate(m, layout, post);
  switch (args.a.dtype) {
    case DType::kBf16: return compute<Bf16>(m, layout, post, args);
    case DType::kFp16: return compute<Fp16>(m, layout, post, args);
    case DType::kFp32: return compute<float>(m, layout, post, args);
  }
}

}  // namespace

void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  RankView view = plan.view(rank);
  view.windows.inputs[0] = static_cast<const std::byte*>(args.a.data);
  const Layout& layout = plan.layout<Layout>();  // the plan outlives its launches
  launch_on_host(world, view, layout.roles,
                 [&layout, args](cpu::CpuMachine& m, const Post& post) { run_worker(m, layout, post, args); });
}

}  // namespace mk::ag_gemm_op
