#include <cuda_runtime.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "tensor/cuda.h"
#include "tensor/cuda_parts.h"
#include "tensor/cuda_peer.h"
#include "tensor/device_place.h"

namespace ingot::cuda {
namespace {

// Nothing can be saved where the device or its driver fails.
void check(cudaError_t error, const char* what) {
  CHECK(error == cudaSuccess, "{}: {}", what, cudaGetErrorString(error));
}

// The least compute capability that has machine code in this program.
constexpr int kLeastMajor = 8;

thread_local DevicePlace t_place;

cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count == 0 ? "the driver sees no device" : "";
}

void use_device(const DevicePlace& place) {
  const int index = place.index, count = device_count();
  if (count == 0) throw Error("[cuda] no GPU can be used: {}", why_no_device());
  if (index < 0 || index >= count) throw Error("[cuda] there is no device {}; there are {}", index, count);
  // The first call makes a context, which takes some hundred MiB of the device.
  if (const cudaError_t error = cudaSetDevice(index); error != cudaSuccess) {
    (void)cudaGetLastError();
    const char* hint = error == cudaErrorMemoryAllocation ? ": other programs have all of its memory" : "";
    throw Error("[cuda] device {} cannot be used: {}{}", index, cudaGetErrorString(error), hint);
  }
  const DeviceFacts facts = device_facts();
  if (facts.major < kLeastMajor) {
    throw Error("[cuda] {} has compute capability {}.{}; the least that this program has kernels for is {}.0",
                facts.name, facts.major, facts.minor, kLeastMajor);
  }
  if (place.parts > 1) (void)device_part(place);
  t_place = place;
}

void use_device(int index) { use_device(DevicePlace{.index = index}); }
int device_in_use() { return t_place.index; }

DeviceFacts device_facts() {
  int index = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const bool is_part = t_place.parts > 1 && t_place.index == index;
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = is_part ? device_part(t_place).multiprocessors : properties.multiProcessorCount,
          .total_bytes = static_cast<int64_t>(total),
          .free_bytes = static_cast<int64_t>(free),
          .shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
          .l2_bytes = properties.l2CacheSize};
}

int64_t free_device_bytes(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  if (t_place.index != index) t_place = {.index = index};
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

bool is_emulated() { return false; }

std::string device_bus_id(int index) {
  char text[32] = {};
  check(cudaDeviceGetPCIBusId(text, sizeof(text), index), "cudaDeviceGetPCIBusId");
  std::string id = text;
  std::ranges::transform(id, id.begin(), [](char c) { return c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c; });
  return id;
}

bool reaches_peer(int from, int to) {
  int can = 0;
  return from == to || (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can == 1);
}

void reach_peer(int to) {
  int own = 0;
  check(cudaGetDevice(&own), "cudaGetDevice");
  if (own == to) return;
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  if (error == cudaErrorPeerAccessAlreadyEnabled) return;
  throw Error("[cuda] device {} cannot reach the memory of device {}: {}", own, to, cudaGetErrorString(error));
}

void copy_to_peer(void* to, int to_device, const void* from, int from_device, int64_t bytes, StreamRef stream) {
  check(cudaMemcpyPeerAsync(to, to_device, from, from_device, static_cast<size_t>(bytes), stream), "a copy to a peer");
}

DeviceMemory::DeviceMemory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = nullptr;
  if (cudaMalloc(&p, static_cast<size_t>(bytes)) != cudaSuccess) {
    (void)cudaGetLastError();
    throw Error("[cuda] {} MiB of the device's memory are wanted and {} MiB are free", bytes >> 20,
                device_facts().free_bytes >> 20);
  }
  data_ = static_cast<std::byte*>(p);
}
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) (void)cudaFree(data_);
}

PinnedMemory::PinnedMemory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = nullptr;
  if (cudaMallocHost(&p, static_cast<size_t>(bytes)) != cudaSuccess) {
    (void)cudaGetLastError();
    throw Error("[cuda] the system refuses {} MiB of pinned memory", bytes >> 20);
  }
  data_ = static_cast<std::byte*>(p);
}
PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

Stream::Stream() {
  if (t_place.parts > 1) {
    ref_ = stream_of_part(t_place);
  } else {
    check(cudaStreamCreateWithFlags(&ref_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
}
Stream::~Stream() { (void)cudaStreamDestroy(ref_); }
void Stream::synchronize() const { check(cudaStreamSynchronize(ref_), "a stream of work"); }

void copy_to_device(void* to, const void* from, int64_t bytes, StreamRef stream) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream), "a copy to the device");
}
void copy_to_host(void* to, const void* from, int64_t bytes, StreamRef stream) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream), "a copy to the host");
}
void copy_on_device(void* to, const void* from, int64_t bytes, StreamRef stream) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream), "a copy");
}
void fill_bytes(void* to, int value, int64_t bytes, StreamRef stream) {
  check(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream), "a fill");
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  handle_ = event;
}
Event::~Event() {
  if (handle_ != nullptr) (void)cudaEventDestroy(event_of(handle_));
}
void Event::record(StreamRef stream) { check(cudaEventRecord(event_of(handle_), stream), "cudaEventRecord"); }
void Event::synchronize() const { check(cudaEventSynchronize(event_of(handle_)), "the work before an event"); }
bool Event::done() const {
  const cudaError_t error = cudaEventQuery(event_of(handle_));
  if (error != cudaErrorNotReady) check(error, "the work before an event");
  return error == cudaSuccess;
}
void Event::hold(StreamRef stream) const {
  check(cudaStreamWaitEvent(stream, event_of(handle_), 0), "cudaStreamWaitEvent");
}
double Event::seconds_since(const Event& earlier) const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, event_of(earlier.handle_), event_of(handle_)), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(ms);
}

RecordedGraph::RecordedGraph(StreamRef stream, const std::function<void()>& body) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "the begin of a recording");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    // Else the stream would go on recording, and the next wait for it would be an error.
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "the end of a recording");
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaGraphUpload(ready, stream), "cudaGraphUpload");
  handle_ = ready;
}
RecordedGraph::~RecordedGraph() {
  if (handle_ != nullptr) (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
}
void RecordedGraph::launch(StreamRef stream) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), stream), "a recorded graph");
}

}  // namespace ingot::cuda
