// Attention on the device against the reference. Keys and values go into both caches through each side's KvWrite.
#include <algorithm>

#include "ops/cuda/test_support.h"

namespace ingot {
namespace {

using namespace test;

struct Case {
  int heads = 4, kv_heads = 2, k_dim = 64, v_dim = 64;
  DType dtype = DType::kBF16;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  int page_rows = 16;
  DType q_dtype = DType::kF32, out_dtype = DType::kF32;
  int64_t more_stride = 8;  // of q and out; an odd one has no fast kernel
};

struct Seq {
  uint64_t id = 0;
  int rows = 1, past = 0;
};

struct Bucket {
  int more_rows = 0, more_seqs = 0, q_rows = 0, arch = 0;
  bool invariant = false;
};

float from_bits(uint16_t bits, DType dtype) { return dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits); }

// One step. Values are functions of the seq's id and the position; q, k and v are exact in every type: multiples of 1/8
// below 4, some of q's and k's 16 times as large. For q8_0 each block has the largest 127/32.
class Step {
 public:
  Step(const Case& c, const std::vector<Seq>& seqs, uint64_t page_seed = 1)
      : c_(c),
        seqs_(seqs),
        batch_(make_batch(counts(false), c.page_rows, 2, page_seed)),
        all_(make_batch(counts(true), c.page_rows, 2, page_seed)),
        q_(batch_.n_rows, c.heads * c.k_dim, kTokenRows, c.heads * c.k_dim + c.more_stride),
        out_(batch_.n_rows, c.heads * c.v_dim, kTokenRows, c.heads * c.v_dim + c.more_stride),
        k_(all_.n_rows, c.kv_heads * c.k_dim),
        v_(all_.n_rows, c.kv_heads * c.v_dim),
        random_(5),
        sinks_(random_, Format::kF32, 1, c.heads, 3.0f) {
    fill(q_, batch_, 0, c.k_dim);
    fill(k_, all_, 1, c.k_dim);
    fill(v_, all_, 2, c.v_dim);
    kv_.group = 1;
    kv_.kv_heads = c.kv_heads;
    kv_.k_dim = c.k_dim;
    kv_.v_dim = c.v_dim;
    kv_.page_rows = c.page_rows;
    kv_.dtype = c.dtype;
  }

  std::vector<float> run_ref() {
    const size_t slots = batch_.groups[1].page_table.size() * static_cast<size_t>(c_.page_rows * c_.kv_heads);
    std::vector<std::byte> k(slots * static_cast<size_t>(kv_.k_bytes()), std::byte{0xff});
    std::vector<std::byte> v(slots * static_cast<size_t>(kv_.v_bytes()), std::byte{0xff});
    KvLayer kv = kv_;
    kv.k = k.data();
    kv.v = v.data();
    test::run_ref(KvWrite{k_.tensor(), v_.tensor(), kv}, all_);
    out_.poison();
    test::run_ref(op(kv, q_.tensor(), out_.tensor()), batch_);
    return out_.values();
  }
  std::vector<float> run_device(const Bucket& bucket = {}) {
    KvLayer kv = kv_;
    DeviceRig writer(all_, {.more_rows = 3, .page_rows = c_.page_rows});
    writer.place_kv(kv, static_cast<int64_t>(batch_.groups[1].page_table.size()));
    writer.run(KvWrite{k_.tensor(), v_.tensor(), kv});
    Buffer q(q_.rows(), q_.cols(), kTokenRows, q_.cols() + c_.more_stride, c_.q_dtype);
    Buffer out(out_.rows(), out_.cols(), kTokenRows, out_.cols() + c_.more_stride, c_.out_dtype);
    for (int64_t r = 0; r < q.rows(); ++r)
      for (int64_t i = 0; i < q.cols(); ++i) put(q.tensor(), r, i, q_.at(r, i));
    DeviceRig rig(batch_, {.more_rows = bucket.more_rows,
                           .more_seqs = bucket.more_seqs,
                           .batch_invariant = bucket.invariant,
                           .q_rows = bucket.q_rows,
                           .page_rows = c_.page_rows,
                           .arch = bucket.arch});
    rig.run(op(kv, q.tensor(), out.tensor()), 2);  // the second run finds what the first has left in tickets
    out.expect_intact();
    std::vector<float> result;
    for (int64_t r = 0; r < out.rows(); ++r)
      for (int64_t i = 0; i < out.cols(); ++i) result.push_back(get(out.tensor(), r, i));
    return result;
  }
  // Scores are exact up to their sum over k_dim in f32; a weight of the fast kernels is rounded to the cache's type, as
  // is the output where it is narrow; all relative to the largest value.
  Tolerance tolerance() {
    const bool narrow = c_.dtype == DType::kBF16 || c_.dtype == DType::kF16;
    const double weight = !narrow ? 0 : c_.dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    const double output = c_.out_dtype == DType::kF32 ? 0 : c_.out_dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    double largest = 0;
    for (const float v : v_.values()) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    const double score = longest(q_) * longest(k_) * static_cast<double>(scale());
    const double sums = (2 * (c_.k_dim + 12.0) * score + 64 + batch_.pages_per_seq * c_.page_rows / 16.0) * kEps;
    const double absolute = largest * (weight + 2 * sums);
    return [=](int64_t, int64_t, double want) { return absolute + output * std::fabs(want); };
  }
  int64_t cols() const { return out_.cols(); }
  int rows() const { return batch_.n_rows; }

 private:
  std::vector<SeqOf> counts(bool all) const {
    std::vector<SeqOf> result;
    for (const Seq& s : seqs_) result.push_back(all ? SeqOf{s.rows + s.past, 0} : SeqOf{s.rows, s.past});
    return result;
  }
  // The norm of the longest head.
  double longest(Buffer& x) const {
    const std::vector<float> values = x.values();
    double most = 0, sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<size_t>(c_.k_dim) == 0) sum = 0;
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      most = std::max(most, sum);
    }
    return std::sqrt(most);
  }
  float scale() const { return 0.25f / static_cast<float>(c_.k_dim); }
  Attention op(const KvLayer& kv, const Tensor& q, const Tensor& out) {
    Attention op{.q = q,
                 .out = out,
                 .kv = kv,
                 .heads = c_.heads,
                 .window = c_.window,
                 .scale = scale(),
                 .softcap = c_.softcap,
                 .sinks = {}};
    if (c_.sinks) op.sinks = sinks_.weight();
    return op;
  }
  void fill(Buffer& to, const Batch& batch, uint64_t kind, int dim) {
    for (int64_t t = 0; t < to.rows(); ++t) {
      const Seq& seq = seqs_[static_cast<size_t>(batch.seq[static_cast<size_t>(t)])];
      Random random((seq.id * 3 + kind) * 100000 + static_cast<uint64_t>(batch.position[static_cast<size_t>(t)]));
      for (int64_t i = 0; i < to.cols(); ++i) {
        float v = static_cast<float>(random.below(65) - 32) / 8;
        if (kind != 2 && random.below(64) == 0) v *= 16;
        if (c_.dtype == DType::kQ8_0) {
          v = static_cast<float>(random.below(255) - 127) / 32;
          if (i % dim % kQ8Block == 0) v = 127.0f / 32;
        }
        to.at(t, i) = v;
      }
    }
  }
  static void put(const Tensor& t, int64_t r, int64_t i, float x) {
    if (t.dtype == DType::kF32) {
      t.f32(r)[i] = x;
    } else {
      t.row<uint16_t>(r)[i] = t.dtype == DType::kBF16 ? f32_to_bf16(x) : f32_to_f16(x);
    }
  }
  static float get(const Tensor& t, int64_t r, int64_t i) {
    return t.dtype == DType::kF32 ? t.f32(r)[i] : from_bits(t.row<uint16_t>(r)[i], t.dtype);
  }

  Case c_;
  std::vector<Seq> seqs_;
  Batch batch_, all_;  // the step; and every position of its seqs
  Buffer q_, out_, k_, v_;
  Random random_;
  TestWeight sinks_;
  KvLayer kv_;
};

void expect_matches(const Case& c, const std::vector<Seq>& seqs, const Bucket& bucket = {}) {
  Step step(c, seqs);
  expect_near(step.run_device(bucket), step.run_ref(), step.cols(), step.tolerance(), "device");
}

std::string name(const Case& c) {
  return std::string(dtype_name(c.dtype)) + ", " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) +
         " heads of " + std::to_string(c.k_dim);
}

// One row of each seq, lengths around the borders of tiles and pages, in a larger bucket.
TEST(CudaAttention, DecodeOfEveryFastHead) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const int dim : {64, 96, 128, 256}) {
      const Case c{.k_dim = dim, .v_dim = dim, .dtype = dtype, .page_rows = dim == 128 ? 64 : 16};
      SCOPED_TRACE(name(c));
      expect_matches(c, {{1, 1, 0}, {2, 1, 15}, {3, 1, 16}, {4, 1, 70}}, {.more_rows = 2, .more_seqs = 3});
      expect_matches(c, {{5, 1, 37}, {6, 1, 80}}, {.arch = 80});
    }
}

TEST(CudaAttention, GroupsOfHeads) {
  INGOT_NEEDS_DEVICE();
  for (const int group : {1, 3, 4, 8, 16, 20, 70}) {
    const Case c{.heads = 2 * group, .kv_heads = 2, .q_dtype = DType::kBF16, .out_dtype = DType::kBF16};
    SCOPED_TRACE(name(c));
    expect_matches(c, {{1, 1, 20}, {2, 1, 66}});
  }
}

// Windows, sinks and caps: in decode, in drafts and in prompts; keys before the window may be gone (NaN).
TEST(CudaAttention, WindowsSinksAndCaps) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {{.window = 5},
                        {.window = 64, .sinks = true, .page_rows = 32},
                        {.softcap = 2},
                        {.k_dim = 96, .v_dim = 96, .window = 33, .softcap = 3, .sinks = true},
                        {.heads = 3, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .dtype = DType::kF16, .sinks = true},
                        {.dtype = DType::kF32, .window = 40, .softcap = 5, .sinks = true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    expect_matches(c, {{1, 1, 150}, {2, 1, 3}});
    expect_matches(c, {{1, 6, 90}, {2, 3, 0}});
    expect_matches(c, {{1, 70, 30}, {2, 1, 90}}, {.more_rows = 5, .more_seqs = 1});
  }
}

// Drafts to verify: several rows of a seq by the kernel of decode, 16 and 32 packed rows to a block.
TEST(CudaAttention, VerificationRows) {
  INGOT_NEEDS_DEVICE();
  for (const int rows : {2, 5, 8}) {
    for (const int arch : {0, 80}) {
      const Case c{.heads = 8, .kv_heads = 1, .k_dim = 64, .v_dim = 64};
      SCOPED_TRACE(testing::Message() << rows << " rows, " << arch);
      expect_matches(c, {{1, rows, 60}, {2, 1, 20}, {3, rows - 1, 0}}, {.more_rows = 2, .q_rows = 8, .arch = arch});
    }
  }
  expect_matches({.heads = 4, .kv_heads = 1, .k_dim = 256, .v_dim = 256}, {{1, 7, 30}});
  expect_matches({.heads = 6, .kv_heads = 2, .k_dim = 128, .v_dim = 128}, {{1, 7, 130}});
}

// Prompts and chunks of them, beside rows of decode.
TEST(CudaAttention, PromptsOfEveryFastHead) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const int dim : {64, 96, 128, 256}) {
      const Case c{.heads = 6, .kv_heads = 2, .k_dim = dim, .v_dim = dim, .dtype = dtype};
      SCOPED_TRACE(name(c));
      expect_matches(c, {{1, 1, 40}, {2, 67, 9}, {3, 1, 0}, {4, 23, 0}}, {.more_rows = 8, .more_seqs = 2});
    }
  expect_matches({.heads = 2, .kv_heads = 2, .q_dtype = DType::kBF16, .out_dtype = DType::kBF16}, {{1, 150, 0}});
  expect_matches({.heads = 4, .kv_heads = 1, .page_rows = 64}, {{1, 33, 100}}, {.more_rows = 30});
  // Where the tiles of the largest heads do not fit into the device.
  expect_matches({.heads = 4, .kv_heads = 1, .k_dim = 256, .v_dim = 256}, {{1, 33, 10}, {2, 1, 9}}, {.arch = 89});
}

// Many seqs with prompts: more than a warp looks through at a time.
TEST(CudaAttention, TilesOfManySeqs) {
  INGOT_NEEDS_DEVICE();
  std::vector<Seq> seqs;
  for (uint64_t i = 0; i < 37; ++i) seqs.push_back({i, i % 12 == 5 ? 18 : 1, static_cast<int>(i % 5)});
  expect_matches({.heads = 4, .kv_heads = 1}, seqs, {.more_seqs = 4});
}

// Sizes and types that have no fast kernel.
TEST(CudaAttention, AnyHeadAndType) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {{.k_dim = 80, .v_dim = 80},
                        {.k_dim = 80, .v_dim = 80, .dtype = DType::kF32, .q_dtype = DType::kBF16},
                        {.k_dim = 64, .v_dim = 64, .dtype = DType::kF32},
                        {.heads = 3, .kv_heads = 1, .k_dim = 64, .v_dim = 64, .dtype = DType::kQ8_0},
                        {.k_dim = 70, .v_dim = 41, .dtype = DType::kQ8_0, .page_rows = 48},
                        {.k_dim = 1, .v_dim = 1, .dtype = DType::kF16},
                        {.k_dim = 128, .v_dim = 64, .dtype = DType::kF16, .out_dtype = DType::kBF16},
                        {.heads = 1, .kv_heads = 1, .k_dim = 24, .v_dim = 300, .dtype = DType::kBF16},
                        {.k_dim = 64, .v_dim = 64, .more_stride = 3}};
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    expect_matches(c, {{1, 1, 140}, {2, 9, 30}, {3, 1, 0}}, {.more_rows = 2, .more_seqs = 1});
  }
}

// One long seq, whose keys several blocks share.
TEST(CudaAttention, SplitsOfALongSeq) {
  INGOT_NEEDS_DEVICE();
  for (const int arch : {0, 80}) {
    expect_matches({.heads = 4, .kv_heads = 1}, {{1, 1, 1100}}, {.arch = arch});
    expect_matches({.heads = 3, .kv_heads = 1, .sinks = true, .page_rows = 64}, {{1, 2, 700}}, {.arch = arch});
    expect_matches({.heads = 8, .kv_heads = 1, .window = 300}, {{1, 4, 600}}, {.arch = arch});
  }
}

// A long seq among short ones gets more blocks than they do; more seqs than a warp looks through at a time.
TEST(CudaAttention, SplitsOfRaggedSeqs) {
  INGOT_NEEDS_DEVICE();
  for (const int arch : {0, 80}) {
    expect_matches({.heads = 4, .kv_heads = 1}, {{1, 1, 30}, {2, 1, 900}, {3, 1, 300}}, {.more_seqs = 2, .arch = arch});
    expect_matches({.heads = 8, .kv_heads = 1, .window = 200}, {{1, 4, 500}, {2, 1, 63}, {3, 3, 61}, {4, 2, 190}},
                   {.more_rows = 1, .q_rows = 4, .arch = arch});
  }
  std::vector<Seq> seqs;
  for (uint64_t i = 0; i < 40; ++i) seqs.push_back({i, 1, i == 35 ? 700 : static_cast<int>(7 * i)});
  expect_matches({.heads = 1, .kv_heads = 1}, seqs, {.more_seqs = 30});
  // The rows of a tile end before the last split of their seq begins.
  expect_matches({.heads = 16, .kv_heads = 1}, {{1, 4, 125}, {2, 1, 0}}, {.arch = 80});
}

// In batch-invariant mode a row's bits are the same alone, in a batch, in a chunk and in a larger bucket.
TEST(CudaAttention, BatchInvariant) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {{.heads = 4, .kv_heads = 1},
                        {.heads = 2, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .window = 300, .sinks = true},
                        {.heads = 3, .kv_heads = 1, .k_dim = 256, .v_dim = 256, .dtype = DType::kF16},
                        {.heads = 2, .kv_heads = 1, .k_dim = 80, .v_dim = 80}};
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    // The longest seq of every batch has as many positions: the splits' length follows from the context.
    Step alone(c, {{7, 1, 600}});
    const std::vector<float> want = alone.run_device({.invariant = true});
    expect_near(want, alone.run_ref(), alone.cols(), alone.tolerance(), "device");
    const auto row = [&](const std::vector<float>& v, int64_t r) {
      return std::vector<float>(v.begin() + r * alone.cols(), v.begin() + (r + 1) * alone.cols());
    };
    Step mates(c, {{8, 1, 90}, {7, 1, 600}, {9, 5, 3}, {10, 1, 0}}, 9);
    expect_same_bits(row(mates.run_device({.more_rows = 3, .more_seqs = 2, .invariant = true}), 1), want, "in a batch");
    Step chunk(c, {{7, 20, 581}}, 3);
    expect_same_bits(row(chunk.run_device({.invariant = true}), 19), want, "the last row of a chunk");
    expect_same_bits(alone.run_device({.arch = 80, .invariant = true}), want, "without the copy engine");
  }
}

// Twice the same, whatever the pages.
TEST(CudaAttention, PagesDoNotMatter) {
  INGOT_NEEDS_DEVICE();
  const Case c{.heads = 4, .kv_heads = 1};
  const std::vector<Seq> seqs = {{1, 1, 200}, {2, 20, 5}};
  Step one(c, seqs, 1), other(c, seqs, 2);
  expect_same_bits(one.run_device(), other.run_device(), "other pages");
}

}  // namespace
}  // namespace ingot
