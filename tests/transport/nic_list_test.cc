// SPDX-License-Identifier: MIT
// tests/transport/nic_list_test.cc — what MKERNEL_NICS may say, and how the rest is refused.
#include "transport/nic_list.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/machine_shape.h"

namespace mk::test {
namespace {

// Two GPUs; nic0, nic1, port 2 of nic1, and nic3, which is down.
Topology small_machine() {
  MachineShape machine(1, 4);
  const Branch host = machine.host_bridge(0);
  machine.gpu(host);
  machine.gpu(host);
  machine.nic(host);
  const Nic first = machine.nic(host);
  Nic& second = machine.nic(host);
  second.device = first.device;
  second.port = 2;
  machine.nic(host).state = "down";
  return machine.topology();
}

TEST(NicList, GoodTextsAreTakenByTheLetter) {
  const std::pair<const char*, const char*> good[] = {
      {"nic1", "0=nic1;1=nic1"},
      {"nic1,nic0", "0=nic0;1=nic1"},
      {"nic1:1,nic1:2", "0=nic1;1=nic1:2"},
      {"0=nic1;1=nic0", "0=nic1;1=nic0"},
      {"1=nic0;0=nic0", "0=nic0;1=nic0"},
      {"0=nic1,nic0;1=nic0,nic1:2", "0=nic1,nic0;1=nic0,nic1:2"},
  };
  for (const auto& [text, expected] : good) EXPECT_EQ(served(place(small_machine(), text)), expected) << text;
}

TEST(NicList, ErrorsNameWhatWasAskedAndWhatThereIs) {
  struct Bad {
    const char* text;
    std::initializer_list<std::string_view> words;
  };
  const Bad bad[] = {
      {"nic7", {"'nic7'", "no nic7", "nic0, nic1, nic1:2, nic3"}},
      {"nic0,nic1:3", {"no nic1:3", "nic1:2"}},
      {"nic0,", {"'nic0,'", "empty", "nic0, nic1"}},
      {"nic0,,nic1", {"empty"}},
      {"nic0,nic0", {"nic0 is there twice"}},
      {"nic1,nic1:1", {"nic1:1 is there twice"}},
      {"nic0,nic3", {"nic3", "not active", "down"}},
      {"0=nic3;1=nic0", {"nic3", "down"}},
      {"0=nic0", {"GPU 1 of 2 is not there"}},
      {"0=nic0;0=nic1", {"GPU 0 is there twice"}},
      {"0=nic0;2=nic1", {"no GPU 2", "has 2"}},
      {"0=nic0;-1=nic1", {"'-1' is not the number of a GPU"}},
      {"0=nic0;x=nic1", {"'x' is not the number of a GPU"}},
      {"0=nic0;nic1", {"'nic1'", "GPU=NIC"}},
      {"0=nic0;", {"GPU=NIC"}},
      {"0=;1=nic0", {"empty"}},
      {"0=nic0,nic1;1=nic0", {"GPU 0 has 2", "GPU 1 has 1"}},
      {"0=nic0;1=nic9", {"no nic9"}},
  };
  for (const Bad& one : bad) {
    EXPECT_TRUE(refuses(one.words, [&] { parse_nic_list(one.text, small_machine()); })) << one.text;
  }
}

TEST(NicList, OnAMachineWithoutNicsTheErrorSaysSo) {
  EXPECT_TRUE(refuses({"no mlx5_0", "no NIC at all"}, [] { parse_nic_list("mlx5_0", {}); }));
}

TEST(NicsOfRank, AreThoseOfItsNumberOrOneInTurn) {
  const auto nics = [](const char* text, int local) { return nics_of_rank(text, local); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(nics("", 0), Names{});
  EXPECT_EQ(nics("nic0,nic1:2", 0), Names{"nic0"});
  EXPECT_EQ(nics("nic0,nic1:2", 3), Names{"nic1:2"});
  EXPECT_EQ(nics("0=nic0,nic3;1=nic1,nic2", 1), (Names{"nic1", "nic2"}));
  EXPECT_TRUE(refuses({"'0=nic0;1=nic1'", "rank 2"}, [&] { nics("0=nic0;1=nic1", 2); }));
}

TEST(NicsOfRank, AreEquallyManyForAllAndTheTextSaysWhose) {
  const std::pair<const char*, std::string_view> bad[] = {
      {"0=nic0;1=nic1,nic2", "GPU 0 has 1 of them and GPU 1 has 2"},
      {"2=nic0,nic1;7=nic2", "GPU 2 has 2 of them and GPU 7 has 1"},
      {"0=nic0;0=nic1", "GPU 0 is there twice"},
      {"0=nic0;nic1", "'nic1' is not of the form GPU=NIC"},
      {"0=nic0;x=nic1", "'x' is not the number of a GPU"},
      {"0=nic0,;1=nic1,nic2", "the name of a NIC of GPU 0 is empty"},
  };
  for (const auto& [text, words] : bad) EXPECT_TRUE(refuses({text, words}, [&] { nics_of_rank(text, 0); })) << text;
}

}  // namespace
}  // namespace mk::test
