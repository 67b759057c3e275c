// The steps of Attention's tests: seqs whose values are functions of the seq and the position alone, and their cache.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/kv_write/write_rows.h"
#include "ops/ops_test_support.h"

namespace ingot::test_attention {

using test::Buffer;
using test::kEps;
using test::Random;

struct Case {
  int heads = 4, kv_heads = 2, k_dim = 32, v_dim = 32;
  int window = 0;
  bool chunked = false;
  float softcap = 0;
  bool sinks = false;
  DType dtype = DType::kF32;
  int page_rows = 16;
  bool pairs = false;   // how a cache of bf16 lies, on sets that multiply it so
  float scale = 0;      // 0: by k_dim. A file may name one below 0, where the smallest product is the largest score.
  bool smooth = false;  // values about normal, which no narrow type of the cache holds exactly
  bool latent = false;  // a key is its value, then k_dim more
  bool scaled = false;  // heads of the cache have scales, powers of two

  int q_dim() const { return latent ? v_dim + k_dim : k_dim; }
};

// Whether the best set multiplies a cache in pairs.
inline const bool kPairs = cpu::attention_kernels(cpu::available_isas().front()).bf16 != nullptr;

// Every type of the cache, and whether it is in pairs.
inline std::vector<std::pair<DType, bool>> types() {
  std::vector<std::pair<DType, bool>> all = {
      {DType::kF32, false}, {DType::kF16, false}, {DType::kBF16, false}, {DType::kFp8, false}, {DType::kQ8_0, false}};
  if (kPairs) all.emplace_back(DType::kBF16, true);
  return all;
}

// Whether the set in use takes the case.
inline bool fits(const Case& c) { return !c.pairs || cpu::attention_kernels().bf16 != nullptr; }

// A seq of the step. Its q, k and v are functions of `id` and the position alone.
struct Seq {
  uint64_t id = 0;
  int rows = 1, past = 0;
};

// Values for every position of a seq, exact in the type of the cache: multiples of 1/8 below 4 with outliers 32 times
// as large (fp8: to 2); for int8 even numbers to 4, for q8_0 multiples of 1/32 with a largest of 127/32 in each block.
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
      } else if (c.dtype == DType::kInt8) {
        v = static_cast<float>(2 * random.below(5) - 4);
      } else {
        v = static_cast<float>(c.dtype == DType::kFp8 ? random.below(33) - 16 : random.below(65) - 32) / 8;
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
      : q(3 * seq.id, seq.rows + seq.past, c.heads, c.q_dim(), c),
        k(3 * seq.id + 1, seq.rows + seq.past, c.kv_heads, c.k_dim, c),
        v(3 * seq.id + 2, seq.rows + seq.past, c.kv_heads, c.v_dim, c) {}
};

inline double product(const float* a, const float* b, int n, bool absolute = false) {
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
        q_(batch_.n_rows, c.heads * c.q_dim(), kTokenRows, c.heads * c.q_dim() + 7),
        out_(batch_.n_rows, c.heads * c.v_dim, kTokenRows, c.heads * c.v_dim + 9),
        random_(5),
        sinks_(random_, Format::kF32, 1, c.heads, 3.0f) {
    kv_.group = 1;
    static constexpr float kScales[] = {0.25f, 2, 0.5f, 1, 2};
    if (c.scaled) {
      CHECK(c.kv_heads <= 4, "{} heads", c.kv_heads);
      kv_.k_scales = kScales;
      kv_.v_scales = kScales + 1;
    }
    kv_.kv_heads = c.kv_heads;
    kv_.k_dim = c.k_dim;
    kv_.v_dim = c.v_dim;
    kv_.page_rows = c.page_rows;
    kv_.dtype = c.dtype;
    kv_.pairs = c.pairs;
    kv_.latent = c.latent;
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
                 .chunked = c_.chunked,
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
    if (c_.scale != 0) return c_.scale;
    return c_.smooth ? 1 / std::sqrt(static_cast<float>(c_.q_dim())) : 0.25f / static_cast<float>(c_.q_dim());
  }
  const SeqValues& of(int64_t t) const { return values_[static_cast<size_t>(batch_.seq[static_cast<size_t>(t)])]; }
  int position(int64_t t) const { return batch_.position[static_cast<size_t>(t)]; }
  int first(int64_t t) const {
    if (c_.chunked) return position(t) - position(t) % c_.window;
    return c_.window > 0 ? std::max(0, position(t) - c_.window + 1) : 0;
  }
  int kv_head(int h) const { return h / (c_.heads / c_.kv_heads); }
  const float* query(int64_t t, int h) const { return of(t).q.row(position(t)) + h * c_.q_dim(); }
  const float* key(int64_t t, int p, int h) const { return of(t).k.row(p) + kv_head(h) * c_.k_dim; }
  const float* val(int64_t t, int p, int h) const { return of(t).v.row(p) + kv_head(h) * c_.v_dim; }

  double dot(int64_t t, int p, int h, bool absolute = false) const {
    const double own = product(query(t, h) + (c_.latent ? c_.v_dim : 0), key(t, p, h), c_.k_dim, absolute);
    return c_.latent ? own + product(query(t, h), val(t, p, h), c_.v_dim, absolute) : own;
  }

  void fill(int s) {
    const Seq& seq = seqs_[static_cast<size_t>(s)];
    const SeqValues& values = values_[static_cast<size_t>(s)];
    for (int p = 0; p < seq.past + seq.rows; ++p) {
      const int64_t slot = int64_t{batch_.pages(1, s)[p / c_.page_rows]} * c_.page_rows + p % c_.page_rows;
      for (int h = 0; h < c_.kv_heads; ++h) {
        const auto sets = cpu::available_isas();
        cpu::write_head(cpu::attention_kernels(c_.pairs ? sets.front() : sets.back()), kv_, slot, h,
                        values.k.row(p) + h * c_.k_dim, values.v.row(p) + h * c_.v_dim);
      }
    }
  }
  double error(int64_t t, int h) const {
    double score = 0, largest = 0;
    for (int p = first(t); p <= position(t); ++p) {
      score = std::max(score, dot(t, p, h, true) * std::fabs(static_cast<double>(scale())));
      for (int d = 0; d < c_.v_dim; ++d) largest = std::max(largest, std::fabs(static_cast<double>(val(t, p, h)[d])));
    }
    const double roundings = 2 * (c_.q_dim() + 12.0) * kEps;
    // Products of bf16: q is exact, a weight is rounded to 8 bits.
    const double weight = c_.pairs ? 0x1p-9 : 0;
    return largest * (2 * roundings * score + (position(t) / 16.0 + 64) * kEps + weight);
  }
  std::vector<double> head(int64_t t, int h) {
    std::vector<double> result(static_cast<size_t>(c_.v_dim)), weights;
    double sum = c_.sinks ? std::exp(static_cast<double>(sinks_.row(0)[static_cast<size_t>(h)])) : 0;
    for (int p = first(t); p <= position(t); ++p) {
      double score = dot(t, p, h) * static_cast<double>(scale());
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

}  // namespace ingot::test_attention
