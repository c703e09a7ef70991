// SPDX-License-Identifier: MIT
// transport/shm_seat.cc — see shm_seat.h.
#include "transport/shm_seat.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/atomics.h"

namespace mk {
namespace {

constexpr size_t kBytes = sizeof(uint64_t);  // a count of guests

uint64_t* count_in(const SharedMemory& memory) { return reinterpret_cast<uint64_t*>(memory.data()); }

Fd open_file(const std::string& name) {
  Fd file(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!file) throw_errno("a rank's seat in shared memory cannot be opened", errno);
  return file;
}

// Locks of open files, not of processes: ranks may be threads of one.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

ShmSeat::ShmSeat() : memory_(SharedMemory::make(kBytes)), lock_(open_file(memory_.name())) {
  struct flock lock = whole_file();
  if (fcntl(lock_.number(), F_OFD_SETLK, &lock) != 0)
    throw_errno("a rank's seat in shared memory cannot be locked", errno);
}

uint64_t ShmSeat::num_guests() const { return HostAtomics::load_acquire(count_in(memory_)); }

ShmGuest::ShmGuest(const std::string& name) : memory_(SharedMemory::open(name, kBytes)), lock_(open_file(name)) {
  HostAtomics::add_release(count_in(memory_), 1);  // pairs with num_guests
}

bool ShmGuest::host_is_gone() const {
  struct flock lock = whole_file();
  return fcntl(lock_.number(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK;
}

}  // namespace mk
