// SPDX-License-Identifier: MIT
// transport/shared_memory.cc — see shared_memory.h.
#include "transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mkernel/error.h"
#include "transport/secret.h"

namespace mk {
namespace {

[[noreturn]] void fail(const char* what, size_t bytes) {
  throw Error(ErrorCode::kDevice, fmt::format("cannot {} {} bytes of shared memory: {}; is /dev/shm large enough?",
                                              what, bytes, std::strerror(errno)));
}

std::byte* map(int fd, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) fail("map", bytes);
  return static_cast<std::byte*>(data);
}

struct File {
  int fd;
  ~File() { close(fd); }
};

}  // namespace

SharedMemory SharedMemory::make(size_t bytes) {
  std::string name = "/mkernel." + to_hex(random_secret());
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  const File file{shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (file.fd < 0) fail("make", bytes);
  try {
    // Pages are taken now: a machine that has too few says so here, not by a signal at the first write.
    if (const int error = posix_fallocate(file.fd, 0, static_cast<off_t>(at_least_one)); error != 0) {
      errno = error;
      fail("make", bytes);
    }
    std::byte* const data = map(file.fd, at_least_one);  // before the name is moved: if it fails, that goes
    return {std::move(name), data, at_least_one, true};
  } catch (...) {
    forget(name);
    throw;
  }
}

SharedMemory SharedMemory::open(const std::string& name, size_t bytes) {
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  const File file{shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0)};
  if (file.fd < 0) fail("open", bytes);
  struct stat found {};
  if (fstat(file.fd, &found) != 0) fail("open", bytes);
  if (found.st_size != static_cast<off_t>(at_least_one)) {
    throw Error(ErrorCode::kFabric,
                fmt::format("a peer's shared memory has {} bytes; {} were expected", found.st_size, at_least_one));
  }
  return {name, map(file.fd, at_least_one), at_least_one, false};
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  munmap(data_, bytes_);
  if (is_maker_) forget(name_);
}

void SharedMemory::forget(const std::string& name) noexcept { shm_unlink(name.c_str()); }

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_maker_, other.is_maker_);
}

}  // namespace mk
