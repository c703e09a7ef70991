// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_runtime.cc — the functions of CUDA's runtime that this project calls, for one device.
#include "tests/support/soft_gpu/soft_runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/soft_gpu/gpu_settings.h"
#include "tests/support/soft_gpu/soft_driver.h"
#include "tests/support/soft_gpu/soft_memory.h"

namespace mk::soft_gpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

cudaError_t done(cudaError_t result = cudaSuccess) {
  use_context();
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error = result;
  return result;
}

// What a captured stream of the process forbids.
bool is_forbidden() { return capture_mode != cudaStreamCaptureModeRelaxed && is_capturing(); }

Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

// A graph, captured or to be launched.
using SharedGraph = std::shared_ptr<const Graph>;

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  stream_of(stream).give([=] { std::memcpy(to, from, bytes); });
  return done();
}

}  // namespace

// Threads of streams may be at work when main has ended.
Stream& stream_of(void* stream) {
  static Stream* const by_default = new Stream;
  if (stream == nullptr || stream == cudaStreamLegacy) return *by_default;
  return *static_cast<Stream*>(stream);
}

}  // namespace mk::soft_gpu

using namespace mk::soft_gpu;  // NOLINT: the functions below are CUDA's

extern "C" {

// ---- devices -----------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return done();
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return done();
}
cudaError_t cudaSetDevice(int device) { return done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "software GPU");
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = settings().sms;
  properties->l2CacheSize = 60 << 20;
  properties->uuid.bytes[0] = 's';
  return done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
// Writes of NICs are seen in their order.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrGPUDirectRDMAWritesOrdering ? cudaGPUDirectRDMAWritesOrderingAllDevices : 0;
  return done();
}
cudaError_t cudaDeviceSynchronize() {
  if (is_forbidden()) return done(cudaErrorStreamCaptureUnsupported);
  synchronize_all();
  return done();
}
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget, cudaFlushGPUDirectRDMAWritesScope) {
  return done();
}

// ---- errors ------------------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorStreamCaptureUnsupported) return "operation not permitted when stream is capturing";
  return error == cudaSuccess ? "no error" : "an error of the software GPU";
}

// ---- memory ------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (is_forbidden()) return done(cudaErrorStreamCaptureUnsupported);
  *memory = allocate_memory(bytes);
  return done(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return done();
  synchronize_all();
  return done(free_memory(memory) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return done(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return done();
}
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return done(); }
cudaError_t cudaHostUnregister(void*) { return done(); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (is_forbidden()) return done(cudaErrorStreamCaptureUnsupported);
  copy(to, from, bytes, cudaStreamLegacy);
  stream_of(cudaStreamLegacy).synchronize();
  return done();
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  stream_of(stream).give([=] { std::memset(memory, value, bytes); });
  return done();
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, cudaStreamLegacy);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const std::string place = place_of(memory);
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, place.data(), std::min(place.size(), sizeof(*handle) - 1));
  return done(place.empty() ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  *memory = open_place(reinterpret_cast<const char*>(&handle));
  return done(*memory == nullptr ? cudaErrorMapBufferObjectFailed : cudaSuccess);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return done(close_place(memory) ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- streams and events --------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream);
  return done();
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<Stream*>(stream);
  return done();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream_of(stream).synchronize();
  return done();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return done(stream_of(stream).is_idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream_of(stream).wait_for(event_of(event));
  return done();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream_of(stream).give([=] { function(data); });
  return done();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return done();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  synchronize(event_of(event));  // streams may still be about to reach it
  delete reinterpret_cast<Event*>(event);
  return done();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream_of(stream).record(event_of(event));
  return done();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return done(is_reached(event_of(event)) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  synchronize(event_of(event));
  return done();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(event_of(end).at - event_of(begin).at).count();
  return done();
}

// ---- graphs --------------------------------------------------------------------------------------------------

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return done();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream_of(stream).is_captured() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return done();
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream_of(stream).begin_capture();
  return done();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(new SharedGraph(stream_of(stream).end_capture()));
  return done();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  *runnable = reinterpret_cast<cudaGraphExec_t>(new SharedGraph(*reinterpret_cast<SharedGraph*>(graph)));
  return done();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
  stream_of(stream).replay(*reinterpret_cast<SharedGraph*>(runnable));
  return done();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<SharedGraph*>(graph);
  return done();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
  delete reinterpret_cast<SharedGraph*>(runnable);
  return done();
}

// ---- kernels and the driver ------------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return done(); }
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  *function = static_cast<cudaFunction_t>(const_cast<void*>(symbol));
  return done();
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = driver_function(name);
  *status = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return done();
}

}  // extern "C"
