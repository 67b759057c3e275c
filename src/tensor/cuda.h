// A CUDA device's memory, streams and graphs, without a header of CUDA's. One of three files is linked behind it:
// cuda_runtime.cpp (the runtime library), cuda_emulated.cpp (the host plays the device, for tests where there is none),
// or nothing at all in a build without CUDA, where only engine/model/cuda.h has a stub.
//
// Every call works on the device that use_device() named last in this thread; device 0 before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

struct CUstream_st;

namespace ingot::cuda {

using StreamRef = CUstream_st*;

struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t total_bytes = 0, free_bytes = 0;
  int64_t shared_bytes = 0;  // of a multiprocessor that one block may have
  int64_t l2_bytes = 0;
};

// 0 where there is no driver or no device: why_no_device() says which.
int device_count();
std::string why_no_device();
// Throws Error where there is no such device, or none of our kernels runs on it.
void use_device(int index);
// Of the device in use, its free memory as of now.
DeviceFacts device_facts();
// What is free on a device now. Any thread may ask, and uses that device from then on. REQUIRES: use_device() took it.
int64_t free_device_bytes(int index);
// The host plays the device.
bool is_emulated();

// Memory of the device. Throws Error, with how much is missing, where there is not enough.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Memory of the host that the device reads and writes at full speed while other work goes on.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Work in order. Calls below return before their work is done; memory of the host that is not pinned is copied at once.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamRef ref() const { return ref_; }
  // Until all of its work is done. A lost device aborts: nothing can be saved then.
  void synchronize() const;

 private:
  StreamRef ref_ = nullptr;
};

void copy_to_device(void* to, const void* from, int64_t bytes, StreamRef stream);
void copy_to_host(void* to, const void* from, int64_t bytes, StreamRef stream);
void copy_on_device(void* to, const void* from, int64_t bytes, StreamRef stream);
void fill_bytes(void* to, int value, int64_t bytes, StreamRef stream);

// A moment in a stream's work.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  void record(StreamRef stream);
  void synchronize() const;
  bool done() const;
  // Work given to `stream` from now on comes after this.
  void hold(StreamRef stream) const;
  // REQUIRES: both have happened.
  double seconds_since(const Event& earlier) const;

 private:
  void* handle_ = nullptr;
};

// Work of a stream, recorded once and given again as a whole. Nothing in it may wait for the host or allocate.
class RecordedGraph {
 public:
  RecordedGraph() = default;
  // Records what `body` gives to the stream.
  RecordedGraph(StreamRef stream, const std::function<void()>& body);
  ~RecordedGraph();
  RecordedGraph(RecordedGraph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  RecordedGraph& operator=(RecordedGraph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  void launch(StreamRef stream) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace ingot::cuda
