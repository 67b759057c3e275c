// Parts of one op whose formats ask for different things of x, with rows longer than what sets take at once.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <deque>
#include <vector>

#include "cpu/cpu_math.h"
#include "matmul/cpu/kernels.h"
#include "ops/linear/linear.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

std::vector<float> values_of(const Linear& op, Buffer& out) {
  out.poison();
  test::run_cpu(op, test::rows_batch(static_cast<int>(out.rows())), 2);
  out.expect_intact();
  return out.values();
}

// Scales alone, scales and sums, those of halves, and a scale for each 128 values: each part is what it is alone.
TEST(Linear, PartsThatAskForDifferentFields) {
  Random random(31);
  constexpr int64_t kCols = 1280;
  for (const auto& formats : {std::vector{Format::kQ4_0, Format::kQ4_1, Format::kQ6_K},
                              std::vector{Format::kQ5_0, Format::kQ2_K, Format::kINT4},
                              std::vector{Format::kQ8_0, Format::kINT8, Format::kQ4_K},
                              std::vector{Format::kBF16, Format::kF16, Format::kQ4_0}}) {
    for (int64_t rows : {5, 20, 31}) {
      SCOPED_TRACE(rows);
      Buffer x(rows, kCols), all(rows, 3 * 40);
      x.fill_outliers(random);
      Linear fused;
      fused.x = x.tensor();
      fused.n_parts = 3;
      std::deque<TestWeight> weights;  // they do not move
      for (Format format : formats) weights.emplace_back(random, format, 40, kCols);
      for (size_t p = 0; p < 3; ++p) {
        fused.parts[p].weight = weights[p].weight();
        fused.parts[p].out = all.columns(static_cast<int64_t>(p) * 40, 40);
      }
      test::for_each_kernels([&] {
        const std::vector<float> got = values_of(fused, all);
        for (size_t p = 0; p < 3; ++p) {
          Buffer out(rows, 40);
          Linear one;
          one.x = x.tensor();
          one.n_parts = 1;
          one.parts[0].weight = weights[p].weight();
          one.parts[0].out = out.tensor();
          const std::vector<float> want = values_of(one, out);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(got[i / 40 * 120 + p * 40 + i % 40], want[i]) << format_name(formats[p]) << " " << i;
        }
      });
    }
  }
}

// The gate of a linear is silu_f32() for every float, of whichever size its neighbours are.
TEST(Kernels, GluIsSilu) {
  std::vector<float> gate, up;
  uint32_t bits = 0;
  for (int i = 0; i < 1 << 18; ++i, bits += 16411) gate.push_back(std::bit_cast<float>(bits));
  for (int i = 0; i < 1 << 16; ++i) gate.push_back(static_cast<float>(i) * 0x1p-8f - 128.0f);
  gate.push_back(1.0f);  // a tail
  for (size_t i = 0; i < gate.size(); ++i) up.push_back(1.0f + static_cast<float>(i % 5));
  test::for_each_kernels([&] {
    std::vector<float> out(gate.size());
    cpu::kernels().glu(ActivationKind::kSilu, gate.data(), up.data(), out.data(), static_cast<int64_t>(gate.size()));
    for (size_t i = 0; i < gate.size(); ++i) {
      const float want = cpu::silu_f32(gate[i]) * up[i];
      if (std::isnan(want) && std::isnan(out[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(want)) << gate[i];
    }
  });
}

}  // namespace
}  // namespace ingot
