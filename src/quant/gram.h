// XᵀX of many rows, summed in float32, the inputs rounded to bf16 on machines that multiply these (gram_bf16.h): what
// the methods that look at several columns at once know of a matrix's inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/gptq_tiles.h"

namespace ingot {

// Adds rows as they come. The order of additions follows from the calls alone, not from the threads.
class Gram {
 public:
  explicit Gram(int64_t cols, const GptqTiles& tiles = gptq_tiles());

  // `rows` rows of cols() values, `stride` apart.
  void add(const float* x, int64_t rows, int64_t stride, ThreadPool& pool);

  int64_t cols() const { return cols_; }
  int64_t rows() const { return rows_; }  // added so far
  // Sum of squares of column k.
  float square(int64_t k) const { return sums_[static_cast<size_t>(k * cols_ + k)]; }
  // [cols, cols], of which entries (i, k) with i <= k are sums. Leaves nothing behind.
  std::vector<float> take() { return std::move(sums_); }

 private:
  void add_part(const float* x, int64_t rows, int64_t stride, ThreadPool& pool);
  void pack(const float* x, int64_t rows, int64_t stride, int64_t panel);
  template <class Product>
  void add_tiles(int64_t i_begin, int64_t j_begin, int64_t tall, int64_t wide, const Product& product);

  const GptqTiles* tiles_;
  const int64_t cols_;
  const int64_t padded_;  // a whole number of tiles
  int64_t rows_ = 0;
  std::vector<float> sums_;
  std::vector<float> packed_;  // [padded / panel][rows][panel], or as pack_bf16() has it
};

}  // namespace ingot
