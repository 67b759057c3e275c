#include "tensor/memory.h"

#include <sys/mman.h>

#include <utility>

#include "base/error.h"

namespace ingot {

Memory::Memory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error("[memory] the system refuses {} MiB", bytes >> 20);
  data_ = static_cast<std::byte*>(p);
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

}  // namespace ingot
