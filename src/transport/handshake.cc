// SPDX-License-Identifier: MIT
// transport/handshake.cc — see handshake.h.
#include "transport/handshake.h"

#include <cstddef>

#include "base/bytes.h"

namespace mk {
namespace {

constexpr std::string_view kCallersLabel = "mkernel handshake 4: caller";
constexpr std::string_view kListenersLabel = "mkernel handshake 4: listener";

}  // namespace

Challenge fresh_challenge() {
  Challenge challenge;
  fill_random(challenge.nonce);
  return challenge;
}

Proof callers_proof(const HandshakeContext& context, const Challenge& challenge, const Hello& hello) {
  return hmac_of_parts(context.secret,
                       {text_bytes(kCallersLabel), bytes_of(context.purpose), bytes_of(context.listener_rank),
                        bytes_of(challenge), bytes_of(hello).first(offsetof(Hello, proof))});
}

Proof listeners_proof(const HandshakeContext& context, const Challenge& challenge, const Hello& hello, AnswerKind kind,
                      std::string_view text) {
  return hmac_of_parts(context.secret,
                       {text_bytes(kListenersLabel), bytes_of(context.purpose), bytes_of(context.listener_rank),
                        bytes_of(challenge), bytes_of(hello), bytes_of(kind), text_bytes(text)});
}

Hello prove(const HandshakeContext& context, const Challenge& challenge, Hello as) {
  fill_random(as.nonce);
  as.proof = callers_proof(context, challenge, as);
  return as;
}

bool is_proven(const HandshakeContext& context, const Challenge& challenge, const Hello& hello) {
  return hello.magic == kHelloMagic && equal(hello.proof, callers_proof(context, challenge, hello));
}

bool is_proven(const HandshakeContext& context, const Challenge& challenge, const Hello& hello, const AnswerHead& head,
               std::string_view text) {
  return head.magic == kAnswerMagic && equal(head.proof, listeners_proof(context, challenge, hello, head.kind, text));
}

}  // namespace mk
