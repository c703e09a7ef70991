// SPDX-License-Identifier: MIT
// tests/support/fabric_world.h — the ranks of a world over a fabric of any kind, each with its own windows.
//
// A rank knows its own memory only, as if it were a process of its own, unless the fabric needs one process.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "mkernel/error.h"
#include "tests/support/eventually.h"
#include "tests/support/host_mover.h"
#include "transport/fabric_kinds.h"
#include "transport/shared_file.h"
#include "transport/staged_port.h"

namespace mk::test {

// As eventually, for what this thread itself moves on: on a busy machine a thread that yields waits long for its turn.
template <class Predicate>
bool busily(Predicate&& holds) {
  return eventually([&] {
    for (int i = 0; i < 256; ++i) {
      if (holds()) return true;
    }
    return false;
  });
}

// Zeroed, and only as real as it is touched.  It has a handle, as a window of a process has.
class SparseMemory {
 public:
  explicit SparseMemory(uint64_t bytes) : bytes_(bytes), file_(SharedFile::make()) {
    const int file = file_.file().number();
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  SparseMemory(const SparseMemory&) = delete;
  ~SparseMemory() { munmap(memory_, bytes_); }

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  const std::string& handle() const { return file_.handle(); }

 private:
  uint64_t bytes_;
  SharedFile file_;
  void* memory_;
};

// Ranks meet at the same time: connects all ports, each in a thread of its own.  A null fabric and a reason for each
// that did not come about.
struct Connected {
  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::vector<std::string> troubles;
};
inline Connected connect_all(const std::vector<std::unique_ptr<FabricPort>>& ports) {
  std::vector<std::string> addresses;
  for (const auto& port : ports) addresses.push_back(port->address());
  Connected result{std::vector<std::unique_ptr<Fabric>>(ports.size()), std::vector<std::string>(ports.size())};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        result.fabrics[rank] = ports[rank]->connect(addresses);
      } catch (const Error& error) {
        result.troubles[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

enum class Windows {
  kInReach,
  kFar,     // as a GPU's are: the fabric goes through host memory
  kDirect,  // the same, but its NICs can register them
};

class FabricWorld {
 public:
  static constexpr uint32_t kSignals = 512;
  static constexpr uint64_t kSignalBytes = kSignals * sizeof(uint64_t);

  using MoverMaker = std::function<std::unique_ptr<HostMover>(int rank, std::vector<const FarMemory*> windows)>;
  static std::unique_ptr<HostMover> any_mover(int rank, std::vector<const FarMemory*> windows) {
    return std::make_unique<HostMover>(rank, std::move(windows));
  }

  FabricWorld(std::string_view kind, const WorldShape& shape, uint64_t window_bytes, PortSettings settings = {},
              Windows windows = Windows::kInReach, const MoverMaker& make_mover = any_mover)
      : shape_(shape), registries_(shape.size()) {
    settings.world = shape;
    for (int rank = 0; rank < shape.size(); ++rank) {
      const SparseMemory& data = data_.emplace_back(window_bytes);
      const SparseMemory& signals = signals_.emplace_back(kSignalBytes);
      far_data_.emplace_back(data.data(), window_bytes, data.handle());
      far_signals_.emplace_back(signals.data(), kSignalBytes, signals.handle());
    }
    const bool apart = fabric_kind(kind).between_processes;
    for (int rank = 0; rank < shape.size(); ++rank) {
      settings.rank = rank;
      if (windows != Windows::kInReach) {
        add_windows(rank, bases(far_data_, rank, apart), bases(far_signals_, rank, apart), window_bytes);
        auto mover = make_mover(rank, {&far_data_[rank], &far_signals_[rank]});
        if (windows == Windows::kFar) {
          ports_.push_back(std::make_unique<StagedPort>(kind, settings, registries_[rank], std::move(mover)));
        } else {
          settings.mover = movers_.emplace_back(std::move(mover)).get();
          ports_.push_back(open_port(kind, settings, registries_[rank]));
        }
      } else {
        add_windows(rank, bases(data_, rank, apart), bases(signals_, rank, apart), window_bytes, handles(data_, rank),
                    handles(signals_, rank));
        ports_.push_back(open_port(kind, settings, registries_[rank]));
      }
    }
    for (const uint32_t window : {data_window_, signal_window_}) exchange_keys(window);
    Connected connected = connect_all(ports_);
    for (const std::string& trouble : connected.troubles) EXPECT_EQ(trouble, "");
    fabrics_ = std::move(connected.fabrics);
  }

  const WorldShape& shape() const { return shape_; }
  Fabric& fabric(int rank) { return *fabrics_[rank]; }
  std::unique_ptr<Fabric> take_fabric(int rank) { return std::move(fabrics_[rank]); }
  const WindowRegistry& windows(int rank) const { return registries_[rank]; }
  const FabricPort& port(int rank) const { return *ports_[rank]; }
  HostMover& mover(int rank) { return *movers_[rank]; }  // of windows that NICs reach
  std::byte* data(int rank) const { return data_[rank].data(); }
  uint64_t* signal(int rank, uint32_t index) const {
    return reinterpret_cast<uint64_t*>(signals_[rank].data()) + index;
  }
  uint64_t seen(int rank, uint32_t index) const { return HostAtomics::load_acquire(signal(rank, index)); }

  Command command(int to, uint64_t from_offset, uint64_t to_offset, uint64_t bytes, uint32_t signal = 0) const {
    const auto rank = static_cast<uint32_t>(to);
    return {from_offset, to_offset, bytes, data_window_, data_window_, signal_window_, signal, 1, rank, 0, 0};
  }

  // Every end that is still there polls once.  False if one of them has failed.
  bool poll_all() {
    bool well = true;
    completed_.resize(fabrics_.size());
    for (size_t rank = 0; rank < fabrics_.size(); ++rank) {
      if (fabrics_[rank] != nullptr) well &= fabrics_[rank]->poll(completed_[rank]) == PutResult::kSent;
    }
    return well;
  }
  // Tickets that poll_all saw come back at a rank.
  std::vector<uint64_t>& completed(int rank) {
    completed_.resize(fabrics_.size());
    return completed_[rank];
  }

  // Until the predicate holds; all poll meanwhile.
  bool run_until(const std::function<bool()>& holds) {
    return busily([&] {
      if (holds()) return true;
      poll_all();
      return false;
    });
  }

  // Tries again while the fabric is full.
  testing::AssertionResult put(int from, const Command& command, uint64_t ticket) {
    PutResult result = PutResult::kFull;
    const bool answered = run_until([&] {
      result = fabric(from).put(command, ticket);
      return result != PutResult::kFull;
    });
    if (answered && result == PutResult::kSent) return testing::AssertionSuccess();
    return testing::AssertionFailure() << (answered ? fabric(from).failure() : "the fabric stays full");
  }

 private:
  void add_windows(int rank, std::vector<std::byte*> data, std::vector<std::byte*> signals, uint64_t window_bytes,
                   std::vector<std::string> data_handles = {}, std::vector<std::string> signal_handles = {}) {
    data_window_ = registries_[rank].add(std::move(data), window_bytes, std::move(data_handles));
    signal_window_ = registries_[rank].add(std::move(signals), kSignalBytes, std::move(signal_handles));
  }

  template <class Memory>
  std::vector<std::byte*> bases(const std::deque<Memory>& memory, int rank, bool apart) const {
    std::vector<std::byte*> bases;
    for (int other = 0; other < shape_.size(); ++other) {
      bases.push_back(apart && other != rank ? nullptr : memory[other].data());
    }
    return bases;
  }

  std::vector<std::string> handles(const std::deque<SparseMemory>& memory, int rank) const {
    std::vector<std::string> handles(shape_.size());
    handles[rank] = memory[rank].handle();
    return handles;
  }

  void exchange_keys(uint32_t window) {
    for (int from = 0; from < shape_.size(); ++from) {
      const std::string key = ports_[from]->share_window(window);
      for (int to = 0; to < shape_.size(); ++to) {
        if (to != from) ports_[to]->learn_window(window, from, key);
      }
    }
  }

  WorldShape shape_;
  std::deque<SparseMemory> data_;
  std::deque<SparseMemory> signals_;
  std::deque<FarMemory> far_data_;  // what the registries hold if they are far
  std::deque<FarMemory> far_signals_;
  std::deque<WindowRegistry> registries_;
  std::vector<std::unique_ptr<HostMover>> movers_;
  std::vector<std::unique_ptr<FabricPort>> ports_;
  uint32_t data_window_ = 0;
  uint32_t signal_window_ = 0;
  std::vector<std::unique_ptr<Fabric>> fabrics_;  // before their ports they go
  std::vector<std::vector<uint64_t>> completed_;
};

// Bytes that tell their offset and who wrote them.
inline void fill(std::byte* to, uint64_t bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint64_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    to[i] = std::byte(state >> 56);
  }
}

}  // namespace mk::test
