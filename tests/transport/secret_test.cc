// SPDX-License-Identifier: MIT
// tests/transport/secret_test.cc — what is computed with secrets is what standards and other ranks compute.
#include "transport/secret.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mk::test {
namespace {

std::string hmac_hex(const std::string& key, const std::string& message) {
  return to_hex(hmac_sha256(text_bytes(key), text_bytes(message)));
}

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(hmac_hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_hex(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hmac_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac_hex(std::string(131, '\xaa'),
                     "This is a test using a larger than block-size key and a larger than block-size data. The key "
                     "needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, PartsThatAreCutElsewhereGiveAnotherDigest) {
  const auto of = [](std::initializer_list<std::string_view> texts) {
    std::string key = "key";
    return texts.size() == 1
               ? hmac_of_parts(text_bytes(key), {text_bytes(*texts.begin())})
               : hmac_of_parts(text_bytes(key), {text_bytes(*texts.begin()), text_bytes(texts.begin()[1])});
  };
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"abc"}), of({"abc", ""}));
}

// Python: hmac.new(from, b"".join(len(p).to_bytes(8, "little") + p for p in purpose), "sha256").digest()[:16]
TEST(DerivedSecret, StaysWhatItWas) {
  EXPECT_EQ(to_hex(derive_secret("a secret that is long", {"a label", "job", "0"})),
            "33575577fce4c3d8409b6633d0252f98");
}

TEST(DerivedSecret, DiffersForEveryOriginAndPurpose) {
  const std::set<Secret> secrets{
      derive_secret("from", {"label", "job", "1"}), derive_secret("From", {"label", "job", "1"}),
      derive_secret("from", {"Label", "job", "1"}), derive_secret("from", {"label", "jo", "b1"}),
      derive_secret("from", {"label", "job1", ""}), derive_secret("from", {"label", "job", "2"}),
      derive_secret("from", {"label", "job1"})};
  EXPECT_EQ(secrets.size(), 7u);
}

TEST(Secret, IsEqualToItselfAlone) {
  const Secret one = random_secret();
  for (size_t i = 0; i < one.size(); ++i) {
    Secret other = one;
    EXPECT_TRUE(equal(one, other));
    other[i] ^= std::byte{1};
    EXPECT_FALSE(equal(one, other)) << "byte " << i;
  }
  EXPECT_FALSE(equal(one, std::span(one).first(15)));
}

}  // namespace
}  // namespace mk::test
