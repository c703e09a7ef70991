// SPDX-License-Identifier: MIT
// transport/rdma_signals.cc — see rdma_signals.h.
#include "transport/rdma_signals.h"

#include <utility>

#include "transport/host_payment.h"

namespace mk {

bool RdmaSignals::pay(const SignalPayment& payment) {
  uint64_t* const signal = keys_.signal(payment.window, payment.index);
  if (signal == nullptr) return false;
  if (mover_ == nullptr) {
    pay_release(signal, payment.pays);  // pairs with the wait of the rank's workers
  } else {
    due_.push_back({signal, payment.pays});
  }
  return true;
}

// One settle for all that is due: it may wait for the device.
void RdmaSignals::move() {
  if (!due_.empty()) {
    mover_->settle();
    for (const Due& one : std::exchange(due_, {})) {  // a landing that fails is not tried again
      mover_->land(nullptr, nullptr, 0, one.signal, one.pays, 0);
      ++num_under_way_;
    }
  }
  if (num_under_way_ == 0) return;
  done_.clear();
  mover_->poll(done_);
  num_under_way_ -= done_.size();
}

}  // namespace mk
