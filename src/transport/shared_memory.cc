// SPDX-License-Identifier: MIT
// transport/shared_memory.cc — see shared_memory.h.
#include "transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "mkernel/error.h"
#include "transport/free_memory.h"

namespace mk {
namespace {

// Pages are taken in pieces, with a look at what is free before each: ranks that start together take together.
constexpr uint64_t kPieceBytes = 64 << 20;
constexpr uint64_t kLeastPieceBytes = 64 << 10;

[[noreturn]] void fail(const char* what, uint64_t bytes, const std::string& why) {
  throw Error(ErrorCode::kDevice, fmt::format("cannot {} {} bytes of shared memory: {}", what, bytes, why));
}

std::byte* map(const Fd& file, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED) fail("map", bytes, std::strerror(errno));
  return static_cast<std::byte*>(data);
}

// Now: a machine that has too few pages says so here, not by a signal at the first write.  No limit of the file's own
// says so, as it has none; without the look the kernel would end a process to find more.
void take_pages(const Fd& file, uint64_t bytes) {
  if (bytes > INT64_MAX) fail("make", bytes, "no file is as large");
  uint64_t most = kPieceBytes;
  for (uint64_t taken = 0; taken < bytes;) {
    const FreeMemory memory = free_memory();
    if (memory.bytes < bytes - taken) {
      fail("make", bytes,
           fmt::format("{} bytes are free of {}, and {} of them are missing", memory.bytes, memory.limit,
                       bytes - taken - memory.bytes));
    }
    const uint64_t piece = std::min(most, bytes - taken);
    const int error = posix_fallocate(file.number(), static_cast<off_t>(taken), static_cast<off_t>(piece));
    if (error == EINTR) {  // what was taken is given back then: smaller pieces fit between signals
      most = std::max(most / 2, kLeastPieceBytes);
      continue;
    }
    if (error != 0) fail("make", bytes, std::strerror(error));
    taken += piece;
  }
}

}  // namespace

SharedMemory SharedMemory::make(size_t bytes) {
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  SharedFile file = SharedFile::make();
  take_pages(file.file(), at_least_one);
  std::byte* const data = map(file.file(), at_least_one);
  return {data, at_least_one, std::move(file)};
}

SharedMemory SharedMemory::open(const std::string& handle, size_t bytes) {
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  const Fd file = SharedFile::open(handle);
  struct stat found {};
  if (fstat(file.number(), &found) != 0) fail("open", bytes, std::strerror(errno));
  if (found.st_size != static_cast<off_t>(at_least_one)) {
    throw Error(ErrorCode::kFabric,
                fmt::format("a peer's shared memory has {} bytes; {} were expected", found.st_size, at_least_one));
  }
  return {map(file, at_least_one), at_least_one};
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
}

}  // namespace mk
