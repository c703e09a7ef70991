// SPDX-License-Identifier: MIT
// tests/transport/bootstrap_handshake_test.cc — bytes recorded at one meeting admit nobody to another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/handshaker.h"
#include "tests/support/meeting.h"
#include "tests/support/recording_relay.h"
#include "transport/bootstrap.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

SocketAddress place_of(const Meeting& meeting) {
  return SocketAddress::v4({htonl(INADDR_LOOPBACK)}, meeting.endpoint().port);
}

// All ranks but 0 come through the relay.
void meet_through(const RecordingRelay& relay, Meeting& meeting, int size) {
  const UniqueId id{meeting.id.secret, {relay.endpoint()}};
  std::vector<Rank> ranks;
  for (int rank = 1; rank < size; ++rank) ranks.push_back(join(id, rank, size));
  std::vector<std::unique_ptr<Bootstrap>> members;
  members.push_back(meeting.root().get());
  for (Rank& rank : ranks) members.push_back(rank.get());
  Meeting::exchange(members, 2);
}

TEST(BootstrapHandshake, TheSecretIsNeverSent) {
  Meeting meeting(4);
  const RecordingRelay relay(place_of(meeting));
  meet_through(relay, meeting, 4);
  const std::string sent = relay.everything();
  ASSERT_GE(relay.talks().size(), 3u);
  ASSERT_NE(sent.find(std::string(100, 'x')), std::string::npos) << "the relay has not heard all";
  const Secret& secret = meeting.id.secret;
  for (const size_t half : {0, 8}) {
    EXPECT_EQ(sent.find(std::string(reinterpret_cast<const char*>(secret.data()) + half, 8)), std::string::npos);
  }
  EXPECT_EQ(sent.find(to_hex(secret)), std::string::npos);
}

TEST(BootstrapHandshake, AHelloThatWasRecordedIsTurnedAwayInTheNextMeeting) {
  const Secret secret = random_secret();
  std::vector<RecordingRelay::Talk> talks;
  {
    Meeting before(3, kAmple, secret);
    const RecordingRelay relay(place_of(before));
    meet_through(relay, before, 3);
    talks = relay.talks();
  }
  Meeting meeting(3, kAmple, secret);
  for (const RecordingRelay::Talk& talk : talks) {
    ASSERT_GE(talk.from_caller.size(), sizeof(Hello));
    const Fd stranger = meeting.stranger();
    hear_challenge(stranger);
    say(stranger, text_bytes(talk.from_caller).first(sizeof(Hello)));
    EXPECT_TRUE(is_turned_away_silently(stranger));
  }
  meeting.is_unharmed();
}

// It has bound rank 0's port first, speaks as rank 0 does and takes what rank 1 says.
TEST(BootstrapHandshake, AFakeRankZeroLearnsNothingThatAdmitsItNextTime) {
  const Secret secret = random_secret();
  Hello stolen;
  {
    const Fd fake = open_listener();
    Rank one = join({secret, {{"127.0.0.1", static_cast<uint16_t>(port_of(fake))}}}, 1, 2, milliseconds(1000));
    const int fd = fake.number();
    wait_readable({&fd, 1}, handshake_deadline());
    const Fd caller = accept_from(fake);
    say(caller, bytes_of(fresh_challenge()));
    receive_all(caller, writable_bytes_of(stolen), handshake_deadline(), "rank 1's hello");
    say(caller, bytes_of(AnswerHead{.proof = stolen.proof}));
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {"could not reach rank 0", "is not rank 0"}, [&] { one.get(); }));
  }
  Meeting meeting(2, kAmple, secret);
  const Fd stranger = meeting.stranger();
  hear_challenge(stranger);
  say(stranger, bytes_of(stolen));
  EXPECT_TRUE(is_turned_away_silently(stranger));
  meeting.is_unharmed();
}

TEST(BootstrapHandshake, AProofForOneRankDoesNotAdmitAnother) {
  Meeting meeting(4);
  const Fd stranger = meeting.stranger();
  Hello hello = prove(meeting.context(), hear_challenge(stranger), Meeting::hello_as(2, 4));
  hello.rank = 3;
  say(stranger, bytes_of(hello));
  EXPECT_TRUE(is_turned_away_silently(stranger));
  meeting.is_unharmed();
}

// The tcp fabric of a World has the same secret.
TEST(BootstrapHandshake, AProofForATcpConnectionDoesNotAdmit) {
  Meeting meeting(2);
  HandshakeContext tcp = meeting.context();
  tcp.purpose = HandshakeContext::Purpose::kTcpFabric;
  const Fd stranger = meeting.stranger();
  greet(stranger, tcp, Meeting::hello_as(1, 2));
  EXPECT_TRUE(is_turned_away_silently(stranger));
  meeting.is_unharmed();
}

// Rank 1 calls through somebody who changes what rank 0 answers.
testing::AssertionResult is_not_believed(const Meeting& meeting, const RecordingRelay::Change& change) {
  const RecordingRelay relay(place_of(meeting), [&](std::string& bytes) {
    if (bytes.size() >= sizeof(AnswerHead)) change(bytes);
  });
  const UniqueId id{meeting.id.secret, {relay.endpoint()}};
  return throws(ErrorCode::kTimeout, {"is not rank 0"}, [&] { Bootstrap(id, 1, 3, milliseconds(1000)); });
}

TEST(BootstrapHandshake, AnAdmissionThatIsMadeARefusalIsNotBelieved) {
  Meeting meeting(3);
  EXPECT_TRUE(is_not_believed(meeting, [](std::string& bytes) {
    AnswerHead head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    head.kind = AnswerKind::kRefused;
    std::memcpy(bytes.data(), &head, sizeof(head));
  }));
  meeting.is_unharmed();
}

TEST(BootstrapHandshake, ARefusalWithAnotherTextIsNotBelieved) {
  Meeting meeting(3);
  {
    const Fd joined = meeting.known_stranger(Meeting::hello_as(1, 3));
    EXPECT_TRUE(is_not_believed(meeting, [](std::string& bytes) { bytes.back() ^= 1; }));
  }
  meeting.is_unharmed();
}

}  // namespace
}  // namespace mk::test
