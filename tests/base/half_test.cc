// SPDX-License-Identifier: MIT
// tests/base/half_test.cc — bf16 and fp16 against their formats.
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/support/rounding.h"

namespace mk::test {
namespace {

constexpr uint16_t kSign = 0x8000;

struct Bf16Case {
  using Type = Bf16;
  static constexpr DType kDType = DType::kBf16;
  static constexpr uint16_t kInfinity = 0x7f80;
};

struct Fp16Case {
  using Type = Fp16;
  static constexpr DType kDType = DType::kFp16;
  static constexpr uint16_t kInfinity = 0x7c00;
};

template <class Case>
class Half : public testing::Test {
 protected:
  using T = typename Case::Type;
  static bool is_nan(uint16_t bits) { return (bits & ~kSign) > Case::kInfinity; }
  static uint16_t rounded(float x) { return from_float<T>(x).bits; }
  static float value(uint32_t bits) { return to_float(T{static_cast<uint16_t>(bits)}); }
  const FloatFormat format = format_of(Case::kDType);
};

struct CaseName {
  template <class Case>
  static std::string GetName(int) {
    return name_of(Case::kDType);
  }
};

using Cases = testing::Types<Bf16Case, Fp16Case>;
TYPED_TEST_SUITE(Half, Cases, CaseName);

TYPED_TEST(Half, EveryBitPatternMeansWhatItsFormatSays) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double expected = decode16(this->format, static_cast<uint16_t>(bits));
    const float actual = this->value(bits);
    if (this->is_nan(static_cast<uint16_t>(bits))) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(expected, actual) << bits;
      ASSERT_EQ(std::signbit(expected), std::signbit(actual)) << bits;
    }
  }
}

TYPED_TEST(Half, EveryNumberSurvivesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    if (this->is_nan(static_cast<uint16_t>(bits))) continue;
    ASSERT_EQ(this->rounded(this->value(bits)), bits);
  }
}

TYPED_TEST(Half, EveryNaNStaysANaNOfItsSign) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    if (!this->is_nan(static_cast<uint16_t>(bits))) continue;
    const uint16_t back = this->rounded(this->value(bits));
    ASSERT_TRUE(this->is_nan(back)) << bits;
    ASSERT_EQ(back & kSign, bits & kSign) << bits;
  }
}

// Between every two neighbours: the midpoint goes to the even one, one float to either side of it to
// the nearer.  The neighbour of the largest number is infinity, reached at the midpoint with 2^(max+1).
TYPED_TEST(Half, BetweenAnyTwoNeighboursTheNearestWinsAndTiesGoToEven) {
  for (uint32_t low = 0; low < TypeParam::kInfinity; ++low) {
    const uint32_t high = low + 1;
    const double above =
        high == TypeParam::kInfinity ? std::ldexp(1.0, this->format.max_exponent + 1) : this->value(high);
    const float middle = static_cast<float>((static_cast<double>(this->value(low)) + above) / 2);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const uint32_t sign : {0u, uint32_t{kSign}}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(this->rounded(s * middle), sign | ((low & 1) == 0 ? low : high)) << low;
      ASSERT_EQ(this->rounded(s * std::nextafter(middle, 0.0f)), sign | low) << low;
      ASSERT_EQ(this->rounded(s * std::nextafter(middle, infinity)), sign | high) << low;
    }
  }
}

TYPED_TEST(Half, RandomFloatsRoundAsTheFormatSays) {
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(x)) continue;
    const float actual = this->value(this->rounded(x));
    ASSERT_EQ(round_to(this->format, x), actual) << x;
    ASSERT_EQ(std::signbit(x), std::signbit(actual)) << x;
  }
}

TYPED_TEST(Half, InfinitiesStayAndLargerFloatsBecomeThem) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  for (const float x : {infinity, largest}) {
    EXPECT_EQ(this->rounded(x), TypeParam::kInfinity);
    EXPECT_EQ(this->rounded(-x), TypeParam::kInfinity | kSign);
  }
}

TEST(Float, PassesThroughUnchanged) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const float x = std::bit_cast<float>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(to_float(from_float<float>(x))), bits);
  }
}

}  // namespace
}  // namespace mk::test
