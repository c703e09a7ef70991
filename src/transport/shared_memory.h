// SPDX-License-Identifier: MIT
// transport/shared_memory.h — memory that processes of one machine map together.
//
// Others open it by its handle until the maker forgets it, which closes the maker's descriptor.  The maker should do
// that as soon as all who need the memory have opened it.  Mappings stay until the last process unmaps.  A maker that
// dies leaves nothing behind.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "transport/shared_file.h"

namespace mk {

class SharedMemory {
 public:
  // Zeroed, its pages taken.  Throws Error(kDevice) where memory is short.
  static SharedMemory make(size_t bytes);
  static SharedMemory open(const std::string& handle, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  std::byte* data() const { return data_; }

  // Of what was made here; empty if it was opened.
  std::string handle() const { return file_ ? file_->handle() : std::string(); }

  // No process can open it any more.
  void forget() noexcept {
    if (file_) file_->forget();
  }

 private:
  SharedMemory(std::byte* data, size_t bytes, std::optional<SharedFile> file = {})
      : data_(data), bytes_(bytes), file_(std::move(file)) {}
  void swap(SharedMemory& other) noexcept;

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::optional<SharedFile> file_;  // of the maker
};

}  // namespace mk
