// SPDX-License-Identifier: MIT
// runtime/host_device.h — ranks as teams of threads in this process, with windows that other processes may map.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/members.h"
#include "runtime/team.h"

namespace mk {
class SharedMemory;
}  // namespace mk

namespace mk::runtime {

class HostDevice : public Device {
 public:
  explicit HostDevice(int num_ranks) : HostDevice({0, num_ranks}, Windows::kPrivate) {}
  HostDevice(const Members& members, Windows windows);

  Team& team(int rank) { return at(rank).team; }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override;
  int seats_per_rank() const override { return workers_; }
  void* allocate(size_t bytes) override;
  void free(void* memory) noexcept override;
  void* allocate_shared(size_t bytes) override { return allocate(bytes); }
  void free_shared(void* memory) noexcept override { free(memory); }
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override { upload(to, from, bytes); }
  std::chrono::microseconds proxy_patience() const override { return {}; }  // the workers need the cores
  WindowMemory allocate_window(size_t bytes) override;
  WindowMemory open_window(const std::string& handle, size_t bytes) override;
  void forget_window(const std::string& handle) noexcept override;
  std::unique_ptr<Fabric> make_loopback(const WindowRegistry& windows, int rank) override;
  std::unique_ptr<Mover> make_mover(int) override { return nullptr; }
  Stream stream(int) override { return nullptr; }
  void fork(Stream) override {}
  void join(Stream) override {}
  void synchronize() override;
  void span_begin(int rank) override { mark(rank); }
  void span_end(int rank) override { mark(rank); }
  std::vector<double> take_spans_us(int rank) override;

 private:
  struct Rank {
    explicit Rank(int rank);
    std::deque<std::chrono::steady_clock::time_point> marks;  // written by the team, read when drained
    Team team;                                                // last: its threads end before marks do
  };

  Rank& at(int rank) { return ranks_[rank - first_]; }
  void mark(int rank);

  int first_;
  Windows windows_;
  int workers_;
  std::deque<Rank> ranks_;
  std::map<std::string, std::weak_ptr<SharedMemory>> openable_;  // by handle, until it is forgotten
};

}  // namespace mk::runtime
