// SPDX-License-Identifier: MIT
// bench/round_trip_cuda.cu — see round_trip.h.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "base/cuda_api.h"
#include "bench/round_trip.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "runtime/device.h"
#include "runtime/proxy.h"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/warp_crew.cuh"
#include "transport/loopback.h"

namespace mk::bench {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::Buffer;

constexpr int kBatch = 1000;                     // round trips of a launch
constexpr int kUntimed = 100;                    // the first of a batch: the host's thread may have slept
constexpr uint64_t kDeadlineNs = 2'000'000'000;  // of one round trip
constexpr uint32_t kDataWindow = kFirstOperatorWindow;
constexpr uint32_t kSlots = kDataWindow + 1;

struct Words {  // in pinned memory; each side writes its own cache line
  alignas(64) uint64_t question;
  alignas(64) uint64_t answer;
};

using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

// The number of the first question is `asked` + 1.  A time of 0: no answer came.
__global__ void ask_by_words(Words* words, uint64_t asked, uint64_t* times_ns) {
  for (int i = 0; i < kBatch; ++i) {
    const uint64_t number = asked + i + 1;
    const uint64_t began = sm90::clock_ns();
    Word(words->question).store(number, cuda::memory_order_relaxed);
    while (Word(words->answer).load(cuda::memory_order_relaxed) < number) {
      if (sm90::clock_ns() - began > kDeadlineNs) return;
    }
    times_ns[i] = sm90::clock_ns() - began;
  }
}

// The same by a worker of rank 0, whose puts go from one half of its data to the other and pay its signal 0.
__global__ void ask_by_puts(const __grid_constant__ RankView view, uint64_t asked, uint64_t* times_ns) {
  sm90::Sm90Machine<sm90::WarpCrew> machine(view, {0, 0, 1}, 0, {}, sm90::NoPace());
  auto* const data = reinterpret_cast<uint64_t*>(view.windows.resolve(view.world, Place{kDataWindow, 0, 0}));
  const Put put{.from = {kDataWindow, 0, 0},
                .to = {kDataWindow, 0, sizeof(uint64_t)},
                .bytes = sizeof(uint64_t),
                .signal = {.rank = 0, .index = 0}};
  for (int i = 0; i < kBatch; ++i) {
    const uint64_t number = asked + i + 1;
    const uint64_t began = sm90::clock_ns();
    if (threadIdx.x == 0) *data = number;
    __syncwarp();
    if (!machine.put(put, i) || !machine.wait(0, number, i)) return;
    if (threadIdx.x == 0) times_ns[i] = sm90::clock_ns() - began;
  }
}

class RoundTrips {
 public:
  RoundTrips()
      : device_(runtime::make_cuda_device(1)),
        words_(*device_, sizeof(Words), Buffer::Kind::kShared),
        data_(*device_, 2 * sizeof(uint64_t), Buffer::Kind::kShared),
        signals_(*device_, sizeof(uint64_t), Buffer::Kind::kShared),
        slots_(*device_, ring_capacity() * sizeof(Command), Buffer::Kind::kShared),
        counters_(*device_, 3 * kCounterBytes, Buffer::Kind::kShared),
        fault_(*device_, sizeof(FaultRecord), Buffer::Kind::kShared),
        near_(*device_, sizeof(Near)),
        times_(*device_, kBatch * sizeof(uint64_t)) {
    const uint32_t data_id = windows_.add({data_.as()}, data_.bytes());
    const uint32_t signals_id = windows_.add({signals_.as()}, signals_.bytes());
    Near near;
    near.base[kSignalWindow] = signals_.as();
    near.base[kDataWindow] = data_.as();
    near.id[kSignalWindow] = signals_id;
    near.id[kDataWindow] = data_id;
    device_->upload(near_.as(), &near, sizeof(near));
    runtime::ProxySettings settings;
    settings.patience = device_->proxy_patience();
    proxy_ = std::make_unique<runtime::Proxy>(view().ring, std::make_unique<LoopbackFabric>(windows_, 0), counter(0),
                                              settings);
  }

  void by_words(std::vector<double>& times_us) {
    std::atomic<bool> quit{false};
    std::thread host([&] {
      Words& words = *words_.as<Words>();
      while (!quit.load(std::memory_order_relaxed)) {
        const uint64_t seen = HostAtomics::load_acquire(&words.question);
        if (seen != words.answer) HostAtomics::store_release(&words.answer, seen);
      }
    });
    try {
      clear_times();
      ask_by_words<<<1, 1, 0, stream()>>>(words_.as<Words>(), asked_by_words_, times_.as<uint64_t>());
      take_times(times_us);
    } catch (...) {
      quit = true;
      host.join();
      throw;
    }
    quit = true;
    host.join();
    asked_by_words_ += kBatch;
  }

  // The last put's bytes are looked at: those before it were overwritten.
  void by_puts(std::vector<double>& times_us) {
    clear_times();
    proxy_->expect_commands();
    ask_by_puts<<<1, 32, 0, stream()>>>(view(), asked_by_puts_, times_.as<uint64_t>());
    take_times(times_us);
    asked_by_puts_ += kBatch;
    if (data_.as<uint64_t>()[1] != asked_by_puts_) throw Error(ErrorCode::kFabric, "a put landed with other bytes");
  }

 private:
  static constexpr size_t kCounterBytes = 64;  // a cache line each: stop, consumed, completed

  struct Near {  // a worker's tables and counters, in the GPU's memory as in a World
    std::byte* base[kSlots]{};
    uint32_t id[kSlots]{};
    uint64_t claimed = 0;
    uint64_t exits = 0;
    uint64_t target_words[kTargetWords] = {};
    uint64_t nvlink_bytes = 0;
  };

  static uint32_t ring_capacity() { return static_cast<uint32_t>(Options{}.ring_capacity); }
  uint64_t* counter(int number) { return reinterpret_cast<uint64_t*>(counters_.as() + number * kCounterBytes); }
  cudaStream_t stream() { return static_cast<cudaStream_t>(device_->stream(0)); }

  RankView view() {
    auto* const near = near_.as<Near>();
    RankView view;
    view.world = {1, 1};
    view.windows = {.base = near->base, .id = near->id};
    view.ring = {slots_.as<Command>(), &near->claimed, counter(1), counter(2), ring_capacity()};
    view.exits = &near->exits;
    view.target_words = near->target_words;
    view.nvlink_bytes = &near->nvlink_bytes;
    view.stop = counter(0);
    view.faults = fault_.as<FaultRecord>();
    view.timeout_ns = kDeadlineNs;
    return view;
  }

  void clear_times() {
    check_cuda(cudaMemsetAsync(times_.as(), 0, times_.bytes(), stream()), "clear the times of round trips");
  }

  void take_times(std::vector<double>& times_us) {
    check_cuda(cudaGetLastError(), "launch round trips");
    device_->synchronize();
    std::vector<uint64_t> times(kBatch);
    device_->download(times.data(), times_.as(), times_.bytes());
    if (times.back() == 0) {
      throw Error(ErrorCode::kTimeout, "the host did not answer the GPU within 2 s" +
                                           (proxy_->failure().empty() ? "" : "; its proxy: " + proxy_->failure()));
    }
    for (int i = kUntimed; i < kBatch; ++i) times_us.push_back(1e-3 * static_cast<double>(times[i]));
  }

  std::unique_ptr<runtime::Device> device_;
  Buffer words_, data_, signals_, slots_, counters_, fault_, near_, times_;
  WindowRegistry windows_;
  uint64_t asked_by_words_ = 0;
  uint64_t asked_by_puts_ = 0;
  std::unique_ptr<runtime::Proxy> proxy_;  // before the memory it looks at
};

}  // namespace

RoundTripFigures measure_round_trips(double seconds) {
  RoundTrips trips;
  std::vector<double> by_words, by_puts;
  trips.by_words(by_words);  // kernels are loaded, threads are awake
  trips.by_puts(by_puts);
  by_words.clear();
  by_puts.clear();
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  do {
    trips.by_words(by_words);
    trips.by_puts(by_puts);
  } while (Clock::now() < end);
  RoundTripFigures figures;
  figures.round_trips = static_cast<int>(by_words.size());
  figures.words = Timing::of(std::move(by_words));
  figures.through_proxy = Timing::of(std::move(by_puts));
  return figures;
}

}  // namespace mk::bench
