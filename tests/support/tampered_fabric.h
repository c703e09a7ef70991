// SPDX-License-Identifier: MIT
// tests/support/tampered_fabric.h — a fabric whose put and poll a test replaces.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/fabric.h"

namespace mk::test {

class TamperedFabric : public Fabric {
 public:
  using PutHook = std::function<PutResult(Fabric& inner, const Command&, uint64_t ticket)>;
  using PollHook = std::function<PutResult(Fabric& inner, std::vector<uint64_t>& completed)>;

  // A hook left out means: as the inner fabric does.  `reason` is what failure() says if the inner has nothing to say.
  struct Hooks {
    PutHook put = nullptr;
    PollHook poll = nullptr;
    std::string reason = "";
  };

  TamperedFabric(std::unique_ptr<Fabric> inner, Hooks hooks) : inner_(std::move(inner)), hooks_(std::move(hooks)) {}

  PutResult put(const Command& command, uint64_t ticket) override {
    return hooks_.put ? hooks_.put(*inner_, command, ticket) : inner_->put(command, ticket);
  }
  PutResult poll(std::vector<uint64_t>& completed) override {
    return hooks_.poll ? hooks_.poll(*inner_, completed) : inner_->poll(completed);
  }
  std::string failure() const override {
    const std::string inner = inner_ ? inner_->failure() : "";
    return inner.empty() ? hooks_.reason : inner;
  }

 private:
  std::unique_ptr<Fabric> inner_;
  Hooks hooks_;
};

}  // namespace mk::test
