// The product on the CPU: one parallel region of two loops, or three. The rows of x are normed and quantized; then
// tasks, each a block of output rows of one part (of gate and up together for a GLU); then what the caller does
// with whole rows of outputs.
//
// All matrices are f32. Called by the thread that runs the pool's regions; allocates nothing.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "matmul/cpu/packed_store.h"
#include "matmul/product.h"

namespace ingot::cpu {

// Memory that is the product's while multiply() runs.
struct ProductMemory {
  std::byte* scratch = nullptr;  // a piece for each thread of the pool, 64-byte aligned
  int64_t scratch_bytes = 0;     // of a piece, a multiple of 64
  std::byte* shared = nullptr;   // one piece for all of them, 64-byte aligned
};
struct ProductNeeds {
  int64_t scratch = 0, shared = 0;  // bytes of each
};

// Gives the parts their panels where their formats have some, in the order in which the tasks will read them. `packed`
// outlives all runs.
void pack(Product& product, PackedStore& packed, ThreadPool& pool);

// Enough for every run of up to `rows` rows.
ProductNeeds product_needs(const Product& product, int64_t rows, int threads);

// The product for rows [0, rows). `then` is the region's last loop: it begins when all outputs are there.
void multiply(const Product& product, int64_t rows, ThreadPool& pool, const ProductMemory& memory,
              const Loop* then = nullptr);

// Products that differ in the places of x, W and out alone, of the heads of a layer, in regions of a few MiB of rows.
// `then` is the last loop, as above.
ProductNeeds each_needs(std::span<const Product> products, int64_t rows, int threads);
void multiply_each(std::span<const Product> products, int64_t rows, ThreadPool& pool, const ProductMemory& memory,
                   const Loop* then = nullptr);

// Some of several products that run as one region, such as the experts of a layer, each with rows of its own.
struct ProductGroup {
  Product product;
  int64_t rows = 0;  // > 0
};

// Enough for every run of `most_groups` groups or fewer, each a product like one of `products`, that have up to
// `rows` rows together.
ProductNeeds group_needs(std::span<const Product> products, int64_t most_groups, int64_t rows, int threads);

// All of them. No value depends on what else is in the list.
void multiply(std::span<const ProductGroup> groups, ThreadPool& pool, const ProductMemory& memory,
              const Loop* then = nullptr);

}  // namespace ingot::cpu
