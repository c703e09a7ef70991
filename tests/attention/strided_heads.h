// SPDX-License-Identifier: MIT
// tests/attention/strided_heads.h — tensors of heads as views of larger ones, with poison in the gaps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/ring_attention_layout.h"

namespace mk::test {

// How a tensor lies in memory.
enum class HeadsLie {
  kWithoutGaps,
  kPacked,      // one of three in [batch, rows, 3, heads, dim]
  kRowsFirst,   // [rows, batch, heads, dim]
  kHeadsFirst,  // [batch, heads, rows, dim]
  kSomeHeads,   // heads 1 … heads of [batch, rows, heads + 2, dim]
  kApart,       // [batch, heads, rows, dim] with gaps behind rows, heads and batches
  kMixed,       // each tensor of a rank in another way
};
constexpr HeadsLie kHeadsLies[] = {HeadsLie::kPacked,    HeadsLie::kRowsFirst, HeadsLie::kHeadsFirst,
                                   HeadsLie::kSomeHeads, HeadsLie::kApart,     HeadsLie::kMixed};

inline std::string name_of(HeadsLie lie) {
  constexpr const char* kNames[] = {"without_gaps", "packed", "rows_first", "heads_first",
                                    "some_heads",   "apart",  "mixed"};
  return kNames[static_cast<int>(lie)];
}

// Number `which` of a launch's tensors; of kMixed every one has its own way.
inline HeadsLie lie_of(HeadsLie lie, int which) {
  return lie == HeadsLie::kMixed ? static_cast<HeadsLie>(which % static_cast<int>(HeadsLie::kMixed)) : lie;
}

// The memory that a view is of, in elements.
struct HeadsMemory {
  HeadStrides strides;
  int64_t first = 0;
  int64_t count = 0;
};

inline int64_t element_of(const HeadsMemory& memory, int64_t batch, int64_t row, int64_t head) {
  return memory.first + attention::offset_in(memory.strides, batch, row, head);
}

inline HeadsMemory memory_of(HeadsLie lie, int64_t batch, int64_t rows, int64_t heads, int64_t dim, int which) {
  constexpr int64_t kGap = 8;  // 16 bytes of the smallest type
  const int64_t row = heads * dim;
  switch (lie_of(lie, which)) {
    case HeadsLie::kPacked: return {{3 * rows * row, 3 * row, dim}, which % 3 * row, 3 * batch * rows * row};
    case HeadsLie::kRowsFirst: return {{row, batch * row, dim}, 0, batch * rows * row};
    case HeadsLie::kHeadsFirst: return {{rows * row, dim, rows * dim}, 0, batch * rows * row};
    case HeadsLie::kSomeHeads: {
      const int64_t of_all = row + 2 * dim;
      return {{rows * of_all, of_all, dim}, dim, batch * rows * of_all};
    }
    case HeadsLie::kApart: {
      const int64_t of_head = rows * (dim + kGap) + kGap;
      const int64_t of_batch = heads * of_head + kGap;
      return {{of_batch, dim + kGap, of_head}, kGap, kGap + batch * of_batch};
    }
    default: return {{}, 0, batch * rows * row};
  }
}

// Lets own keys and values of a layout lie so, and returns the memory of both.
inline std::pair<HeadsMemory, HeadsMemory> lay_keys(HeadsLie lie, attention::Layout& layout) {
  const auto place = [&](int which, HeadStrides& own) {
    HeadsMemory memory = memory_of(lie, layout.batch, layout.rows, layout.kv_heads, layout.dim, which);
    own = memory.strides = attention::strides_of(
        {nullptr, DType::kFp32, layout.batch, layout.rows, layout.kv_heads, layout.dim, memory.strides});
    return memory;
  };
  return {place(1, layout.own_keys), place(2, layout.own_values)};
}

// A tensor in such memory.  Gaps, and some bytes behind, are all ones: NaNs, which nobody may read or write.
class StridedHeads {
 public:
  StridedHeads() = default;
  // Of poison.
  StridedHeads(HeadsLie lie, const HeadTensor& like, int which)
      : like_(like), at_(memory_of(lie, like.batch, like.rows, like.heads, like.dim, which)) {
    like_.data = nullptr;
    like_.strides = at_.strides;
    bytes.assign(at_.count * element() + kBehind, kPoison);
  }
  // With elements, which lie in `dense` without gaps.
  StridedHeads(HeadsLie lie, const HeadTensor& like, int which, const std::vector<std::byte>& dense)
      : StridedHeads(lie, like, which) {
    for_each_head([&](size_t at, size_t in_dense, size_t count) {
      std::memcpy(bytes.data() + at, dense.data() + in_dense, count);
    });
  }

  // Where the memory is at `data`.
  HeadTensor view(void* data) const {
    HeadTensor tensor = like_;
    tensor.data = static_cast<std::byte*>(data) + at_.first * element();
    return tensor;
  }
  HeadTensor view() { return view(bytes.data()); }

  std::vector<std::byte> dense() const {
    std::vector<std::byte> elements(like_.batch * like_.rows * like_.heads * like_.dim * element());
    for_each_head([&](size_t at, size_t in_dense, size_t count) {
      std::memcpy(elements.data() + in_dense, bytes.data() + at, count);
    });
    return elements;
  }
  bool gaps_are_untouched() const {
    StridedHeads rest = *this;
    for_each_head([&](size_t at, size_t, size_t count) { std::fill_n(rest.bytes.begin() + at, count, kPoison); });
    return rest.is_untouched();
  }
  bool is_untouched() const {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == kPoison; });
  }

  std::vector<std::byte> bytes;

 private:
  static constexpr size_t kBehind = 16;
  static constexpr std::byte kPoison{0xff};

  size_t element() const { return size_of(like_.dtype); }
  template <class Visit>
  void for_each_head(const Visit& visit) const {
    const HeadStrides strides = attention::strides_of(like_);
    const size_t count = like_.dim * element();
    size_t in_dense = 0;
    for (int64_t batch = 0; batch < like_.batch; ++batch) {
      for (int64_t row = 0; row < like_.rows; ++row) {
        for (int64_t head = 0; head < like_.heads; ++head, in_dense += count) {
          const int64_t at = at_.first + attention::offset_in(strides, batch, row, head);
          visit(static_cast<size_t>(at) * element(), in_dense, count);
        }
      }
    }
  }

  HeadTensor like_;
  HeadsMemory at_;
};

}  // namespace mk::test
