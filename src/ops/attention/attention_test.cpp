#include "ops/attention/attention.h"

#include <algorithm>

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
};

// A seq of the step. Its q, k and v are functions of `id` and the position alone.
struct Seq {
  uint64_t id = 0;
  int rows = 1, past = 0;
};

// Values for every position of a seq: multiples of 1/8 below 4 with outliers 32 times as large, exact in
// every type of the cache.
class Values {
 public:
  Values(uint64_t seed, int positions, int cols) : cols_(cols), values_(static_cast<size_t>(positions * cols)) {
    Random random(seed);
    for (float& v : values_) {
      v = static_cast<float>(random.below(65) - 32) / 8;
      if (random.below(64) == 0) v *= 32;
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
      : q(3 * seq.id, seq.rows + seq.past, c.heads * c.k_dim),
        k(3 * seq.id + 1, seq.rows + seq.past, c.kv_heads * c.k_dim),
        v(3 * seq.id + 2, seq.rows + seq.past, c.kv_heads * c.v_dim) {}
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
    k_.assign(slots * static_cast<size_t>(c.k_dim * dtype_bytes(c.dtype)), std::byte{0xff});
    v_.assign(slots * static_cast<size_t>(c.v_dim * dtype_bytes(c.dtype)), std::byte{0xff});
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

 private:
  static std::vector<test::SeqOf> counts(const std::vector<Seq>& seqs) {
    std::vector<test::SeqOf> result;
    for (const Seq& s : seqs) result.push_back({s.rows, s.past});
    return result;
  }
  float scale() const { return 0.25f / static_cast<float>(c_.k_dim); }
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
        for (int d = 0; d < c_.k_dim; ++d) put(kv_.k, kv_.k_at(slot, h) + d, values.k.row(p)[h * c_.k_dim + d]);
        for (int d = 0; d < c_.v_dim; ++d) put(kv_.v, kv_.v_at(slot, h) + d, values.v.row(p)[h * c_.v_dim + d]);
      }
    }
  }
  void put(std::byte* base, int64_t at, float x) const {
    const uint16_t half = c_.dtype == DType::kF16 ? f32_to_f16(x) : f32_to_bf16(x);
    if (c_.dtype == DType::kF32) {
      std::memcpy(base + at * 4, &x, 4);
    } else {
      std::memcpy(base + at * 2, &half, 2);
    }
  }
  double error(int64_t t, int h) const {
    double score = 0, largest = 0;
    for (int p = first(t); p <= position(t); ++p) {
      score = std::max(score, product(query(t, h), key(t, p, h), c_.k_dim, true) * static_cast<double>(scale()));
      for (int d = 0; d < c_.v_dim; ++d) largest = std::max(largest, std::fabs(static_cast<double>(val(t, p, h)[d])));
    }
    const double roundings = 2 * (c_.k_dim / 16.0 + 12) * kEps;
    return largest * (2 * roundings * score + (position(t) / 16.0 + 64) * kEps);
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
      {.heads = 1, .kv_heads = 1, .k_dim = 1, .v_dim = 1, .page_rows = 1},
      {.heads = 6, .kv_heads = 2, .k_dim = 20, .v_dim = 13, .page_rows = 7},
      {.heads = 40, .kv_heads = 1, .k_dim = 64, .v_dim = 64, .page_rows = 64},
      {.window = 5},
      {.window = 64, .page_rows = 128},
      {.k_dim = 80, .v_dim = 80, .window = 100, .softcap = 5},
      {.softcap = 2, .sinks = true},
      {.window = 33, .sinks = true, .page_rows = 64},
      {.dtype = DType::kF16},
      {.k_dim = 17, .v_dim = 35, .dtype = DType::kBF16, .page_rows = 3},
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
