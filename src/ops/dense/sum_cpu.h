// SPDX-License-Identifier: MIT
// ops/dense/sum_cpu.h — a rank's launch of an operator that sums products over ranks, on CPU threads.
#pragma once

#include "ops/dense/host_body.h"
#include "ops/host_launch.h"

namespace mk::dense {

template <class T, class Layout>
void work_on_host(cpu::CpuMachine& m, const Layout& layout, const Post& post, const GemmArgs& args) {
  const auto resolve = [&m](const Place& place) { return m.view().windows.resolve(m.world(), place); };
  HostBody<T, decltype(resolve)> body(layout.image(), layout.k, args, Layout::kOutput, resolve);
  work(m, layout, post, body);
}

// The plan outlives its launches, and so does its layout.
template <class Layout>
void launch_cpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  const Layout& layout = plan.layout<Layout>();
  launch_on_host(world, plan.view(rank), layout.roles, [&layout, args](cpu::CpuMachine& m, const Post& post) {
    switch (args.a.dtype) {
      case DType::kBf16: return work_on_host<Bf16>(m, layout, post, args);
      case DType::kFp16: return work_on_host<Fp16>(m, layout, post, args);
      case DType::kFp32: return work_on_host<float>(m, layout, post, args);
    }
  });
}

}  // namespace mk::dense
