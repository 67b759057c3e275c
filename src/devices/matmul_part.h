// A part of one large product of fixed random values, out [m, n] = x [m, k] · W [n, k]ᵀ: some of its rows, its outputs
// or its inputs. Every part of a product is made of the same values, wherever it is computed.
#pragma once

#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "quant/format.h"

namespace ingot {

struct MatmulSize {
  int64_t m = 0, n = 0, k = 0;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

struct MatmulRange {
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
};

struct MatmulPart {
  MatmulSize whole;
  MatmulRange m, n, k;  // k: multiples of the format's block
};

// The part that is all.
inline MatmulPart whole_part(const MatmulSize& size) { return {size, {0, size.m}, {0, size.n}, {0, size.k}}; }

// A part on some cores: those that run the pool.
class CpuMatmul {
 public:
  // Makes x and W (in `format`) in memory of the calling thread's node. `pool` must outlive this.
  CpuMatmul(ThreadPool& pool, Format format, const MatmulPart& part);
  ~CpuMatmul();

  // Outputs [first, first + count) of the part, all of its rows, to `out` [m, stride]. REQUIRES: both are multiples of
  // kUnit, or count reaches the end.
  void run(int64_t first, int64_t count, float* out, int64_t stride);

  static constexpr int64_t kUnit = 64;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
