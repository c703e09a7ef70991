// SPDX-License-Identifier: MIT
// tests/transport/staged_port_test.cc — how ports of a fabric through host memory find each other, and what they
// refuse.
#include "transport/staged_port.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "tests/support/ring_traffic.h"
#include "transport/staged_address.h"

namespace mk::test {
namespace {

PortSettings settings_of(int rank, const StagedSettings& staged = {}) {
  PortSettings settings;
  settings.world = {2, 1};
  settings.rank = rank;
  settings.staged = staged;
  return settings;
}

std::unique_ptr<Mover> no_mover() { return std::make_unique<HostMover>(0, std::vector<const FarMemory*>{}); }

TEST(StagedLayout, EverySlotAndCounterHasAPlaceOfItsOwn) {
  for (const int nodes : {1, 2, 3, 8}) {
    for (const StagedSettings& settings : {StagedSettings{}, {1, 1, 1}, {7, 100, 1}, {300, 4000, 1}}) {
      const StagedLayout layout(nodes, settings);
      std::map<uint64_t, uint64_t> places;  // begin, end
      const auto add = [&](uint64_t begin, uint64_t bytes) {
        EXPECT_TRUE(places.emplace(begin, begin + bytes).second);
      };
      for (int peer = 0; peer < nodes - 1; ++peer) {
        add(layout.credit(peer) * sizeof(uint64_t), sizeof(uint64_t));
        for (uint64_t slot = 0; slot < layout.num_slots; ++slot) {
          add(layout.arrived(peer, slot) * sizeof(uint64_t), sizeof(uint64_t));
          add(layout.outgoing(peer, slot), layout.slot_bytes);
          add(layout.incoming(peer, slot), layout.slot_bytes);
        }
      }
      uint64_t free_from = 0;
      for (const auto& [begin, end] : places) {
        EXPECT_GE(begin, free_from);
        free_from = end;
      }
      EXPECT_LE(free_from, layout.bytes());
      EXPECT_GE(layout.slot_bytes, sizeof(SlotHeader) + sizeof(Piece) + settings.slot_bytes);
    }
  }
}

TEST(StagedLayout, PeersAreNumberedWithoutTheRankItself) {
  for (int own = 0; own < 5; ++own) {
    std::vector<int> numbers;
    for (int node = 0; node < 5; ++node) {
      if (node != own) numbers.push_back(peer_number(node, own));
    }
    EXPECT_EQ(numbers, (std::vector{0, 1, 2, 3}));
  }
}

TEST(StagedAddress, ComesBackAsItWas) {
  const StagedAddress address{{}, std::string("in\0ner", 6), std::string("k\0y", 3)};
  const StagedAddress back = decode_address(encode(address), 1, {});
  EXPECT_EQ(back.inner, address.inner);
  EXPECT_EQ(back.key, address.key);
}

TEST(StagedAddress, WhatIsNoneIsRefusedNamingItsRank) {
  const std::string good = encode({{}, "inner", "key"});
  const auto refused = [](const std::string& bytes, std::string_view words) {
    return throws(ErrorCode::kFabric, {"the staged address of rank 3", words}, [&] { decode_address(bytes, 3, {}); });
  };
  for (size_t bytes = 0; bytes < good.size(); ++bytes) EXPECT_TRUE(refused(good.substr(0, bytes), "bytes")) << bytes;
  EXPECT_TRUE(refused(good + "x", "bytes"));
  const auto with = [&](size_t at, uint64_t value, size_t bytes) {
    std::string damaged = good;
    std::memcpy(damaged.data() + at, &value, bytes);
    return damaged;
  };
  EXPECT_TRUE(refused(with(0, 7, 4), "version 7"));
  EXPECT_TRUE(refused(with(4, 17, 4), "17 slots of 131072 bytes; 16 of 131072 were expected"));
  EXPECT_TRUE(refused(with(8, 4096, 8), "16 slots of 4096 bytes"));
  EXPECT_TRUE(refused(with(16, ~uint64_t{0}, 8), "bytes"));
  EXPECT_TRUE(refused(with(24, ~uint64_t{0}, 8), "bytes"));
}

TEST(StagedPort, SettingsThatCannotBeAreRefused) {
  const WindowRegistry windows;
  const auto opening = [&](const StagedSettings& staged) {
    return [&] { StagedPort("tcp", settings_of(0, staged), windows, no_mover()); };
  };
  EXPECT_TRUE(refuses({"slots are 0", "1 to 1024"}, opening({.slots = 0})));
  EXPECT_TRUE(refuses({"slots are 1025"}, opening({.slots = 1025})));
  EXPECT_TRUE(refuses({"slot_bytes is 0"}, opening({.slot_bytes = 0})));
  EXPECT_TRUE(refuses({"queue_puts is 0"}, opening({.queue_puts = 0})));
}

TEST(StagedPort, AFabricInsideOneProcessIsRefused) {
  const WindowRegistry windows;
  EXPECT_TRUE(refuses({"loopback"}, [&] { StagedPort("loopback", settings_of(0), windows, no_mover()); }));
}

TEST(StagedPort, RanksThatCutDifferentlyDoNotConnect) {
  const WindowRegistry windows;
  StagedPort port("tcp", settings_of(0), windows, no_mover());
  const StagedPort peer("tcp", settings_of(1, {.slots = 4}), windows, no_mover());
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 1 has 4 slots"}, [&] {
    port.connect({port.address(), peer.address()});
  }));
}

TEST(StagedPort, SlotsOfAnotherMachineAreNotFound) {
  const WindowRegistry windows;
  StagedPort port("shm", settings_of(0), windows, no_mover());
  const std::string elsewhere = encode({{}, "/mkernel.seat.of.another.machine", "/mkernel.slots.of.another.machine"});
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"rank 0 cannot reach the slots of rank 1"}, [&] {
    port.connect({port.address(), elsewhere});
  }));
}

// shm maps the slots of others, by their handle; nobody else could.
TEST(StagedPort, NobodyOpensSlotsOfRanksThatHaveMet) {
  const WindowRegistry windows;
  std::vector<std::unique_ptr<FabricPort>> ports;
  for (const int rank : {0, 1}) {
    ports.push_back(std::make_unique<StagedPort>("shm", settings_of(rank), windows, no_mover()));
  }
  const std::string handle = decode_address(ports[0]->address(), 0, {}).key;
  const uint64_t bytes = StagedLayout(2, {}).bytes();
  EXPECT_NE(SharedMemory::open(handle, bytes).data(), nullptr);
  const Connected connected = connect_all(ports);
  EXPECT_EQ(connected.troubles, (std::vector<std::string>{"", ""}));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot open"}, [&] { SharedMemory::open(handle, bytes); }));
}

TEST(StagedPort, AWorldOfOneNodeHasNobodyToReach) {
  WindowRegistry windows;
  PortSettings settings = settings_of(0);
  settings.world = {1, 2};
  StagedPort port("tcp", settings, windows, no_mover());
  const std::unique_ptr<Fabric> fabric = port.connect({port.address(), ""});
  std::vector<uint64_t> completed;
  EXPECT_EQ(fabric->poll(completed), PutResult::kSent);
  EXPECT_NE(port.describe().find("host memory"), std::string::npos);
}

// It takes no part any more, so its peers must not wait for it.
TEST(StagedPort, AFabricThatFailsFailsItsPeers) {
  for (const char* kind : {"shm", "tcp"}) {
    FabricWorld world(kind, {2, 1}, 64, {}, Windows::kFar);
    ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 65), 0), PutResult::kFailed);
    std::vector<uint64_t> completed;
    EXPECT_TRUE(busily([&] { return world.fabric(1).poll(completed) == PutResult::kFailed; })) << kind;
    EXPECT_NE(world.fabric(1).failure().find("rank 0"), std::string::npos) << world.fabric(1).failure();
  }
}

TEST(StagedPort, CarriesWhatProxiesTakeFromTheirRings) {
  for (const char* kind : {"shm", "tcp"}) {
    FabricWorld world(kind, {2, 1}, kRingTrafficBytes, {}, Windows::kFar);
    carry_ring_traffic(world, RingPayments::kAmounts);
  }
}

}  // namespace
}  // namespace mk::test
