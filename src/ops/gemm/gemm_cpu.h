// SPDX-License-Identifier: MIT
// ops/gemm/gemm_cpu.h — a rank's launch of a GEMM operator on CPU threads.
#pragma once

#include "ops/gemm/gemm_compute.h"
#include "ops/gemm/gemm_host_body.h"
#include "ops/host_launch.h"

namespace mk::gemm {

template <class T, class Layout>
void work_on_host(cpu::CpuMachine& m, const Layout& layout, const Post& post, const GemmOperands& operands) {
  const auto resolve = [&m](const Place& place) { return m.view().windows.resolve(m.world(), place); };
  HostBody<T, Layout, decltype(resolve)> body(layout, m.rank(), operands, resolve);
  work(m, layout, post, body);
}

// The plan outlives its launches, and so does its layout.
template <class Layout>
void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmOperands& operands) {
  RankView view = plan.view(rank);
  view.windows.inputs[0] = static_cast<const std::byte*>(operands.a.data);
  const Layout& layout = plan.layout<Layout>();
  launch_on_host(world, view, layout.roles, [&layout, operands](cpu::CpuMachine& m, const Post& post) {
    switch (operands.a.dtype) {
      case DType::kBf16: return work_on_host<Bf16>(m, layout, post, operands);
      case DType::kFp16: return work_on_host<Fp16>(m, layout, post, operands);
      case DType::kFp32: return work_on_host<float>(m, layout, post, operands);
    }
  });
}

}  // namespace mk::gemm
