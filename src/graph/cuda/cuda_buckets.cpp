#include "graph/cuda/cuda_buckets.h"

#include <algorithm>

namespace ingot::cuda {
namespace {

constexpr int kDecode[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256};
// Rows of one seq that still count as the verification of a draft.
constexpr int kDraftRows = 8;

int round_up(int n, int to) { return (n + to - 1) / to * to; }

int decode_rows(int n) {
  for (const int rows : kDecode) {
    if (n <= rows) return rows;
  }
  return round_up(n, 64);
}

int mixed_rows(int n) { return n <= 16 ? 16 : n <= 32 ? 32 : round_up(n, 64); }

int longest(const Batch& batch) {
  int rows = 1;
  for (size_t s = 0; s < static_cast<size_t>(batch.n_seqs); ++s) {
    rows = std::max(rows, batch.q_start[s + 1] - batch.q_start[s]);
  }
  return rows;
}

}  // namespace

Buckets::Buckets(const StepLimits& limits) : limits_(limits), padded_(limits) {
  padded_.seqs = decode_rows(limits.seqs);
  padded_.rows = std::max(mixed_rows(limits.rows), padded_.seqs);
  padded_.logits = decode_rows(limits.logits);
}

int Buckets::seqs_of(int n) const {
  int seqs = 1;
  while (seqs < n) seqs *= 4;
  return std::min(seqs, padded_.seqs);
}

int Buckets::logits_of(int n) const { return decode_rows(n); }
int Buckets::decode_logits(int rows) const { return logits_of(std::min(rows, limits_.logits)); }

Bucket Buckets::of(const Batch& batch) const {
  const int q_rows = longest(batch);
  const int logits = batch.n_logits > 0 ? logits_of(batch.n_logits) : 0;
  if (q_rows == 1 && logits > 0) {
    const int rows = decode_rows(batch.n_seqs);
    return {.rows = rows, .seqs = rows, .q_rows = 1, .logits = std::max(logits, decode_logits(rows))};
  }
  const int rows = mixed_rows(batch.n_rows);
  if (rows > kMostRecordedRows) {
    return {.rows = rows, .seqs = batch.n_seqs, .q_rows = q_rows, .logits = logits};
  }
  return {.rows = rows,
          .seqs = seqs_of(batch.n_seqs),
          .q_rows = q_rows <= kDraftRows ? kDraftRows : rows,
          .logits = logits};
}

std::vector<Bucket> Buckets::recorded() const {
  std::vector<Bucket> all;
  for (int n = 1; n <= limits_.seqs;) {
    const int rows = decode_rows(n);
    all.push_back({.rows = rows, .seqs = rows, .q_rows = 1, .logits = decode_logits(rows)});
    n = rows + 1;
  }
  for (int n = 2; n <= std::min(limits_.rows, kMostRecordedRows);) {
    const int rows = mixed_rows(n);
    for (int seqs = 1;; seqs *= 4) {
      const int padded = std::min(seqs, padded_.seqs);
      all.push_back({.rows = rows, .seqs = padded, .q_rows = rows, .logits = 0});
      if (kDraftRows * padded >= n) all.push_back({.rows = rows, .seqs = padded, .q_rows = kDraftRows, .logits = 0});
      if (padded == padded_.seqs || padded >= rows) break;
    }
    n = rows + 1;
  }
  for (int n = 1; n <= limits_.logits; n = logits_of(n) + 1) all.push_back({.logits = logits_of(n)});
  return all;
}

}  // namespace ingot::cuda
