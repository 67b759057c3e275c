// Kernels that write and read the memory of another device by its addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda.h"

namespace ingot::cuda {

// Words that follow from `key`. Both give a kernel to the stream and return. REQUIRES: bytes is a multiple of 4.
void write_pattern(std::byte* to, int64_t bytes, uint32_t key, StreamRef stream);
// Adds the words that differ from it to *wrong, which the device in use reaches.
void count_wrong(const std::byte* from, int64_t bytes, uint32_t key, uint32_t* wrong, StreamRef stream);

}  // namespace ingot::cuda
