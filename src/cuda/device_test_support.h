// What the tests of kernels share: a device (real or emulated) with memory that a test fills and reads back.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "cuda/device_ctx.h"

// At the begin of a test: skips it where there is no device.
#define INGOT_NEEDS_DEVICE() \
  if (::ingot::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device: " << ::ingot::cuda::why_no_device()

namespace ingot::test {

class TestDevice {
 public:
  struct Options {
    bool batch_invariant = false;
    bool overlap = true;
    int arch = 0;             // 0: the device's own; an older one's kernels run too
    int multiprocessors = 0;  // 0: the device's own
  };

  TestDevice() : TestDevice(Options{}) {}
  explicit TestDevice(const Options& options) : options_(options), tickets_(cuda::kTickets * 4) {
    cuda::use_device(0);
    handed_ = cuda::DeviceMemory(cuda::kHandedRoom * ctx().multiprocessors);
    cuda::fill_bytes(handed_.data(), 0xff, handed_.bytes(), stream_.ref());
    cuda::fill_bytes(tickets_.data(), 0, tickets_.bytes(), stream_.ref());
  }

  // Without scratch.
  cuda::DeviceCtx ctx() const {
    const cuda::DeviceFacts facts = cuda::device_facts();
    return {.stream = stream_.ref(),
            .multiprocessors = options_.multiprocessors != 0 ? options_.multiprocessors : facts.multiprocessors,
            .arch = options_.arch != 0 ? options_.arch : facts.major * 10 + facts.minor,
            .tickets = reinterpret_cast<uint32_t*>(tickets_.data()),
            .handed = reinterpret_cast<float*>(handed_.data()),
            .overlap = options_.overlap,
            .batch_invariant = options_.batch_invariant};
  }
  cuda::StreamRef stream() const { return stream_.ref(); }
  void synchronize() const { stream_.synchronize(); }

  // Where `bytes` of the host are on the device: copied when they are first asked for.
  std::byte* upload(const void* from, int64_t bytes) {
    const auto known = places_.find(from);
    if (known != places_.end() && known->second.bytes() >= bytes) return known->second.data();
    std::byte* place = place_of(from, bytes);
    cuda::copy_to_device(place, from, bytes, stream_.ref());
    stream_.synchronize();
    return place;
  }
  // The same memory for the same address of the host, of so many bytes or more.
  std::byte* place_of(const void* host, int64_t bytes) {
    cuda::DeviceMemory& memory = places_[host];
    if (memory.bytes() < bytes) memory = cuda::DeviceMemory(bytes);
    return memory.data();
  }
  // Memory of the device alone, all bytes 0xff.
  std::byte* allocate(int64_t bytes) {
    extra_.emplace_back(bytes);
    cuda::fill_bytes(extra_.back().data(), 0xff, bytes, stream_.ref());
    return extra_.back().data();
  }
  void download(void* to, const std::byte* from, int64_t bytes) {
    cuda::copy_to_host(to, from, bytes, stream_.ref());
    stream_.synchronize();
  }

  void expect_nothing_left() {
    std::vector<uint32_t> all(cuda::kTickets);
    download(all.data(), tickets_.data(), tickets_.bytes());
    for (const uint32_t ticket : all) ASSERT_EQ(ticket, 0u) << "a kernel left a ticket behind";
    all.resize(static_cast<size_t>(handed_.bytes() / 4));
    download(all.data(), handed_.data(), handed_.bytes());
    for (const uint32_t word : all) ASSERT_EQ(word, cuda::kNothing) << "a kernel left what it handed over";
  }

 private:
  const Options options_;
  cuda::Stream stream_;
  cuda::DeviceMemory tickets_, handed_;
  std::map<const void*, cuda::DeviceMemory> places_;
  std::vector<cuda::DeviceMemory> extra_;
};

}  // namespace ingot::test
