// SPDX-License-Identifier: MIT
// transport/shared_memory.h — memory that processes of one machine map together.
//
// It has a name that cannot be guessed, and whoever may read it is this user.  The maker takes the name away
// (forget) when all who should have opened it; what is mapped stays until the last one lets go.  A maker that
// dies before leaves a name behind, so it should not be long.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace mk {

class SharedMemory {
 public:
  static SharedMemory make(size_t bytes);  // zeroed
  static SharedMemory open(const std::string& name, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  std::byte* data() const { return data_; }
  const std::string& name() const { return name_; }

  // No process can open it any more.
  static void forget(const std::string& name) noexcept;

 private:
  SharedMemory(std::string name, std::byte* data, size_t bytes, bool is_maker)
      : name_(std::move(name)), data_(data), bytes_(bytes), is_maker_(is_maker) {}
  void swap(SharedMemory& other) noexcept;

  std::string name_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  bool is_maker_ = false;
};

}  // namespace mk
