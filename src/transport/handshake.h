// SPDX-License-Identifier: MIT
// transport/handshake.h — how both ends of a new connection prove that they know the World's secret.
//
//   listener to caller   Challenge              a fresh nonce, as soon as the connection is accepted
//   caller to listener   Hello                  who calls, a nonce of its own, its proof
//   listener to caller   AnswerHead and a text  heard, or refused and why, with the listener's proof
//
// The secret itself never travels.  A proof is an HMAC-SHA-256 under it, of a label and of everything that both ends
// have said and know: both nonces, both ranks, the size of the world, what the connection is for, and, for the
// listener's proof, the answer.  So recorded bytes are of no use on another connection, no proof serves the other end
// or another rank, and an answer cannot be forged.  A listener closes on a wrong proof without a word.  The World's
// number is in its secret (runtime/env_meeting.h).  What follows the handshake is not protected.
//
// Plain structs of fixed size, little-endian like every machine this runs on.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/secret.h"

namespace mk {

static_assert(std::endian::native == std::endian::little);

using Nonce = std::array<std::byte, 32>;
using Proof = Digest;

// The last digit is the version, as in the labels of proofs.
constexpr uint32_t kChallengeMagic = 0x4d4b4334;  // "MKC4"
constexpr uint32_t kHelloMagic = 0x4d4b4834;      // "MKH4"
constexpr uint32_t kAnswerMagic = 0x4d4b4134;     // "MKA4"
constexpr uint32_t kMostRefusalBytes = 4096;

struct Challenge {
  uint32_t magic = kChallengeMagic;
  Nonce nonce{};
};
static_assert(sizeof(Challenge) == 36);

struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t rank = 0;    // of the caller
  uint32_t size = 0;    // of the caller's world
  uint32_t number = 0;  // meeting: random, the same in all hellos of one caller; tcp: the connection's
  Nonce nonce{};
  Proof proof{};
};
static_assert(sizeof(Hello) == 80);

enum class AnswerKind : uint32_t { kHeard = 1, kRefused = 2 };

struct AnswerHead {
  uint32_t magic = kAnswerMagic;
  AnswerKind kind = AnswerKind::kHeard;
  uint32_t bytes = 0;  // of the text that follows
  Proof proof{};
};
static_assert(sizeof(AnswerHead) == 44);

// What both ends know before they speak.  None of it is sent.
struct HandshakeContext {
  enum class Purpose : uint32_t { kMeeting = 1, kTcpFabric = 2 };

  Secret secret{};
  Purpose purpose = Purpose::kMeeting;
  uint32_t listener_rank = 0;
};

Challenge fresh_challenge();

// Of everything in the hello but the proof in it.
Proof callers_proof(const HandshakeContext& context, const Challenge& challenge, const Hello& hello);
Proof listeners_proof(const HandshakeContext& context, const Challenge& challenge, const Hello& hello, AnswerKind kind,
                      std::string_view text);

// A hello that answers the challenge: `as` with a fresh nonce and the proof.
Hello prove(const HandshakeContext& context, const Challenge& challenge, Hello as);

// Compare in constant time; also false if the magic is not theirs.
bool is_proven(const HandshakeContext& context, const Challenge& challenge, const Hello& hello);
bool is_proven(const HandshakeContext& context, const Challenge& challenge, const Hello& hello, const AnswerHead& head,
               std::string_view text);

}  // namespace mk
