// SPDX-License-Identifier: MIT
// tests/transport/rdma_port_test.cc — what RDMA ports choose, what they refuse, and keys that are not theirs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"

namespace mk::test {
namespace {

PortSettings settings_of(int rank, const WorldShape& world = {2, 1}) {
  setenv("MKERNEL_SOFT_NIC", "seed=9", 1);
  PortSettings settings;
  settings.world = world;
  settings.rank = rank;
  return settings;
}

class RdmaPorts : public testing::Test {
 protected:
  std::unique_ptr<FabricPort> open(const PortSettings& settings, const char* kind = "verbs") {
    return open_port(kind, settings, windows);
  }
  WindowRegistry windows;
};

TEST_F(RdmaPorts, TellWhatTheyChose) {
  PortSettings settings = settings_of(0);
  EXPECT_NE(open(settings)->describe().find("soft_0 port 1, gid index 1 (RoCE v2, fe80::"), std::string::npos);
  settings.rdma.devices = {"soft_1:1"};
  settings.rdma.gid_index = 0;
  const std::string told = open(settings)->describe();
  EXPECT_NE(told.find("soft_1 port 1, gid index 0 (RoCE v1, "), std::string::npos) << told;
  EXPECT_NE(told.find("mtu 4096"), std::string::npos) << told;
  settings = settings_of(0);
  EXPECT_NE(open(settings, "efa")->describe().find("soft_efa_0 port 1, gid index 0"), std::string::npos);
}

TEST_F(RdmaPorts, RefuseWhatIsNotThere) {
  struct Case {
    void (*damage)(RdmaSettings&);
    const char* asked;
    const char* allowed;
  };
  constexpr Case kCases[] = {
      {[](RdmaSettings& s) { s.devices = {"mlx5_7"}; }, "'mlx5_7'", "soft_0, soft_1"},
      {[](RdmaSettings& s) { s.devices = {"soft_efa_0"}; }, "'soft_efa_0'", "soft_0, soft_1"},
      {[](RdmaSettings& s) { s.devices = {"soft_0:2"}; }, "port 2 of soft_0", "it has 1"},
      {[](RdmaSettings& s) { s.devices = {"soft_0:x"}; }, "'soft_0:x'", "number"},
      {[](RdmaSettings& s) { s.gid_index = 2; }, "gid_index is 2", "0 to 1"},
      {[](RdmaSettings& s) { s.gid_index = -2; }, "gid_index is -2", "0 to 1"},
      {[](RdmaSettings& s) { s.queues = 0; }, "queues are 0", "1 to 64"},
      {[](RdmaSettings& s) { s.queues = 65; }, "queues are 65", "1 to 64"},
      {[](RdmaSettings& s) { s.depth = -1; }, "queue_depth is -1", "0 (chosen) to 8192"},
      {[](RdmaSettings& s) { s.depth = 5000; }, "queue_depth is 5000", "at most 4096"},
      {[](RdmaSettings& s) { s.queues = 64, s.depth = 4096; }, "soft_0 need", "lower depth or queues"},
      {[](RdmaSettings& s) { s.traffic_class = 256; }, "traffic_class is 256", "0 to 255"},
      {[](RdmaSettings& s) { s.service_level = 16; }, "service_level is 16", "0 to 15"},
      {[](RdmaSettings& s) { s.timeout = 32; }, "timeout is 32", "1 to 31"},
      {[](RdmaSettings& s) { s.retries = 8; }, "retries are 8", "0 to 7"},
  };
  for (const Case& one : kCases) {
    PortSettings settings = settings_of(0, {3, 1});
    one.damage(settings.rdma);
    EXPECT_TRUE(refuses({one.asked, one.allowed}, [&] { open(settings); }));
  }
}

TEST_F(RdmaPorts, RefuseADeviceWithHardlyAnyRoom) {
  const PortSettings settings = settings_of(0);
  setenv("MKERNEL_SOFT_NIC", "queue=3", 1);
  for (const char* kind : {"verbs", "efa"}) {
    EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"holds 3 messages", "at least 4"}, [&] { open(settings, kind); }));
  }
  setenv("MKERNEL_SOFT_NIC", "queue=4", 1);
  for (const char* kind : {"verbs", "efa"}) EXPECT_NE(open(settings, kind), nullptr);
}

TEST_F(RdmaPorts, RefuseADeviceThatSendsNothing) {
  const PortSettings settings = settings_of(0);
  setenv("MKERNEL_SOFT_NIC", "no_messages=1", 1);
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"max_rdma_size of the efa device soft_efa_0 is 0"},
                     [&] { open(settings, "efa"); }));
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"max_msg_sz of the verbs device soft_0 is 0"}, [&] { open(settings); }));
  EXPECT_NE(fabric_kind("efa").why_not().find("max_rdma_size"), std::string::npos) << "no rank chooses it";
}

TEST_F(RdmaPorts, NameWhoDisagrees) {
  const auto connects = [&](PortSettings theirs, const char* kind, std::initializer_list<std::string_view> words) {
    const auto own = open(settings_of(0));
    const auto other = open(theirs, kind);
    return throws(ErrorCode::kFabric, words, [&] { own->connect({own->address(), other->address()}); });
  };
  PortSettings more_queues = settings_of(1);
  more_queues.rdma.queues = 3;
  EXPECT_TRUE(connects(more_queues, "verbs", {"the verbs address of rank 1", "3 queues", "2 were expected"}));
  PortSettings more_devices = settings_of(1);
  more_devices.rdma.devices = {"soft_0", "soft_1"};
  EXPECT_TRUE(connects(more_devices, "verbs", {"rank 1", "2 devices", "1 were expected"}));
  EXPECT_TRUE(connects(settings_of(1), "efa", {"rank 1", "of the fabric 'efa'"}));
}

TEST_F(RdmaPorts, RefuseAddressesAndKeysThatAreNone) {
  const auto own = open(settings_of(0));
  const std::string address = open(settings_of(1))->address();
  for (const std::string& bytes : {std::string(), address.substr(0, 20), address + "x", std::string(24, '\1')}) {
    EXPECT_TRUE(throws(ErrorCode::kFabric, {"address of rank 1"}, [&] { own->connect({own->address(), bytes}); }));
  }
  for (const size_t bytes : {0, 11, 13}) {
    EXPECT_TRUE(
        throws(ErrorCode::kFabric, {"rank 1", "key"}, [&] { own->learn_window(0, 1, std::string(bytes, 'x')); }));
  }
  EXPECT_TRUE(refuses({"window 0 of rank 0"}, [&] { own->share_window(0); }));
}

// Rank 0 learns another key than rank 1 has.
class WrongKey : public RdmaPorts, public testing::WithParamInterface<const char*> {
 protected:
  std::string failure_with(size_t damaged_byte) {
    SparseMemory memory[2] = {SparseMemory(4096), SparseMemory(4096)};
    WindowRegistry registries[2];
    std::unique_ptr<FabricPort> ports[2];
    std::string addresses[2], keys[2];
    for (const int rank : {0, 1}) {
      std::vector<std::byte*> bases(2);
      bases[rank] = memory[rank].data();
      registries[rank].add(bases, 4096);
      ports[rank] = open_port(GetParam(), settings_of(rank), registries[rank]);
      addresses[rank] = ports[rank]->address();
      keys[rank] = ports[rank]->share_window(0);
    }
    keys[1][damaged_byte] = static_cast<char>(keys[1][damaged_byte] ^ 0x40);
    ports[0]->learn_window(0, 1, keys[1]);
    std::unique_ptr<Fabric> fabrics[2];
    for (const int rank : {0, 1}) fabrics[rank] = ports[rank]->connect({addresses[0], addresses[1]});
    std::memset(memory[0].data(), 1, 4096);
    EXPECT_EQ(fabrics[0]->put({0, 64, 4032, 0, 0, 0, 0, 1, 1, 0, 0}, 0), PutResult::kSent);
    std::vector<uint64_t> completed;
    EXPECT_TRUE(busily([&] {
      fabrics[1]->poll(completed);
      return fabrics[0]->poll(completed) == PutResult::kFailed;
    }));
    EXPECT_TRUE(completed.empty());
    EXPECT_TRUE(std::all_of(memory[1].data(), memory[1].data() + 4096, [](std::byte b) { return b == std::byte{}; }));
    return fabrics[0]->failure();
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, WrongKey, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(WrongKey, IsTheNicsToRefuse) {
  const std::string failure = failure_with(8);
  EXPECT_NE(failure.find("a put of rank 0 to rank 1, 4032 bytes"), std::string::npos) << failure;
  EXPECT_NE(failure.find("refuses the address or its key (remote access error"), std::string::npos) << failure;
}

TEST_P(WrongKey, SoIsAnAddressOutsideTheWindow) {
  EXPECT_NE(failure_with(3).find("refuses the address or its key"), std::string::npos);
}

}  // namespace
}  // namespace mk::test
