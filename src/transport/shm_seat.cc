// SPDX-License-Identifier: MIT
// transport/shm_seat.cc — see shm_seat.h.
#include "transport/shm_seat.h"

#include <fcntl.h>

#include <cerrno>

#include "base/atomics.h"

namespace mk {
namespace {

constexpr size_t kBytes = sizeof(uint64_t);  // a count of guests

uint64_t* count_in(const SharedMemory& memory) { return reinterpret_cast<uint64_t*>(memory.data()); }

// Locks of open files, not of processes: ranks may be threads of one.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

// The lock is of a descriptor of its own, which stays when the memory's is closed.
ShmSeat::ShmSeat() : memory_(SharedMemory::make(kBytes)), lock_(SharedFile::open(memory_.handle())) {
  struct flock lock = whole_file();
  if (fcntl(lock_.number(), F_OFD_SETLK, &lock) != 0)
    throw_errno("a rank's seat in shared memory cannot be locked", errno);
}

uint64_t ShmSeat::num_guests() const { return HostAtomics::load_acquire(count_in(memory_)); }

ShmGuest::ShmGuest(const std::string& handle)
    : memory_(SharedMemory::open(handle, kBytes)), lock_(SharedFile::open(handle)) {
  HostAtomics::add_release(count_in(memory_), 1);  // pairs with num_guests
}

bool ShmGuest::host_is_gone() const {
  struct flock lock = whole_file();
  return fcntl(lock_.number(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK;
}

}  // namespace mk
