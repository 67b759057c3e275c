#include "cli/bench/bench_limits.h"

#include <gtest/gtest.h>

#include "cli/bench/shapes.h"

namespace ingot {
namespace {

// A step reads one row of a table of embeddings; where the table is the head as well, all of it.
TEST(WeightBytes, OfAStepAreWithoutATableThatIsNotTheHead) {
  Hparams hp = shape_by_name("tiny");
  const int64_t table = hp.vocab * format_row_bytes(Format::kQ8_0, hp.hidden);
  ASSERT_FALSE(hp.tied);
  const Model untied = Model::random(hp, formats_by_name("q8_0", hp), {});
  const WeightBytes with_head = weight_bytes(untied);
  EXPECT_EQ(with_head.all, untied.weights->taken_bytes());
  EXPECT_EQ(with_head.step, with_head.all - table);
  hp.tied = true;
  const WeightBytes without = weight_bytes(Model::random(hp, formats_by_name("q8_0", hp), {}));
  EXPECT_EQ(without.all, with_head.all - table);
  EXPECT_EQ(without.step, without.all);
}

TEST(BenchLimits, LineNamesWhatIsRead) {
  BenchLimits limits;
  limits.threads = 2;
  limits.reads = {.ahead_gbs = 80.1, .plain_gbs = 55.6};
  limits.int8_gops = 1328;
  EXPECT_EQ(limits_line(limits, {.all = 1'100'000'000, .step = 1'000'000'000}),
            cpu_name() +
                ", 2 threads, reads 80.1 GB/s with lines asked for ahead, 55.6 plain, int8 1328 GOP/s; "
                "weights 1100.0 MB, of which a step reads 1000.0");
}

}  // namespace
}  // namespace ingot
