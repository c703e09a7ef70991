// SPDX-License-Identifier: MIT
// base/sha256.cc — see sha256.h.  Names are the standard's.
#include "base/sha256.h"

#include <bit>
#include <string>

namespace mk {
namespace {

using Words = std::array<uint32_t, 8>;
using Wide = unsigned __int128;
constexpr size_t kBlock = 64;  // bytes

constexpr std::array<uint32_t, 64> first_primes() {
  std::array<uint32_t, 64> primes{};
  size_t found = 0;
  for (uint32_t n = 2; found < primes.size(); ++n) {
    bool is_prime = true;
    for (size_t i = 0; i < found && is_prime; ++i) is_prime = n % primes[i] != 0;
    if (is_prime) primes[found++] = n;
  }
  return primes;
}

// The first 32 bits behind the point of a prime's root: of x with x^power = prime * 2^(32*power), the low word.
constexpr uint32_t root_fraction(uint32_t prime, int power) {
  const Wide scaled = Wide{prime} << (32 * power);
  uint64_t low = 0, high = uint64_t{1} << 37;  // a root below 32, 32 bits behind the point
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    const Wide raised = power == 2 ? Wide{middle} * middle : Wide{middle} * middle * middle;
    (raised <= scaled ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

template <size_t kCount>
constexpr std::array<uint32_t, kCount> root_fractions(int power) {
  const auto primes = first_primes();
  std::array<uint32_t, kCount> fractions{};
  for (size_t i = 0; i < kCount; ++i) fractions[i] = root_fraction(primes[i], power);
  return fractions;
}

constexpr std::array<uint32_t, 64> kK = root_fractions<64>(3);
constexpr Words kH0 = root_fractions<8>(2);

void add_block(Words& h, const char* block) {
  std::array<uint32_t, 64> w{};
  for (size_t i = 0; i < kBlock; ++i) w[i / 4] = w[i / 4] << 8 | static_cast<uint8_t>(block[i]);
  for (size_t t = 16; t < w.size(); ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, last] = h;
  for (size_t t = 0; t < w.size(); ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = last + sum1 + ((e & f) ^ (~e & g)) + kK[t] + w[t];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    last = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const Words added{a, b, c, d, e, f, g, last};
  for (size_t i = 0; i < h.size(); ++i) h[i] += added[i];
}

}  // namespace

std::array<uint8_t, 32> sha256(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % kBlock != kBlock - sizeof(uint64_t)) padded += '\0';
  const uint64_t bits = uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift & 0xff);
  Words h = kH0;
  for (size_t at = 0; at < padded.size(); at += kBlock) add_block(h, padded.data() + at);
  std::array<uint8_t, 32> digest{};
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(h[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

}  // namespace mk
