// A caller of the product that is no linear: rows of x by an index, as the experts of a layer read theirs, on the
// device. Bit for bit the product of the same rows copied one after another, by every kind of kernel.
#include "cuda/device_test_support.h"
#include "matmul/cuda/matmul.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestDevice;
using test::TestWeight;

constexpr int64_t kStored = 40;   // rows of x that some are taken of
constexpr int64_t kOutputs = 80;  // an odd number of tiles of 16
constexpr int64_t kCols = 96;

struct Case {
  Format format = Format::kBF16;
  DType dtype = DType::kF32;  // of x
  bool norm = false, glu = false, residual = false;
};

// One product on the device, with x where and as it is wanted.
class GatheredProduct {
 public:
  GatheredProduct(const Case& c, int64_t rows, const TestDevice::Options& options, Random& random)
      : case_(c),
        rows_(rows),
        device_(options),
        gate_(random, c.format, kOutputs, kCols),
        up_(random, c.format, kOutputs, kCols),
        norm_(kCols),
        x_(kStored * kCols),
        residual_(rows * kOutputs) {
    for (float& v : norm_) v = random.normal();
    for (float& v : x_) v = random.outlier();
    for (float& v : residual_) v = random.normal();
    for (int64_t t = 0; t < rows; ++t) index_.push_back(static_cast<int32_t>(random.below(kStored)));
  }

  // The rows of the index, gathered by the product or copied before it.
  std::vector<float> run(bool gather) {
    std::vector<float> x;
    for (int64_t t = 0; t < (gather ? kStored : rows_); ++t) {
      const int64_t from = gather ? t : index_[static_cast<size_t>(t)];
      x.insert(x.end(), x_.begin() + from * kCols, x_.begin() + (from + 1) * kCols);
    }
    cuda::DeviceProduct product;
    product.input.x = matrix(upload_x(x), kCols, case_.dtype);
    if (gather) product.input.gather = reinterpret_cast<const int32_t*>(fresh(index_.data(), rows_ * 4));
    if (case_.norm) {
      product.input.norm = reinterpret_cast<const float*>(device_.upload(norm_.data(), kCols * 4));
      product.input.eps = 1e-5f;
    }
    const Weight gate = to_device(gate_.weight()), up = to_device(up_.weight());
    std::byte* out = device_.allocate(rows_ * kOutputs * 4);
    product.parts[0] = {.weight = &gate, .bias = nullptr, .out = matrix(out, kOutputs)};
    if (case_.glu) {
      product.n_parts = 2;
      product.parts[1].weight = &up;
      product.glu = ActivationKind::kSilu;
    }
    if (case_.residual) product.residual = matrix(fresh(residual_.data(), rows_ * kOutputs * 4), kOutputs);
    check(product);
    cuda::DeviceCtx ctx = device_.ctx();
    ctx.scratch_bytes = cuda::product_scratch(product, rows_, ctx.batch_invariant);
    ctx.scratch = device_.allocate(ctx.scratch_bytes);
    std::shared_ptr<cuda::StreamedProduct> streamed;
    if (!ctx.batch_invariant)
      streamed = cuda::pack_product(product, ctx, [&](int64_t bytes) { return device_.allocate(bytes); });
    product.streamed = streamed.get();
    cuda::multiply(product, rows_, ctx);
    std::vector<float> values(static_cast<size_t>(rows_ * kOutputs));
    device_.download(values.data(), out, static_cast<int64_t>(values.size() * 4));
    device_.expect_nothing_left();
    return values;
  }

 private:
  static Matrix matrix(std::byte* data, int64_t cols, DType dtype = DType::kF32) {
    Matrix m;
    m.data = data;
    m.dtype = dtype;
    m.cols = m.stride = cols;
    return m;
  }
  std::byte* fresh(const void* from, int64_t bytes) {
    std::byte* to = device_.allocate(bytes);
    cuda::copy_to_device(to, from, bytes, device_.stream());
    device_.synchronize();
    return to;
  }
  std::byte* upload_x(const std::vector<float>& x) {
    const auto n = static_cast<int64_t>(x.size());
    if (case_.dtype == DType::kF32) return fresh(x.data(), n * 4);
    std::vector<uint16_t> bits;
    for (const float v : x) bits.push_back(f32_to_bf16(v));
    return fresh(bits.data(), n * 2);
  }
  Weight to_device(const Weight& w) {
    Weight twin = w;
    twin.data = device_.upload(w.data, w.bytes());
    return twin;
  }

  const Case case_;
  const int64_t rows_;
  TestDevice device_;
  TestWeight gate_, up_;
  std::vector<float> norm_, x_, residual_;
  std::vector<int32_t> index_;
};

void expect_same(const Case& c, int64_t rows, const TestDevice::Options& options, Random& random) {
  SCOPED_TRACE(testing::Message() << format_name(c.format) << ", " << rows << " rows, norm " << c.norm << ", glu "
                                  << c.glu << ", residual " << c.residual);
  GatheredProduct product(c, rows, options, random);
  test::expect_same_bits(product.run(true), product.run(false), "gathered");
}

// 1 to 8 rows by the streaming kernel, up to 32 by the one of taller tiles, more by our own product; weights of f32 by
// the kernel that takes all. Norms of up to four rows that are not gathered are made by the streaming kernel
// itself, with other roundings.
TEST(GatheredProductCuda, IsTheProductOfCopiedRows) {
  INGOT_NEEDS_DEVICE();
  Random random(5);
  for (const int64_t rows : {1, 3, 8, 9, 31, 37}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      expect_same({.dtype = dtype}, rows, {}, random);
      expect_same({.dtype = dtype, .residual = true}, rows, {}, random);
      expect_same({.dtype = dtype, .glu = true}, rows, {}, random);
      if (rows > 4) expect_same({.dtype = dtype, .norm = true, .glu = true}, rows, {}, random);
    }
    if (rows > 4) expect_same({.format = Format::kQ4_0, .norm = true}, rows, {}, random);
    expect_same({.format = Format::kQ8_0, .glu = true}, rows, {}, random);
    expect_same({.format = Format::kF32, .norm = true}, rows, {}, random);
    expect_same({.norm = true}, rows, {.batch_invariant = true}, random);
    expect_same({.norm = true}, rows, {.arch = 80}, random);
  }
}

}  // namespace
}  // namespace ingot
