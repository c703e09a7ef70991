// SPDX-License-Identifier: MIT
// tests/runtime/device_choice_test.cc — all ranks choose alike where they run, and who cannot is named.
#include "runtime/device_choice.h"

#include <gtest/gtest.h>

#include <array>

#include "base/hex.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

using runtime::choose_device;
using runtime::DeviceChoice;
using runtime::Gpu;

constexpr int kSms = 132;

// `gpus`: what a rank sees, in CUDA's order.
std::string offer(DeviceKind asked, const std::string& machine, const std::vector<std::string>& gpus) {
  runtime::DeviceOffer offer{asked, machine, gpus.empty() ? "no NVIDIA GPU\nhere" : "", {}};
  for (const std::string& id : gpus) offer.gpus.push_back({static_cast<int>(offer.gpus.size()), id, kSms});
  return to_text(offer);
}

std::vector<int> gpus_of(const std::vector<std::string>& offers) {
  std::vector<int> gpus;
  for (int rank = 0; rank < static_cast<int>(offers.size()); ++rank) {
    const DeviceChoice choice = choose_device(offers, rank);
    EXPECT_EQ(choice.kind, DeviceKind::kCuda);
    EXPECT_EQ(choice.seat.rank, rank);
    gpus.push_back(choice.seat.gpu);
  }
  return gpus;
}

TEST(DeviceChoice, AutoIsAGpuIfEveryRankHasOne) {
  const std::string has = offer(DeviceKind::kAuto, "a", {"x"}), lacks = offer(DeviceKind::kAuto, "b", {});
  EXPECT_EQ(choose_device({has, has}, 1).kind, DeviceKind::kCuda);
  EXPECT_EQ(choose_device({has, lacks}, 0).kind, DeviceKind::kCpu);
  EXPECT_EQ(choose_device({has, lacks}, 1).kind, DeviceKind::kCpu);
}

TEST(DeviceChoice, CpusAreTakenWhereAskedFor) {
  EXPECT_EQ(choose_device({offer(DeviceKind::kCpu, "a", {}), offer(DeviceKind::kCpu, "a", {})}, 0).kind,
            DeviceKind::kCpu);
}

TEST(DeviceChoice, ARankWithoutTheGpuThatWasAskedForIsNamedToAll) {
  const std::vector<std::string> offers{offer(DeviceKind::kCuda, "a", {"x"}), offer(DeviceKind::kCuda, "b", {})};
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"device is cuda; rank 1 cannot use one: no NVIDIA GPU here"},
                       [&] { choose_device(offers, rank); }));
  }
}

TEST(DeviceChoice, RanksThatAskForDifferentDevicesAreNamed) {
  EXPECT_TRUE(refuses({"device is cpu on rank 1 and auto on rank 0; all must agree"}, [] {
    choose_device({offer(DeviceKind::kAuto, "a", {"x"}), offer(DeviceKind::kCpu, "a", {})}, 0);
  }));
}

TEST(DeviceChoice, RanksOfAMachineTakeItsGpusInTurn) {
  const std::string on_a = offer(DeviceKind::kCuda, "a", {"w", "x"}), on_b = offer(DeviceKind::kCuda, "b", {"y", "z"});
  EXPECT_EQ(gpus_of({on_a, on_a, on_b, on_b}), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(gpus_of({on_a, on_a, on_a, on_b}), (std::vector<int>{0, 1, 0, 0}));
}

// As some launchers arrange it.
TEST(DeviceChoice, ARankThatSeesOneGpuOnlyTakesThat) {
  const std::vector<std::string> offers{offer(DeviceKind::kCuda, "a", {"x"}), offer(DeviceKind::kCuda, "a", {"y"})};
  EXPECT_EQ(gpus_of(offers), (std::vector<int>{0, 0}));
  EXPECT_EQ(choose_device(offers, 0).seat.sms, kSms);
}

TEST(DeviceChoice, RanksThatShareAGpuDivideItsSms) {
  const std::string one = offer(DeviceKind::kCuda, "a", {"x"});
  EXPECT_EQ(choose_device({one, one, one, one}, 3).seat.sms, kSms / 4);
}

TEST(DeviceChoice, EveryRankHasAsManySmsAsTheOneWithTheFewest) {
  const std::string two = offer(DeviceKind::kCuda, "a", {"x", "y"});
  for (const int rank : {0, 1, 2}) EXPECT_EQ(choose_device({two, two, two}, rank).seat.sms, kSms / 2);
}

TEST(DeviceChoice, AGpuThatCannotHoldItsRanksIsRefused) {
  const std::vector<std::string> offers(kSms / 2 + 1, offer(DeviceKind::kCuda, "a", {"x"}));
  EXPECT_TRUE(refuses({"nodes x ranks is 67; 67 of them share a GPU that holds at most 66"},
                      [&] { choose_device(offers, 0); }));
}

TEST(DeviceChoice, AnOfferOfThisMachineCanBeChosenFrom) {
  const std::string here = to_text(runtime::offer_here(DeviceKind::kCpu));
  EXPECT_EQ(choose_device({here, here}, 1).kind, DeviceKind::kCpu);
}

TEST(Hex, BytesComeBackAndNothingElseIsTaken) {
  const std::array<std::byte, 3> bytes{std::byte{0x00}, std::byte{0x9f}, std::byte{0xff}};
  std::array<std::byte, 3> back{};
  EXPECT_EQ(to_hex(bytes), "009fff");
  EXPECT_TRUE(from_hex("009FfF", back));
  EXPECT_EQ(back, bytes);
  for (const char* wrong : {"", "009ff", "009fff00", "009ffg", "00 9ff", "-09fff"}) {
    EXPECT_FALSE(from_hex(wrong, back)) << wrong;
  }
}

}  // namespace
}  // namespace mk::test
