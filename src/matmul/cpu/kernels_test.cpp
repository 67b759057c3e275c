#include "matmul/cpu/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cpu/cpu_math.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestWeight;

TEST(Kernels, ChosenByName) {
  ASSERT_FALSE(cpu::available_kernels().empty());
  for (const cpu::Kernels* set : cpu::available_kernels()) {
    cpu::use_kernels(set);
    EXPECT_EQ(&cpu::kernels(), set);
  }
  cpu::use_kernels(nullptr);
}

TEST(Kernels, DecodersAreTheFormats) {
  Random random(13);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const int64_t cols = 3 * std::max<int64_t>(format_block(format), 21);
    const TestWeight w(random, format, 1, cols);
    test::for_each_kernels([&] {
      std::vector<float> got(static_cast<size_t>(cols));
      cpu::kernels().decoders[static_cast<size_t>(format)](w.weight().data, got.data(), cols);
      test::expect_same_bits(got, w.row(0), "decoded");
    });
  }
}

// Transposed weights give every sum's own bits, whatever K and the numbers of rows, signs of zeros too.
TEST(Kernels, OuterDotsAreDots) {
  Random random(17);
  for (const int64_t k : {1, 15, 16, 33, 100, 768, 784, 1601, 3100, 6161}) {
    const int64_t nx = 15, nw = 37;
    std::vector<float> x(static_cast<size_t>(nx * k)), w(static_cast<size_t>(nw * k));
    for (float& v : x) v = random.normal() * (random.below(9) == 0 ? 1e-30f : 1.0f);
    for (float& v : w) v = random.below(5) == 0 ? -0.0f : random.normal() * (random.below(9) == 0 ? 1e-30f : 1.0f);
    std::vector<const float*> xs, ws;
    for (int64_t i = 0; i < nx; ++i) xs.push_back(x.data() + i * k);
    for (int64_t i = 0; i < nw; ++i) ws.push_back(w.data() + i * k);
    test::for_each_kernels([&] {
      const cpu::OuterDots& outer = cpu::kernels().outer;
      const int64_t stride = (nw + outer.cols - 1) / outer.cols * outer.cols;
      std::vector<float> panels(static_cast<size_t>(stride / outer.cols * outer.panel(k)));
      std::vector<float> tiles;
      for (int64_t i = 0; i < nx; i += outer.rows) {
        tiles.resize(tiles.size() + static_cast<size_t>(outer.tile(k)));
        outer.pack_x(xs.data() + i, std::min(outer.rows, nx - i), k, tiles.data() + tiles.size() - outer.tile(k));
      }
      for (int64_t i = 0; i < nw; i += cpu::kOuterGroup)
        outer.pack(ws.data() + i, i, std::min(cpu::kOuterGroup, nw - i), k, panels.data());
      std::vector<float> room(static_cast<size_t>(outer.room(nx, nw)));
      std::vector<float> want(static_cast<size_t>(nx * stride)), got(static_cast<size_t>(nx * stride));
      cpu::kernels().dots(xs.data(), nx, ws.data(), nw, k, want.data(), stride);
      outer.dots(tiles.data(), nx, panels.data(), nw, k, got.data(), stride, room.data());
      for (int64_t i = 0; i < nx; ++i) {
        const auto row = [&](const std::vector<float>& all) {
          return std::vector<float>(all.begin() + i * stride, all.begin() + i * stride + nw);
        };
        test::expect_same_bits(row(got), row(want), "sums");
      }
    });
  }
}

// The gate of a product is silu_f32() for every float, of whichever size its neighbours are.
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
