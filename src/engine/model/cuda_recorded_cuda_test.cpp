// Buckets hold every step, and the graphs of all that get one are there before the first.
#include <cmath>
#include <set>

#include "engine/model/cuda_test_support.h"
#include "graph/cuda/cuda_buckets.h"
#include "graph/cuda/cuda_runner.h"

namespace ingot {
namespace {

TEST(CudaBuckets, HoldEveryStep) {
  const StepLimits limits{.rows = 700, .seqs = 37, .logits = 37, .context = 1024, .page_rows = 16};
  const cuda::Buckets buckets(limits);
  Batch batch(limits, 1);
  for (int seqs = 1; seqs <= limits.seqs; ++seqs) {
    for (const int longest : {1, 2, 5, 8, 9, 64, 300, 660}) {
      const int rows = seqs - 1 + longest;
      if (rows > limits.rows) continue;
      batch.n_seqs = seqs;
      batch.n_rows = rows;
      batch.n_logits = seqs;
      for (int s = 0; s <= seqs; ++s) batch.q_start[static_cast<size_t>(s)] = s < seqs ? s : rows;
      const cuda::Bucket bucket = buckets.of(batch);
      EXPECT_GE(bucket.rows, rows);
      EXPECT_GE(bucket.seqs, seqs);
      EXPECT_GE(bucket.q_rows, longest);
      EXPECT_GE(bucket.logits, seqs);
      EXPECT_LE(bucket.rows, buckets.padded().rows);
      EXPECT_LE(bucket.seqs, buckets.padded().seqs);
      EXPECT_LE(bucket.logits, buckets.padded().logits);
      EXPECT_EQ(bucket.q_rows == 1, longest == 1);
    }
  }
}

// A step of at most kMostRecordedRows rows finds its graphs, whatever it is made of: drafts too, the head that comes
// after a body, and seqs of one row of which not all want logits.
TEST(CudaBuckets, EveryStepIsRecordedBefore) {
  const StepLimits limits{.rows = 700, .seqs = 37, .logits = 37, .context = 1024, .page_rows = 16};
  const cuda::Buckets buckets(limits);
  std::set<cuda::Bucket> all;
  for (const cuda::Bucket& bucket : buckets.recorded()) EXPECT_TRUE(all.insert(bucket).second) << "twice";
  EXPECT_LT(all.size(), 100u);
  Batch batch(limits, 1);
  for (int seqs = 1; seqs <= limits.seqs; ++seqs) {
    for (int rows = seqs; rows <= cuda::Buckets::kMostRecordedRows; ++rows) {
      batch.n_seqs = seqs;
      batch.n_rows = rows;
      // All that there is in the first seq, or dealt evenly as drafts are.
      for (const bool even : {false, true}) {
        for (int s = 0; s <= seqs; ++s)
          batch.q_start[static_cast<size_t>(s)] = even ? rows * s / seqs : s == 0 ? 0 : rows - seqs + s;
        for (const int logits : {0, 1, seqs}) {
          batch.n_logits = logits;
          cuda::Bucket bucket = buckets.of(batch);
          EXPECT_GE(bucket.logits, logits);
          if (bucket.q_rows > 1 && bucket.logits > 0) {
            EXPECT_TRUE(all.contains({.logits = bucket.logits}));
            bucket.logits = 0;
          }
          ASSERT_TRUE(all.contains(bucket))
              << rows << " rows of " << seqs << " seqs, " << bucket.q_rows << " of one, " << logits << " with logits";
        }
      }
    }
  }
}

// Nothing is recorded after the start.
TEST(CudaRunner, RecordsAllBeforeTheFirstStep) {
  NEEDS_DEVICE();
  Model model = random_model(Format::kBF16, DType::kBF16, false);
  cuda::DeviceRunner runner(model.graph,
                            {.device = {.cuda = 0},
                             .limits = {.rows = 30, .seqs = 4, .logits = 4, .context = 64, .page_rows = 16},
                             .pages = 16,
                             .least_pages = 4});
  runner.record_all();
  const int recorded = runner.recorded();
  Batch batch(runner.limits(), 1);
  for (const std::vector<int>& seqs : {std::vector<int>{1}, {1, 1, 1}, {5}, {3, 4, 2, 3}, {20, 1, 1}, {6, 6, 6, 6}}) {
    batch.n_seqs = batch.n_logits = static_cast<int>(seqs.size());
    batch.n_rows = 0;
    for (size_t s = 0; s < seqs.size(); ++s) {
      for (int i = 0; i < seqs[s]; ++i, ++batch.n_rows) {
        const auto row = static_cast<size_t>(batch.n_rows);
        batch.token[row] = 1;
        batch.position[row] = i;
        batch.seq[row] = static_cast<int32_t>(s);
        batch.groups[0].slot[row] = static_cast<int32_t>(s) * 64 + i;
      }
      batch.q_start[s + 1] = batch.n_rows;
      batch.kv_len[s] = seqs[s];
      batch.logit_row[s] = batch.n_rows - 1;
      for (size_t page = 0; page < 4; ++page)
        batch.groups[0].page_table[s * 4 + page] = static_cast<int32_t>(s * 4 + page);
    }
    runner.run(batch, {});
    runner.synchronize();
    EXPECT_EQ(runner.recorded(), recorded) << batch.n_rows << " rows of " << seqs.size() << " seqs";
    const Tensor& logits = runner.output("logits");
    for (int r = 0; r < batch.n_logits; ++r) ASSERT_TRUE(std::isfinite(logits.f32(r)[0])) << "row " << r;
  }
}

}  // namespace
}  // namespace ingot
