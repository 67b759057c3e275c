#include "tensor/memory.h"

#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/exact_reads.h"

namespace ingot {
namespace {

uintptr_t page_bytes() {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return page;
}

void want_in_steps(const std::byte* data, int64_t bytes, uintptr_t step) {
  const auto end = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes);
  for (auto at = reinterpret_cast<uintptr_t>(data) / page_bytes() * page_bytes(); at < end; at += step) {
    (void)madvise(reinterpret_cast<void*>(at), std::min(step, end - at), MADV_WILLNEED);
  }
}

}  // namespace

Memory::Memory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error("[memory] the system refuses {} MiB", bytes >> 20);
  data_ = static_cast<std::byte*>(p);
}

Memory Memory::huge(int64_t bytes) {
  constexpr int64_t kHuge = int64_t{2} << 20;
  Memory memory(bytes + kHuge);
  const auto address = reinterpret_cast<uintptr_t>(memory.data_);
  const auto skip = static_cast<int64_t>((kHuge - address % kHuge) % kHuge);
  // Both ends go back, so that the memory begins at a huge page.
  if (skip > 0) munmap(memory.data_, static_cast<size_t>(skip));
  if (skip < kHuge) munmap(memory.data_ + skip + bytes, static_cast<size_t>(kHuge - skip));
  memory.data_ += skip;
  memory.bytes_ = bytes;
  // Only advice: where it is refused, small pages serve as well, 2 to 9 % slower.
  (void)madvise(memory.data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return memory;
}

Memory::~Memory() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void want_pages(const std::byte* data, int64_t bytes) {
  // One call reads as much as one request to the disk holds: usually this or more. Q8_0 of 1.2 GB that no cache had,
  // two threads, medians of four: 0.43 s, in steps of 128 KiB 0.7 s, without any 0.85 s.
  constexpr uintptr_t kStep = 1 << 20;
  want_in_steps(data, bytes, kStep);
  // Where it is less, what is left comes when it is touched, with what lies around it; or else page by page: so it is
  // asked for again in requests that every file system takes. Pages that are there or on their way are passed over.
  constexpr uintptr_t kLeast = 128 << 10;
  if (reads_exactly()) want_in_steps(data, bytes, kLeast);
}

void give_back_pages(const std::byte* data, int64_t bytes) {
  const uintptr_t page = page_bytes();
  const auto begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / page * page;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ingot
