#include "ops/attention/attention.h"

#include <algorithm>
#include <numeric>

#include "ops/attention/attention_kernels.h"
#include "ops/attention/attention_plan.h"
#include "ops/test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::kEps;
using test::Random;

struct Case {
  int heads = 4, kv_heads = 2, k_dim = 32, v_dim = 32;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  DType dtype = DType::kF32;
  int page_rows = 16;
  bool smooth = false;  // values about normal, which no narrow type of the cache holds exactly
};

// A seq of the step. Its q, k and v are functions of `id` and the position alone.
struct Seq {
  uint64_t id = 0;
  int rows = 1, past = 0;
};

// Values for every position of a seq, exact in the type of the cache: multiples of 1/8 below 4 with outliers 32 times
// as large; for q8_0 multiples of 1/32 with a largest of 127/32 in each block.
class Values {
 public:
  Values(uint64_t seed, int positions, int heads, int dim, const Case& c)
      : cols_(heads * dim), values_(static_cast<size_t>(positions * cols_)) {
    Random random(seed);
    for (size_t i = 0; i < values_.size(); ++i) {
      float& v = values_[i];
      if (c.smooth) {
        v = random.normal();
      } else if (c.dtype == DType::kQ8_0) {
        v = static_cast<float>(random.below(255) - 127) / 32;
        if (static_cast<int>(i) % dim % kQ8Block == 0) v = v < 0 ? -127.0f / 32 : 127.0f / 32;
      } else {
        v = static_cast<float>(random.below(65) - 32) / 8;
        if (random.below(64) == 0) v *= 32;
      }
    }
  }
  const float* row(int position) const { return values_.data() + position * cols_; }

 private:
  int cols_;
  std::vector<float> values_;
};

struct SeqValues {
  Values q, k, v;
  SeqValues(const Case& c, const Seq& seq)
      : q(3 * seq.id, seq.rows + seq.past, c.heads, c.k_dim, c),
        k(3 * seq.id + 1, seq.rows + seq.past, c.kv_heads, c.k_dim, c),
        v(3 * seq.id + 2, seq.rows + seq.past, c.kv_heads, c.v_dim, c) {}
};

double product(const float* a, const float* b, int n, bool absolute = false) {
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double p = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    sum += absolute ? std::fabs(p) : p;
  }
  return sum;
}

// One step's inputs. Slots of the cache that no visible position has are NaN.
class Step {
 public:
  Step(const Case& c, const std::vector<Seq>& seqs, uint64_t page_seed = 1)
      : c_(c),
        seqs_(seqs),
        batch_(test::make_batch(counts(seqs), c.page_rows, 2, page_seed)),
        q_(batch_.n_rows, c.heads * c.k_dim, kTokenRows, c.heads * c.k_dim + 7),
        out_(batch_.n_rows, c.heads * c.v_dim, kTokenRows, c.heads * c.v_dim + 9),
        random_(5),
        sinks_(random_, Format::kF32, 1, c.heads, 3.0f) {
    kv_.group = 1;
    kv_.kv_heads = c.kv_heads;
    kv_.k_dim = c.k_dim;
    kv_.v_dim = c.v_dim;
    kv_.page_rows = c.page_rows;
    kv_.dtype = c.dtype;
    const size_t slots = batch_.groups[1].page_table.size() * static_cast<size_t>(c.page_rows * c.kv_heads);
    k_.assign(slots * static_cast<size_t>(kv_.k_bytes()), std::byte{0xff});
    v_.assign(slots * static_cast<size_t>(kv_.v_bytes()), std::byte{0xff});
    kv_.k = k_.data();
    kv_.v = v_.data();
    for (const Seq& seq : seqs) values_.emplace_back(c, seq);
    for (int s = 0; s < batch_.n_seqs; ++s) fill(s);
    for (int64_t t = 0; t < batch_.n_rows; ++t)
      for (int64_t i = 0; i < q_.cols(); ++i) q_.at(t, i) = of(t).q.row(position(t))[i];
  }

  Attention op() {
    Attention op{.q = q_.tensor(),
                 .out = out_.tensor(),
                 .kv = kv_,
                 .heads = c_.heads,
                 .window = c_.window,
                 .scale = scale(),
                 .softcap = c_.softcap,
                 .sinks = {}};
    if (c_.sinks) op.sinks = sinks_.weight();
    return op;
  }
  std::vector<float> run_ref(int threads = 1) {
    out_.poison();
    test::run_ref(op(), batch_, threads);
    out_.expect_intact();
    return out_.values();
  }
  std::vector<float> run_cpu(int threads = 1) {
    out_.poison();
    test::run_cpu(op(), batch_, threads);
    out_.expect_intact();
    return out_.values();
  }
  // From the definition, in float64, without pages.
  std::vector<float> brute_force() {
    std::vector<float> result;
    for (int64_t t = 0; t < batch_.n_rows; ++t)
      for (int h = 0; h < c_.heads; ++h) {
        const std::vector<double> row = head(t, h);
        result.insert(result.end(), row.begin(), row.end());
      }
    return result;
  }
  // The scores of two versions are apart by the roundings of a sum over k_dim; a weight by as much,
  // relative to itself; the result by that and by the sum over the keys, times the largest value.
  test::Tolerance tolerance() {
    std::vector<double> errors;
    for (int64_t t = 0; t < batch_.n_rows; ++t)
      for (int h = 0; h < c_.heads; ++h) errors.push_back(error(t, h));
    return [this, errors](int64_t t, int64_t column, double) {
      return errors[static_cast<size_t>(t * c_.heads + column / c_.v_dim)];
    };
  }
  int64_t cols() const { return out_.cols(); }
  const Batch& batch() const { return batch_; }

 private:
  static std::vector<test::SeqOf> counts(const std::vector<Seq>& seqs) {
    std::vector<test::SeqOf> result;
    for (const Seq& s : seqs) result.push_back({s.rows, s.past});
    return result;
  }
  float scale() const {
    return c_.smooth ? 1 / std::sqrt(static_cast<float>(c_.k_dim)) : 0.25f / static_cast<float>(c_.k_dim);
  }
  const SeqValues& of(int64_t t) const { return values_[static_cast<size_t>(batch_.seq[static_cast<size_t>(t)])]; }
  int position(int64_t t) const { return batch_.position[static_cast<size_t>(t)]; }
  int first(int64_t t) const { return c_.window > 0 ? std::max(0, position(t) - c_.window + 1) : 0; }
  int kv_head(int h) const { return h / (c_.heads / c_.kv_heads); }
  const float* query(int64_t t, int h) const { return of(t).q.row(position(t)) + h * c_.k_dim; }
  const float* key(int64_t t, int p, int h) const { return of(t).k.row(p) + kv_head(h) * c_.k_dim; }
  const float* val(int64_t t, int p, int h) const { return of(t).v.row(p) + kv_head(h) * c_.v_dim; }

  void fill(int s) {
    const Seq& seq = seqs_[static_cast<size_t>(s)];
    const SeqValues& values = values_[static_cast<size_t>(s)];
    for (int p = 0; p < seq.past + seq.rows; ++p) {
      const int64_t slot = int64_t{batch_.pages(1, s)[p / c_.page_rows]} * c_.page_rows + p % c_.page_rows;
      for (int h = 0; h < c_.kv_heads; ++h) {
        const cpu::AttentionKernels& plain = *cpu::available_kernels().back()->attention;
        plain.store_key(c_.dtype, values.k.row(p) + h * c_.k_dim, c_.k_dim, kv_.k_group(slot, h), slot % kKeyGroup);
        plain.store_value(c_.dtype, values.v.row(p) + h * c_.v_dim, c_.v_dim, kv_.v_row(slot, h));
      }
    }
  }
  double error(int64_t t, int h) const {
    double score = 0, largest = 0;
    for (int p = first(t); p <= position(t); ++p) {
      score = std::max(score, product(query(t, h), key(t, p, h), c_.k_dim, true) * static_cast<double>(scale()));
      for (int d = 0; d < c_.v_dim; ++d) largest = std::max(largest, std::fabs(static_cast<double>(val(t, p, h)[d])));
    }
    const double roundings = 2 * (c_.k_dim + 12.0) * kEps;
    // Products of bf16: q is exact, a weight is rounded to 8 bits.
    const double weight = cpu::kernels().attention->bf16 != nullptr && c_.dtype == DType::kBF16 ? 0x1p-9 : 0;
    return largest * (2 * roundings * score + (position(t) / 16.0 + 64) * kEps + weight);
  }
  std::vector<double> head(int64_t t, int h) {
    std::vector<double> result(static_cast<size_t>(c_.v_dim)), weights;
    double sum = c_.sinks ? std::exp(static_cast<double>(sinks_.row(0)[static_cast<size_t>(h)])) : 0;
    for (int p = first(t); p <= position(t); ++p) {
      double score = product(query(t, h), key(t, p, h), c_.k_dim) * static_cast<double>(scale());
      if (c_.softcap > 0) score = c_.softcap * std::tanh(score / static_cast<double>(c_.softcap));
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (int p = first(t); p <= position(t); ++p)
      for (int d = 0; d < c_.v_dim; ++d)
        result[static_cast<size_t>(d)] +=
            weights[static_cast<size_t>(p - first(t))] / sum * static_cast<double>(val(t, p, h)[d]);
    return result;
  }

  Case c_;
  std::vector<Seq> seqs_;
  std::vector<SeqValues> values_;
  Batch batch_;
  Buffer q_, out_;
  Random random_;
  test::TestWeight sinks_;
  KvLayer kv_;
  std::vector<std::byte> k_, v_;
};

std::vector<Case> cases() {
  return {
      {},
      {.heads = 1, .kv_heads = 1, .k_dim = 1, .v_dim = 1},
      {.heads = 6, .kv_heads = 2, .k_dim = 20, .v_dim = 13, .page_rows = 48},
      {.heads = 40, .kv_heads = 1, .k_dim = 64, .v_dim = 64, .page_rows = 64},
      {.window = 5},
      {.window = 64, .page_rows = 128},
      {.k_dim = 80, .v_dim = 80, .window = 100, .softcap = 5},
      {.softcap = 2, .sinks = true},
      {.window = 33, .sinks = true, .page_rows = 64},
      {.dtype = DType::kF16},
      {.k_dim = 17, .v_dim = 35, .dtype = DType::kBF16, .page_rows = 32},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kBF16, .page_rows = 32},
      {.k_dim = 20, .v_dim = 40, .window = 33, .softcap = 5, .sinks = true, .dtype = DType::kBF16},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kQ8_0, .page_rows = 64},
      {.heads = 6, .kv_heads = 2, .k_dim = 41, .v_dim = 70, .window = 40, .dtype = DType::kQ8_0},
  };
}

const std::vector<std::vector<Seq>>& batches() {
  static const std::vector<std::vector<Seq>> all = {
      {{1, 1, 0}},  {{1, 63, 0}},  {{1, 131, 0}},
      {{1, 1, 63}}, {{1, 1, 256}}, {{1, 9, 60}, {2, 1, 0}, {3, 40, 0}, {4, 1, 130}, {5, 3, 62}},
  };
  return all;
}

TEST(Attention, RefIsTheDefinition) {
  for (const Case& c : cases())
    for (const std::vector<Seq>& seqs : batches()) {
      Step step(c, seqs);
      test::expect_near(step.run_ref(2), step.brute_force(), step.cols(), test::relative(4, 1e-5), "ref");
    }
}

TEST(Attention, CpuMatchesRef) {
  size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << "case " << index++);
    for (const std::vector<Seq>& seqs : batches()) {
      Step step(c, seqs);
      const std::vector<float> want = step.run_ref();
      test::for_each_kernels([&] {
        const std::vector<float> got = step.run_cpu();
        test::expect_near(got, want, step.cols(), step.tolerance(), "cpu");
        for (int threads : {2, 3}) test::expect_same_bits(step.run_cpu(threads), got, "threads");
      });
    }
  }
}

// The rows of one seq, in one piece, in pieces of every length, and among others in other pages.
TEST(Attention, ChunksAndBatchMatesChangeNothing) {
  const int total = 131;
  for (const Case& c : cases()) {
    test::for_each_kernels([&] {
      const std::vector<float> whole = Step(c, {{7, total, 0}}).run_cpu();
      for (int chunk : {1, 7, 64}) {
        std::vector<float> pieces;
        for (int past = 0; past < total; past += chunk) {
          const std::vector<float> piece = Step(c, {{7, std::min(chunk, total - past), past}}, 3).run_cpu(2);
          pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        test::expect_same_bits(pieces, whole, "chunks of " + std::to_string(chunk));
      }
      Step batch(c, {{8, 30, 10}, {7, 20, 111}, {9, 1, 200}}, 9);
      const std::vector<float> got = batch.run_cpu(3);
      const auto row = [&](const std::vector<float>& v, int64_t r) { return v.begin() + r * batch.cols(); };
      test::expect_same_bits({row(got, 30), row(got, 50)}, {row(whole, 111), row(whole, 131)}, "in a batch");
    });
  }
}

// Heads and ratios of real models, in every type of the cache.
TEST(Attention, HeadSizesAndRatios) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (int dim : {64, 80, 96, 128, 256})
      for (int ratio : {1, 3, 4, 7, 8}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << dim << ", " << ratio);
        const Case c{.heads = 2 * ratio, .kv_heads = 2, .k_dim = dim, .v_dim = dim, .dtype = dtype};
        Step step(c, {{1, 9, 60}, {2, 1, 130}});
        const std::vector<float> want = step.run_ref();
        test::for_each_kernels([&] {
          const std::vector<float> got = step.run_cpu();
          test::expect_near(got, want, step.cols(), step.tolerance(), "cpu");
          for (int threads : {2, 3}) test::expect_same_bits(step.run_cpu(threads), got, "threads");
        });
      }
}

// Long seqs, whose keys several threads share: against the reference, whatever the threads, and a row among others
// (of its own and of other seqs) as alone.
TEST(Attention, SplitsOfLongSeqs) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (int window : {0, 300}) {
      const Case c{
          .heads = 6, .kv_heads = 2, .k_dim = 64, .v_dim = 64, .window = window, .sinks = true, .dtype = dtype};
      Step alone(c, {{7, 1, 1500}});
      Step chunk(c, {{7, 40, 1461}}, 3);
      Step batch(c, {{8, 1, 900}, {7, 1, 1500}, {9, 5, 3}, {10, 1, 0}}, 9);
      const cpu::AttentionPlan plan(alone.op(), alone.batch(), 2, 1 << 20);
      EXPECT_GT(plan.units[0].items, 1) << "not cut: nothing is tested";
      const std::vector<float> want = alone.run_ref();
      test::for_each_kernels([&] {
        const std::vector<float> got = alone.run_cpu();
        test::expect_near(got, want, alone.cols(), alone.tolerance(), "cpu");
        for (int threads : {1, 2, 3}) {
          const auto row = [&](const std::vector<float>& v, int64_t r) { return v.begin() + r * alone.cols(); };
          test::expect_same_bits(alone.run_cpu(threads), got, "threads");
          const std::vector<float> rows = chunk.run_cpu(threads), mates = batch.run_cpu(threads);
          test::expect_same_bits({row(rows, 39), row(rows, 40)}, got, "the last of a chunk");
          test::expect_same_bits({row(mates, 1), row(mates, 2)}, got, "in a batch");
        }
      });
    }
}

// The squared error of normal values, relative to what is exact: of the arithmetic, and of the cache's type.
TEST(Attention, ErrorOfEachType) {
  const std::vector<std::pair<DType, double>> bounds = {
      {DType::kF32, 1e-11}, {DType::kF16, 1e-6}, {DType::kBF16, 5e-5}, {DType::kQ8_0, 2e-4}};
  for (const auto& [dtype, bound] : bounds) {
    const Case c{.heads = 4, .kv_heads = 2, .k_dim = 64, .v_dim = 64, .dtype = dtype, .smooth = true};
    Step step(c, {{1, 20, 580}});
    const std::vector<float> want = step.brute_force();
    test::for_each_kernels([&] {
      const std::vector<float> got = step.run_cpu(2);
      double error = 0, all = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
        all += std::pow(static_cast<double>(want[i]), 2);
      }
      EXPECT_LT(error / all, bound) << dtype_name(dtype);
    });
  }
}

// Every split of every unit is in one item, with and without room for the splits' results.
TEST(AttentionPlan, ItemsCoverEverySplit) {
  const Case c{.heads = 6, .kv_heads = 2, .k_dim = 4, .v_dim = 4, .window = 700};
  Step step(c, {{1, 1, 2000}, {2, 100, 0}, {3, 1, 300}});
  for (int threads : {1, 2, 16})
    for (int64_t room : {0, 200, 1 << 20}) {
      const cpu::AttentionPlan plan(step.op(), step.batch(), threads, room);
      std::vector<std::vector<int>> seen;
      for (const cpu::AttentionUnit& unit : plan.units) seen.emplace_back(static_cast<size_t>(unit.splits()));
      for (const cpu::AttentionItem& item : plan.items) {
        const cpu::AttentionUnit& unit = plan.units[static_cast<size_t>(item.unit)];
        EXPECT_EQ(unit.parts >= 0, unit.items > 1);
        if (unit.parts >= 0) {
          EXPECT_LE(unit.parts + unit.splits() * unit.queries() * (4 + 2), room);
        }
        for (int s = item.first_split; s < item.end_split; ++s)
          ++seen[static_cast<size_t>(item.unit)][static_cast<size_t>(s - unit.first_split)];
      }
      for (const std::vector<int>& counts : seen) EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
    }
}

TEST(AttentionKernels, WideningIsExact) {
  std::vector<uint16_t> all(65536);
  std::vector<float> got(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  test::for_each_kernels([&] {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      cpu::kernels().attention->open_values(dtype, reinterpret_cast<const std::byte*>(all.data()), 1, 65536,
                                            got.data());
      for (size_t i = 0; i < all.size(); ++i) {
        const float want = dtype == DType::kF16 ? f16_to_f32(all[i]) : bf16_to_f32(all[i]);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << i;
        }
      }
    }
  });
}

// Scores of many hundreds: nothing overflows, and what is far below the largest counts nothing.
TEST(Attention, LargeScores) {
  Case c{.heads = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4};
  Step step(c, {{1, 130, 0}});
  Attention op = step.op();
  op.scale = 50;
  test::run_cpu(op, test::make_batch({{130, 0}}, c.page_rows, 2), 2);
  for (int64_t t = 0; t < 130; ++t)
    for (int64_t d = 0; d < 4; ++d) ASSERT_TRUE(std::isfinite(op.out.f32(t)[d])) << t;
}

}  // namespace
}  // namespace ingot
