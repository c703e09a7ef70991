// SPDX-License-Identifier: MIT
// transport/tcp_receiver.cc — from the socket into the window, then the signal.
#include "transport/tcp_receiver.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mkernel/error.h"
#include "transport/host_payment.h"
#include "transport/socket.h"

namespace mk {
namespace {

constexpr int kMostReads = 8;                 // at once: other connections wait, and so do puts
constexpr uint64_t kMostPerRead = 256 << 20;  // well below what the kernel takes in one call

}  // namespace

TcpReceiver::State TcpReceiver::receive() {
  for (int i = 0; i < kMostReads; ++i) {
    if (read_some() == 0) return State::kDrained;
  }
  return State::kMoreIsThere;
}

// One call to the kernel.  Returns how many bytes it gave; none if none are there.
size_t TcpReceiver::read_some() {
  const iovec pieces[] = {{to_, std::min(missing_, kMostPerRead)},
                          {staged_.data() + num_staged_, staged_.size() - num_staged_}};
  // The second piece only where the first reaches to the end of its put.
  const int num_pieces = missing_ > kMostPerRead ? 1 : 2;
  ssize_t result = 0;
  do {
    result = readv(socket_, pieces, num_pieces);
  } while (result < 0 && errno == EINTR);
  if (result == 0) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} closed its connection to rank {}", peer_, rank_));
  }
  if (result < 0) {
    if (errno == EAGAIN) return 0;
    throw_errno(fmt::format("rank {} lost its connection to rank {}", rank_, peer_), errno);
  }
  const uint64_t direct = std::min<uint64_t>(static_cast<uint64_t>(result), missing_);
  to_ += direct;
  missing_ -= direct;
  num_staged_ += static_cast<size_t>(result) - direct;
  close_if_whole();
  take_staged();
  return static_cast<size_t>(result);
}

void TcpReceiver::take_staged() {
  size_t taken = 0;
  for (;;) {
    if (signal_ != nullptr) {
      const uint64_t part = std::min<uint64_t>(missing_, num_staged_ - taken);
      if (part == 0) break;
      std::memcpy(to_, staged_.data() + taken, part);
      to_ += part;
      missing_ -= part;
      taken += part;
    } else {
      TcpFrame frame;
      if (num_staged_ - taken < sizeof(frame)) break;
      std::memcpy(&frame, staged_.data() + taken, sizeof(frame));
      taken += sizeof(frame);
      open(frame);
    }
    close_if_whole();
  }
  num_staged_ -= taken;
  std::memmove(staged_.data(), staged_.data() + taken, num_staged_);
}

void TcpReceiver::open(const TcpFrame& frame) {
  if (frame.magic != TcpFrame::kMagic || frame.to_rank != static_cast<uint32_t>(rank_) || !parts_.begin(frame)) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} sent rank {} what is no frame for it", peer_, rank_));
  }
  std::byte* const to = windows_.find(frame.to_window, frame.to_rank, frame.to_offset, frame.bytes);
  std::byte* const signal = windows_.find(frame.signal_window, frame.to_rank,
                                          uint64_t{frame.signal_index} * sizeof(uint64_t), sizeof(uint64_t));
  if (to == nullptr || signal == nullptr) {
    throw Error(ErrorCode::kFabric,
                fmt::format("rank {} sent rank {} a put that leaves its window: {} bytes to window {} + {}, signal {} "
                            "of window {}",
                            peer_, rank_, frame.bytes, frame.to_window, frame.to_offset, frame.signal_index,
                            frame.signal_window));
  }
  to_ = to;
  missing_ = frame.bytes;
  signal_ = reinterpret_cast<uint64_t*>(signal);
  frame_ = frame;
}

void TcpReceiver::close_if_whole() {
  if (signal_ == nullptr || missing_ > 0) return;
  if (parts_.completes(frame_)) {
    pay_release(signal_, {frame_.amount, frame_.stamp});  // pairs with the wait of this rank's workers
  }
  signal_ = nullptr;
}

}  // namespace mk
