// The arrays of a step on the device: padded to the bucket, written once into pinned memory, sent in one copy. On the
// device each step's arrays replace those of the step before; of the host's there are two, so that one can be written
// while the device has not come to the copy of the other.
#pragma once

#include "graph/cuda/cuda_buckets.h"
#include "ops/batch.h"
#include "ops/cuda/ctx.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

class BatchUpload {
 public:
  // `limits` are those of the largest bucket. Throws Error where the model has more than kMaxGroups KV groups.
  BatchUpload(const StepLimits& limits, int n_groups);

  // REQUIRES: all copies but the last have been done.
  void upload(const Batch& batch, const Bucket& bucket, StreamRef stream);
  // The logit rows alone, of the batch that was uploaded last. REQUIRES: its copy has been done.
  void upload_logits(const Batch& batch, const Bucket& bucket, StreamRef stream);

  // Where the arrays of a batch in this bucket lie: fixed.
  DeviceBatch at(const Bucket& bucket) const;

  int64_t bytes() const { return device_.bytes(); }

 private:
  // Offsets in int32s. Counts and logit rows come first, in the same place for all buckets.
  struct Layout {
    int64_t token, position, seq, q_start, kv_len, groups, group_size, table, end;
  };
  Layout layout(const Bucket& bucket) const;
  int32_t* host() const { return reinterpret_cast<int32_t*>(pinned_[turn_].data()); }
  void fill_logits(const Batch& batch, const Bucket& bucket);
  void fill_group(const Batch& batch, const Bucket& bucket, const Layout& l, size_t group);

  const StepLimits limits_;
  const int n_groups_;
  PinnedMemory pinned_[2];
  size_t turn_ = 0;  // the one that was written last
  DeviceMemory device_;
};

}  // namespace ingot::cuda
