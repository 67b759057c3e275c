// A linear as the product that the CPU and CUDA versions run. Inside this folder only.
#pragma once

#include "matmul/product.h"
#include "ops/linear/linear.h"

namespace ingot {

// All but the heads, which each device makes in its own way. Points into `op`.
inline Product product_of(const Linear& op) {
  const auto floats = [](const Weight& w) { return reinterpret_cast<const float*>(w.data); };
  Product product;
  product.input.x = Matrix(op.x);
  if (op.input) {
    product.input.norm = floats(op.input.weight);
    product.input.eps = op.input.eps;
    product.input.add = Matrix(op.input.add);
    product.input.sum = Matrix(op.input.sum);
    product.input.add_norm = floats(op.input.add_norm);
    product.input.add_eps = op.input.add_eps;
  }
  product.n_parts = op.n_parts;
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    const Linear::Part& part = op.parts[i];
    product.parts[i] = {
        .weight = &part.weight, .packed = part.packed, .bias = floats(part.bias), .out = Matrix(part.out)};
  }
  product.glu = op.glu;
  product.residual = Matrix(op.residual);
  return product;
}

}  // namespace ingot
