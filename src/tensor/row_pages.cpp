#include "tensor/row_pages.h"

#include <unistd.h>

#include "tensor/memory.h"

namespace ingot {

void want_pages_of_rows(const std::byte* data, int64_t stride, int64_t rows, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto first_page = [&](int64_t at) { return (address + static_cast<uintptr_t>(at)) / page; };
  int64_t begin = 0, end = 0;  // of the rows that are asked for at once
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * stride;
    if (row > 0 && first_page(at) > first_page(end - 1) + 1) {
      want_pages(data + begin, end - begin);
      begin = at;
    }
    end = at + bytes;
  }
  if (rows > 0) want_pages(data + begin, end - begin);
}

}  // namespace ingot
