// q, k and v of a linear on the device: norms of heads, rope and the write to the cache, in the launch of the product
// or after it, against the reference.
#include "matmul/cuda/wide/wide_plan.h"
#include "ops/cuda/kv_test_support.h"
#include "ops/cuda/large_test_support.h"
#include "ops/linear/linear_cuda_test_support.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot {
namespace {

using namespace test;

struct HeadsCase {
  int head_dim = 16, v_dim = 16, rotary = 16;
  bool interleaved = false, norms = false, bias = false;
  DType kv = DType::kF32;
  Format format = Format::kBF16;
  bool q_bf16 = false, x_bf16 = false;
  int64_t cols = 64;
  int multiprocessors = 0;         // 0: the device's
  int first_page = 0;              // of the cache's, that the step uses
  bool k_alone = false;            // a norm for each head of k, not for all of a row
  Format v_format = Format::kF32;  // F32: `format`, too
};

constexpr int kHeads = 3, kKvHeads = 2, kPageRows = 16;

// Element i of a row as device_row() gives it.
float cached(const std::vector<std::byte>& row, DType dtype, int dim, int i) {
  const std::byte* from = row.data();
  float x = 0;
  uint16_t bits = 0;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(&x, from + i * 4, 4);
      return x;
    case DType::kFp8:
      F8_E4M3::decode(reinterpret_cast<const uint8_t*>(from + i), &x);
      return x;
    case DType::kQ8_0:
      std::memcpy(&bits, from + dim + i / kQ8Block * 2, 2);
      return static_cast<float>(static_cast<int8_t>(from[i])) * f16_to_f32(bits);
    default:
      std::memcpy(&bits, from + i * 2, 2);
      return dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }
}

// How far a stored value may be from x, in a row whose largest is `largest`.
double rounding(DType dtype, double x, double largest) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-8 * std::fabs(x);
    case DType::kF16:
      return 0x1p-11 * std::fabs(x) + 0x1p-24;
    case DType::kFp8:
      return 0x1p-4 * std::fabs(x) + 0x1p-10 + std::max(0.0, std::fabs(x) - 448);
    case DType::kQ8_0:
      return largest / 127 * 0.51 + 0x1p-10 * largest;
    default:
      return 0;
  }
}

class Heads {
 public:
  Heads(Random& random, const HeadsCase& c, const std::vector<SeqOf>& seqs)
      : case_(c),
        batch_(make_batch(seqs, kPageRows)),
        rows_(batch_.n_rows),
        q_weight_(random, c.format, kHeads * c.head_dim, c.cols),
        k_weight_(random, c.format, kKvHeads * c.head_dim, c.cols),
        v_weight_(random, c.v_format == Format::kF32 ? c.format : c.v_format, kKvHeads * c.v_dim, c.cols),
        q_bias_(random, Format::kF32, 1, kHeads * c.head_dim),
        v_bias_(random, Format::kF32, 1, kKvHeads * c.v_dim),
        q_norm_(random, Format::kF32, 1, c.head_dim),
        k_norm_(random, Format::kF32, 1, (c.k_alone ? 1 : kKvHeads) * c.head_dim),
        x_(rows_, c.cols),
        q_(rows_, kHeads * c.head_dim),
        k_(rows_, kKvHeads * c.head_dim),
        v_(rows_, kKvHeads * c.v_dim),
        table_(rows_, c.rotary),
        q16_(rows_, kHeads * c.head_dim, kTokenRows, 0, DType::kBF16),
        x16_(rows_, c.cols, kTokenRows, 0, DType::kBF16) {
    x_.fill_outliers(random);
    if (c.x_bf16) round_to_bf16(x_, x16_);
    table_.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
  }

  void check(int more_rows) {
    check_by({.more_rows = more_rows, .multiprocessors = case_.multiprocessors}, [&](DeviceRig& rig, Linear op) {
      if (case_.x_bf16) op.x = x16_.tensor();
      rig.run(op);
    });
  }

  // Behind a linear that leaves its rows with the norm half made. Those rows, normed, are x for the reference.
  void check_linked(Random& random) {
    const TestWeight w(random, Format::kBF16, case_.cols, case_.cols), norm(random, Format::kF32, 1, case_.cols);
    Buffer middle(rows_, case_.cols), source(rows_, case_.cols);
    source.fill([&] { return random.normal(); });
    check_by({}, [&](DeviceRig& rig, Linear op) {
      Linear first;
      first.x = source.tensor();
      first.parts[0].weight = w.weight();
      first.parts[0].out = op.x = middle.tensor();
      op.input.weight = norm.weight();
      op.input.eps = 1e-5f;
      const bool done = rig.run_linked(first, op);
      if (cuda::is_emulated()) {
        EXPECT_TRUE(done);
      }
      run_ref(
          RmsNorm{.x = middle.tensor(), .weight = norm.weight(), .out = x_.tensor(), .width = case_.cols, .eps = 1e-5f},
          batch_);
    });
  }

 private:
  // run(rig, op) runs op on the device, and leaves the rows that its weights meet in x_.
  template <class F>
  void check_by(const DeviceRig::Options& options, F&& run) {
    errors_.clear();
    Linear op = linear();
    const int64_t pages = static_cast<int64_t>(batch_.groups[0].page_table.size());
    KvLayer& kv = op.heads.rope.kv;
    kv.dtype = case_.kv;
    const Batch far = with_pages_from(batch_, case_.first_page, kPageRows);
    DeviceRig rig(far, options);
    rig.place_kv(kv, case_.first_page + pages);
    Linear on_device = op;
    if (case_.q_bf16) on_device.parts[0].out = on_device.heads.rope.q = q16_.tensor();
    run(rig, on_device);
    const std::vector<float> got_q = case_.q_bf16 ? bf16_values(q16_) : q_.values();
    q_.poison();
    // The reference has a cache of f32.
    kv.dtype = DType::kF32;
    std::vector<std::byte> want_k(static_cast<size_t>(pages * kPageRows * kKvHeads * kv.k_bytes()));
    std::vector<std::byte> want_v(static_cast<size_t>(pages * kPageRows * kKvHeads * kv.v_bytes()));
    kv.k = want_k.data();
    kv.v = want_v.data();
    run_ref(op, batch_);
    const std::vector<float> want_q = q_.values();
    const double q_rounding = case_.q_bf16 ? 0x1p-8 : 0;
    expect_near(
        got_q, want_q, q_.cols(),
        [&](int64_t t, int64_t, double want) { return error(t, 0) + (q_rounding + 8 * kEps) * std::fabs(want); }, "q");
    compare_cache(rig, on_device.heads.rope.kv, kv, pages);
  }

  Linear linear() {
    Linear op;
    op.x = x_.tensor();
    op.n_parts = 3;
    op.parts[0] = {.weight = q_weight_.weight(), .bias = {}, .out = q_.tensor()};
    op.parts[1] = {.weight = k_weight_.weight(), .bias = {}, .out = k_.tensor()};
    op.parts[2] = {.weight = v_weight_.weight(), .bias = {}, .out = v_.tensor()};
    if (case_.bias) op.parts[0].bias = q_bias_.weight(), op.parts[2].bias = v_bias_.weight();
    op.heads.rope = {.q = q_.tensor(),
                     .k = k_.tensor(),
                     .v = v_.tensor(),
                     .table = table_.tensor(),
                     .kv = {},
                     .head_dim = case_.head_dim,
                     .interleaved = case_.interleaved};
    op.heads.rope.kv = {.group = 0,
                        .kv_heads = kKvHeads,
                        .k_dim = case_.head_dim,
                        .v_dim = case_.v_dim,
                        .page_rows = kPageRows,
                        .dtype = DType::kF32};
    if (!case_.norms) return op;
    op.heads.q_norm = {.weight = q_norm_.weight(), .width = case_.head_dim, .eps = 1e-6f};
    op.heads.k_norm = {.weight = k_norm_.weight(), .width = k_norm_.weight().cols, .eps = 1e-5f};
    return op;
  }

  double error(int64_t t, int part) {
    const auto [known, first] = errors_.try_emplace({t, part});
    if (first) known->second = find_error(t, part);
    return known->second;
  }
  // How far a value of a row of q (0), k (1) or v (2) may be off: the product's error (roundings of x and of the
  // product to bf16, relative to |x| · |w|), and what norm and rope make of it. Norms divide by the root of the mean
  // square and multiply by at most 3.5 (TestWeight's values are a sum of four uniforms); rope adds two with factors
  // below 1.
  double find_error(int64_t t, int part) {
    const TestWeight& w = part == 0 ? q_weight_ : part == 1 ? k_weight_ : v_weight_;
    const Weight& bias = part == 0 ? q_bias_.weight() : v_bias_.weight();
    double most = 0, least_mean = 1e30;
    const int64_t width = part == 0 || case_.k_alone ? case_.head_dim : w.weight().rows;
    double squares = 0;
    for (int64_t n = 0; n < w.weight().rows; ++n) {
      const std::vector<float> row = w.row(n);
      double sum = 0, value = 0;
      for (int64_t k = 0; k < case_.cols; ++k) {
        const double product = static_cast<double>(x_.at(t, k)) * static_cast<double>(row[static_cast<size_t>(k)]);
        sum += std::fabs(product);
        value += product;
      }
      if (case_.bias && part != 1) value += static_cast<double>(reinterpret_cast<const float*>(bias.data)[n]);
      most = std::max(most, sum * (0x1p-7 + 128 * kEps));
      squares += value * value;
      if ((n + 1) % width == 0) {
        least_mean = std::min(least_mean, squares / static_cast<double>(width));
        squares = 0;
      }
    }
    if (case_.format == Format::kF32) most *= 0x1p-8;
    if (part == 2) return most;
    return case_.norms ? 2 * most * 3.5 * 2 / std::sqrt(least_mean) : 2 * most;
  }

  void compare_cache(DeviceRig& rig, const KvLayer& kv, const KvLayer& want_kv, int64_t pages) {
    const int64_t slots = pages * kPageRows * kKvHeads;
    std::vector<std::byte> k(static_cast<size_t>(slots * kv.k_bytes())), v(static_cast<size_t>(slots * kv.v_bytes()));
    rig.download(k.data(), kv.k_page(case_.first_page, 0), std::ssize(k));
    rig.download(v.data(), kv.v_page(case_.first_page, 0), std::ssize(v));
    KvLayer got = kv;
    got.k = k.data();
    got.v = v.data();
    for (int64_t t = 0; t < rows_; ++t) {
      const int64_t slot = batch_.groups[0].slot[static_cast<size_t>(t)];
      for (int h = 0; h < kKvHeads; ++h) {
        const float* group = reinterpret_cast<const float*>(want_kv.k_group(slot, h));
        compare_row(t, 1, case_.head_dim, device_row(got, got.k, case_.head_dim, slot, h),
                    [&](int i) { return group[i * kKeyGroup + slot % kKeyGroup]; });
        const float* values = reinterpret_cast<const float*>(want_kv.v_row(slot, h));
        compare_row(t, 2, case_.v_dim, device_row(got, got.v, case_.v_dim, slot, h), [&](int i) { return values[i]; });
      }
    }
  }
  template <class F>
  void compare_row(int64_t t, int part, int dim, const std::vector<std::byte>& row, const F& want) {
    const double off = error(t, part);
    double largest = 0;
    for (int i = 0; i < dim; ++i) largest = std::max(largest, std::fabs(static_cast<double>(want(i))) + off);
    for (int i = 0; i < dim; ++i) {
      const double x = static_cast<double>(want(i));
      ASSERT_NEAR(static_cast<double>(cached(row, case_.kv, dim, i)), x,
                  off + rounding(case_.kv, std::fabs(x) + off, largest) + 8 * kEps * std::fabs(x))
          << (part == 1 ? "key" : "value") << " of row " << t << ", element " << i;
    }
  }

  const HeadsCase case_;
  const Batch batch_;
  const int64_t rows_;
  const TestWeight q_weight_, k_weight_, v_weight_, q_bias_, v_bias_, q_norm_, k_norm_;
  Buffer x_, q_, k_, v_, table_, q16_, x16_;
  std::map<std::pair<int64_t, int>, double> errors_;  // of the rows that x_ has
};

TEST(CudaLinear, HeadsOfFewAndManyRows) {
  INGOT_NEEDS_DEVICE();
  Random random(1);
  for (const std::vector<SeqOf>& seqs : {std::vector<SeqOf>{{1, 40}},
                                         {{2, 3}, {1, 7}, {4, 14}},
                                         {{13, 3}, {1, 7}},
                                         {{16, 3}, {1, 7}},
                                         {{65, 3}, {1, 7}}}) {
    for (const bool norms : {false, true}) {
      SCOPED_TRACE(testing::Message() << seqs.size() << " seqs, norms " << norms);
      Heads(random, {.norms = norms, .bias = true}, seqs).check(2);
    }
  }
}

// Rows of bf16 that lie ready: packed weights are read up to 32, which is the 30 and the two that pad them.
TEST(CudaLinear, HeadsOfReadyRows) {
  INGOT_NEEDS_DEVICE();
  Random random(4);
  for (const int rows : {7, 14, 15, 30, 31}) {
    SCOPED_TRACE(rows);
    Heads(random, {.bias = true, .x_bf16 = true}, {{rows - 1, 3}, {1, 7}}).check(2);
    Heads(random, {.head_dim = 26, .v_dim = 26, .rotary = 26, .x_bf16 = true}, {{rows, 9}}).check(2);
  }
}

TEST(CudaLinear, HeadsBehindALinear) {
  INGOT_NEEDS_DEVICE();
  Random random(5);
  for (const int rows : {1, 8, 9, 15, 16, 17, 32}) {
    SCOPED_TRACE(rows);
    Heads(random, {.bias = true}, {{rows, 3}}).check_linked(random);
    if (rows > 8) Heads(random, {.norms = true}, {{rows, 3}}).check_linked(random);
  }
}

// Norms of heads, in the launch of the product where that has two formats.
TEST(CudaLinear, NormsOfHeadsBehindALinear) {
  INGOT_NEEDS_DEVICE();
  Random random(6);
  HeadsCase c{.head_dim = 64, .v_dim = 64, .rotary = 64, .norms = true, .bias = true, .kv = DType::kBF16, .cols = 288};
  c.k_alone = true;
  for (const int rows : {1, 3, 8}) {
    SCOPED_TRACE(rows);
    c.kv = rows == 3 ? DType::kFp8 : DType::kBF16;
    Heads(random, c, {{rows, 3}}).check_linked(random);
    HeadsCase codes = c;
    codes.q_bf16 = true;
    codes.cols = 512;
    codes.format = Format::kQ4_K;
    Heads(random, codes, {{rows, 3}}).check_linked(random);
    codes.v_format = Format::kQ6_K;
    Heads(random, codes, {{rows, 7}}).check_linked(random);
  }
}

TEST(CudaLinear, HeadsOfEveryCache) {
  INGOT_NEEDS_DEVICE();
  Random random(2);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    SCOPED_TRACE(dtype_name(dtype));
    // 64: the rows' pieces are permuted.
    Heads(random, {.head_dim = 64, .v_dim = 64, .rotary = 64, .kv = dtype, .q_bf16 = true}, {{2, 13}, {1, 6}}).check(0);
    Heads(random, {.head_dim = 64, .v_dim = 48, .rotary = 32, .kv = dtype}, {{18, 13}}).check(0);
    Heads(random, {.head_dim = 64, .v_dim = 64, .rotary = 64, .kv = dtype, .q_bf16 = true}, {{66, 13}}).check(0);
  }
}

TEST(CudaLinear, HeadsTurnedInEveryWay) {
  INGOT_NEEDS_DEVICE();
  Random random(3);
  for (const bool interleaved : {false, true}) {
    for (const int rotary : {8, 16}) {
      SCOPED_TRACE(testing::Message() << "interleaved " << interleaved << ", rotary " << rotary);
      Heads(random, {.rotary = rotary, .interleaved = interleaved}, {{2, 0}}).check(1);
      Heads(random, {.rotary = rotary, .interleaved = interleaved, .norms = true}, {{17, 0}}).check(0);
      Heads(random, {.rotary = rotary, .interleaved = interleaved}, {{65, 0}}).check(0);
    }
  }
  for (const int rows : {3, 11, 40})  // tiles of 48 rows, which end within heads
    Heads(random, {.head_dim = 26, .v_dim = 26, .rotary = 26}, {{rows, 9}}).check(0);
  Heads(random, {.format = Format::kQ8_0}, {{2, 5}}).check(0);
  Heads(random, {.norms = true, .bias = true, .format = Format::kF32}, {{9, 5}}).check(0);
}

// Columns in slices, whose blocks hand each other their sums.
TEST(CudaLinear, HeadsInSlices) {
  INGOT_NEEDS_DEVICE();
  HeadsCase c{.bias = true, .kv = DType::kBF16, .q_bf16 = true, .x_bf16 = true, .cols = 2112, .multiprocessors = 12};
  ASSERT_GT(cuda::wide_plan(7, 16, 66, c.multiprocessors).slices, 1);
  Random random(6);
  for (const int rows : {7, 15, 21, 30}) {
    SCOPED_TRACE(rows);
    Heads(random, c, {{rows - 1, 3}, {1, 7}}).check(2);
  }
  c.head_dim = c.v_dim = c.rotary = 64;
  c.multiprocessors = 40;
  Heads(random, c, {{25, 9}}).check(0);
}

// Pages on both sides of the cache's element 2^31, by every way that heads go: the streaming kernel, the one of taller
// tiles, and a launch of its own.
void check_far(int head_dim, int first_page) {
  Random random(7);
  HeadsCase c{.head_dim = head_dim,
              .v_dim = head_dim,
              .rotary = head_dim,
              .kv = DType::kBF16,
              .q_bf16 = true,
              .x_bf16 = true,
              .first_page = first_page};
  for (const int rows : {3, 20, 70}) {
    SCOPED_TRACE(rows);
    Heads(random, c, {{rows, 23}}).check(0);
  }
  c.norms = true;
  Heads(random, c, {{20, 23}}).check(0);
}
TEST(CudaLinear, HeadsOfFarPagesInSmall) {
  INGOT_NEEDS_DEVICE();
  check_far(64, 5);
}
TEST(CudaLinear, HeadsOfFarPages) {
  INGOT_NEEDS_ROOM(10 * kGib);
  check_far(128, static_cast<int>(kTooMany / (kPageRows * kKvHeads * 128)) - 2);
}

}  // namespace
}  // namespace ingot
