// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_products.h — wgmma: products of a warpgroup that are carried out some time before they
// are waited for.
//
// Threads hand in their sums; until the product has been waited for there are numbers in them that nobody may use, and
// nobody may write to them.  Operands in shared memory are read when the product is carried out: at once, or, by lot,
// not before somebody waits for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace mk::soft_gpu {

enum class Half16 : uint8_t { kBf16, kFp16 };

// How an operand lies: rows of k, or of m or n.
enum class Rows : uint8_t { kOfK, kAcross };

// In shared memory, 128-byte swizzled; strides in bytes.
struct SharedOperand {
  uint32_t address = 0;
  uint32_t leading_bytes = 0;
  uint32_t stride_bytes = 0;
  Rows rows = Rows::kOfK;

  bool operator==(const SharedOperand&) const = default;
};

struct Product {
  int columns = 0;
  Half16 type = Half16::kBf16;
  bool has_a_in_registers = false;
  SharedOperand a;
  SharedOperand b;
  bool accumulates = false;

  bool operator==(const Product&) const = default;
};

constexpr int kProductRows = 64;
constexpr int kProductThreads = 128;

// Sums of a warpgroup while products of theirs are under way.
struct Sums {
  int columns = 0;
  int products = 0;                                 // under way
  std::vector<float> values;                        // row by row
  std::array<float*, kProductThreads> of_thread{};  // null: has not handed them in yet
};

struct ProductUnderWay {
  Product product;
  std::shared_ptr<Sums> sums;
  std::array<std::array<uint32_t, 4>, kProductThreads> a{};
  int threads = 0;  // that have issued it
};

struct ThreadProducts {
  uint64_t issued = 0;
  std::vector<uint64_t> groups;  // how many were issued before each commit
};

class WarpGroup {
 public:
  void issue(const Product& product, float* sums, const uint32_t* a);
  void commit();
  // Until at most `pending` committed groups are not carried out.
  void wait(unsigned pending);
  // A thread ends: nothing of its may be under way.
  void thread_ends() const;

 private:
  bool is_issued_up_to(uint64_t end) const;
  void carry_out_up_to(uint64_t end);
  void carry_out_first();
  std::shared_ptr<Sums> sums_of(const Product& product, float* sums, int thread);

  std::deque<ProductUnderWay> under_way_;
  uint64_t carried_out_ = 0;
};

}  // namespace mk::soft_gpu
