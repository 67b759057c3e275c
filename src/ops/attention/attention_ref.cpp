#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/attention/attention.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot::ref {
namespace {

// An element that is the `index`-th of its row or group, `scale`-th of the scales behind its `count` elements (q8_0).
double read_element(const std::byte* from, DType dtype, int64_t index, int64_t count, int64_t scale) {
  float value = 0;
  uint16_t half = 0;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(&value, from + index * 4, sizeof(value));
      return value;
    case DType::kFp8:
      F8_E4M3::decode(reinterpret_cast<const uint8_t*>(from + index), &value);
      return value;
    case DType::kInt8:
      return static_cast<double>(static_cast<int8_t>(from[index]));
    case DType::kQ8_0:
      std::memcpy(&half, from + count + scale * 2, sizeof(half));
      return static_cast<double>(static_cast<int8_t>(from[index])) * static_cast<double>(f16_to_f32(half));
    default:
      std::memcpy(&half, from + index * 2, sizeof(half));
      return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
  }
}

// Behind what `out` holds.
void read_key(const KvLayer& kv, int64_t slot, int head, std::vector<double>& out) {
  const int64_t lane = slot % kKeyGroup;
  for (int64_t d = 0; d < kv.k_dim; ++d)
    out.push_back(static_cast<double>(kv.k_scale(head)) *
                  read_element(kv.k_group(slot, head), kv.k_dtype(),
                               kv.pairs ? d / 4 * 64 + lane * 4 + d % 4 : d * kKeyGroup + lane,
                               int64_t{kv.k_dim} * kKeyGroup, d / kQ8Block * kKeyGroup + lane));
}

void read_value(const KvLayer& kv, int64_t slot, int head, std::vector<double>& out) {
  out.clear();
  for (int64_t d = 0; d < kv.v_dim; ++d)
    out.push_back(static_cast<double>(kv.v_scale(head)) *
                  (kv.pairs ? read_element(kv.v_group(slot, head), kv.dtype, d * 4 + slot % 4, 0, 0)
                            : read_element(kv.v_row(slot, head), kv.dtype, d, kv.v_dim, d / kQ8Block)));
}

// All heads of one row that share KV head `kv_head`, two passes over the keys.
void attend(const Attention& op, const Batch& batch, int64_t t, int kv_head) {
  const KvLayer& kv = op.kv;
  const int shared = op.heads / kv.kv_heads;
  const int seq = batch.seq[static_cast<size_t>(t)];
  const int last = batch.position[static_cast<size_t>(t)];
  const int first = op.first_seen(last);
  const size_t n = static_cast<size_t>(last - first + 1);
  const auto slot = [&](size_t i) {
    const int p = first + static_cast<int>(i);
    return static_cast<int64_t>(batch.pages(kv.group, seq)[p / kv.page_rows]) * kv.page_rows + p % kv.page_rows;
  };
  std::vector<std::vector<double>> scores(static_cast<size_t>(shared), std::vector<double>(n));
  std::vector<double> row;
  for (size_t i = 0; i < n; ++i) {
    row.clear();
    if (kv.latent) read_value(kv, slot(i), kv_head, row);
    read_key(kv, slot(i), kv_head, row);
    for (int h = 0; h < shared; ++h) {
      const float* q = op.q.f32(t) + (kv_head * shared + h) * kv.q_dim();
      double dot = 0;
      for (size_t d = 0; d < row.size(); ++d) dot += static_cast<double>(q[d]) * row[d];
      double score = dot * static_cast<double>(op.scale);
      if (op.softcap > 0) score = op.softcap * std::tanh(score / static_cast<double>(op.softcap));
      scores[static_cast<size_t>(h)][i] = score;
    }
  }
  std::vector<double> sums(static_cast<size_t>(shared), 0.0);
  for (int h = 0; h < shared; ++h) {
    std::vector<double>& s = scores[static_cast<size_t>(h)];
    double largest = *std::max_element(s.begin(), s.end());
    float sink = 0;
    if (op.sinks) {
      std::memcpy(&sink, op.sinks.row(0) + (kv_head * shared + h) * 4, sizeof(sink));
      largest = std::max(largest, static_cast<double>(sink));
      sums[static_cast<size_t>(h)] = std::exp(sink - largest);
    }
    for (double& score : s) sums[static_cast<size_t>(h)] += score = std::exp(score - largest);
  }
  std::vector<std::vector<double>> outs(static_cast<size_t>(shared),
                                        std::vector<double>(static_cast<size_t>(kv.v_dim)));
  for (size_t i = 0; i < n; ++i) {
    read_value(kv, slot(i), kv_head, row);
    for (size_t h = 0; h < outs.size(); ++h)
      for (size_t d = 0; d < row.size(); ++d) outs[h][d] += scores[h][i] * row[d];
  }
  for (size_t h = 0; h < outs.size(); ++h) {
    float* out = op.out.f32(t) + (kv_head * shared + static_cast<int>(h)) * kv.v_dim;
    for (size_t d = 0; d < row.size(); ++d) out[d] = static_cast<float>(outs[h][d] / sums[h]);
  }
}

}  // namespace

void run(const Attention& op, Ctx& ctx) {
  CHECK(op.heads % op.kv.kv_heads == 0, "{} heads over {}", op.heads, op.kv.kv_heads);
  ctx.pool.run(ctx.rows(op.q) * op.kv.kv_heads, [&](int64_t i, int) {
    attend(op, ctx.batch, i / op.kv.kv_heads, static_cast<int>(i % op.kv.kv_heads));
  });
}

}  // namespace ingot::ref
