// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_copies.h — the bulk copy engine: copies that take place some time after they are issued.
//
// A load into shared memory takes place at a time drawn by lot, then its barrier receives the bytes.  A store reads
// shared memory, and writes memory, as late as its thread waits for that, or, by lot, earlier.  So a wait that is
// missing shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace mk::soft_gpu {

// A tensor as TMA sees it; lies in a CUtensorMap.
struct SoftMap {
  static constexpr uint32_t kMark = 0x50f7a9;
  static constexpr int kMostRank = 5;

  uint32_t mark = kMark;
  uint8_t rank = 0;
  uint8_t element_bytes = 0;
  uint8_t swizzle_bytes = 0;  // 0: none
  uint8_t type = 0;           // a CUtensorMapDataType
  std::byte* data = nullptr;
  uint64_t strides[kMostRank] = {};  // in bytes
  uint32_t sizes[kMostRank] = {};
  uint16_t box[kMostRank] = {};

  uint32_t box_bytes() const;
};
static_assert(sizeof(SoftMap) <= 128);

// What a thread has stored since the last commit, and groups of what it stored before.
class BulkGroups {
 public:
  struct Store {
    std::function<std::vector<std::byte>()> read;  // shared memory
    std::function<void(const std::vector<std::byte>&)> write;
    std::vector<std::byte> bytes;
  };

  void add(Store store) { open_.push_back(std::move(store)); }
  void commit();
  void wait_read(unsigned pending);
  void wait_written(unsigned pending);
  // The block ends: what has not read shared memory is too late.
  void block_ends();

 private:
  struct Group {
    std::vector<Store> stores;
    bool has_read = false;
  };

  static void read(Group& group);
  void write_first();

  std::vector<Store> open_;
  std::deque<Group> groups_;  // that have not been written
};

enum class Reduce : uint8_t { kNone, kAdd };
enum class Number : uint8_t { kFp32, kBf16, kFp16, kBytes };

// The barrier receives the bytes; `blocks` of the cluster, one bit for each, get the same at the same places.
void load_bulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier);
void load_box(void* to, const void* map, const int32_t* at, int rank, uint64_t* barrier, uint16_t blocks);

void store_bulk(void* to, const void* from, uint32_t bytes, Reduce reduce, Number number);
void store_box(const void* map, const int32_t* at, int rank, const void* from, Reduce reduce);

}  // namespace mk::soft_gpu
