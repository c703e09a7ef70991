// SPDX-License-Identifier: MIT
// ops/moe/moe_host_launch.h — launches one rank of a mixture of experts on CPU threads.
#pragma once

#include <utility>

#include "base/half.h"
#include "mkernel/types.h"
#include "ops/host_launch.h"

namespace mk::moe {

// Resolves places in the memory of this process.
struct ViewResolve {
  const RankView& view;
  std::byte* operator()(const Place& place) const { return view.windows.resolve(view.world, place); }
};

// Body: a template of the element type and of Resolve, such as HostBody.  The layout outlives the launch.
template <template <class, class> class Body, class L, class Operands>
void launch_bodies(runtime::WorldState& world, const RankView& view, const L& layout, const Operands& operands,
                   DType dtype) {
  launch_on_host(world, view, layout.roles, [&layout, operands, dtype](cpu::CpuMachine& m, const Post& post) {
    const auto run = [&]<class T>(T) {
      Body<T, ViewResolve> body(layout, m.rank(), operands, {m.view()});
      work(m, layout, post, body);
    };
    switch (dtype) {
      case DType::kBf16: return run(Bf16{});
      case DType::kFp16: return run(Fp16{});
      case DType::kFp32: return run(float{});
    }
  });
}

}  // namespace mk::moe
