// SPDX-License-Identifier: MIT
// base/cuda_copy.cc — see cuda_copy.h.
#include "base/cuda_copy.h"

#include <vector>

#include "base/cuda_api.h"

namespace mk {
namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

void copy_by_engine(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  std::vector<CUdeviceptr> to, from;
  std::vector<size_t> bytes;
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    to.push_back(address(piece.to));
    from.push_back(address(piece.from));
    bytes.push_back(piece.bytes);
  }
  if (bytes.empty()) return;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  size_t first = 0;
  size_t failed = 0;
  check_cuda(cuda_driver().copy_batch(to.data(), from.data(), bytes.data(), bytes.size(), &attributes, &first, 1,
                                      &failed, stream),
             "copy on the device by its copy engines");
}

}  // namespace

void copy_on_device(CopyPath path, std::span<const CopyPiece> pieces, cudaStream_t stream) {
  if (path == CopyPath::kEngine && cuda_driver().copy_batch != nullptr) return copy_by_engine(pieces, stream);
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    check_cuda(cudaMemcpyAsync(piece.to, piece.from, piece.bytes, cudaMemcpyDeviceToDevice, stream),
               "copy on the device");
  }
}

}  // namespace mk
