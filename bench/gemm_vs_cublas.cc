// SPDX-License-Identifier: MIT
// bench/gemm_vs_cublas.cc — the GEMM inside ag_gemm (world 1×1) beside cuBLAS, in the same run.
//
// Both see the same random bf16 inputs.  Timed repetitions alternate, over input sets that together
// exceed the L2; each is one launch between two events.  The medians are compared.  cuBLAS runs the fastest
// of the algorithms it offers for the shape (cublas_gemm.h).  Before timing, both
// results are compared element by element in units of the bf16 rounding step.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <latch>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/cuda_api.h"
#include "base/half.h"
#include "bench/cublas_gemm.h"
#include "build_info.h"
#include "mkernel/mkernel.h"
#include "runtime/device.h"
#include "runtime/world_state.h"

namespace {

using mk::Bf16;
using mk::check_cuda;
using mk::runtime::Buffer;

struct Shape {
  int64_t m, n, k;
};

struct Setting {
  mk::TileSize tile;
  mk::BOrder order = mk::BOrder::kKN;
};

struct Inputs {
  Buffer a, b, c;
};

void fill(Buffer& buffer, mk::runtime::Device& device, uint64_t seed) {
  std::vector<Bf16> values(buffer.bytes() / sizeof(Bf16));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (Bf16& value : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = mk::from_float<Bf16>(static_cast<float>(static_cast<int64_t>(state) >> 40) * 0x1p-23f);
  }
  device.upload(buffer.as<void>(), values.data(), buffer.bytes());
}

// Holds a stream until it goes, so that the GPU starts when all is queued: otherwise short launches would time
// the host.  A held stream takes about a thousand calls before it blocks the caller.
class Hold {
 public:
  explicit Hold(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaLaunchHostFunc(
                   stream, [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &queued_),
               "hold a stream");
  }
  Hold(const Hold&) = delete;
  ~Hold() {
    queued_.count_down();
    cudaStreamSynchronize(stream_);  // its function looks at the latch
  }

 private:
  cudaStream_t stream_;
  std::latch queued_{1};
};

class Contest {
 public:
  Contest(mk::World& world, const Shape& shape, const Setting& setting, int sets)
      : world_(world),
        shape_(shape),
        setting_(setting),
        cublas_(world.state().device(), mk::DType::kBf16, 1, setting.order) {
    mk::runtime::Device& device = world.state().device();
    for (int i = 0; i < sets; ++i) {
      Inputs& in =
          inputs_.emplace_back(Inputs{Buffer(device, shape.m * shape.k * 2), Buffer(device, shape.k * shape.n * 2),
                                      Buffer(device, shape.m * shape.n * 2)});
      fill(in.a, device, 2 * i);
      fill(in.b, device, 2 * i + 1);
    }
    std::vector<mk::bench::GemmOperands> all;
    for (int set = 0; set < sets; ++set) all.push_back(operands(set));
    cublas_.prepare(cublas_shape(), all, stream());
  }

  void ours(int set) {
    const Inputs& in = inputs_[set % inputs_.size()];
    const mk::DType type = mk::DType::kBf16;
    const bool is_kn = setting_.order == mk::BOrder::kKN;
    const mk::AgGemmArgs args{.a = {in.a.as<void>(), type, shape_.m, shape_.k},
                              .b = {in.b.as<void>(), type, is_kn ? shape_.k : shape_.n, is_kn ? shape_.n : shape_.k},
                              .c = {in.c.as<void>(), type, shape_.m, shape_.n},
                              .b_order = setting_.order};
    mk::ag_gemm(world_, {&args, 1}, {.split = {}, .tile = setting_.tile});
  }

  void theirs(int set) { cublas_.run(cublas_shape(), operands(set), 0, stream()); }

  // Elements that differ by more than one rounding step of the larger.
  int64_t count_different() {
    const size_t count = shape_.m * shape_.n;
    std::vector<Bf16> mine(count), other(count);
    mk::runtime::Device& device = world_.state().device();
    const std::vector<Bf16> poison(count, Bf16{0xffff});
    device.upload(inputs_[0].c.as<void>(), poison.data(), count * 2);
    ours(0);
    world_.synchronize();
    device.download(mine.data(), inputs_[0].c.as<void>(), count * 2);
    theirs(0);
    world_.synchronize();
    device.download(other.data(), inputs_[0].c.as<void>(), count * 2);
    int64_t different = 0;
    // fp32 sums of k products of values below 1 differ by at most 2·k·2^-23·k; rounding adds a step.
    const float sums = static_cast<float>(shape_.k) * 0x1p-22f * static_cast<float>(shape_.k) / 4;
    for (size_t i = 0; i < count; ++i) {
      const float x = mk::to_float(mine[i]), y = mk::to_float(other[i]);
      if (!(std::abs(x - y) <= std::max(std::abs(x), std::abs(y)) * 0x1p-7f + sums)) ++different;
    }
    return different;
  }

  void time(int repetitions, std::vector<double>& ours_us, std::vector<double>& theirs_us) {
    mk::runtime::Device& device = world_.state().device();
    constexpr int kAtOnce = 50;  // six calls each
    for (int first = 0; first < repetitions; first += kAtOnce) {
      const Hold hold(stream());
      for (int i = first; i < std::min(first + kAtOnce, repetitions); ++i) {
        device.span_begin(0), ours(i), device.span_end(0);
        device.span_begin(0), theirs(i), device.span_end(0);
      }
    }
    world_.synchronize();
    const std::vector<double> spans = device.take_spans_us(0);
    for (size_t i = 0; i < spans.size(); ++i) (i % 2 == 0 ? ours_us : theirs_us).push_back(spans[i]);
  }

 private:
  mk::bench::GemmShape cublas_shape() const { return {shape_.m, shape_.n, shape_.k}; }
  mk::bench::GemmOperands operands(int set) const {
    const Inputs& in = inputs_[set % inputs_.size()];
    return {in.a.as<void>(), in.b.as<void>(), in.c.as<void>()};
  }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(world_.rank_stream(0)); }

  mk::World& world_;
  Shape shape_;
  Setting setting_;
  std::vector<Inputs> inputs_;
  mk::bench::CublasGemm cublas_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

bool contest(const Shape& shape, const Setting& setting, int repetitions, const std::string& json) {
  mk::World world = mk::World::local(1, 1, mk::DeviceKind::kCuda);
  constexpr int64_t kRotatedBytes = 256 << 20;  // several times the L2
  const int64_t set_bytes = 2 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
  Contest c(world, shape, setting, static_cast<int>(std::clamp<int64_t>(kRotatedBytes / set_bytes + 1, 2, 16)));
  const int64_t different = c.count_different();
  std::vector<double> ours, theirs;
  c.time(repetitions / 4 + 1, ours, theirs);  // warm-up
  ours.clear(), theirs.clear();
  c.time(repetitions, ours, theirs);
  const double flops = 2.0 * shape.m * shape.n * shape.k;
  const double mine = flops / median(ours) * 1e-6, other = flops / median(theirs) * 1e-6;
  fmt::print(
      "{:>6} {:>6} {:>6}  {:8.1f} us {:7.1f} TFLOP/s   cuBLAS {:8.1f} us {:7.1f} TFLOP/s   ratio {:.3f}   different "
      "{}\n",
      shape.m, shape.n, shape.k, median(ours), mine, median(theirs), other, mine / other, different);
  if (!json.empty()) {
    std::ofstream(json, std::ios::app) << nlohmann::json{{"bench", "gemm_vs_cublas"},
                                                         {"m", shape.m},
                                                         {"n", shape.n},
                                                         {"k", shape.k},
                                                         {"dtype", "bf16"},
                                                         {"repetitions", repetitions},
                                                         {"time_us", median(ours)},
                                                         {"cublas_us", median(theirs)},
                                                         {"tflops", mine},
                                                         {"cublas_tflops", other},
                                                         {"ratio", mine / other},
                                                         {"different", different},
                                                         {"device_name", mk::runtime::describe_cuda()},
                                                         {"commit", MKERNEL_COMMIT}}
                                              .dump()
                                       << "\n";
  }
  return different == 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("GEMM inside ag_gemm, world 1x1, beside cuBLAS in the same run");
  std::vector<int64_t> shape = {8192, 8192, 8192};
  int repetitions = 60;
  std::string json;
  app.add_option("shape", shape, "M N K, three numbers per shape (default 8192 8192 8192)");
  app.add_option("-n,--repetitions", repetitions, "timed launches of each, interleaved")->capture_default_str();
  Setting setting;
  app.add_option("--tile-m", setting.tile.m, "rows of our tile; 0: chosen for the shape");
  app.add_option("--tile-n", setting.tile.n, "columns of our tile");
  app.add_option("--cluster", setting.tile.cluster, "blocks that share B");
  app.add_flag_callback(
      "--nk", [&] { setting.order = mk::BOrder::kNK; }, "B lies as [N,K]");
  app.add_option("--json", json, "append one JSON object per shape to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    bool same = true;
    for (size_t i = 0; i + 2 < shape.size(); i += 3)
      same = contest({shape[i], shape[i + 1], shape[i + 2]}, setting, repetitions, json) && same;
    return same ? 0 : 1;
  } catch (const mk::Error& error) {
    fmt::print(stderr, "gemm_vs_cublas: {}\n", error.what());
    return 2;
  }
}
