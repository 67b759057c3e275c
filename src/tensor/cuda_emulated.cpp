#include "tensor/cuda_emulated.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/cuda_peer.h"
#include "tensor/device_place.h"

namespace ingot::cuda {
namespace {

using Works = std::vector<std::function<void()>>;

// What the emulated device may hold: INGOT_EMULATED_BYTES, so that tests can run out of it.
int64_t capacity() {
  const char* set = std::getenv("INGOT_EMULATED_BYTES");
  return set != nullptr ? std::atoll(set) : int64_t{8} << 30;
}

std::atomic<int64_t> g_used = 0;
thread_local Works* t_recording = nullptr;

// What this thread has given to its streams and the device has not done.
struct Late {
  std::deque<std::function<void()>> works;
  int64_t given = 0;

  void do_until(int64_t n) {
    while (given - static_cast<int64_t>(works.size()) < n) {
      const std::function<void()> work = std::move(works.front());
      works.pop_front();
      work();
    }
  }
};
thread_local Late t_late;

void do_all() { t_late.do_until(t_late.given); }

// All have the memory of the host, and one counter of what is used.
constexpr int kDevices = 4, kMultiprocessors = 4;

thread_local DevicePlace t_place;

}  // namespace

void emulated_work(StreamRef, std::function<void()> work) {
  if (t_recording != nullptr) {
    t_recording->push_back(std::move(work));
  } else if (std::getenv("INGOT_EMULATED_LATE") != nullptr) {
    t_late.works.push_back(std::move(work));
    ++t_late.given;
  } else {
    do_all();
    work();
  }
}

int device_count() { return kDevices; }
std::string why_no_device() { return ""; }
void use_device(const DevicePlace& place) {
  if (place.index < 0 || place.index >= kDevices)
    throw Error("[cuda] there is no device {}; there are {}", place.index, kDevices);
  if (place.parts > kMultiprocessors)
    throw Error("[cuda] device {} has {} multiprocessors, too few for {} parts", place.index, kMultiprocessors,
                place.parts);
  if (capacity() <= g_used) throw Error("[cuda] device {} cannot be used: out of memory", place.index);
  t_place = place;
}
void use_device(int index) { use_device(DevicePlace{.index = index}); }
int device_in_use() { return t_place.index; }
DeviceFacts device_facts() {
  return {.name = "emulated",
          .major = 9,
          .minor = 0,
          .multiprocessors = kMultiprocessors / t_place.parts,
          .total_bytes = capacity(),
          .free_bytes = capacity() - g_used,
          .shared_bytes = 227 << 10,
          .l2_bytes = 50 << 20};
}
int64_t free_device_bytes(int) { return capacity() - g_used; }
bool is_emulated() { return true; }

std::string device_bus_id(int) { return ""; }
// INGOT_EMULATED_PEERS=none: of no other.
bool reaches_peer(int from, int to) { return from == to || std::getenv("INGOT_EMULATED_PEERS") == nullptr; }
void reach_peer(int) {}
void copy_to_peer(void* to, int, const void* from, int, int64_t bytes, StreamRef stream) {
  copy_on_device(to, from, bytes, stream);
}

DeviceMemory::DeviceMemory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > capacity() - g_used) {
    throw Error("[cuda] {} MiB of the device's memory are wanted and {} MiB are free", bytes >> 20,
                (capacity() - g_used) >> 20);
  }
  g_used += bytes;
  void* p = nullptr;  // not a byte more, so that an address sanitizer sees what goes beyond it
  if (posix_memalign(&p, 256, static_cast<size_t>(bytes)) != 0) throw Error("[cuda] no {} MiB of memory", bytes >> 20);
  data_ = static_cast<std::byte*>(p);
  std::memset(data_, 0xff, static_cast<size_t>(bytes));  // NaN: nobody relies on what is there
}
DeviceMemory::~DeviceMemory() {
  do_all();
  if (data_ != nullptr) g_used -= bytes_;
  std::free(data_);
}

PinnedMemory::PinnedMemory(int64_t bytes)
    : data_(static_cast<std::byte*>(std::calloc(1, static_cast<size_t>(bytes)))), bytes_(bytes) {
  if (bytes > 0 && data_ == nullptr) throw Error("[cuda] no {} MiB of pinned memory", bytes >> 20);
}
PinnedMemory::~PinnedMemory() {
  do_all();
  std::free(data_);
}

Stream::Stream() = default;
Stream::~Stream() = default;
void Stream::synchronize() const { do_all(); }

void copy_to_device(void* to, const void* from, int64_t bytes, StreamRef stream) {
  emulated_work(stream, [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}
void copy_to_host(void* to, const void* from, int64_t bytes, StreamRef stream) {
  copy_to_device(to, from, bytes, stream);
}
void copy_on_device(void* to, const void* from, int64_t bytes, StreamRef stream) {
  emulated_work(stream, [=] { std::memmove(to, from, static_cast<size_t>(bytes)); });
}
void fill_bytes(void* to, int value, int64_t bytes, StreamRef stream) {
  emulated_work(stream, [=] { std::memset(to, value, static_cast<size_t>(bytes)); });
}

Event::Event() = default;
Event::~Event() = default;
// The handle counts what was given before it.
void Event::record(StreamRef) { handle_ = reinterpret_cast<void*>(t_late.given); }
void Event::synchronize() const { t_late.do_until(reinterpret_cast<intptr_t>(handle_)); }
bool Event::done() const {
  synchronize();
  return true;
}
void Event::hold(StreamRef) const {}
double Event::seconds_since(const Event&) const { return 0; }

RecordedGraph::RecordedGraph(StreamRef, const std::function<void()>& body) {
  auto works = std::make_unique<Works>();
  t_recording = works.get();
  body();
  t_recording = nullptr;
  handle_ = works.release();
}
RecordedGraph::~RecordedGraph() { delete static_cast<Works*>(handle_); }
void RecordedGraph::launch(StreamRef stream) const {
  for (const std::function<void()>& work : *static_cast<const Works*>(handle_)) emulated_work(stream, work);
}

}  // namespace ingot::cuda
