// SPDX-License-Identifier: MIT
// tools/notices.h — the last words of forked processes that failed, read by the process that forked them.
//
// Shared memory without a name, one slot per rank.  A process that is killed in the middle of writing has said
// nothing.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "mkernel/error.h"

namespace mk::tools {

class Notices {
 public:
  explicit Notices(int num_ranks)
      : bytes_(num_ranks * sizeof(Slot)),
        slots_(static_cast<Slot*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (slots_ == MAP_FAILED) {
      throw Error(ErrorCode::kDevice, std::string("no memory to share with other processes: ") + std::strerror(errno));
    }
  }
  Notices(const Notices&) = delete;
  ~Notices() { munmap(slots_, bytes_); }

  void say(int rank, const std::string& text) {
    Slot& slot = slots_[rank];
    const size_t length = std::min(text.size(), sizeof(slot.text));
    std::memcpy(slot.text, text.data(), length);
    slot.length.store(length, std::memory_order_release);  // pairs with `of`
  }

  // Empty if the rank has said nothing.
  std::string of(int rank) const {
    const Slot& slot = slots_[rank];
    return {slot.text, slot.length.load(std::memory_order_acquire)};
  }

 private:
  struct Slot {
    std::atomic<size_t> length;  // zero, as the memory is
    char text[4096 - sizeof(std::atomic<size_t>)];
  };
  static_assert(std::atomic<size_t>::is_always_lock_free);

  size_t bytes_;
  Slot* slots_;
};

}  // namespace mk::tools
