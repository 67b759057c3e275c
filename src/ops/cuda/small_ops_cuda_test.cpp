// The small ops on the device against the reference: odd sizes, views of columns, buckets with padding, both types.
#include "ops/cuda/cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs the op on the device and by the reference; `outs` are compared within the tolerance.
template <class Op>
void expect_device_matches_ref(const Op& op, const Batch& batch, std::initializer_list<Buffer*> outs,
                               const Tolerance& tolerance, std::initializer_list<Buffer*> inouts = {},
                               int more_rows = 0) {
  std::vector<std::vector<std::byte>> saved;
  for (Buffer* b : inouts) saved.push_back(b->save());
  for (Buffer* b : outs) b->poison();
  run_ref(op, batch);
  std::vector<std::vector<float>> want;
  for (auto list : {outs, inouts})
    for (Buffer* b : list) want.push_back(b->values());
  for (Buffer* b : outs) b->poison();
  size_t i = 0;
  for (Buffer* b : inouts) b->restore(saved[i++]);
  DeviceRig rig(batch, {.more_rows = more_rows});
  rig.run(op);
  i = 0;
  for (auto list : {outs, inouts})
    for (Buffer* b : list) {
      b->expect_intact();
      expect_near(b->values(), want[i], b->cols(), tolerance, "output " + std::to_string(i));
      ++i;
    }
}

struct Size {
  int rows;
  int64_t cols, stride;
};
const Size kSizes[] = {{1, 1, 1}, {3, 63, 63}, {2, 64, 68}, {5, 576, 576}, {2, 4099, 4100}, {33, 8, 13}};

TEST(CudaSmallOps, AddScaleAndSoftcap) {
  INGOT_NEEDS_DEVICE();
  Random random(1);
  for (const Size& s : kSizes) {
    Buffer a(s.rows, s.cols, kTokenRows, s.stride), b(s.rows, s.cols), out(s.rows, s.cols, kTokenRows, s.stride);
    a.fill_outliers(random);
    b.fill_outliers(random);
    const Batch batch = rows_batch(s.rows);
    expect_device_matches_ref(Add{a.tensor(), b.tensor(), out.tensor()}, batch, {&out}, exact(), {}, 3);
    expect_device_matches_ref(Add{a.tensor(), b.tensor(), a.tensor()}, batch, {}, exact(), {&a});
    expect_device_matches_ref(Scale{a.tensor(), out.tensor(), 0.37f}, batch, {&out}, exact(), {}, 1);
    expect_device_matches_ref(Softcap{a.tensor(), out.tensor(), 30.0f}, batch, {&out}, relative(8), {}, 1);
  }
}

TEST(CudaSmallOps, Activations) {
  INGOT_NEEDS_DEVICE();
  Random random(2);
  for (const auto kind : {ActivationKind::kNone, ActivationKind::kSilu, ActivationKind::kGelu,
                          ActivationKind::kGeluTanh, ActivationKind::kRelu}) {
    SCOPED_TRACE(activation_name(kind));
    for (const Size& s : kSizes) {
      Buffer a(s.rows, s.cols, kTokenRows, s.stride), b(s.rows, s.cols), out(s.rows, s.cols);
      a.fill_outliers(random);
      b.fill_outliers(random);
      a.at(0, 0) = -200;
      const Batch batch = rows_batch(s.rows);
      // Near zero a GELU is the difference of nearly equal numbers: absolute, by the size of x.
      expect_device_matches_ref(Activation{a.tensor(), out.tensor(), kind}, batch, {&out}, relative(8, 20 * kEps));
      const Tolerance product = [&](int64_t r, int64_t c, double want) {
        return 9 * kEps * std::fabs(want) + 20 * kEps * std::fabs(b.at(r, c));
      };
      expect_device_matches_ref(Glu{a.tensor(), b.tensor(), out.tensor(), kind}, batch, {&out}, product, {}, 2);
      expect_device_matches_ref(Glu{a.tensor(), b.tensor(), a.tensor(), kind}, batch, {}, product, {&a});
    }
  }
}

// Outputs in bf16 are the f32 ones, rounded.
TEST(CudaSmallOps, OutputsInBf16) {
  INGOT_NEEDS_DEVICE();
  Random random(3);
  for (const int64_t cols : {63, 128}) {
    const int rows = 3;
    Buffer a(rows, cols), b(rows, cols), wide(rows, cols), narrow(rows, cols, kTokenRows, cols, DType::kBF16);
    a.fill_outliers(random);
    b.fill_outliers(random);
    const TestWeight weight(random, Format::kF32, 1, cols);
    const Batch batch = rows_batch(rows);
    const auto expect_rounded = [&](auto op) {
      DeviceRig rig(batch);
      op.out = wide.tensor();
      rig.run(op);
      op.out = narrow.tensor();
      rig.run(op);
      narrow.expect_intact();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(narrow.tensor().row<uint16_t>(r)[c], f32_to_bf16(wide.at(r, c))) << r << ", " << c;
    };
    expect_rounded(Glu{a.tensor(), b.tensor(), {}, ActivationKind::kSilu});
    expect_rounded(Activation{a.tensor(), {}, ActivationKind::kGelu});
    expect_rounded(RmsNorm{a.tensor(), weight.weight(), {}, cols, 1e-5f});
    expect_rounded(LayerNorm{a.tensor(), weight.weight(), weight.weight(), {}, 1e-5f});
    Buffer sum(rows, cols);
    expect_rounded(AddRmsNorm{a.tensor(), b.tensor(), weight.weight(), sum.tensor(), {}, 1e-5f});
  }
}

TEST(CudaSmallOps, Norms) {
  INGOT_NEEDS_DEVICE();
  Random random(4);
  for (const Size& s : kSizes) {
    Buffer a(s.rows, s.cols, kTokenRows, s.stride), b(s.rows, s.cols), sum(s.rows, s.cols), out(s.rows, s.cols);
    a.fill_outliers(random);
    b.fill_outliers(random);
    const TestWeight weight(random, Format::kF32, 1, s.cols), bias(random, Format::kF32, 1, s.cols);
    const Batch batch = rows_batch(s.rows);
    const Tolerance norm = relative(16);
    expect_device_matches_ref(RmsNorm{a.tensor(), weight.weight(), out.tensor(), s.cols, 1e-5f}, batch, {&out}, norm,
                              {}, 4);
    expect_device_matches_ref(RmsNorm{a.tensor(), weight.weight(), a.tensor(), s.cols, 1e-5f}, batch, {}, norm, {&a});
    expect_device_matches_ref(AddRmsNorm{a.tensor(), b.tensor(), weight.weight(), sum.tensor(), out.tensor(), 1e-5f},
                              batch, {&sum, &out}, norm, {}, 1);
    expect_device_matches_ref(AddRmsNorm{a.tensor(), b.tensor(), weight.weight(), b.tensor(), out.tensor(), 1e-5f},
                              batch, {&out}, norm, {&b});
    double largest = 0;
    for (const float v : a.values()) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    // The mean's rounding is of the size of the largest input, in units of the deviation; one column has none.
    const Tolerance layer = relative(16, s.cols == 1 ? 0 : 64 * kEps * std::max(1.0, largest));
    expect_device_matches_ref(LayerNorm{a.tensor(), weight.weight(), bias.weight(), out.tensor(), 1e-5f}, batch, {&out},
                              layer, {}, 2);
    expect_device_matches_ref(LayerNorm{a.tensor(), weight.weight(), {}, a.tensor(), 1e-5f}, batch, {}, layer, {&a});
  }
}

// Norms of bf16, and into bf16, of every width that has a kernel of its own: within a rounding of the f32 ones.
TEST(CudaSmallOps, NormsInBf16OfEveryWidth) {
  INGOT_NEEDS_DEVICE();
  Random random(11);
  for (const int64_t cols : {8, 512, 4096, 4104, 16384, 16392}) {
    SCOPED_TRACE(cols);
    const int rows = 2;
    const Batch batch = rows_batch(rows);
    const TestWeight weight(random, Format::kF32, 1, cols), bias(random, Format::kF32, 1, cols);
    const auto of = [&](DType type) { return std::make_unique<Buffer>(rows, cols, kTokenRows, cols, type); };
    const auto a = of(DType::kF32), b = of(DType::kF32), sum = of(DType::kF32), out = of(DType::kF32);
    const auto a16 = of(DType::kBF16), b16 = of(DType::kBF16), sum16 = of(DType::kBF16), out16 = of(DType::kBF16);
    for (const auto& [wide, narrow] : {std::pair(a.get(), a16.get()), std::pair(b.get(), b16.get())}) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const uint16_t bits = f32_to_bf16(random.normal());
          wide->at(r, c) = bf16_to_f32(bits);
          narrow->tensor().row<uint16_t>(r)[c] = bits;
        }
      }
    }
    const auto expect = [&](auto wide, auto narrow) {
      run_ref(wide, batch);
      for (const bool mixed : {false, true}) {
        out16->poison();
        DeviceRig rig(batch);
        if (mixed) {
          auto op = wide;
          op.out = narrow.out;
          rig.run(op);
        } else {
          rig.run(narrow);
        }
        out16->expect_intact();
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c) {
            const float want = out->at(r, c), got = bf16_to_f32(out16->tensor().row<uint16_t>(r)[c]);
            ASSERT_NEAR(got, want, 0x1p-7 * std::fabs(want) + 1e-4) << r << ", " << c << (mixed ? " mixed" : "");
          }
        }
      }
    };
    expect(RmsNorm{a->tensor(), weight.weight(), out->tensor(), cols, 1e-5f},
           RmsNorm{a16->tensor(), weight.weight(), out16->tensor(), cols, 1e-5f});
    expect(LayerNorm{a->tensor(), weight.weight(), bias.weight(), out->tensor(), 1e-5f},
           LayerNorm{a16->tensor(), weight.weight(), bias.weight(), out16->tensor(), 1e-5f});
    expect(AddRmsNorm{a->tensor(), b->tensor(), weight.weight(), sum->tensor(), out->tensor(), 1e-5f},
           AddRmsNorm{a16->tensor(), b16->tensor(), weight.weight(), sum16->tensor(), out16->tensor(), 1e-5f});
  }
}

TEST(CudaSmallOps, NormsOfHeads) {
  INGOT_NEEDS_DEVICE();
  Random random(5);
  for (const int64_t width : {16, 63, 128}) {
    Buffer x(3, 5 * width, kTokenRows, 5 * width + 3), out(3, 5 * width);
    x.fill_outliers(random);
    const TestWeight weight(random, Format::kF32, 1, width);
    expect_device_matches_ref(RmsNorm{x.tensor(), weight.weight(), out.tensor(), width, 1e-6f}, rows_batch(3), {&out},
                              relative(16), {}, 2);
  }
}

TEST(CudaSmallOps, EmbeddingOfEveryFormat) {
  INGOT_NEEDS_DEVICE();
  Random random(6);
  for (const Format format : all_formats()) {
    SCOPED_TRACE(format_name(format));
    TestWeight table(random, format, 11, format_block(format) == 1 ? 163 : 512 + format_block(format));
    Batch batch = rows_batch(5);
    batch.token = {10, 0, 3, -1, 11};  // the last two are outside the table
    for (const bool scaled : {false, true}) {
      if (scaled) table.add_scales(random, 2, 96);
      Buffer out(5, table.weight().cols, kTokenRows, table.weight().cols + 1);
      // A product and a difference may be one rounding on the device, two in the reference.
      double largest = 0;
      for (int64_t n = 0; n < 11; ++n)
        for (const float v : table.row(n)) largest = std::max(largest, std::fabs(static_cast<double>(v)));
      expect_device_matches_ref(Embedding{table.weight(), out.tensor(), Embedding::By::kToken}, batch, {&out},
                                relative(2, 2 * kEps * largest), {}, 3);
      expect_device_matches_ref(Embedding{table.weight(), out.tensor(), Embedding::By::kPosition}, batch, {&out},
                                relative(2, 2 * kEps * largest));
    }
  }
}

TEST(CudaSmallOps, EmbeddingByFours) {
  INGOT_NEEDS_DEVICE();
  Random random(16);
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
    const TestWeight table(random, format, 9, 1284);
    Batch batch = rows_batch(4);
    batch.token = {8, 3, -5, 9};
    Buffer out(4, 1284);
    expect_device_matches_ref(Embedding{table.weight(), out.tensor(), Embedding::By::kToken}, batch, {&out}, exact(),
                              {}, 2);
  }
}

TEST(CudaSmallOps, GatheredRows) {
  INGOT_NEEDS_DEVICE();
  Random random(7);
  for (const Size& s : kSizes) {
    Batch batch = rows_batch(s.rows);
    batch.n_logits = (s.rows + 1) / 2;
    for (int l = 0; l < batch.n_logits; ++l)
      batch.logit_row[static_cast<size_t>(l)] = static_cast<int32_t>(random.below(s.rows));
    Buffer x(s.rows, s.cols, kTokenRows, s.stride), out(batch.n_logits, s.cols, kLogitRows);
    x.fill_outliers(random);
    expect_device_matches_ref(GatherRows{x.tensor(), out.tensor()}, batch, {&out}, exact(), {}, 3);
  }
}

TEST(CudaSmallOps, Softmax) {
  INGOT_NEEDS_DEVICE();
  Random random(8);
  for (const int64_t n : {1, 63, 1000, 32000}) {
    Buffer x(3, n, kLogitRows, n + 3), out(3, n, kLogitRows);
    x.fill([&] { return 10 * random.normal(); });
    if (n > 63) x.at(1, 7) = -kInf;
    const Tolerance near = [](int64_t, int64_t, double want) { return 64 * kEps * want; };
    expect_device_matches_ref(Softmax{x.tensor(), out.tensor()}, rows_batch(3), {&out}, near, {}, 1);
    expect_device_matches_ref(Softmax{x.tensor(), x.tensor()}, rows_batch(3), {}, near, {&x});
  }
}

void fill_for_order(Buffer& x, Random& random) {
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      float v = r % 3 == 0 ? random.outlier() : r % 3 == 1 ? static_cast<float>(random.below(5) - 2) : -1.5f;
      if (random.below(40) == 0) v = random.below(2) == 0 ? -kInf : kNan;
      if (random.below(40) == 0) v = random.below(2) == 0 ? -0.0f : 0.0f;
      x.at(r, c) = v;
    }
}

TEST(CudaSmallOps, TopKWithTiesAndNan) {
  INGOT_NEEDS_DEVICE();
  Random random(10);
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {2, 1}, {63, 63}, {1000, 40}, {5000, 1500}, {3001, 3001}};
  for (const auto& [n, k] : sizes) {
    Buffer x(3, n, kLogitRows, n + 1), values(3, k, kLogitRows), ids(3, k, kLogitRows, k + 1, DType::kI32);
    fill_for_order(x, random);
    const TopK op{x.tensor(), values.tensor(), ids.tensor()};
    const Batch batch = rows_batch(3);
    run_ref(op, batch);
    const std::vector<std::byte> want_ids = ids.save(), want_values = values.save();
    ids.poison();
    values.poison();
    DeviceRig rig(batch, {.more_rows = 1});
    rig.run(op);
    EXPECT_EQ(ids.save(), want_ids) << n << ", " << k;
    EXPECT_EQ(values.save(), want_values) << n << ", " << k;
  }
}

}  // namespace
}  // namespace ingot
