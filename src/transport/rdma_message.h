// SPDX-License-Identifier: MIT
// transport/rdma_message.h — how a put tells its receiver which signal it pays: 32 bits beside its bytes, or a record.
//
// Most puts are one write with an immediate that holds all of it:
//
//   bit 31   30 … 21         20 … 4         3 … 0
//   0        signal window   signal index   amount - 1
//
// A put that does not fit, is cut into parts or has no bytes also sends a record.  Each part is then a write with an
// immediate of bit 31 and the put's number, and the signal is paid when the record and all parts have come, in
// whatever order.  A stamp never fits: it has 64 bits.
#pragma once

#include <cstdint>
#include <optional>

#include "core/payment.h"

namespace mk {

constexpr uint32_t kRdmaVersion = 3;
constexpr uint32_t kPartBit = uint32_t{1} << 31;
constexpr uint32_t kPutNumbers = kPartBit;  // put numbers are below; they come round long after their puts have landed

struct SignalPayment {
  uint32_t window = 0;
  uint32_t index = 0;
  Payment pays;

  friend bool operator==(const SignalPayment&, const SignalPayment&) = default;
};

// Nothing if it does not fit.
constexpr std::optional<uint32_t> to_immediate(const SignalPayment& payment) {
  if (payment.window >= 1u << 10 || payment.index >= 1u << 17) return {};
  if (payment.pays.stamp != 0 || payment.pays.amount < 1 || payment.pays.amount > 1u << 4) return {};
  return payment.window << 21 | payment.index << 4 | static_cast<uint32_t>(payment.pays.amount - 1);
}

constexpr SignalPayment to_payment(uint32_t immediate) {
  return {immediate >> 21, immediate >> 4 & ((1u << 17) - 1), {(immediate & 15) + 1, 0}};
}

struct RdmaRecord {
  enum Kind : uint32_t {
    kPut,
    kAlive,    // says nothing; that it can be sent shows that the peer is there
    kGoodbye,  // the sender's end is gone from now on
  };
  uint32_t magic = 0x6d6b7264;  // "mkrd"
  Kind kind = kPut;
  uint32_t put = 0;
  uint32_t num_parts = 0;
  uint32_t from_rank = 0;
  uint32_t reserved = 0;
  SignalPayment payment;
};
static_assert(sizeof(RdmaRecord) == 48);

}  // namespace mk
