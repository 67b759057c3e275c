#include "graph/cuda/cuda_batch.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace ingot::cuda {
namespace {

constexpr int64_t kCounts = 0;
constexpr int64_t kLogitRows = 16;

// Arrays begin on lines of 64 bytes.
int64_t lines(int64_t n) { return (n + 15) / 16 * 16; }

// `used` values of `from`, then the padding up to `size`.
void put(int32_t* to, const std::vector<int32_t>& from, int used, int size, int32_t padding) {
  std::copy_n(from.begin(), used, to);
  std::fill(to + used, to + size, padding);
}

}  // namespace

BatchUpload::BatchUpload(const StepLimits& limits, int n_groups) : limits_(limits), n_groups_(n_groups) {
  if (n_groups > kMaxGroups) throw Error("[cuda] {} kinds of KV cache, at most {} on a GPU", n_groups, kMaxGroups);
  const Layout largest = layout({.rows = limits.rows, .seqs = limits.seqs, .q_rows = 1, .logits = limits.logits});
  for (PinnedMemory& pinned : pinned_) pinned = PinnedMemory(largest.end * 4);
  device_ = DeviceMemory(largest.end * 4);
}

BatchUpload::Layout BatchUpload::layout(const Bucket& bucket) const {
  Layout l{};
  l.token = kLogitRows + lines(limits_.logits);
  l.position = l.token + lines(bucket.rows);
  l.seq = l.position + lines(bucket.rows);
  l.q_start = l.seq + lines(bucket.rows);
  l.kv_len = l.q_start + lines(bucket.seqs + 1);
  l.groups = l.kv_len + lines(bucket.seqs);
  l.table = lines(bucket.rows);
  l.group_size = l.table + lines(int64_t{bucket.seqs} * limits_.pages_per_seq());
  l.end = l.groups + n_groups_ * l.group_size;
  return l;
}

void BatchUpload::fill_logits(const Batch& batch, const Bucket& bucket) {
  host()[kCounts + 2] = batch.n_logits;
  put(host() + kLogitRows, batch.logit_row, batch.n_logits, bucket.logits, 0);
}

void BatchUpload::fill_group(const Batch& batch, const Bucket& bucket, const Layout& l, size_t group) {
  const Batch::Group& from = batch.groups[group];
  int32_t* to = host() + l.groups + static_cast<int64_t>(group) * l.group_size;
  put(to, from.slot, batch.n_rows, bucket.rows, -1);
  // Of a table only what the seq has: 256 seqs with room for 131,072 positions would be 2 MiB in every step.
  const int64_t per_seq = limits_.pages_per_seq();
  for (int64_t s = 0; s < batch.n_seqs; ++s) {
    const int64_t used = (batch.kv_len[static_cast<size_t>(s)] + limits_.page_rows - 1) / limits_.page_rows;
    const int64_t n = std::min(per_seq, (used + 15) / 16 * 16);
    std::copy_n(from.page_table.begin() + s * per_seq, n, to + l.table + s * per_seq);
  }
  for (int64_t s = batch.n_seqs; s < bucket.seqs; ++s)
    std::fill_n(to + l.table + s * per_seq, std::min<int64_t>(per_seq, 16), -1);
}

void BatchUpload::upload(const Batch& batch, const Bucket& bucket, StreamRef stream) {
  CHECK(batch.pages_per_seq == limits_.pages_per_seq(), "{} pages for each seq", batch.pages_per_seq);
  const Layout l = layout(bucket);
  CHECK(l.end * 4 <= device_.bytes(), "a bucket of {} rows and {} seqs", bucket.rows, bucket.seqs);
  turn_ = 1 - turn_;
  int32_t* to = host();
  to[kCounts] = batch.n_rows;
  to[kCounts + 1] = batch.n_seqs;
  fill_logits(batch, bucket);
  put(to + l.token, batch.token, batch.n_rows, bucket.rows, 0);
  put(to + l.position, batch.position, batch.n_rows, bucket.rows, 0);
  put(to + l.seq, batch.seq, batch.n_rows, bucket.rows, 0);
  put(to + l.q_start, batch.q_start, batch.n_seqs + 1, bucket.seqs + 1, batch.n_rows);
  put(to + l.kv_len, batch.kv_len, batch.n_seqs, bucket.seqs, 0);
  for (size_t g = 0; g < static_cast<size_t>(n_groups_); ++g) fill_group(batch, bucket, l, g);
  copy_to_device(device_.data(), to, l.end * 4, stream);
}

void BatchUpload::upload_logits(const Batch& batch, const Bucket& bucket, StreamRef stream) {
  fill_logits(batch, bucket);
  copy_to_device(device_.data(), host(), (kLogitRows + bucket.logits) * 4, stream);
}

DeviceBatch BatchUpload::at(const Bucket& bucket) const {
  const Layout l = layout(bucket);
  const auto* from = reinterpret_cast<const int32_t*>(device_.data());
  DeviceBatch batch{.counts = from + kCounts,
                    .token = from + l.token,
                    .position = from + l.position,
                    .seq = from + l.seq,
                    .q_start = from + l.q_start,
                    .kv_len = from + l.kv_len,
                    .logit_row = from + kLogitRows,
                    .groups = {},
                    .pages_per_seq = limits_.pages_per_seq()};
  for (int g = 0; g < n_groups_; ++g) {
    const int32_t* group = from + l.groups + g * l.group_size;
    batch.groups[g] = {.page_table = group + l.table, .slot = group};
  }
  return batch;
}

}  // namespace ingot::cuda
