// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_driver.cc — see soft_driver.h.
#include "tests/support/soft_gpu/soft_driver.h"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/support/soft_gpu/soft_copies.h"
#include "tests/support/soft_gpu/soft_runtime.h"

namespace mk::soft_gpu {
namespace {

CUcontext primary() {
  static char context;
  return reinterpret_cast<CUcontext>(&context);
}
thread_local CUcontext current = nullptr;

CUresult current_context(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult set_current_context(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

int bytes_of(CUtensorMapDataType type) { return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2; }
int bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return 0;
  }
}

// Refuses what the driver's documentation says that it refuses.
CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data, const cuuint64_t* sizes,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  SoftMap soft;
  soft.rank = static_cast<uint8_t>(rank);
  soft.type = static_cast<uint8_t>(type);
  soft.element_bytes = static_cast<uint8_t>(bytes_of(type));
  soft.swizzle_bytes = static_cast<uint8_t>(bytes_of(swizzle));
  soft.data = static_cast<std::byte*>(data);
  bool is_valid = rank >= 1 && rank <= SoftMap::kMostRank && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (cuuint32_t i = 0; is_valid && i < rank; ++i) {
    soft.sizes[i] = static_cast<uint32_t>(sizes[i]);
    soft.box[i] = static_cast<uint16_t>(box[i]);
    soft.strides[i] = i == 0 ? soft.element_bytes : strides[i - 1];
    is_valid = sizes[i] >= 1 && sizes[i] <= uint64_t{1} << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
    is_valid = is_valid && (i == 0 || (soft.strides[i] % 16 == 0 && soft.strides[i] < uint64_t{1} << 40));
  }
  const unsigned row_bytes = unsigned{soft.box[0]} * soft.element_bytes;
  is_valid = is_valid && row_bytes % 16 == 0 && (soft.swizzle_bytes == 0 || row_bytes <= soft.swizzle_bytes);
  if (!is_valid) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &soft, sizeof(soft));
  return CUDA_SUCCESS;
}

// ---- words that streams write and wait for -------------------------------------------------------------------

std::atomic_ref<uint64_t> word_at(CUdeviceptr address) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address));
}

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  stream_of(stream).give([=] { word_at(address).store(value, std::memory_order_release); });
  return CUDA_SUCCESS;
}
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  stream_of(stream).give([=] {
    while (word_at(address).load(std::memory_order_acquire) < value) std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}
CUresult memory_ops(CUstream stream, unsigned count, CUstreamBatchMemOpParams* ops, unsigned) {
  for (unsigned i = 0; i < count; ++i) {
    if (ops[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_64) return CUDA_ERROR_NOT_SUPPORTED;
    write_value(stream, ops[i].writeValue.address, ops[i].writeValue.value64, 0);
  }
  return CUDA_SUCCESS;
}

struct Named {
  std::string_view name;
  void* function;
};
template <class Function>
Named named(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void use_context() {
  if (current == nullptr) current = primary();
}

void* driver_function(const char* name) {
  static const std::vector<Named> all = {
      named("cuTensorMapEncodeTiled", encode_tiled), named("cuCtxGetCurrent", current_context),
      named("cuCtxSetCurrent", set_current_context), named("cuStreamWriteValue64", write_value),
      named("cuStreamWaitValue64", wait_value),      named("cuStreamBatchMemOp", memory_ops)};
  for (const Named& one : all) {
    if (one.name == name) return one.function;
  }
  return nullptr;
}

}  // namespace mk::soft_gpu
