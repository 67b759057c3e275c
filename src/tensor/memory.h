// Zeroed memory of the CPU that costs nothing until it is touched: arenas and the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot {

class Memory {
 public:
  Memory() = default;
  // Page-aligned. Throws Error where the system refuses the size.
  explicit Memory(int64_t bytes);
  // The same, aligned to huge pages and in such where the system gives them: for what is read again and again.
  static Memory huge(int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Asks for the pages of [data, data + bytes) of a mapped file to be read ahead, and does not wait for them. Only
// advice.
void want_pages(const std::byte* data, int64_t bytes);

// Drops the whole pages in [data, data + bytes) of a mapped file from this process; they come back when they are read.
// Only advice.
void give_back_pages(const std::byte* data, int64_t bytes);

// What the C library keeps of freed memory goes back to the system.
void trim_heap();

}  // namespace ingot
