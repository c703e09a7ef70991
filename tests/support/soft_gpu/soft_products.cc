// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_products.cc — see soft_products.h.
#include "tests/support/soft_gpu/soft_products.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "target/sm90/fragment.h"
#include "tests/support/soft_gpu/soft_block.h"
#include "tests/support/soft_gpu/soft_numbers.h"

namespace mk::soft_gpu {
namespace {

constexpr int kDepth = 16;
constexpr uint32_t kInUse = 0x7fb0beef;  // a NaN: what sums hold while a product is under way

using sm90::Fragment;

int thread_of_group() { return static_cast<int>(Block::current().thread().number % kProductThreads); }

// Element (side, k) of an operand of 16 of k; side is m or n.
uint16_t element_at(const SharedOperand& of, int side, int k) {
  uint32_t at = of.address;
  if (of.rows == Rows::kOfK) {
    at += side / 8 * of.stride_bytes + side % 8 * 128 + 2 * k;
  } else {
    at += side / 64 * of.leading_bytes + k / 8 * of.stride_bytes + k % 8 * 128 + side % 64 * 2;
  }
  uint16_t bits;
  std::memcpy(&bits, Block::current().pointer_at(at ^ (at >> 7 & 7) << 4), sizeof(bits));
  return bits;
}

// c += a · b, with a as [64][16] and b as [16][columns].
__attribute__((target_clones("arch=haswell", "default"))) void multiply(const float* a, const float* b, int columns,
                                                                        float* c) {
  for (int row = 0; row < kProductRows; ++row) {
    float* const to = c + row * columns;
    for (int k = 0; k < kDepth; ++k) {
      const float factor = a[row * kDepth + k];
      const float* const from = b + k * columns;
      for (int col = 0; col < columns; ++col) to[col] += factor * from[col];
    }
  }
}

void keep(Sums& sums, int thread, float* own) {
  sums.of_thread[thread] = own;
  for (int i = 0; i < sums.columns / 2; ++i) {
    sums.values[Fragment::sum_row(thread, i) * sums.columns + Fragment::sum_col(thread, i)] = own[i];
    own[i] = std::bit_cast<float>(kInUse);
  }
}

void give_back(Sums& sums) {
  for (int thread = 0; thread < kProductThreads; ++thread) {
    float* const own = sums.of_thread[thread];
    for (int i = 0; i < sums.columns / 2; ++i) {
      require(std::bit_cast<uint32_t>(own[i]) == kInUse, "sums of a wgmma are written while it is under way");
      own[i] = sums.values[Fragment::sum_row(thread, i) * sums.columns + Fragment::sum_col(thread, i)];
    }
  }
}

}  // namespace

std::shared_ptr<Sums> WarpGroup::sums_of(const Product& product, float* sums, int thread) {
  for (auto it = under_way_.rbegin(); it != under_way_.rend(); ++it) {
    if (it->sums != nullptr && it->sums->of_thread[thread] == sums) {
      require(it->sums->columns == product.columns, "two wgmmas of different widths have the same sums");
      return it->sums;
    }
  }
  return nullptr;
}

void WarpGroup::issue(const Product& product, float* own, const uint32_t* a) {
  Block& block = Block::current();
  const int thread = thread_of_group();
  const uint64_t number = block.thread().products.issued++;
  require(number >= carried_out_ && number <= carried_out_ + under_way_.size(), "wgmmas of a warpgroup differ");
  const size_t index = number - carried_out_;
  const std::shared_ptr<Sums> known = sums_of(product, own, thread);
  if (index == under_way_.size()) {
    ProductUnderWay& first = under_way_.emplace_back();
    first.product = product;
    first.sums = known;
    if (known == nullptr) {
      first.sums = std::make_shared<Sums>();
      first.sums->columns = product.columns;
      first.sums->values.resize(kProductRows * product.columns);
    }
    ++first.sums->products;
  }
  ProductUnderWay& under_way = under_way_[index];
  require(under_way.product == product, "threads of a warpgroup issue different wgmmas");
  require(known == nullptr || known == under_way.sums, "threads of a warpgroup give a wgmma different sums");
  if (known == nullptr) keep(*under_way.sums, thread, own);
  if (a != nullptr) std::copy_n(a, 4, under_way.a[thread].begin());
  if (++under_way.threads == kProductThreads) {
    block.notify(this);
    if (block.draw(2)) carry_out_up_to(number + 1);
  }
}

void WarpGroup::commit() {
  ThreadProducts& own = Block::current().thread().products;
  own.groups.push_back(own.issued);
}

void WarpGroup::wait(unsigned pending) {
  Block& block = Block::current();
  ThreadProducts& own = block.thread().products;
  if (own.groups.size() <= pending) return;
  const uint64_t end = own.groups[own.groups.size() - 1 - pending];
  own.groups.erase(own.groups.begin(), own.groups.end() - pending);
  block.wait(this, "other threads of its warpgroup to issue a wgmma", [&] { return is_issued_up_to(end); });
  carry_out_up_to(end);
}

void WarpGroup::thread_ends() const {
  const ThreadProducts& own = Block::current().thread().products;
  require(own.issued <= carried_out_ || under_way_.empty(), "a thread ends before its wgmmas");
}

bool WarpGroup::is_issued_up_to(uint64_t end) const {
  if (end <= carried_out_) return true;
  return end - carried_out_ <= under_way_.size() && under_way_[end - carried_out_ - 1].threads == kProductThreads;
}

void WarpGroup::carry_out_up_to(uint64_t end) {
  while (carried_out_ < end) carry_out_first();
}

void WarpGroup::carry_out_first() {
  const ProductUnderWay& first = under_way_.front();
  const Product& product = first.product;
  const int columns = product.columns;
  float a[kProductRows * kDepth];
  if (product.has_a_in_registers) {
    for (int thread = 0; thread < kProductThreads; ++thread) {
      for (int word = 0; word < 4; ++word) {
        float* const to = a + Fragment::a_row(thread, word) * kDepth + Fragment::a_col(thread, word);
        to[0] = number_of(product.type, static_cast<uint16_t>(first.a[thread][word]));
        to[1] = number_of(product.type, static_cast<uint16_t>(first.a[thread][word] >> 16));
      }
    }
  } else {
    for (int row = 0; row < kProductRows; ++row) {
      for (int k = 0; k < kDepth; ++k) a[row * kDepth + k] = number_of(product.type, element_at(product.a, row, k));
    }
  }
  float b[kDepth * 256];
  for (int col = 0; col < columns; ++col) {
    for (int k = 0; k < kDepth; ++k) b[k * columns + col] = number_of(product.type, element_at(product.b, col, k));
  }
  Sums& sums = *first.sums;
  if (!product.accumulates) std::ranges::fill(sums.values, 0.0f);
  multiply(a, b, columns, sums.values.data());
  if (--sums.products == 0) give_back(sums);
  under_way_.pop_front();
  ++carried_out_;
}

}  // namespace mk::soft_gpu
