// SPDX-License-Identifier: MIT
// tests/cuda/gpu_tensor_map_test.cu — TMA moves boxes of tensors of one to five dimensions, with tails in each, and
// swizzles them as tensor_map.h says.
#include <gtest/gtest.h>

#include <numeric>
#include <tuple>
#include <vector>

#include "target/sm90/pipeline.cuh"
#include "target/sm90/tensor_map.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using test::DeviceArray;

constexpr int kMost = TensorView::kMostRank;

struct BoxCopy {
  CUtensorMap from;
  CUtensorMap to;
  int boxes[kMost];  // along each dimension
  int box[kMost];    // elements along each dimension
  int box_bytes;
  std::byte* dump;  // all boxes as they lay in shared memory
};

// Block i moves box i.
template <int kRank>
__global__ void copy_boxes(const __grid_constant__ BoxCopy p) {
  __shared__ uint64_t loaded;
  std::byte* const box = block_memory();
  int32_t at[kRank];
  int left = static_cast<int>(blockIdx.x);
#pragma unroll
  for (int i = 0; i < kRank; ++i) {
    at[i] = left % p.boxes[i] * p.box[i];
    left /= p.boxes[i];
  }
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&loaded, 1);
    barriers_before_use();
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &loaded,
                                   static_cast<uint32_t>(p.box_bytes));
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, &p.from, at, &loaded);
  }
  __syncthreads();
  wait_phase(&loaded, 0);
  for (int i = static_cast<int>(threadIdx.x); i < p.box_bytes; i += static_cast<int>(blockDim.x)) {
    p.dump[static_cast<int64_t>(blockIdx.x) * p.box_bytes + i] = box[i];
  }
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &p.to, at, box);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
  }
  __syncthreads();
}

struct MapCase {
  const char* name;
  int rank;
  std::array<int64_t, kMost> sizes;
  std::array<int64_t, kMost> strides;  // in elements, with gaps
  std::array<int, kMost> box;
  Swizzle swizzle = Swizzle::kByRow;
};

void PrintTo(const MapCase& at, std::ostream* out) { *out << at.name; }

// Every box has tails; strides are multiples of 8 elements.  Rows of 64 and 32 elements have 128 bytes in some type.
constexpr MapCase kCases[] = {
    {"Rank1", 1, {1000}, {1}, {64}},
    {"Rank1Plain", 1, {1003}, {1}, {200}},
    {"Rank2Of64", 2, {200, 37}, {1, 208}, {64, 16}, Swizzle::kNone},
    {"Rank2Of32", 2, {70, 37}, {1, 80}, {32, 16}},
    {"Rank3Of32", 3, {70, 19, 3}, {1, 72, 1440}, {32, 8, 2}},
    {"Rank3Of16", 3, {20, 19, 3}, {1, 24, 480}, {16, 16, 1}},
    {"Rank3Swizzle128", 3, {70, 9, 3}, {1, 72, 720}, {32, 8, 1}, Swizzle::k128},
    {"Rank4", 4, {40, 5, 3, 7}, {1, 40, 208, 640}, {32, 2, 2, 3}},
    {"Rank4Crossed", 4, {64, 8, 2, 5}, {1, 64, 2560, 512}, {32, 8, 2, 2}},  // two halves, interleaved by eights
    {"Rank5", 5, {24, 3, 4, 3, 5}, {1, 24, 72, 288, 1000}, {8, 2, 3, 2, 2}},
    {"Rank5Of32", 5, {33, 3, 2, 3, 2}, {1, 40, 120, 240, 720}, {32, 2, 1, 2, 1}},
};

class GpuTensorMap : public testing::TestWithParam<std::tuple<MapCase, DType>> {
 protected:
  const MapCase at = std::get<0>(GetParam());
  const DType dtype = std::get<1>(GetParam());
  const int bytes = static_cast<int>(size_of(dtype));

  TensorView view(void* data) const { return {data, dtype, at.rank, at.sizes, at.strides}; }
  int box_elements() const { return std::accumulate(at.box.begin(), at.box.begin() + at.rank, 1, std::multiplies<>()); }
  int boxes_along(int i) const { return static_cast<int>((at.sizes[i] + at.box[i] - 1) / at.box[i]); }
  int64_t memory() const {  // elements from the first to the last, and a gap
    int64_t last = 64;
    for (int i = 0; i < at.rank; ++i) last += (at.sizes[i] - 1) * at.strides[i];
    return last;
  }

  // Calls body(offset in the tensor in elements or -1 if outside, box, element of the box).
  template <class Body>
  void for_each_element(Body&& body) const {
    int boxes = 1;
    for (int i = 0; i < at.rank; ++i) boxes *= boxes_along(i);
    for (int box = 0; box < boxes; ++box) {
      for (int element = 0; element < box_elements(); ++element) {
        int64_t offset = 0;
        bool is_inside = true;
        for (int i = 0, b = box, e = element; i < at.rank; b /= boxes_along(i), e /= at.box[i], ++i) {
          const int64_t x = b % boxes_along(i) * at.box[i] + e % at.box[i];
          is_inside = is_inside && x < at.sizes[i];
          offset += x * at.strides[i];
        }
        body(is_inside ? offset : -1, box, element);
      }
    }
  }

  int swizzle_span() const {
    const int row = at.box[0] * bytes;
    switch (at.swizzle) {
      case Swizzle::kNone: return 0;
      case Swizzle::k32: return 32;
      case Swizzle::k64: return 64;
      case Swizzle::k128: return 128;
      case Swizzle::kByRow: return row == 128 || row == 64 || row == 32 ? row : 0;
    }
    return 0;
  }
  // Vectors of 16 bytes, of which a span has so many, trade places by the number of their row of 128 bytes.
  int swizzled(int byte) const {
    const int vectors = swizzle_span() / 16;
    return vectors == 0 ? byte : byte ^ (byte / 128 % vectors) * 16;
  }
};

INSTANTIATE_TEST_SUITE_P(All, GpuTensorMap,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(DType::kBf16, DType::kFp16, DType::kFp32)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + name_of(std::get<1>(info.param));
                         });

TEST_P(GpuTensorMap, BoxesAreReadAndWrittenWithTails) {
  MK_NEEDS_GPU();
  if (swizzle_span() > 0 && at.box[0] * bytes > swizzle_span()) GTEST_SKIP() << "no such swizzle of these rows";
  if (at.swizzle != Swizzle::kByRow && at.swizzle != Swizzle::kNone && at.box[0] * bytes != swizzle_span()) {
    GTEST_SKIP() << "rows shorter than the swizzle are not used";
  }
  std::vector<std::byte> source(memory() * bytes);
  for (int64_t i = 0; i < memory(); ++i) {  // a number in every element that is no NaN
    const uint32_t number = static_cast<uint32_t>(i % 30000 + 1);
    std::memcpy(&source[i * bytes], &number, bytes);
  }
  constexpr std::byte kPoison{0x77};
  constexpr size_t kVectorBytes = 16;  // what a row's end is written in
  int boxes = 1;
  for (int i = 0; i < at.rank; ++i) boxes *= boxes_along(i);
  const DeviceArray from(source);
  const DeviceArray to(std::vector<std::byte>(source.size(), kPoison));
  const DeviceArray dump(std::vector<std::byte>(static_cast<size_t>(boxes) * box_elements() * bytes, kPoison));

  const TensorBox box{at.box, at.swizzle};
  BoxCopy copy{.from = make_tensor_map(view(from.data()), box),
               .to = make_tensor_map(view(to.data()), box),
               .boxes = {},
               .box = {},
               .box_bytes = box_elements() * bytes,
               .dump = dump.data()};
  for (int i = 0; i < at.rank; ++i) {
    copy.boxes[i] = boxes_along(i);
    copy.box[i] = at.box[i];
  }
  const size_t shared = copy.box_bytes + 1024;
  switch (at.rank) {
    case 1: copy_boxes<1><<<boxes, 64, shared>>>(copy); break;
    case 2: copy_boxes<2><<<boxes, 64, shared>>>(copy); break;
    case 3: copy_boxes<3><<<boxes, 64, shared>>>(copy); break;
    case 4: copy_boxes<4><<<boxes, 64, shared>>>(copy); break;
    default: copy_boxes<5><<<boxes, 64, shared>>>(copy); break;
  }
  const std::vector<std::byte> boxes_seen = dump.read();
  const std::vector<std::byte> written = to.read();
  std::vector<bool> is_inside(source.size());
  std::vector<bool> may_change(source.size() / kVectorBytes + 1);  // by vector
  for_each_element([&](int64_t offset, int box_number, int element) {
    const int64_t seen = static_cast<int64_t>(box_number) * copy.box_bytes + swizzled(element * bytes);
    for (int byte = 0; byte < bytes; ++byte) {
      const std::byte value = offset < 0 ? std::byte{0} : source[offset * bytes + byte];
      ASSERT_EQ(boxes_seen[seen + byte], value) << "box " << box_number << ", element " << element;
      if (offset < 0) continue;
      is_inside[offset * bytes + byte] = true;
      may_change[(offset * bytes + byte) / kVectorBytes] = true;
    }
  });
  for (size_t byte = 0; byte < source.size(); ++byte) {
    if (is_inside[byte]) {
      ASSERT_EQ(written[byte], source[byte]) << "byte " << byte << " was not written";
    } else if (!may_change[byte / kVectorBytes]) {
      ASSERT_EQ(written[byte], kPoison) << "byte " << byte << " lies outside and was written";
    }
  }
}

}  // namespace
}  // namespace mk::sm90
