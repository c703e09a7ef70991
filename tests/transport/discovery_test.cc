// SPDX-License-Identifier: MIT
// tests/transport/discovery_test.cc — what hwloc and sysfs say becomes a Topology.
//
// The tree is two_sockets.xml, of the shape of real servers and written for this test; sysfs is a folder.
#include "transport/discovery.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/machine_shape.h"
#include "transport/rdma_ports.h"

namespace mk::test {
namespace {

namespace fs = std::filesystem;

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_discovery().empty()) GTEST_SKIP() << why_no_discovery();
  }

  static Topology of_xml(const std::string& sysfs) { return discover_topology({.xml = MKERNEL_XML, .sysfs = sysfs}); }
};

// A folder that looks like /sys as far as we read it.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string name = (fs::temp_directory_path() / "mkernel-sysfs-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FakeSysfs() { fs::remove_all(root_); }

  void add(const std::string& device, const std::string& address, int port, const char* state, const char* rate,
           const char* link_layer) {
    const fs::path folder = root_ / "class/infiniband" / device;
    const fs::path of_port = folder / "ports" / std::to_string(port);
    fs::create_directories(of_port);
    if (!address.empty() && port == 1) fs::create_symlink("../../../" + address, folder / "device");
    std::ofstream(of_port / "state") << state << "\n";
    std::ofstream(of_port / "rate") << rate << "\n";
    std::ofstream(of_port / "link_layer") << link_layer << "\n";
  }

  std::string path() const { return root_.string(); }

 private:
  fs::path root_;
};

TEST_F(Discovery, FindsNumaNodesWithOneNumberACore) {
  const Topology topology = of_xml("");
  ASSERT_EQ(topology.numa_nodes.size(), 2u);
  EXPECT_EQ(topology.numa_nodes[0].cores, (std::vector<int>{0, 1}));
  EXPECT_EQ(topology.numa_nodes[1].cores, (std::vector<int>{2, 3}));
}

TEST_F(Discovery, FindsNvidiasGpusAndNoOtherScreen) {
  const Topology topology = of_xml("");
  ASSERT_EQ(topology.gpus.size(), 2u);
  const Location& second = topology.gpus[1].location;
  EXPECT_EQ(second.address, "0000:93:00.0");
  EXPECT_EQ(second.numa_node, 1);
  EXPECT_EQ(second.bridges, (std::vector<std::string>{"0000:90", "0000:90:01.0", "0000:91:00.0", "0000:92:00.0"}));
}

TEST_F(Discovery, WithoutSysfsNicsAreAsHwlocKnowsThem) {
  const Topology topology = of_xml("");
  ASSERT_EQ(topology.nics.size(), 3u);
  EXPECT_EQ(topology.nics[0].name(), "mlx5_0");
  EXPECT_EQ(topology.nics[0].state, "active");
  EXPECT_EQ(topology.nics[2].name(), "mlx5_2");
  EXPECT_EQ(topology.nics[2].state, "down");
  EXPECT_EQ(topology.nics[2].location.bridges.size(), 2u);
  EXPECT_EQ(served(place(topology)), "0=mlx5_0;1=mlx5_1");
}

TEST_F(Discovery, SysfsAddsSpeedPortsAndDevicesThatHwlocDoesNotKnow) {
  FakeSysfs sysfs;
  sysfs.add("mlx5_0", "0000:14:00.0", 1, "1: DOWN", "400 Gb/sec (4X NDR)", "InfiniBand");
  sysfs.add("mlx5_2", "0000:99:00.0", 1, "4: ACTIVE", "25 Gb/sec (1X EDR)", "Ethernet");
  sysfs.add("mlx5_2", "0000:99:00.0", 2, "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
  sysfs.add("rdmap240s1", "0000:f0:01.0", 1, "4: ACTIVE", "200 Gb/sec (4X HDR)", "Unspecified");
  sysfs.add("rxe0", "", 1, "4: ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet");
  const Topology topology = of_xml(sysfs.path());
  std::string seen;
  for (const Nic& nic : topology.nics) {
    seen += fmt::format("{} {} {} {} {}; ", nic.name(), nic.state, nic.gbps, nic.link_layer, nic.location.numa_node);
  }
  EXPECT_EQ(seen,
            "mlx5_0 down 400 InfiniBand 0; mlx5_1 active 0  1; mlx5_2 active 25 Ethernet 1; "
            "mlx5_2:2 active 2.5 Ethernet 1; rdmap240s1 active 200 Unspecified -1; rxe0 active 100 Ethernet -1; ");
}

TEST_F(Discovery, ThisMachineIsReadWithoutAComplaint) {
  const Topology topology = discover_topology();
  EXPECT_GE(topology.numa_nodes.size(), 1u);
  EXPECT_FALSE(topology.numa_nodes[0].cores.empty());
  EXPECT_EQ(place(topology).gpus.size(), topology.gpus.size());
}

TEST_F(Discovery, AFileThatIsNoTreeIsRefusedByName) {
  EXPECT_TRUE(refuses({"xml is '/no/such/file'"}, [] { discover_topology({.xml = "/no/such/file"}); }));
  EXPECT_TRUE(refuses({"xml is '/dev/null'"}, [] { discover_topology({.xml = "/dev/null"}); }));
}

TEST(RdmaPorts, AMachineWithoutThemHasNone) { EXPECT_TRUE(read_rdma_ports("/no/such/folder").empty()); }

TEST(RdmaPorts, EveryStateHasItsWord) {
  EXPECT_EQ(port_state("1: DOWN"), "down");
  EXPECT_EQ(port_state("2: INIT"), "init");
  EXPECT_EQ(port_state("4: ACTIVE"), "active");
  EXPECT_EQ(port_state("4"), "active");
  EXPECT_EQ(port_state("5: ACTIVE_DEFER"), "active, deferred");
  EXPECT_EQ(port_state("77: ?"), "unknown");
  EXPECT_EQ(port_state(""), "unknown");
}

TEST(RdmaPorts, OnlyAPciDeviceHasAnAddress) {
  FakeSysfs sysfs;
  sysfs.add("efa_0", "0000:a0:00.0", 1, "4: ACTIVE", "100 Gb/sec (4X EDR)", "Unspecified");
  sysfs.add("siw_0", "lo", 1, "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
  const std::vector<Nic> nics = read_rdma_ports(sysfs.path());
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0].location.address, "0000:a0:00.0");
  EXPECT_EQ(nics[1].location.address, "");
}

}  // namespace
}  // namespace mk::test
