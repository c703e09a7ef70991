// SPDX-License-Identifier: MIT
// tests/transport/handshake_test.cc — a proof is good for one connection, one purpose, two ranks and one answer.
#include "transport/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace mk::test {
namespace {

// All that a proof is about.
struct Said {
  HandshakeContext context{random_secret(), HandshakeContext::Purpose::kMeeting, 0};
  Challenge challenge = fresh_challenge();
  Hello hello = prove(context, challenge, {.rank = 2, .size = 4, .number = 7});
  AnswerKind kind = AnswerKind::kHeard;
  std::string text = "text";

  Proof listeners() const { return listeners_proof(context, challenge, hello, kind, text); }
  AnswerHead answer() const {
    return {.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .proof = listeners()};
  }
};

struct Change {
  const char* what;
  std::function<void(Said&)> make;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"secret", [](Said& s) { s.context.secret[0] ^= std::byte{1}; }},
      {"purpose", [](Said& s) { s.context.purpose = HandshakeContext::Purpose::kTcpFabric; }},
      {"listener's rank", [](Said& s) { s.context.listener_rank = 1; }},
      {"listener's nonce", [](Said& s) { s.challenge.nonce[31] ^= std::byte{1}; }},
      {"caller's rank", [](Said& s) { s.hello.rank = 3; }},
      {"size", [](Said& s) { s.hello.size = 5; }},
      {"number", [](Said& s) { s.hello.number = 8; }},
      {"caller's nonce", [](Said& s) { s.hello.nonce[0] ^= std::byte{1}; }},
  };
  return all;
}

TEST(Handshake, AProofOfTheSameThingsIsTaken) {
  const Said said;
  EXPECT_TRUE(is_proven(said.context, said.challenge, said.hello));
  EXPECT_TRUE(is_proven(said.context, said.challenge, said.hello, said.answer(), said.text));
}

TEST(Handshake, ACallersProofDependsOnEverythingSaid) {
  for (const Change& change : changes()) {
    Said said;
    change.make(said);
    EXPECT_FALSE(is_proven(said.context, said.challenge, said.hello)) << change.what;
  }
}

TEST(Handshake, AListenersProofDependsOnEverythingSaidAndOnTheAnswer) {
  std::vector<Change> all = changes();
  all.push_back({"kind", [](Said& s) { s.kind = AnswerKind::kRefused; }});
  all.push_back({"text", [](Said& s) { s.text = "Text"; }});
  all.push_back({"length of the text", [](Said& s) { s.text = "tex"; }});
  for (const Change& change : all) {
    Said said;
    AnswerHead head = said.answer();
    change.make(said);
    head.kind = said.kind;
    EXPECT_FALSE(is_proven(said.context, said.challenge, said.hello, head, said.text)) << change.what;
  }
}

// Rank 1 calls rank 2 and is called by rank 0: what it says as a caller is no answer, and no hello to itself.
TEST(Handshake, AProofThatIsReflectedIsRefused) {
  Said said;
  AnswerHead reflected = said.answer();
  reflected.proof = said.hello.proof;
  EXPECT_FALSE(is_proven(said.context, said.challenge, said.hello, reflected, said.text));
  said.text.clear();
  reflected.bytes = 0;
  EXPECT_FALSE(is_proven(said.context, said.challenge, said.hello, reflected, said.text));
  Hello answered = said.hello;
  answered.proof = said.listeners();
  EXPECT_FALSE(is_proven(said.context, said.challenge, answered));
}

TEST(Handshake, NoncesAreFresh) {
  std::set<Nonce> nonces;
  const Said said;
  for (int i = 0; i < 100; ++i) {
    nonces.insert(fresh_challenge().nonce);
    nonces.insert(prove(said.context, said.challenge, said.hello).nonce);
  }
  EXPECT_EQ(nonces.size(), 200u);
}

}  // namespace
}  // namespace mk::test
