// An orthogonal matrix Q that is quick to multiply with: random signs, then Hadamard's matrix of the largest power of
// two that divides the size, in Kronecker's product with a random orthogonal one of the odd part (576 = 64 · 9).
// Outliers of a row are spread over all its values. The same for the same size and seed, on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace ingot {

class Rotation {
 public:
  // REQUIRES: size > 0.
  Rotation(int64_t size, uint64_t seed);

  int64_t size() const { return size_; }
  // A row of size() values becomes x · Q.
  void row(float* x) const;
  // Of a matrix of size() rows, `stride` values apart, `cols` columns become as row() makes them: Qᵀ · W.
  void columns(float* w, int64_t cols, int64_t stride) const;

 private:
  int64_t size_, power_, odd_;  // size = power · odd
  std::vector<float> signs_;    // [size], ± 1 / √power
  std::vector<float> mix_;      // [odd, odd] orthogonal
};

}  // namespace ingot
