// An expert linear over random operands, for the tests of all devices.
#pragma once

#include <deque>
#include <vector>

#include "ops/expert_linear/expert_linear.h"
#include "ops/row_op_test_support.h"

namespace ingot::test {

struct ExpertCase {
  Format format = Format::kF32;
  int rows = 1;
  int64_t count = 4, used = 2, out = 48, cols = 64;
  bool glu = false, bias = false, by_place = false, scale = false, sum = false;
  ActivationKind kind = ActivationKind::kSilu;
};

class ExpertOperands {
 public:
  explicit ExpertOperands(const ExpertCase& c, uint64_t seed = 1)
      : x(c.rows, c.by_place ? c.used * c.cols : c.cols),
        experts(c.rows, c.used, kTokenRows, c.used, DType::kI32),
        weights(c.rows, c.used),
        places(c.rows, c.used * c.out),
        out(c.rows, c.out) {
    Random random(seed);
    x.fill([&] { return random.normal(); });
    weights.fill([&] { return 0.5f + 0.1f * random.normal(); });
    for (int r = 0; r < c.rows; ++r) choose(random, r, c);
    op.x = x.tensor();
    op.experts = experts.tensor();
    op.n_parts = c.glu ? 2 : 1;
    for (int p = 0; p < op.n_parts; ++p) {
      ExpertLinear::Part& part = op.parts[static_cast<size_t>(p)];
      for (int64_t e = 0; e < c.count; ++e)
        part.weights.push_back(stored_.emplace_back(random, c.format, c.out, c.cols).weight());
      if (!c.bias) continue;
      biases_.push_back(normal_values(random, c.count * c.out));
      part.bias = f32_weight(biases_.back());
    }
    if (c.glu) op.glu = c.kind;
    op.scale = c.scale;
    if (c.scale || c.sum) op.weights = weights.tensor();
    op.places = places.tensor();
    if (c.sum) op.out = out.tensor();
  }

  Buffer x, experts, weights, places, out;
  ExpertLinear op;

 private:
  // Different ones, in order; the first rows meet one expert more often than the others.
  void choose(Random& random, int r, const ExpertCase& c) {
    std::vector<bool> taken(static_cast<size_t>(c.count), false);
    taken[0] = r < c.rows / 2;
    for (int64_t n = taken[0] ? 1 : 0; n < c.used;) {
      const auto e = static_cast<size_t>(random.below(c.count));
      if (!taken[e]) taken[e] = true, ++n;
    }
    int64_t j = 0;
    for (int64_t e = 0; e < c.count; ++e)
      if (taken[static_cast<size_t>(e)]) experts.i32(r, j++) = static_cast<int32_t>(e);
  }

  std::deque<TestWeight> stored_;
  std::deque<std::vector<float>> biases_;
};

}  // namespace ingot::test
