// SPDX-License-Identifier: MIT
// transport/staged_memory.cc — see staged_memory.h.
#include "transport/staged_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "mkernel/error.h"

namespace mk {

// What only this process maps needs no descriptor, and its pages only as they are used.
StagedMemory::StagedMemory(size_t bytes, MappedBy mapped_by, Mover& mover) : mover_(mover), bytes_(bytes) {
  if (mapped_by == MappedBy::kPeers) {
    shared_ = SharedMemory::make(bytes);
    data_ = shared_->data();
  } else {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw Error(ErrorCode::kDevice,
                  fmt::format("{} bytes of host memory for a fabric cannot be had: {}", bytes, std::strerror(errno)));
    }
    data_ = static_cast<std::byte*>(memory);
  }
  try {
    mover_.pin(data_, bytes_);
  } catch (...) {
    release();
    throw;
  }
}

StagedMemory::~StagedMemory() {
  mover_.unpin(data_);
  release();
}

void StagedMemory::hide() {
  if (shared_) shared_->forget();
}

void StagedMemory::release() noexcept {
  if (!shared_) munmap(data_, bytes_);
}

}  // namespace mk
