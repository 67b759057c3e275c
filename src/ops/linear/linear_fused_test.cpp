// What a linear takes in of the ops before and after it: bit for bit what those ops give, by either version.
#include "ops/linear/linear.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

// Runs an op by the fast version with `threads`, or by the reference (0).
template <class Op>
void run_with(const Op& op, const Batch& batch, int threads) {
  if (threads == 0) return test::run_ref(op, batch);
  test::run_cpu(op, batch, threads);
}

struct NormCase {
  bool add, add_norm;
};

void check_input(Random& random, Format format, int64_t rows, NormCase c) {
  const int64_t cols = 96, n = 50;
  const TestWeight w(random, format, n, cols), norm(random, Format::kF32, 1, cols),
      inner(random, Format::kF32, 1, cols);
  const Batch batch = test::rows_batch(static_cast<int>(rows));
  Buffer x(rows, cols, kTokenRows, cols + 7), add(rows, cols), normed(rows, cols), added(rows, cols), sum(rows, cols);
  Buffer out(rows, n), want(rows, n), got_sum(rows, cols);
  x.fill_outliers(random);
  add.fill_outliers(random);
  for (const int threads : {0, 1, 3}) {
    SCOPED_TRACE(testing::Message() << format_name(format) << ", " << rows << " rows, threads " << threads);
    Tensor b = add.tensor();
    if (c.add_norm) {
      run_with(RmsNorm{.x = b, .weight = inner.weight(), .out = added.tensor(), .width = cols, .eps = 1e-5f}, batch,
               threads);
      b = added.tensor();
    }
    if (c.add) {
      run_with(AddRmsNorm{.a = x.tensor(),
                          .b = b,
                          .weight = norm.weight(),
                          .sum = sum.tensor(),
                          .out = normed.tensor(),
                          .eps = 1e-6f},
               batch, threads);
    } else {
      run_with(RmsNorm{.x = x.tensor(), .weight = norm.weight(), .out = normed.tensor(), .width = cols, .eps = 1e-6f},
               batch, threads);
    }
    Linear plain;
    plain.parts[0].weight = w.weight();
    Linear fused = plain;
    plain.x = normed.tensor();
    plain.parts[0].out = want.tensor();
    fused.x = x.tensor();
    fused.parts[0].out = out.tensor();
    fused.input.weight = norm.weight();
    fused.input.eps = 1e-6f;
    if (c.add) fused.input.add = add.tensor();
    if (c.add) fused.input.sum = got_sum.tensor();
    if (c.add_norm) fused.input.add_norm = inner.weight();
    fused.input.add_eps = 1e-5f;
    run_with(plain, batch, threads);
    out.poison();
    got_sum.poison();
    run_with(fused, batch, threads);
    out.expect_intact();
    got_sum.expect_intact();
    test::expect_same_bits(out.values(), want.values(), "out");
    if (!c.add) continue;
    test::expect_same_bits(got_sum.values(), sum.values(), "sum");
    // The sum in the place of one of its terms.
    const auto saved = add.save();
    fused.input.sum = add.tensor();
    run_with(fused, batch, threads);
    test::expect_same_bits(add.values(), sum.values(), "sum in place");
    test::expect_same_bits(out.values(), want.values(), "out, sum in place");
    add.restore(saved);
  }
}

TEST(LinearFused, InputIsTheNormBefore) {
  Random random(1);
  for (const Format format : {Format::kF32, Format::kQ4_1, Format::kBF16, Format::kF16}) {
    for (const int64_t rows : {1, 4, 5, 37}) {
      for (const NormCase c : {NormCase{false, false}, {true, false}, {true, true}})
        check_input(random, format, rows, c);
    }
  }
}

struct Cache {
  std::vector<std::byte> k, v;
  bool operator==(const Cache&) const = default;
};

// q, k, v, and the cache: by one op, or by the ops that it stands for.
TEST(LinearFused, HeadsAreNormsRopeAndKvWrite) {
  Random random(2);
  const int heads = 3, kv_heads = 2, dim = 16, cols = 64, page_rows = 16;
  const TestWeight q_weight(random, Format::kQ8_0, heads * dim, cols),
      k_weight(random, Format::kQ4_0, kv_heads * dim, cols);
  const TestWeight v_weight(random, Format::kF32, kv_heads * dim, cols);
  const TestWeight q_norm(random, Format::kF32, 1, dim), k_norm(random, Format::kF32, 1, kv_heads * dim);
  for (const bool norms : {false, true}) {
    for (const std::vector<test::SeqOf>& seqs : {std::vector<test::SeqOf>{{1, 40}}, {{30, 3}, {1, 7}, {20, 0}}}) {
      const Batch batch = test::make_batch(seqs, page_rows);
      const int64_t rows = batch.n_rows;
      Buffer x(rows, cols), q(rows, heads * dim), k(rows, kv_heads * dim), v(rows, kv_heads * dim), table(rows, dim);
      x.fill_outliers(random);
      table.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
      const size_t values = batch.groups[0].page_table.size() * static_cast<size_t>(page_rows * kv_heads * dim);
      Linear linear;
      linear.x = x.tensor();
      linear.n_parts = 3;
      linear.parts[0] = {.weight = q_weight.weight(), .bias = {}, .out = q.tensor()};
      linear.parts[1] = {.weight = k_weight.weight(), .bias = {}, .out = k.tensor()};
      linear.parts[2] = {.weight = v_weight.weight(), .bias = {}, .out = v.tensor()};
      HeadsOutput after;
      after.rope = {
          .q = q.tensor(), .k = k.tensor(), .v = v.tensor(), .table = table.tensor(), .kv = {}, .head_dim = dim};
      after.rope.kv = {
          .group = 0, .kv_heads = kv_heads, .k_dim = dim, .v_dim = dim, .page_rows = page_rows, .dtype = DType::kF32};
      if (norms) {
        after.q_norm = {.weight = q_norm.weight(), .width = dim, .eps = 1e-6f};
        after.k_norm = {.weight = k_norm.weight(), .width = kv_heads * dim, .eps = 1e-5f};
      }
      const auto run = [&](int threads, bool fused) {
        Cache cache{std::vector(values * 4, std::byte{0xee}), std::vector(values * 4, std::byte{0xee})};
        HeadsOutput h = after;
        h.rope.kv.k = cache.k.data();
        h.rope.kv.v = cache.v.data();
        Linear op = linear;
        if (fused) op.heads = h;
        for (Buffer* b : {&q, &k, &v}) b->poison();
        run_with(op, batch, threads);
        for (const auto& [norm, y] : {std::pair(&h.q_norm, q.tensor()), std::pair(&h.k_norm, k.tensor())}) {
          if (fused || !norms) continue;
          run_with(RmsNorm{.x = y, .weight = norm->weight, .out = y, .width = norm->width, .eps = norm->eps}, batch,
                   threads);
        }
        if (!fused) run_with(h.rope, batch, threads);
        for (Buffer* b : {&q, &k, &v}) b->expect_intact();
        return std::pair(cache, q.values());
      };
      for (const int threads : {0, 1, 3}) {
        const auto want = run(threads, false), got = run(threads, true);
        EXPECT_EQ(got.first, want.first) << "threads " << threads;
        test::expect_same_bits(got.second, want.second, "q");
      }
    }
  }
}

// q, k and v whose weights read x in different encodings on some set, with the norm before them: what each gives alone.
TEST(LinearFused, PartsOfSeveralEncodings) {
  Random random(21);
  const int64_t cols = 768;
  const TestWeight q(random, Format::kQ4_K, 70, cols), k(random, Format::kQ6_K, 33, cols),
      v(random, Format::kINT4, 40, cols), norm(random, Format::kF32, 1, cols);
  const TestWeight* weights[] = {&q, &k, &v};
  for (const int64_t rows : {1, 3, 37}) {
    const Batch batch = test::rows_batch(static_cast<int>(rows));
    Buffer x(rows, cols), all(rows, 70 + 33 + 40);
    x.fill_outliers(random);
    Linear fused;
    fused.x = x.tensor();
    fused.input.weight = norm.weight();
    fused.input.eps = 1e-6f;
    fused.n_parts = 3;
    int64_t at = 0;
    for (size_t p = 0; p < 3; ++p) {
      fused.parts[p].weight = weights[p]->weight();
      fused.parts[p].out = all.columns(at, weights[p]->weight().rows);
      at += weights[p]->weight().rows;
    }
    test::for_each_kernels([&] {
      all.poison();
      test::run_cpu(fused, batch, 2);
      all.expect_intact();
      int64_t first = 0;
      for (const TestWeight* w : weights) {
        Buffer out(rows, w->weight().rows);
        Linear one;
        one.x = x.tensor();
        one.input = fused.input;
        one.parts[0].weight = w->weight();
        one.parts[0].out = out.tensor();
        test::run_cpu(one, batch);
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t n = 0; n < out.cols(); ++n)
            ASSERT_EQ(all.at(t, first + n), out.at(t, n)) << rows << " rows: " << t << ", " << n;
        first += out.cols();
      }
    });
  }
}

}  // namespace
}  // namespace ingot
