// Steps are padded to buckets, so that one recorded graph serves many: the launches of a step depend on its bucket
// alone. A step whose seqs have one row each, and of which some want logits, is padded to the next of 1, 2, 4, 8, 16,
// 24, 32, 48, 64, 96 … 256, 320 … seqs, all with logits; any other to 16, 32 or a multiple of 64 rows, and to 1, 4, 16,
// 64 … seqs.
#pragma once

#include <compare>
#include <vector>

#include "ops/batch.h"

namespace ingot::cuda {

struct Bucket {
  int rows = 0;
  int seqs = 0;
  int q_rows = 0;  // no seq has more rows
  int logits = 0;  // 0: without the head

  auto operator<=>(const Bucket&) const = default;
};

class Buckets {
 public:
  explicit Buckets(const StepLimits& limits);

  // The limits with rows, seqs and logit rows of the largest bucket.
  const StepLimits& padded() const { return padded_; }
  // The bucket of a step, and of its logit rows. REQUIRES: it is within the limits.
  Bucket of(const Batch& batch) const;
  int logits_of(int n) const;

  // Larger steps are given to the device one kernel after another: what that costs the host is hidden behind the work
  // of so many rows, and their sizes are too many to record.
  static constexpr int kMostRecordedRows = 512;
  // All that are recorded before the first request: of one row for each seq with their head, of drafts and of prompts
  // without it, and with no rows the head alone.
  std::vector<Bucket> recorded() const;

 private:
  int seqs_of(int n) const;
  int decode_logits(int rows) const;  // of a step with one row for each seq

  const StepLimits limits_;
  StepLimits padded_;
};

}  // namespace ingot::cuda
