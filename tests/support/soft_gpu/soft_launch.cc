// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_launch.cc — launches: blocks of the host's threads, as many at once as there are SMs.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/soft_gpu/gpu_settings.h"
#include "tests/support/soft_gpu/soft_block.h"
#include "tests/support/soft_gpu/soft_device.h"
#include "tests/support/soft_gpu/soft_runtime.h"
#include "tests/support/soft_gpu/soft_streams.h"

namespace mk::soft_gpu {
namespace {

Settings read_settings() {
  Settings read;
  const char* const text = std::getenv("MKERNEL_SOFT_GPU");
  std::string_view left = text == nullptr ? "" : text;
  while (!left.empty()) {
    const std::string_view one = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), one.size() + 1));
    const size_t equals = one.find('=');
    const std::string_view name = one.substr(0, equals);
    const std::string number(equals == one.npos ? "0" : one.substr(equals + 1));
    const uint64_t value = std::strtoull(number.c_str(), nullptr, 10);
    if (name == "sms" && value > 0) {
      read.sms = static_cast<int>(value);
    } else if (name == "seed") {
      read.seed = value;
    } else if (name == "slowness" && value > 0) {
      read.slowness = value;
    } else {
      fail("MKERNEL_SOFT_GPU is " + std::string(text) + "; allowed are sms, seed and slowness, e.g. sms=24,seed=7");
    }
  }
  return read;
}

// Threads of the host that run blocks; one that is idle is used again.
class Workers {
 public:
  void run(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (work_.size() > idle_) std::thread([this] { serve(); }).detach();
    changed_.notify_one();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return !work_.empty(); });
      --idle_;
      const std::function<void()> own = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      own();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  size_t idle_ = 0;
};

Workers& workers() {
  static Workers* const all = new Workers;  // its threads outlive main
  return *all;
}

// An SM holds one block.
class Sms {
 public:
  void take(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return free_ >= count; });
    free_ -= count;
  }
  void give() {
    const std::lock_guard lock(mutex_);
    ++free_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_ = settings().sms;
};

Sms& sms() {
  static Sms* const all = new Sms;
  return *all;
}

// Until all blocks have ended.
void run_launch(const Launch& launch) {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned left = launch.blocks.count();
  require(left % launch.cluster == 0, "a launch ends inside a cluster");
  std::vector<std::unique_ptr<Cluster>> clusters;
  for (unsigned first = 0; first < launch.blocks.count(); first += launch.cluster) {
    sms().take(static_cast<int>(launch.cluster));
    Cluster& cluster = *clusters.emplace_back(std::make_unique<Cluster>(launch.cluster));
    for (unsigned i = 0; i < launch.cluster; ++i) {
      workers().run([&, &own = cluster, number = first + i] {
        Block(launch, number, own).run();
        sms().give();
        const std::lock_guard lock(mutex);
        --left;
        changed.notify_all();
      });
    }
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return left == 0; });
}

Size3 size_of(const dim3& size) { return {size.x, size.y, size.z}; }

}  // namespace

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

void queue_launch(QueuedLaunch queued) {
  static std::atomic<uint64_t> launches = 0;
  const uint64_t seed = settings().seed * 1000003 + launches.fetch_add(1);
  Stream& stream = stream_of(queued.stream);
  stream.give(
      [launch = Launch{std::move(queued.name), std::move(queued.kernel), size_of(queued.blocks),
                       size_of(queued.threads), queued.shared_bytes, queued.cluster, seed}] { run_launch(launch); });
}

void issue_product(const Product& product, float* sums, const uint32_t* a) {
  Block::current().warpgroup().issue(product, sums, a);
}
void commit_products() { Block::current().warpgroup().commit(); }
void wait_for_products(unsigned pending) { Block::current().warpgroup().wait(pending); }

}  // namespace mk::soft_gpu
