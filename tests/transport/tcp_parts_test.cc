// SPDX-License-Identifier: MIT
// tests/transport/tcp_parts_test.cc — puts that go in parts over several tcp connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tcp_end.h"

namespace mk::test {
namespace {

constexpr uint32_t kConnections = 4;
constexpr uint64_t kStripe = 64 << 10;

class TcpInParts : public TcpEnd {
 protected:
  TcpInParts() : TcpEnd(with_small_buffers()) {}

  // So that what a peer does not take stays with the fabric.
  static PortSettings with_small_buffers() {
    PortSettings settings;
    settings.tcp.connections = kConnections;
    settings.tcp.stripe_bytes = kStripe;
    settings.tcp.buffer_bytes = 64 << 10;
    settings.tcp.queue_puts = 2;
    return settings;
  }

  // Five bytes of `text`, which is one put of four parts.
  std::string part(uint32_t put, uint32_t index, const std::string& text, uint64_t to = 0, uint64_t stamp = 0) const {
    TcpFrame of = frame(to + 5 * index, 5);
    of.stamp = stamp;
    of.put = put;
    of.num_parts = kConnections;
    of.signal_index = put % 4;
    return text_of(of) + text.substr(5 * index, 5);
  }
  bool lands(uint64_t at, const std::string& text) {
    return busily(
        [&] { return poll() == PutResult::kSent && std::memcmp(data.data() + at, text.data(), text.size()) == 0; });
  }
};

const std::string kText = "abcdefghijklmnopqrst";

TEST_F(TcpInParts, TheSignalComesWithTheLastByteOfTheLastPart) {
  strangers[3].say(part(0, 3, kText));
  ASSERT_TRUE(lands(15, "pqrst"));
  strangers[0].say(part(0, 1, kText));
  ASSERT_TRUE(lands(5, "fghij"));
  strangers[1].say(part(0, 0, kText));
  ASSERT_TRUE(lands(0, "abcde"));
  const std::string last = part(0, 2, kText);
  strangers[2].say(last.substr(0, last.size() - 1));
  ASSERT_TRUE(lands(0, kText.substr(0, 14)));
  EXPECT_EQ(signal(), 0u) << "a byte is missing";
  strangers[2].say(last.substr(last.size() - 1));
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == 1; })) << fabric->failure();
  EXPECT_EQ(std::memcmp(data.data(), kText.data(), kText.size()), 0);
}

TEST_F(TcpInParts, AStampComesWithTheLastPartAndStaysWhenASmallerOneComesLate) {
  for (const uint64_t stamp : {4000, 30}) {
    for (uint32_t i = 0; i < 3; ++i) strangers[i].say(part(0, i, kText, 100 * stamp, stamp));
    ASSERT_TRUE(lands(100 * stamp, kText.substr(0, 15)));
    EXPECT_EQ(signal(), stamp == 4000 ? 0u : 4000u) << "a part is missing";
    strangers[3].say(part(0, 3, kText, 100 * stamp, stamp));
    ASSERT_TRUE(lands(100 * stamp, kText));
    ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == 4000; })) << fabric->failure();
  }
  for (int i = 0; i < 100; ++i) ASSERT_EQ(poll(), PutResult::kSent);
  EXPECT_EQ(signal(), 4000u);
}

// That the test above can fail: where frames do not say that they are parts, the signal comes with the first.
TEST_F(TcpInParts, PartsThatDoNotSaySoSignalTooEarly) {
  TcpFrame first = frame(15, 5);
  first.put = 0;
  ASSERT_EQ(first.num_parts, 1u);
  strangers[3].say(text_of(first) + "pqrst");
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == 1; })) << fabric->failure();
  EXPECT_NE(std::memcmp(data.data(), kText.data(), kText.size()), 0);
}

TEST_F(TcpInParts, AllOfOnePutMayComeOverOneConnection) {
  for (const uint32_t index : {2u, 0u, 3u, 1u}) strangers[1].say(part(0, index, kText));
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == 1; })) << fabric->failure();
  EXPECT_EQ(std::memcmp(data.data(), kText.data(), kText.size()), 0);
}

TEST_F(TcpInParts, PutsAreCountedApart) {
  const std::string other = "ABCDEFGHIJKLMNOPQRST";
  for (uint32_t i = 0; i < 3; ++i) strangers[i].say(part(1, i, kText) + part(2, 3 - i, other, 100));
  ASSERT_TRUE(lands(0, kText.substr(0, 15)) && lands(105, other.substr(5)));
  EXPECT_EQ(signal(1) + signal(2), 0u);
  strangers[3].say(part(2, 0, other, 100));
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal(2) == 1; })) << fabric->failure();
  EXPECT_EQ(signal(1), 0u);
  strangers[0].say(part(1, 3, kText));
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal(1) == 1; })) << fabric->failure();
  EXPECT_EQ(std::memcmp(data.data(), kText.data(), kText.size()), 0);
  EXPECT_EQ(std::memcmp(data.data() + 100, other.data(), other.size()), 0);
}

// Numbers of puts come again, after four billion.
TEST_F(TcpInParts, ANumberMayComeAgainWhenItsPutHasLanded) {
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint32_t i = 0; i < kConnections; ++i) strangers[i].say(part(0, i, kText));
    ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == round; })) << fabric->failure();
  }
}

TEST_F(TcpInParts, AConnectionThatEndsWithPartsMissingFailsTheFabricAndSignalsNothing) {
  for (uint32_t i = 0; i < 3; ++i) strangers[i].say(part(0, i, kText));
  ASSERT_TRUE(lands(0, kText.substr(0, 15)));
  strangers[3].hang_up();
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 closed its connection to rank 1");
  EXPECT_EQ(signal(), 0u);
  EXPECT_EQ(strangers[0].hear(1), "") << "all connections should be closed";
}

TEST_F(TcpInParts, PartsThatDisagreeInTheirNumberFailTheFabric) {
  strangers[0].say(part(0, 0, kText));
  ASSERT_TRUE(lands(0, "abcde"));
  TcpFrame bad = frame(5, 5);
  bad.num_parts = kConnections - 1;
  strangers[1].say(text_of(bad) + "fghij");
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 sent rank 1 what is no frame for it");
  EXPECT_EQ(std::memcmp(data.data() + 5, "\0\0\0\0\0", 5), 0);
  EXPECT_EQ(signal(), 0u);
}

TEST_F(TcpInParts, PartsThatPayDifferentlyFailTheFabric) {
  strangers[0].say(part(0, 0, kText));
  ASSERT_TRUE(lands(0, "abcde"));
  TcpFrame bad = frame(5, 5);
  bad.num_parts = kConnections;
  ++bad.amount;
  strangers[1].say(text_of(bad) + "fghij");
  EXPECT_TRUE(fails());
  EXPECT_EQ(signal(), 0u);
}

TEST_F(TcpInParts, PartsWithDifferentStampsFailTheFabric) {
  strangers[0].say(part(0, 0, kText, 0, 7));
  ASSERT_TRUE(lands(0, "abcde"));
  strangers[1].say(part(0, 1, kText, 0, 8));
  EXPECT_TRUE(fails());
  EXPECT_EQ(signal(), 0u);
}

TEST_F(TcpInParts, APutOfMorePartsThanThereAreConnectionsFailsTheFabric) {
  TcpFrame bad = frame(0, 5);
  bad.num_parts = kConnections + 1;
  strangers[0].say(text_of(bad) + "abcde");
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 sent rank 1 what is no frame for it");
}

// What a connection brings first.
TcpFrame first_frame(const std::string& heard) {
  TcpFrame frame;
  EXPECT_GE(heard.size(), sizeof(frame));
  std::memcpy(&frame, heard.data(), std::min(heard.size(), sizeof(frame)));
  return frame;
}

TEST_F(TcpInParts, ALargePutIsSpreadOverAllConnectionsAndLeavesNoByteOut) {
  constexpr uint64_t kOdd = kConnections * kStripe + 3;
  fill(data.data(), kOdd, 1);
  ASSERT_EQ(fabric->put(command(kOdd), 7), PutResult::kSent);
  std::jthread polling([&] { EXPECT_TRUE(busily([&] { return poll() != PutResult::kSent || !completed.empty(); })); });
  std::string landed(kOdd, '\0');
  std::set<uint64_t> places;
  uint64_t sum = 0;
  for (TcpStranger& stranger : strangers) {
    const TcpFrame frame = first_frame(stranger.hear(sizeof(TcpFrame)));
    ASSERT_EQ(frame.num_parts, kConnections);
    EXPECT_EQ(frame.put, 0u);
    ASSERT_LE(frame.to_offset + frame.bytes, kOdd);
    const std::string payload = stranger.hear(frame.bytes);
    landed.replace(frame.to_offset, payload.size(), payload);
    places.insert(frame.to_offset);
    sum += payload.size();
  }
  polling.join();
  EXPECT_EQ(places.size(), kConnections);
  EXPECT_EQ(sum, kOdd);
  EXPECT_EQ(std::memcmp(landed.data(), data.data(), kOdd), 0);
  EXPECT_EQ(completed, std::vector<uint64_t>{7});
}

TEST_F(TcpInParts, APutOfLessThanTwoStripesIsWhole) {
  ASSERT_EQ(fabric->put(command(2 * kStripe - 1), 0), PutResult::kSent);
  ASSERT_EQ(poll(), PutResult::kSent);
  const TcpFrame frame = first_frame(strangers[0].hear(sizeof(TcpFrame)));
  EXPECT_EQ(frame.num_parts, 1u);
  EXPECT_EQ(frame.bytes, 2 * kStripe - 1);
}

// Of two places a connection, with nobody who takes anything.
TEST_F(TcpInParts, APutNeedsRoomForAllItsParts) {
  ASSERT_EQ(fabric->put(command(kBytes), 0), PutResult::kSent);
  ASSERT_EQ(fabric->put(command(8), 1), PutResult::kSent);
  EXPECT_EQ(fabric->put(command(kBytes), 2), PutResult::kFull);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(fabric->put(command(8), 3 + i), PutResult::kSent) << i;
  EXPECT_EQ(fabric->put(command(8), 6), PutResult::kFull);
}

TEST_F(TcpInParts, APutIsCompleteWhenAllItsPartsAre) {
  constexpr uint64_t kPart = kBytes / kConnections;
  ASSERT_EQ(fabric->put(command(kBytes), 9), PutResult::kSent);
  std::atomic<bool> all_but_one = false;
  std::jthread taking([&] {
    for (uint32_t i = 0; i < kConnections - 1; ++i) strangers[i].hear(sizeof(TcpFrame) + kPart);
    all_but_one = true;
  });
  EXPECT_TRUE(busily([&] { return poll() != PutResult::kSent || all_but_one; }));
  taking.join();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(poll(), PutResult::kSent) << fabric->failure();
  EXPECT_TRUE(completed.empty());
  std::jthread taking_the_last([&] { strangers.back().hear(sizeof(TcpFrame) + kPart); });
  EXPECT_TRUE(busily([&] { return poll() != PutResult::kSent || !completed.empty(); }));
  taking_the_last.join();
  EXPECT_EQ(completed, std::vector<uint64_t>{9});
}

}  // namespace
}  // namespace mk::test
