// SPDX-License-Identifier: MIT
// target/sim/inline_call.h — a function that is called once, stored without an allocation if it is small.
//
// A world of thousands of workers has thousands of pending calls.  Each takes a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace mk::sim {

class alignas(64) InlineCall {
 public:
  InlineCall() = default;
  InlineCall(const InlineCall&) = delete;
  ~InlineCall() {
    if (act_ != nullptr) act_(Act::kForget, bytes_);
  }

  // For an empty one, which is not read: it is in no cache.  `touches` is where the function will look
  // first, or null.
  template <class Function>
  void set(Function function, const void* touches) {
    if constexpr (sizeof(Function) <= kBytes && alignof(Function) <= alignof(std::max_align_t)) {
      ::new (static_cast<void*>(bytes_)) Function(std::move(function));
      act_ = [](Act act, std::byte* bytes) {
        struct Held {
          Function& function;
          ~Held() { function.~Function(); }
        } held{*std::launder(reinterpret_cast<Function*>(bytes))};
        if (act == Act::kCall) held.function();
      };
    } else {
      ::new (static_cast<void*>(bytes_)) Function*(new Function(std::move(function)));
      act_ = [](Act act, std::byte* bytes) {
        const std::unique_ptr<Function> held(*std::launder(reinterpret_cast<Function**>(bytes)));
        if (act == Act::kCall) (*held)();
      };
    }
    touches_ = touches;
  }

  // Calls it, and forgets it.
  void operator()() { std::exchange(act_, nullptr)(Act::kCall, bytes_); }

  const void* touches() const { return touches_; }

 private:
  enum class Act { kCall, kForget };
  static constexpr size_t kBytes = 48;

  void (*act_)(Act, std::byte*) = nullptr;
  const void* touches_ = nullptr;
  alignas(std::max_align_t) std::byte bytes_[kBytes];
};

static_assert(sizeof(InlineCall) == 64);

}  // namespace mk::sim
