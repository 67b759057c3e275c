// One step of attention with values that are known, on the device and by the reference: for the tests of the kernels.
// Keys and values go into both caches through each side's KvWrite.
#pragma once

#include <algorithm>

#include "cuda/probe.h"
#include "ops/cuda/cuda_test_support.h"

namespace ingot::test::attention {

struct Case {
  int heads = 4, kv_heads = 2, k_dim = 64, v_dim = 64;
  DType dtype = DType::kBF16;
  int window = 0;
  bool chunked = false;
  float softcap = 0;
  bool sinks = false;
  int page_rows = 16;
  DType q_dtype = DType::kF32, out_dtype = DType::kF32;
  int64_t more_stride = 8;  // of q and out; an odd one has no fast kernel
  float values = 1;         // what the values (not the keys) are multiplied by
  bool smooth = false;      // values about normal, which no narrow type of the cache holds exactly
  bool latent = false;      // a key is its value, then k_dim more

  int q_dim() const { return latent ? v_dim + k_dim : k_dim; }
};

struct Seq {
  uint64_t id = 0;
  int rows = 1, past = 0;
};

struct Bucket {
  int more_rows = 0, more_seqs = 0, q_rows = 0, arch = 0;
  bool invariant = false;
  int first_page = 0;       // of the cache's, that the step uses
  int multiprocessors = 0;  // 0: the device's own
};

inline float from_bits(uint16_t bits, DType dtype) {
  return dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

// One step. Values are functions of the seq's id and the position; q, k and v are exact in every type: multiples of 1/8
// below 4 (fp8: to 2), some of q's and k's 16 times as large. For q8_0 each block has the largest 127/32.
class Step {
 public:
  Step(const Case& c, const std::vector<Seq>& seqs, uint64_t page_seed = 1)
      : c_(c),
        seqs_(seqs),
        batch_(make_batch(counts(false), c.page_rows, 2, page_seed)),
        all_(make_batch(counts(true), c.page_rows, 2, page_seed)),
        q_(batch_.n_rows, c.heads * c.q_dim(), kTokenRows, c.heads * c.q_dim() + c.more_stride),
        out_(batch_.n_rows, c.heads * c.v_dim, kTokenRows, c.heads * c.v_dim + c.more_stride),
        k_(all_.n_rows, c.kv_heads * c.k_dim),
        v_(all_.n_rows, c.kv_heads * c.v_dim),
        random_(5),
        sinks_(random_, Format::kF32, 1, c.heads, 3.0f) {
    fill(q_, batch_, 0, c.q_dim());
    fill(k_, all_, 1, c.k_dim);
    fill(v_, all_, 2, c.v_dim);
    kv_.group = 1;
    kv_.kv_heads = c.kv_heads;
    kv_.k_dim = c.k_dim;
    kv_.v_dim = c.v_dim;
    kv_.page_rows = c.page_rows;
    kv_.dtype = c.dtype;
    kv_.latent = c.latent;
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
    const Batch all = with_pages_from(all_, bucket.first_page, c_.page_rows);
    const Batch batch = with_pages_from(batch_, bucket.first_page, c_.page_rows);
    DeviceRig writer(all, {.more_rows = 3, .page_rows = c_.page_rows});
    writer.place_kv(kv, bucket.first_page + pages());
    writer.run(KvWrite{k_.tensor(), v_.tensor(), kv});
    Buffer q(q_.rows(), q_.cols(), kTokenRows, q_.cols() + c_.more_stride, c_.q_dtype);
    Buffer out(out_.rows(), out_.cols(), kTokenRows, out_.cols() + c_.more_stride, c_.out_dtype);
    for (int64_t r = 0; r < q.rows(); ++r)
      for (int64_t i = 0; i < q.cols(); ++i) put(q.tensor(), r, i, q_.at(r, i));
    DeviceRig rig(batch, options(bucket));
    rig.run(op(kv, q.tensor(), out.tensor()), 2);  // the second run finds what the first has left in tickets
    out.expect_intact();
    std::vector<float> result;
    for (int64_t r = 0; r < out.rows(); ++r)
      for (int64_t i = 0; i < out.cols(); ++i) result.push_back(get(out.tensor(), r, i));
    return result;
  }
  // The kernel may begin before this step's keys, values and queries are written: until then all three are no numbers.
  std::vector<float> run_early(const Bucket& bucket = {}) {
    KvLayer kv = kv_;
    DeviceRig writer(all_, {.page_rows = c_.page_rows});
    writer.place_kv(kv, pages());
    writer.run(KvWrite{k_.tensor(), v_.tensor(), kv});
    const int64_t bytes = pages() * c_.page_rows * c_.kv_heads * kv.k_bytes();
    std::vector<std::byte> k(static_cast<size_t>(bytes)), v(k);
    writer.download(k.data(), kv.k, bytes);
    writer.download(v.data(), kv.v, bytes);
    hide_new(k);
    hide_new(v);
    DeviceRig rig(batch_, options(bucket));
    KvLayer late = kv_;
    rig.place_kv(late, pages());
    std::vector<float> nan(static_cast<size_t>(q_.rows() * (q_.cols() + c_.more_stride)), NAN);
    rig.run(op(late, q_.tensor(), out_.tensor()), 1, [&](const cuda::Ctx& ctx, const Attention& placed) {
      const int64_t q_bytes = batch_.n_rows * (q_.cols() + c_.more_stride) * 4;
      std::byte* q = rig.allocate(q_bytes);
      cuda::copy_on_device(q, placed.q.data, q_bytes, ctx.stream);
      cuda::copy_to_device(placed.q.data, nan.data(), q_bytes, ctx.stream);
      cuda::copy_to_device(late.k, k.data(), bytes, ctx.stream);
      cuda::copy_to_device(late.v, v.data(), bytes, ctx.stream);
      cuda::probe_late(ctx, placed.q.data, q, q_bytes);
      cuda::probe_late(ctx, late.k, kv.k, bytes);
      cuda::probe_late(ctx, late.v, kv.v, bytes);
    });
    return out_.values();
  }
  // Scores are exact up to their sum over k_dim in f32; a weight of the fast kernels is rounded to the cache's type, as
  // is the output where it is narrow; all relative to the largest value.
  Tolerance tolerance() {
    // 8-bit types are multiplied as f16.
    const double weight = c_.dtype == DType::kF32 ? 0 : c_.dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    const double output = c_.out_dtype == DType::kF32 ? 0 : c_.out_dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    double largest = 0;
    for (const float v : v_.values()) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    const double key = longest(k_, c_.k_dim), value = c_.latent ? longest(v_, c_.v_dim) : 0;
    const double score = longest(q_, c_.q_dim()) * std::hypot(key, value) * static_cast<double>(scale());
    const double sums = (2 * (c_.q_dim() + 12.0) * score + 64 + batch_.pages_per_seq * c_.page_rows / 16.0) * kEps;
    const double absolute = largest * (weight + 2 * sums);
    return [=](int64_t, int64_t, double want) { return absolute + output * std::fabs(want); };
  }
  int64_t cols() const { return out_.cols(); }
  int64_t pages() const { return std::ssize(batch_.groups[1].page_table); }
  int rows() const { return batch_.n_rows; }

 private:
  std::vector<SeqOf> counts(bool all) const {
    std::vector<SeqOf> result;
    for (const Seq& s : seqs_) result.push_back(all ? SeqOf{s.rows + s.past, 0} : SeqOf{s.rows, s.past});
    return result;
  }
  DeviceRig::Options options(const Bucket& bucket) const {
    return {.more_rows = bucket.more_rows,
            .more_seqs = bucket.more_seqs,
            .batch_invariant = bucket.invariant,
            .q_rows = bucket.q_rows,
            .page_rows = c_.page_rows,
            .arch = bucket.arch,
            .multiprocessors = bucket.multiprocessors};
  }
  // The norm of the longest head.
  static double longest(Buffer& x, int dim) {
    const std::vector<float> values = x.values();
    double most = 0, sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<size_t>(dim) == 0) sum = 0;
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      most = std::max(most, sum);
    }
    return std::sqrt(most);
  }
  // In a copy of the cache, no numbers where the step's own rows will be.
  void hide_new(std::vector<std::byte>& cache) const {
    const int64_t bytes = kv_.k_bytes(), row = c_.dtype == DType::kQ8_0 ? c_.k_dim : bytes, rows = c_.page_rows;
    for (int t = 0; t < batch_.n_rows; ++t) {
      const int64_t slot = batch_.groups[1].slot[static_cast<size_t>(t)], place = slot % rows;
      for (int64_t h = 0; h < c_.kv_heads; ++h) {
        const auto page = cache.begin() + (slot / rows * c_.kv_heads + h) * rows * bytes;
        std::fill_n(page + place * row, row, std::byte{0xff});
        std::fill_n(page + rows * row + place * (bytes - row), bytes - row, std::byte{0xff});
      }
    }
  }
  float scale() const { return (c_.smooth ? 1.0f : 0.25f) / static_cast<float>(c_.q_dim()); }
  Attention op(const KvLayer& kv, const Tensor& q, const Tensor& out) {
    Attention op{.q = q,
                 .out = out,
                 .kv = kv,
                 .heads = c_.heads,
                 .window = c_.window,
                 .chunked = c_.chunked,
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
        if (c_.smooth) {
          to.at(t, i) = random.normal();
          continue;
        }
        float v = static_cast<float>(c_.dtype == DType::kFp8 ? random.below(33) - 16 : random.below(65) - 32) / 8;
        if (kind != 2 && random.below(64) == 0) v *= 16;
        if (c_.dtype == DType::kQ8_0) {
          v = static_cast<float>(random.below(255) - 127) / 32;
          if (i % dim % kQ8Block == 0) v = 127.0f / 32;
        }
        to.at(t, i) = kind == 2 ? v * c_.values : v;
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

}  // namespace ingot::test::attention
