// SPDX-License-Identifier: MIT
// transport/shm_port.cc — see shm_port.h.
#include "transport/shm_port.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "base/check.h"
#include "transport/shm_fabric.h"

namespace mk {

ShmPort::ShmPort(const PortSettings& settings, const WindowRegistry& windows)
    : settings_(settings), windows_(windows), seat_(std::make_unique<ShmSeat>()), address_(seat_->handle()) {}

bool ShmPort::is_on_rail(int rank) const {
  const WorldShape& world = settings_.world;
  return rank != settings_.rank && world.local_of(rank) == world.local_of(settings_.rank);
}

std::unique_ptr<Fabric> ShmPort::connect(const std::vector<std::string>& addresses) {
  using Clock = std::chrono::steady_clock;
  const int size = settings_.world.size();
  check_arg(static_cast<int>(addresses.size()) == size, "there are {} addresses for {} ranks", addresses.size(), size);
  check_arg(seat_ != nullptr, "the shm port of rank {} was connected before", settings_.rank);
  std::map<int, ShmGuest> guests;
  for (int rank = 0; rank < size; ++rank) {
    if (!is_on_rail(rank)) continue;
    try {
      guests.emplace(rank, ShmGuest(addresses[rank]));
    } catch (const Error& error) {
      throw Error(ErrorCode::kFabric,
                  fmt::format("rank {} does not find rank {} on this machine, and shm is inside one: {}",
                              settings_.rank, rank, error.what()));
    }
  }
  const Clock::time_point deadline = Clock::now() + settings_.deadline;
  while (seat_->num_guests() < guests.size()) {
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("rank {} waited {} ms for its rail over shm: {} of {} ranks came", settings_.rank,
                              settings_.deadline.count(), seat_->num_guests(), guests.size()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  seat_->hide();
  return std::make_unique<ShmFabric>(settings_.rank, windows_, mapped_, std::move(seat_), std::move(guests));
}

std::string ShmPort::share_window(uint32_t window) {
  std::string handle = windows_.handle(window, settings_.rank);
  if (handle.empty()) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("window {} of rank {} is not in shared memory, which the fabric shm needs", window,
                            settings_.rank));
  }
  return handle;
}

void ShmPort::learn_window(uint32_t window, int rank, const std::string& key) {
  if (!is_on_rail(rank)) return;
  mapped_.add(window, static_cast<uint32_t>(rank), SharedMemory::open(key, windows_.bytes(window)));
}

std::string why_no_shm() {
  try {
    const ShmSeat seat;
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mk
