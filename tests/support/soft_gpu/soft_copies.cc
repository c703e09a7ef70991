// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_copies.cc — see soft_copies.h.
#include "tests/support/soft_gpu/soft_copies.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/half.h"
#include "tests/support/soft_gpu/soft_barrier.h"
#include "tests/support/soft_gpu/soft_block.h"

namespace mk::soft_gpu {
namespace {

bool is_aligned(const void* pointer, size_t to) { return reinterpret_cast<uintptr_t>(pointer) % to == 0; }

// Additions of different blocks to the same element are one after the other.
std::mutex adding;

template <class T>
void add_elements(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T sum;
    T addend;
    std::memcpy(&sum, to + at, sizeof(T));
    std::memcpy(&addend, from + at, sizeof(T));
    sum = from_float<T>(to_float(sum) + to_float(addend));
    std::memcpy(to + at, &sum, sizeof(T));
  }
}

void put(std::byte* to, const std::byte* from, size_t bytes, Reduce reduce, Number number) {
  if (reduce == Reduce::kNone) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::lock_guard lock(adding);
  switch (number) {
    case Number::kFp32: return add_elements<float>(to, from, bytes);
    case Number::kBf16: return add_elements<Bf16>(to, from, bytes);
    case Number::kFp16: return add_elements<Fp16>(to, from, bytes);
    case Number::kBytes: fail("bytes cannot be added");
  }
}

Number number_of(const SoftMap& map) {
  if (map.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32) return Number::kFp32;
  return map.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? Number::kBf16 : Number::kFp16;
}

// ---- boxes -------------------------------------------------------------------------------------------

const SoftMap& map_of(const void* map, int rank) {
  const auto& soft = *static_cast<const SoftMap*>(map);
  require(soft.mark == SoftMap::kMark, "what TMA is given is no tensor map");
  require(soft.rank == rank, "a tensor map has another rank than the coordinates");
  return soft;
}

// Where byte `at` of a box lies that begins at `box`.
size_t swizzled(const SoftMap& map, const std::byte* box, size_t at) {
  if (map.swizzle_bytes == 0) return at;
  const auto begin = reinterpret_cast<uintptr_t>(box);
  const uintptr_t address = begin + at;
  const uintptr_t mask = map.swizzle_bytes / 16 - 1;
  return (address ^ (address >> 7 & mask) << 4) - begin;
}

// Calls row(offset in the box, place in the tensor or null, bytes of it that the tensor has) for each row of a box.
template <class Row>
void for_each_row(const SoftMap& map, const std::array<int32_t, SoftMap::kMostRank>& at, const Row& row) {
  const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
  const int64_t behind = int64_t{map.sizes[0]} - at[0];
  const size_t has = at[0] < 0 ? 0 : std::min<int64_t>(row_bytes, std::max<int64_t>(0, behind * map.element_bytes));
  require(at[0] >= 0, "a box begins before the first column: not supported");
  size_t rows = 1;
  for (int i = 1; i < map.rank; ++i) rows *= map.box[i];
  for (size_t number = 0; number < rows; ++number) {
    std::byte* place = map.data + int64_t{at[0]} * map.element_bytes;
    bool is_inside = true;
    size_t left = number;
    for (int i = 1; i < map.rank; ++i) {
      const int64_t index = at[i] + static_cast<int64_t>(left % map.box[i]);
      left /= map.box[i];
      is_inside = is_inside && index >= 0 && index < map.sizes[i];
      place += index * static_cast<int64_t>(map.strides[i]);
    }
    row(number * row_bytes, is_inside ? place : nullptr, is_inside ? has : 0);
  }
}

std::array<int32_t, SoftMap::kMostRank> coordinates(const int32_t* at, int rank) {
  std::array<int32_t, SoftMap::kMostRank> all{};
  std::copy_n(at, rank, all.begin());
  return all;
}

void fill_box(const SoftMap& map, const std::array<int32_t, SoftMap::kMostRank>& at, std::byte* to) {
  const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
  std::vector<std::byte> row(row_bytes);
  for_each_row(map, at, [&](size_t offset, const std::byte* place, size_t bytes) {
    std::ranges::fill(row, std::byte{0});
    if (bytes > 0) std::memcpy(row.data(), place, bytes);
    for (size_t i = 0; i < row_bytes; i += 16) std::memcpy(to + swizzled(map, to, offset + i), row.data() + i, 16);
  });
}

// As it lies, row by row, without swizzle.
std::vector<std::byte> read_box(const SoftMap& map, const std::byte* from) {
  std::vector<std::byte> bytes(map.box_bytes());
  for (size_t i = 0; i < bytes.size(); i += 16) std::memcpy(bytes.data() + i, from + swizzled(map, from, i), 16);
  return bytes;
}

// TMA writes whole vectors.
void write_box(const SoftMap& map, const std::array<int32_t, SoftMap::kMostRank>& at, const std::byte* from,
               Reduce reduce) {
  for_each_row(map, at, [&](size_t offset, std::byte* place, size_t bytes) {
    if (bytes > 0) put(place, from + offset, (bytes + 15) / 16 * 16, reduce, number_of(map));
  });
}

}  // namespace

uint32_t SoftMap::box_bytes() const {
  uint32_t bytes = element_bytes;
  for (int i = 0; i < rank; ++i) bytes *= box[i];
  return bytes;
}

// ---- groups --------------------------------------------------------------------------------------------

void BulkGroups::commit() {
  Block& block = Block::current();
  groups_.push_back({std::exchange(open_, {})});
  if (block.draw(2)) read(groups_.back());
  if (block.draw(3)) {
    while (!groups_.empty()) write_first();
  }
}

void BulkGroups::read(Group& group) {
  if (std::exchange(group.has_read, true)) return;
  for (Store& store : group.stores) store.bytes = store.read();
}

void BulkGroups::write_first() {
  Group& group = groups_.front();
  read(group);
  for (const Store& store : group.stores) store.write(store.bytes);
  groups_.pop_front();
}

void BulkGroups::wait_read(unsigned pending) {
  for (size_t i = 0; i + pending < groups_.size(); ++i) read(groups_[i]);
}

void BulkGroups::wait_written(unsigned pending) {
  while (groups_.size() > pending) write_first();
}

void BulkGroups::block_ends() {
  for (const Group& group : groups_) require(group.has_read, "a block ends while stores read its shared memory");
  require(open_.empty(), "a block ends with stores that nobody has committed");
  wait_written(0);
}

// ---- copies --------------------------------------------------------------------------------------------

void load_bulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  require(is_aligned(to, 16) && is_aligned(from, 16) && bytes % 16 == 0, "a bulk load is not of 16-byte vectors");
  Block::current().later([=] {
    std::memcpy(to, from, bytes);
    Barrier(barrier).receive(bytes);
  });
}

void load_box(void* to, const void* map, const int32_t* at, int rank, uint64_t* barrier, uint16_t blocks) {
  const SoftMap soft = map_of(map, rank);
  require(is_aligned(to, 128), "a box is loaded to where TMA cannot write it: addresses are multiples of 128");
  const auto from = coordinates(at, rank);
  Block& block = Block::current();
  for (unsigned peer = 0; peer < block.launch().cluster; ++peer) {
    if (blocks != 0 ? (blocks >> peer & 1) == 0 : peer != block.rank_in_cluster()) continue;
    std::byte* const there = block.in_peer(to, peer);
    auto* const signal = reinterpret_cast<uint64_t*>(block.in_peer(barrier, peer));
    block.later([=] {
      fill_box(soft, from, there);
      Barrier(signal).receive(soft.box_bytes());
    });
  }
}

void store_bulk(void* to, const void* from, uint32_t bytes, Reduce reduce, Number number) {
  require(is_aligned(to, 16) && is_aligned(from, 16) && bytes % 16 == 0, "a bulk store is not of 16-byte vectors");
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  Block::current().thread().groups.add(
      {.read = [=] { return std::vector<std::byte>(source, source + bytes); },
       .write = [=](const std::vector<std::byte>& read) { put(target, read.data(), bytes, reduce, number); },
       .bytes = {}});
}

void store_box(const void* map, const int32_t* at, int rank, const void* from, Reduce reduce) {
  const SoftMap soft = map_of(map, rank);
  require(is_aligned(from, 128), "a box is stored from where TMA cannot read it: addresses are multiples of 128");
  const auto to = coordinates(at, rank);
  const auto* const source = static_cast<const std::byte*>(from);
  Block::current().thread().groups.add(
      {.read = [=] { return read_box(soft, source); },
       .write = [=](const std::vector<std::byte>& read) { write_box(soft, to, read.data(), reduce); },
       .bytes = {}});
}

}  // namespace mk::soft_gpu
