// What every op's test uses: buffers that own their memory and notice stray writes, seeded inputs with
// outliers, batches with shuffled pages, and the comparison of the two versions of an op.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/packed_store.h"
#include "ops/ctx.h"
#include "ops/op_list.inc"  // every op's header: run() and prepare() are looked up where a template is defined
#include "quant/weight.h"

namespace ingot::test {

inline constexpr double kEps = std::numeric_limits<float>::epsilon();

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, n). REQUIRES: n > 0.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // About normal (the sum of four uniforms, variance 1).
  float normal() {
    const double sum = uniform() + uniform() + uniform() + uniform();
    return static_cast<float>((sum - 2) * std::sqrt(3.0));
  }
  // Normal, and one in 64 of them 50 times as large: the outlier channels of real activations.
  float outlier() {
    const float value = normal();
    return below(64) == 0 ? 50 * value : value;
  }

 private:
  uint64_t state_;
};

// A [rows, cols] matrix that owns its memory. Everything is poisoned (NaN) when made; the columns
// between cols and stride, and a margin before and after, must stay so.
class Buffer {
 public:
  // `stride` 0: cols.
  Buffer(int64_t rows, int64_t cols, Rows kind = kTokenRows, int64_t stride = 0, DType dtype = DType::kF32)
      : rows_(rows),
        cols_(cols),
        stride_(stride == 0 ? cols : stride),
        kind_(kind),
        dtype_(dtype),
        bytes_(static_cast<size_t>((rows_ * stride_ + 2 * kMargin) * dtype_bytes(dtype_))) {
    poison();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  Tensor tensor() { return columns(0, cols_); }
  // A view of the columns [first, first + n).
  Tensor columns(int64_t first, int64_t n) {
    Tensor t;
    t.data = bytes_.data() + (kMargin + first) * dtype_bytes(dtype_);
    t.dtype = dtype_;
    t.rows = kind_.kind == RowKind::kFixed ? Rows{RowKind::kFixed, 1, rows_} : kind_;
    t.cols = n;
    t.stride = stride_;
    return t;
  }
  // f32 and i32 alone.
  float& at(int64_t r, int64_t c) { return *(reinterpret_cast<float*>(bytes_.data()) + kMargin + r * stride_ + c); }
  int32_t& i32(int64_t r, int64_t c) {
    return *(reinterpret_cast<int32_t*>(bytes_.data()) + kMargin + r * stride_ + c);
  }

  void poison() {
    const size_t size = static_cast<size_t>(dtype_bytes(dtype_));
    for (size_t i = 0; i < bytes_.size(); i += size) std::memcpy(bytes_.data() + i, &kPoison, size);
  }
  // Calls value() for each element, in order of rows.
  template <class F>
  void fill(F&& value) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) at(r, c) = value();
  }
  void fill_outliers(Random& random) {
    fill([&] { return random.outlier(); });
  }

  // The columns of every row, f32.
  std::vector<float> values() {
    std::vector<float> result;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) result.push_back(at(r, c));
    return result;
  }
  // Everything, to bring it back later.
  std::vector<std::byte> save() const { return bytes_; }
  void restore(const std::vector<std::byte>& saved) { std::copy(saved.begin(), saved.end(), bytes_.begin()); }

  // Fails the test where something was written outside the matrix.
  void expect_intact() const {
    const int64_t size = dtype_bytes(dtype_);
    const int64_t total = static_cast<int64_t>(bytes_.size()) / size;
    for (int64_t i = 0; i < total; ++i) {
      const int64_t inside = i - kMargin;
      if (inside >= 0 && inside < rows_ * stride_ && inside % stride_ < cols_) continue;
      ASSERT_EQ(std::memcmp(bytes_.data() + i * size, &kPoison, static_cast<size_t>(size)), 0)
          << "element " << inside << " outside the matrix was written";
    }
  }

 private:
  static constexpr int64_t kMargin = 16;
  static constexpr uint32_t kPoison = 0x7fd1ffd1u;  // NaN as f32, and its lower half as f16 and as bf16

  int64_t rows_, cols_, stride_;
  Rows kind_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// One seq of a test's batch: `rows` rows after `past` positions that the cache holds already.
struct SeqOf {
  int rows = 1;
  int past = 0;
};

// A batch of these seqs, as the engine would fill it; every row's logits are wanted. Pages are dealt in
// a shuffled order (the same for the same seed), never shared.
inline Batch make_batch(const std::vector<SeqOf>& seqs, int page_rows = 16, int n_groups = 1, uint64_t seed = 1) {
  StepLimits limits{
      .rows = 0, .seqs = static_cast<int>(seqs.size()), .logits = 0, .context = 1, .page_rows = page_rows};
  for (const SeqOf& s : seqs) {
    limits.rows += s.rows;
    limits.context = std::max(limits.context, s.rows + s.past);
  }
  limits.logits = limits.rows;
  Batch batch(limits, n_groups);
  batch.n_rows = batch.n_logits = limits.rows;
  batch.n_seqs = limits.seqs;
  std::iota(batch.logit_row.begin(), batch.logit_row.end(), 0);
  Random random(seed);
  for (Batch::Group& group : batch.groups) {
    std::iota(group.page_table.begin(), group.page_table.end(), 0);
    for (size_t i = group.page_table.size(); i > 1; --i)
      std::swap(group.page_table[i - 1], group.page_table[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }
  int row = 0;
  for (int s = 0; s < batch.n_seqs; ++s) {
    const SeqOf& of = seqs[static_cast<size_t>(s)];
    for (int i = 0; i < of.rows; ++i, ++row) {
      const size_t t = static_cast<size_t>(row);
      batch.position[t] = of.past + i;
      batch.seq[t] = s;
      batch.token[t] = row;
      for (int g = 0; g < n_groups; ++g) {
        const int32_t page = batch.pages(g, s)[batch.position[t] / page_rows];
        batch.groups[static_cast<size_t>(g)].slot[t] = page * page_rows + batch.position[t] % page_rows;
      }
    }
    batch.q_start[static_cast<size_t>(s) + 1] = row;
    batch.kv_len[static_cast<size_t>(s)] = of.past + of.rows;
  }
  return batch;
}

// One seq of T rows from position 0.
inline Batch rows_batch(int rows) { return make_batch({{.rows = rows, .past = 0}}); }

inline StepLimits limits_of(const Batch& batch, int page_rows = 16) {
  return {.rows = batch.n_rows,
          .seqs = batch.n_seqs,
          .logits = batch.n_logits,
          .context = batch.pages_per_seq * page_rows,
          .page_rows = page_rows};
}

// A pool of `threads`, made once for the whole program.
inline ThreadPool& pool_of(int threads) {
  static std::vector<std::unique_ptr<ThreadPool>> pools(65);
  std::unique_ptr<ThreadPool>& pool = pools.at(static_cast<size_t>(threads));
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

template <class Op>
void run_ref(const Op& op, const Batch& batch, int threads = 1) {
  Ctx ctx{.batch = batch, .pool = pool_of(threads), .shape = {.tokens = batch.n_rows, .logits = batch.n_logits}};
  ref::run(op, ctx);
}

// Prepares and runs with scratch of exactly the size that prepare() asked for, poisoned.
template <class Op>
void run_cpu(Op op, const Batch& batch, int threads = 1) {
  PackedStore packed(0);  // however short
  Prepare prepare{.limits = limits_of(batch), .threads = threads, .pool = &pool_of(threads), .packed = &packed};
  cpu::prepare(op, prepare);
  const size_t own = static_cast<size_t>(prepare.scratch_bytes) * static_cast<size_t>(threads);
  const size_t bytes = own + static_cast<size_t>(prepare.shared_bytes);
  std::vector<std::byte> memory(bytes + 64, std::byte{0xff});
  const uintptr_t base = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
  Ctx ctx{.batch = batch,
          .pool = pool_of(threads),
          .shape = {.tokens = batch.n_rows, .logits = batch.n_logits},
          .scratch = reinterpret_cast<std::byte*>(base),
          .scratch_bytes = prepare.scratch_bytes,
          .shared = reinterpret_cast<std::byte*>(base + own)};
  cpu::run(op, ctx);
}

// How far the element (r, c) may be from `want`.
using Tolerance = std::function<double(int64_t r, int64_t c, double want)>;

// `ulps` roundings of the value itself, plus `absolute`.
inline Tolerance relative(double ulps, double absolute = 0) {
  return [=](int64_t, int64_t, double want) { return ulps * kEps * std::fabs(want) + absolute; };
}
inline Tolerance exact() {
  return [](int64_t, int64_t, double) { return 0.0; };
}

// Where got and want differ: NaN against a number always does, equal bits and equal infinities never.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, int64_t cols,
                        const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  int bad = 0;
  for (size_t i = 0; i < got.size() && bad < 5; ++i) {
    if (std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]) || got[i] == want[i]) continue;
    const int64_t r = static_cast<int64_t>(i) / cols, c = static_cast<int64_t>(i) % cols;
    const double allowed = tolerance(r, c, want[i]);
    const double off = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (off <= allowed) continue;  // false for NaN
    ++bad;
    ADD_FAILURE() << what << ": (" << r << ", " << c << ") is " << got[i] << ", want " << want[i] << " ± " << allowed;
  }
}

// Every bit equal; NaNs too.
inline void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << ": element " << i << " is " << got[i] << ", want " << want[i];
}

// Runs ref once and cpu with 1, 2 and 3 threads. Before each run the `outs` are poisoned and the
// `inouts` brought back to what they held. cpu must be within `tolerance` of ref, its bits the same for
// every number of threads, and no stray write happen. f32 buffers; leaves cpu's result in them.
template <class Op>
void expect_cpu_matches_ref(const Op& op, const Batch& batch, std::initializer_list<Buffer*> outs,
                            const Tolerance& tolerance, std::initializer_list<Buffer*> inouts = {}) {
  std::vector<std::vector<std::byte>> saved;
  for (Buffer* b : inouts) saved.push_back(b->save());
  const auto reset = [&] {
    for (Buffer* b : outs) b->poison();
    size_t i = 0;
    for (Buffer* b : inouts) b->restore(saved[i++]);
  };
  const auto result = [&] {
    std::vector<std::vector<float>> all;
    for (auto list : {outs, inouts})
      for (Buffer* b : list) {
        b->expect_intact();
        all.push_back(b->values());
      }
    return all;
  };
  std::vector<int64_t> cols;
  for (auto list : {outs, inouts})
    for (Buffer* b : list) cols.push_back(b->cols());
  reset();
  run_ref(op, batch);
  const auto want = result();
  std::vector<std::vector<float>> first;
  for (int threads : {1, 2, 3}) {
    reset();
    run_cpu(op, batch, threads);
    const auto got = result();
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string what = "output " + std::to_string(i) + ", " + std::to_string(threads) + " threads";
      expect_near(got[i], want[i], cols[i], tolerance, "cpu against ref, " + what);
      if (threads > 1) expect_same_bits(got[i], first[i], "against 1 thread, " + what);
    }
    if (threads == 1) first = got;
  }
}

// Calls body() once for each set of kernels that this CPU runs (matmul/cpu/kernels.h).
template <class F>
void for_each_kernels(F&& body) {
  for (const cpu::Kernels* set : cpu::available_kernels()) {
    SCOPED_TRACE(set->name);
    cpu::use_kernels(set);
    body();
  }
  cpu::use_kernels(nullptr);
}

// A weight that owns its memory: values of about `size`, encoded in `format`.
class TestWeight {
 public:
  TestWeight(Random& random, Format format, int64_t rows, int64_t cols, float size = 1) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (float& value : values) value = size * random.normal();
    weight_.name = "test";
    weight_.format = format;
    weight_.rows = rows;
    weight_.cols = cols;
    weight_.row_bytes = format_row_bytes(format, cols);
    bytes_.resize(static_cast<size_t>(weight_.bytes()));
    for (int64_t n = 0; n < rows; ++n)
      format_encode(format, values.data() + n * cols, bytes_.data() + n * weight_.row_bytes, cols);
    weight_.data = bytes_.data();
  }
  TestWeight(const TestWeight&) = delete;
  TestWeight& operator=(const TestWeight&) = delete;

  // Random scales beside the data, one for each block of rows × cols.
  void add_scales(Random& random, int64_t rows, int64_t cols) {
    weight_.scale_rows = rows;
    weight_.scale_cols = cols;
    weight_.scale_stride = (weight_.cols + cols - 1) / cols;
    scales_.resize(static_cast<size_t>((weight_.rows + rows - 1) / rows * weight_.scale_stride));
    for (float& scale : scales_) scale = 0.5f + static_cast<float>(random.uniform());
    weight_.scale = scales_.data();
  }

  const Weight& weight() const { return weight_; }
  std::vector<float> row(int64_t n) const {
    std::vector<float> values(static_cast<size_t>(weight_.cols));
    weight_.decode_row(n, values.data());
    return values;
  }

 private:
  Weight weight_;
  std::vector<std::byte> bytes_;
  std::vector<float> scales_;
};

inline std::vector<Format> all_formats() {
  return {
#define X(NAME) Format::k##NAME,
      INGOT_FORMATS(X)
#undef X
  };
}

}  // namespace ingot::test
