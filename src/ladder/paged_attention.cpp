#include "ladder/paged_attention.h"

namespace ingot::ref {
namespace {

// Row `slot` of a KV head, as its 16-byte pieces lie in the cache.
const uint16_t* row_of(const PagedAttention& op, const Tensor& cache, int64_t slot, int head) {
  const int64_t page = slot / op.page_rows, place = slot % op.page_rows;
  return cache.row<uint16_t>((page * op.kv_heads + head) * op.page_rows + place);
}
double value_of(const uint16_t* row, int64_t slot, int d) {
  return static_cast<double>(bf16_to_f32(row[((d / 8) ^ static_cast<int>(slot & 7)) * 8 + d % 8]));
}

void attend_head(const PagedAttention& op, int seq, int64_t row, int last, int head) {
  constexpr int kDim = PagedAttention::kDim;
  const int kv_head = head / (op.heads / op.kv_heads);
  const auto slot_of = [&](int p) {
    return int64_t{op.table.row<int32_t>(seq)[p / op.page_rows]} * op.page_rows + p % op.page_rows;
  };
  const uint16_t* q = op.q.row<uint16_t>(row) + head * kDim;
  std::vector<double> scores(static_cast<size_t>(last) + 1);
  for (int p = 0; p <= last; ++p) {
    const int64_t slot = slot_of(p);
    double dot = 0;
    for (int d = 0; d < kDim; ++d)
      dot += static_cast<double>(bf16_to_f32(q[d])) * value_of(row_of(op, op.k, slot, kv_head), slot, d);
    scores[static_cast<size_t>(p)] = dot * static_cast<double>(op.scale());
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0, out[kDim] = {};
  for (int p = 0; p <= last; ++p) {
    const double weight = std::exp(scores[static_cast<size_t>(p)] - largest);
    const int64_t slot = slot_of(p);
    sum += weight;
    for (int d = 0; d < kDim; ++d) out[d] += weight * value_of(row_of(op, op.v, slot, kv_head), slot, d);
  }
  for (int d = 0; d < kDim; ++d)
    op.out.row<uint16_t>(row)[head * kDim + d] = f32_to_bf16(static_cast<float>(out[d] / sum));
}

}  // namespace

void attend(const PagedAttention& op) {
  const AttentionBatch at{op.seqs, op.rows};
  const auto* batch = reinterpret_cast<const int32_t*>(op.batch.data);
  for (int r = 0; r < op.seqs * op.rows; ++r)
    for (int head = 0; head < op.heads; ++head) attend_head(op, batch[at.seq() + r], r, batch[at.position() + r], head);
}

}  // namespace ingot::ref
