// SPDX-License-Identifier: MIT
// transport/fabric_kinds.cc — the table of fabrics.
#include "transport/fabric_kinds.h"

#include "base/check.h"
#include "transport/efa_port.h"
#include "transport/loopback.h"
#include "transport/shm_port.h"
#include "transport/tcp_port.h"
#include "transport/verbs_port.h"

namespace mk {
namespace {

class LoopbackPort : public KeylessPort {
 public:
  LoopbackPort(const WindowRegistry& windows, int rank) : windows_(windows), rank_(rank) {}

  std::string address() const override { return {}; }
  std::unique_ptr<Fabric> connect(const std::vector<std::string>&) override {
    return std::make_unique<LoopbackFabric>(windows_, rank_);
  }

 private:
  const WindowRegistry& windows_;
  int rank_;
};

constexpr FabricKind kKinds[] = {
    {"loopback", false, [] { return std::string(); },
     [](const PortSettings& settings, const WindowRegistry& windows) -> std::unique_ptr<FabricPort> {
       return std::make_unique<LoopbackPort>(windows, settings.rank);
     }},
    {"shm", true, why_no_shm,
     [](const PortSettings& settings, const WindowRegistry& windows) -> std::unique_ptr<FabricPort> {
       return std::make_unique<ShmPort>(settings, windows);
     },
     true},
    {"tcp", true, why_no_tcp,
     [](const PortSettings& settings, const WindowRegistry& windows) -> std::unique_ptr<FabricPort> {
       return std::make_unique<TcpPort>(settings, windows);
     }},
    {"verbs", true, why_no_verbs, open_verbs_port, false, verbs_devices, verbs_reach},
    {"efa", true, why_no_efa, open_efa_port, false, efa_devices, efa_reach},
};

}  // namespace

std::span<const FabricKind> fabric_kinds() { return kKinds; }

const FabricKind& fabric_kind(std::string_view name) {
  std::string known;
  for (const FabricKind& kind : kKinds) {
    if (kind.name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorCode::kInvalidArgument, fmt::format("the fabric is '{}'; it must be one of {}", name, known));
}

std::unique_ptr<FabricPort> open_port(std::string_view name, const PortSettings& settings,
                                      const WindowRegistry& windows) {
  const FabricKind& kind = fabric_kind(name);
  const std::string missing = kind.why_not();
  if (!missing.empty()) {
    throw Error(ErrorCode::kUnavailable, fmt::format("the fabric {} cannot be used here: {}", name, missing));
  }
  const WorldShape& world = settings.world;
  check_arg(world.nodes >= 1 && world.ranks >= 1, "nodes x ranks is {} x {}; both must be at least 1", world.nodes,
            world.ranks);
  check_arg(settings.rank >= 0 && settings.rank < world.size(), "rank is {}; it must be 0 to {}", settings.rank,
            world.size() - 1);
  check_arg(settings.deadline.count() >= 1, "the fabric's deadline is {} ms; it must be at least 1",
            settings.deadline.count());
  check_arg(settings.mover == nullptr || kind.reach != nullptr, "the fabric {} reaches no memory but the host's", name);
  return kind.open(settings, windows);
}

}  // namespace mk
