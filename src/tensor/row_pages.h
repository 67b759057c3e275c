// Pages of a mapped file that hold some columns of a matrix.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot {

// As want_pages() for the first `bytes` of each of `rows` rows, `stride` apart, and for no whole page that lies between
// them. REQUIRES: bytes <= stride.
void want_pages_of_rows(const std::byte* data, int64_t stride, int64_t rows, int64_t bytes);

}  // namespace ingot
