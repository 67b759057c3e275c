// Linear and Embedding where weights, outputs, inputs, or what lies between have more than 2^31 elements. Values are
// small integers: sums are exact in whatever order they are made.
#include "ops/cuda/large_test_support.h"
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

float small_integer(Random& random, int64_t most) { return static_cast<float>(random.below(2 * most + 1) - most); }

// A few rows of weights between -2 and 2, on the device again and again until there are `rows`.
class RepeatedWeight {
 public:
  static constexpr int64_t kPeriod = 61;

  RepeatedWeight(Format format, int64_t rows, int64_t cols) : values_(static_cast<size_t>(kPeriod * cols)) {
    Random random(1);
    for (float& value : values_) value = small_integer(random, 2);
    weight_.name = "repeated";
    weight_.format = format;
    weight_.rows = rows;
    weight_.cols = cols;
    weight_.row_bytes = format_row_bytes(format, cols);
  }
  // REQUIRES: the rig outlives its use.
  Weight on_device(DeviceRig& rig) const {
    std::vector<std::byte> few(static_cast<size_t>(kPeriod * weight_.row_bytes));
    for (int64_t n = 0; n < kPeriod; ++n) encode(row(n), few.data() + n * weight_.row_bytes);
    Weight placed = weight_;
    placed.data = repeat_on_device(rig, few.data(), std::ssize(few), weight_.bytes());
    return placed;
  }
  const float* row(int64_t n) const { return values_.data() + n % kPeriod * weight_.cols; }

 private:
  // Of q8_0 with scales of 1, so that its values are these.
  void encode(const float* from, std::byte* to) const {
    if (weight_.format != Format::kQ8_0) return format_encode(weight_.format, from, to, weight_.cols);
    for (int64_t i = 0; i < weight_.cols; i += 32, to += 34) {
      const uint16_t one = f32_to_f16(1.0f);
      std::memcpy(to, &one, 2);
      for (int64_t k = 0; k < 32; ++k) to[2 + k] = static_cast<std::byte>(static_cast<int8_t>(from[i + k]));
    }
  }

  std::vector<float> values_;
  Weight weight_;
};

struct Size {
  int64_t outputs, cols;
};
constexpr Size kLarge{33024, 65536};  // the last 256 outputs lie beyond 2^31
constexpr Size kSmall{150, 64};
static_assert(kLarge.outputs * kLarge.cols > kTooMany);

// Rows of x between -2 and 2, a few of them again and again; and their products with a repeated weight.
class Products {
 public:
  static constexpr int64_t kFew = 7;
  static constexpr int64_t kRows = 64;

  Products(const RepeatedWeight& weight, const Size& s, DType dtype) : s_(s), x_(kRows, s.cols, kTokenRows, 0, dtype) {
    Random random(2);
    std::vector<float> few;
    for (int64_t i = 0; i < kFew * s.cols; ++i) few.push_back(small_integer(random, 2));
    const Tensor t = x_.tensor();
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t k = 0; k < s.cols; ++k) {
        const float value = few[static_cast<size_t>(r % kFew * s.cols + k)];
        if (dtype == DType::kF32) {
          t.f32(r)[k] = value;
        } else {
          t.row<uint16_t>(r)[k] = f32_to_bf16(value);
        }
      }
    for (int64_t r = 0; r < kFew; ++r)
      for (int64_t n = 0; n < RepeatedWeight::kPeriod; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < s.cols; ++k)
          sum += static_cast<double>(few[static_cast<size_t>(r * s.cols + k)]) * static_cast<double>(weight.row(n)[k]);
        want_.push_back(static_cast<float>(sum));
      }
  }
  Tensor x() { return x_.tensor(); }
  float want(int64_t r, int64_t n) const {
    return want_[static_cast<size_t>(r % kFew * RepeatedWeight::kPeriod + n % RepeatedWeight::kPeriod)];
  }

  // The op with `rows` rows of x; all of its `outputs` are want(row, output).
  template <class F>
  void expect(DeviceRig& rig, const Linear& op, cuda::Ctx c, int64_t rows, int64_t outputs, const F& wanted) const {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const Tensor& out = op.parts[0].out;
    cuda::fill_bytes(out.data, 0xff, kRows * outputs * 4, c.stream);
    c.shape.tokens = rows;
    cuda::run(op, c);
    std::vector<float> got(static_cast<size_t>(rows * outputs));
    rig.download(got.data(), out.data, rows * outputs * 4);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < outputs; ++n)
        ASSERT_EQ(got[static_cast<size_t>(r * outputs + n)], wanted(r, n)) << "row " << r << ", output " << n;
    rig.expect_nothing_left();
  }

 private:
  const Size s_;
  Buffer x_;
  std::vector<float> want_;
};

Tensor place_output(DeviceRig& rig, int64_t outputs) {
  Tensor t;
  t.rows = kTokenRows;
  t.cols = t.stride = outputs;
  t.data = rig.allocate(Products::kRows * outputs * 4);
  return t;
}

// Embeddings are rows of the weight.
void check_embedding(DeviceRig& rig, const RepeatedWeight& weight, const Weight& placed, const Size& s) {
  Batch batch = rows_batch(6);
  batch.token = {0,
                 1,
                 static_cast<int32_t>(s.outputs - 1),
                 static_cast<int32_t>(s.outputs - 257 % s.outputs),
                 static_cast<int32_t>(s.outputs - 256 % s.outputs),
                 static_cast<int32_t>(s.outputs / 2)};
  DeviceRig reader(batch);
  Embedding op;
  op.table = placed;
  op.out.rows = kTokenRows;
  op.out.cols = op.out.stride = s.cols;
  op.out.data = reader.allocate(6 * s.cols * 4);
  cuda::Ctx c = reader.ctx();
  rig.synchronize();
  cuda::run(op, c);
  std::vector<float> got(static_cast<size_t>(6 * s.cols));
  reader.download(got.data(), op.out.data, 6 * s.cols * 4);
  for (int64_t r = 0; r < 6; ++r) {
    const int32_t token = batch.token[static_cast<size_t>(r)];
    for (int64_t k = 0; k < s.cols; ++k)
      ASSERT_EQ(got[static_cast<size_t>(r * s.cols + k)], weight.row(token)[k]) << "token " << token;
  }
}

// Every way that bf16 goes: streamed, the kernel of taller tiles, our own product, cuBLASLt where it is.
void check_weight_of_bf16(const Size& s) {
  const RepeatedWeight weight(Format::kBF16, s.outputs, s.cols);
  Products products(weight, s, DType::kBF16);
  const Batch batch = rows_batch(Products::kRows);
  DeviceRig rig(batch);
  Linear op;
  op.x = rig.to_device(products.x());
  op.parts[0].weight = weight.on_device(rig);
  op.parts[0].out = place_output(rig, s.outputs);
  check_embedding(rig, weight, op.parts[0].weight, s);
  cuda::Prepare prepare = rig.preparation();
  cuda::prepare(op, prepare);
  const cuda::DeviceMemory scratch(prepare.scratch_bytes);
  cuda::Ctx c = rig.ctx();
  c.scratch = scratch.data();
  c.scratch_bytes = scratch.bytes();
  const auto want = [&](int64_t r, int64_t n) { return products.want(r, n); };
  for (const int64_t rows : {1, 3, 8, 9, 32, 64}) products.expect(rig, op, c, rows, s.outputs, want);
  std::string why;
  if (const std::unique_ptr<cuda::Blas> blas = cuda::Blas::load(&why)) {
    c.blas = blas.get();
    for (const int64_t rows : {32, 64}) products.expect(rig, op, c, rows, s.outputs, want);
  }
}

// Gate and up, packed in turns. Their products are exact, and what is made of them is rounded once.
void check_gated(const Size& s) {
  const RepeatedWeight weight(Format::kBF16, s.outputs, s.cols);
  Products products(weight, s, DType::kBF16);
  const Batch batch = rows_batch(Products::kRows);
  DeviceRig rig(batch);
  const int64_t half = s.outputs / 2;
  Linear op;
  op.x = rig.to_device(products.x());
  op.n_parts = 2;
  op.glu = ActivationKind::kRelu;
  op.parts[0].weight = weight.on_device(rig);
  op.parts[0].weight.rows = half;
  op.parts[1].weight = op.parts[0].weight;
  op.parts[1].weight.data += half * op.parts[0].weight.row_bytes;
  op.parts[0].out = place_output(rig, half);
  cuda::Prepare prepare = rig.preparation();
  cuda::prepare(op, prepare);
  const cuda::DeviceMemory scratch(prepare.scratch_bytes);
  cuda::Ctx c = rig.ctx();
  c.scratch = scratch.data();
  c.scratch_bytes = scratch.bytes();
  const auto want = [&](int64_t r, int64_t n) {
    return std::max(products.want(r, n), 0.0f) * products.want(r, half + n);
  };
  for (const int64_t rows : {1, 8, 9, 32}) products.expect(rig, op, c, rows, half, want);
}

// A format that is packed, and one that is not: it becomes bf16 in scratch.
void check_weight_of_q8_0(const Size& s) {
  const RepeatedWeight weight(Format::kQ8_0, s.outputs, s.cols);
  Products products(weight, s, DType::kF32);
  const Batch batch = rows_batch(Products::kRows);
  DeviceRig rig(batch);
  Linear op;
  op.x = rig.to_device(products.x());
  op.parts[0].weight = weight.on_device(rig);
  op.parts[0].out = place_output(rig, s.outputs);
  check_embedding(rig, weight, op.parts[0].weight, s);
  const auto want = [&](int64_t r, int64_t n) { return products.want(r, n); };
  cuda::Prepare prepare = rig.preparation();
  cuda::prepare(op, prepare);
  const cuda::DeviceMemory scratch(prepare.scratch_bytes);
  cuda::Ctx c = rig.ctx();
  c.scratch = scratch.data();
  c.scratch_bytes = scratch.bytes();
  for (const int64_t rows : {1, 8, 9, 64}) products.expect(rig, op, c, rows, s.outputs, want);
  op.streamed = nullptr;
  for (const int64_t rows : {1, 64}) products.expect(rig, op, c, rows, s.outputs, want);
}

TEST(CudaLargeLinear, WeightsInSmall) {
  INGOT_NEEDS_DEVICE();
  check_weight_of_bf16(kSmall);
  check_gated(kSmall);
  check_weight_of_q8_0(kSmall);
}
TEST(CudaLargeLinear, WeightOfBf16) {
  INGOT_NEEDS_ROOM(10 * kGib);
  check_weight_of_bf16(kLarge);
}
TEST(CudaLargeLinear, GateAndUp) {
  INGOT_NEEDS_ROOM(10 * kGib);
  check_gated(kLarge);
}
TEST(CudaLargeLinear, WeightOfQ8_0) {
  INGOT_NEEDS_ROOM(7 * kGib);
  check_weight_of_q8_0(kLarge);
}

// --- Many rows ---

constexpr int kFewRows = 5;

// A weight of small integers in bf16.
class IntegerWeight {
 public:
  IntegerWeight(int64_t rows, int64_t cols, int64_t most, uint64_t seed) : values_(static_cast<size_t>(rows * cols)) {
    Random random(seed);
    for (uint16_t& value : values_) value = f32_to_bf16(small_integer(random, most));
    weight_.name = "integers";
    weight_.format = Format::kBF16;
    weight_.rows = rows;
    weight_.cols = cols;
    weight_.row_bytes = 2 * cols;
    weight_.data = reinterpret_cast<const std::byte*>(values_.data());
  }
  const Weight& weight() const { return weight_; }

 private:
  std::vector<uint16_t> values_;
  Weight weight_;
};

// Our own product, and cuBLASLt where it is.
void check_both(const Linear& op, int64_t rows, Buffer& out, const Tolerance& tolerance) {
  Repeated of(kFewRows, rows);
  of.check(op, {&out}, tolerance);
  std::string why;
  if (const std::unique_ptr<cuda::Blas> blas = cuda::Blas::load(&why)) of.check(op, {&out}, tolerance, {}, blas.get());
}

// Logits, with a bias.
void check_output(int64_t rows, int64_t outputs) {
  const IntegerWeight w(outputs, 64, 2, 3);
  Random random(4);
  std::vector<float> integers;
  for (int64_t n = 0; n < outputs; ++n) integers.push_back(small_integer(random, 9));
  Buffer x(kFewRows, 64), out(kFewRows, outputs);
  x.fill([&] { return small_integer(random, 2); });
  Linear op;
  op.x = x.tensor();
  op.parts[0].weight = w.weight();
  op.parts[0].out = out.tensor();
  op.parts[0].bias = {.name = "bias",
                      .format = Format::kF32,
                      .rows = 1,
                      .cols = outputs,
                      .data = reinterpret_cast<const std::byte*>(integers.data()),
                      .row_bytes = 4 * outputs};
  check_both(op, rows, out, exact());
}
TEST(CudaLargeLinear, OutputInSmall) {
  INGOT_NEEDS_DEVICE();
  check_output(70, 200);
}
TEST(CudaLargeLinear, Output) {
  static_assert(int64_t{16416} * 131136 > kTooMany);
  INGOT_NEEDS_ROOM(10 * kGib);
  check_output(16416, 131136);
}

// Gate and up are products of bf16 between the two launches: at most 64, which it holds exactly.
void check_between(int64_t rows, int64_t outputs) {
  const IntegerWeight gate(outputs, 64, 1, 5), up(outputs, 64, 1, 6);
  Random random(7);
  Buffer x(kFewRows, 64), out(kFewRows, outputs), unused(kFewRows, outputs);
  x.fill([&] { return small_integer(random, 1); });
  Linear op;
  op.x = x.tensor();
  op.n_parts = 2;
  op.glu = ActivationKind::kRelu;
  op.parts[0].weight = gate.weight();
  op.parts[0].out = out.tensor();
  op.parts[1].weight = up.weight();
  op.parts[1].out = unused.tensor();
  check_both(op, rows, out, exact());
}
TEST(CudaLargeLinear, BetweenProductAndUnitInSmall) {
  INGOT_NEEDS_DEVICE();
  check_between(70, 104);
}
TEST(CudaLargeLinear, BetweenProductAndUnit) {
  static_assert(int64_t{20544} * 2 * 53248 > kTooMany);
  INGOT_NEEDS_ROOM(10 * kGib);
  check_between(20544, 53248);
}

// The norm of x in front of the product.
void check_input(int64_t rows, int64_t cols) {
  Random random(8);
  const TestWeight w(random, Format::kBF16, 24, cols), norm(random, Format::kF32, 1, cols);
  Buffer x(kFewRows, cols), normed(kFewRows, cols), out(kFewRows, 24);
  x.fill_outliers(random);
  Linear op = plain(x, w, out);
  op.input.weight = norm.weight();
  op.input.eps = 1e-5f;
  run_ref(RmsNorm{x.tensor(), norm.weight(), normed.tensor(), cols, 1e-5f}, rows_batch(kFewRows));
  const ProductError error(normed, w, true);
  check_both(op, rows, out, error.tolerance());
}
TEST(CudaLargeLinear, InputInSmall) {
  INGOT_NEEDS_DEVICE();
  check_input(70, 256);
}
TEST(CudaLargeLinear, Input) {
  static_assert(int64_t{262208} * 8192 > kTooMany);
  INGOT_NEEDS_ROOM(14 * kGib);
  check_input(262208, 8192);
}

}  // namespace
}  // namespace ingot
