// SPDX-License-Identifier: MIT
// bench/net_data.cc — see net_data.h.
#include "bench/net_data.h"

#include <algorithm>
#include <cstring>

namespace mk::bench {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// The words of splitmix64: each bit depends on every bit of seed and place.
uint64_t word_at(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0xd1342543de82ef95 + index * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// act(offset, bytes, word) for each word, of which the last may be cut short.
template <class Act>
void for_each_word(uint64_t bytes, uint64_t seed, Act&& act) {
  for (uint64_t at = 0; at < bytes; at += kWord) act(at, std::min(kWord, bytes - at), word_at(seed, at / kWord));
}

}  // namespace

void fill(std::byte* to, uint64_t bytes, uint64_t seed) {
  for_each_word(bytes, seed, [&](uint64_t at, uint64_t size, uint64_t word) { std::memcpy(to + at, &word, size); });
}

void fill_wrong(std::byte* to, uint64_t bytes, uint64_t seed) {
  for_each_word(bytes, seed, [&](uint64_t at, uint64_t size, uint64_t word) {
    const uint64_t opposite = ~word;
    std::memcpy(to + at, &opposite, size);
  });
}

uint64_t num_wrong(const std::byte* in, uint64_t bytes, uint64_t seed) {
  uint64_t wrong = 0;
  for_each_word(bytes, seed, [&](uint64_t at, uint64_t size, uint64_t word) {
    if (std::memcmp(in + at, &word, size) == 0) return;
    const auto* right = reinterpret_cast<const std::byte*>(&word);
    for (uint64_t i = 0; i < size; ++i) wrong += in[at + i] != right[i] ? 1 : 0;
  });
  return wrong;
}

}  // namespace mk::bench
