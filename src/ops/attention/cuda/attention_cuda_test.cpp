// Attention on the device against the reference.
#include "ops/attention/cuda/attention_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;
using namespace test::attention;

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
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kFp8, DType::kQ8_0})
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
  for (const DType dtype : {DType::kFp8, DType::kQ8_0})
    for (const int group : {1, 8, 20}) {
      const Case c{.heads = 2 * group,
                   .kv_heads = 2,
                   .k_dim = 128,
                   .v_dim = 128,
                   .dtype = dtype,
                   .q_dtype = DType::kBF16,
                   .out_dtype = DType::kBF16};
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
                        {.window = 40, .chunked = true},
                        {.dtype = DType::kF32, .window = 7, .chunked = true, .sinks = true},
                        {.k_dim = 96, .v_dim = 96, .window = 33, .softcap = 3, .sinks = true},
                        {.heads = 3, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .dtype = DType::kF16, .sinks = true},
                        {.dtype = DType::kFp8, .window = 33, .sinks = true},
                        {.k_dim = 128, .v_dim = 128, .dtype = DType::kQ8_0, .window = 20, .softcap = 3},
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
  for (const DType dtype : {DType::kFp8, DType::kQ8_0})
    for (const int dim : {64, 96, 128, 256})
      for (const int arch : {0, 80}) {
        const Case c{.heads = 4, .kv_heads = 1, .k_dim = dim, .v_dim = dim, .dtype = dtype};
        SCOPED_TRACE(name(c) + ", " + std::to_string(arch));
        expect_matches(c, {{1, 7, 60}, {2, 1, 20}, {3, 3, 0}}, {.more_rows = 2, .q_rows = 8, .arch = arch});
      }
}

// Prompts and chunks of them, beside rows of decode.
TEST(CudaAttention, PromptsOfEveryFastHead) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kFp8, DType::kQ8_0})
    for (const int dim : {64, 96, 128, 256}) {
      const Case c{.heads = 6, .kv_heads = 2, .k_dim = dim, .v_dim = dim, .dtype = dtype};
      SCOPED_TRACE(name(c));
      for (const int arch : {0, 80})
        expect_matches(c, {{1, 1, 40}, {2, 67, 9}, {3, 1, 0}, {4, 23, 0}},
                       {.more_rows = 8, .more_seqs = 2, .arch = arch});
    }
  expect_matches({.heads = 2, .kv_heads = 2, .q_dtype = DType::kBF16, .out_dtype = DType::kBF16}, {{1, 150, 0}});
  expect_matches({.heads = 4, .kv_heads = 1, .page_rows = 64}, {{1, 33, 100}}, {.more_rows = 30});
  // Whole steps of keys in one page, seen by all rows of a warp, by some and by none; behind a window; queries that are
  // copied as they are and results that are written by whole rows.
  for (const int dim : {64, 96, 128, 256})
    expect_matches({.heads = 4,
                    .kv_heads = 1,
                    .k_dim = dim,
                    .v_dim = dim,
                    .page_rows = 64,
                    .q_dtype = DType::kBF16,
                    .out_dtype = DType::kBF16},
                   {{1, 41, 150}, {2, 70, 0}}, {.more_rows = 9});
  expect_matches({.heads = 8,
                  .kv_heads = 1,
                  .k_dim = 128,
                  .v_dim = 128,
                  .dtype = DType::kF16,
                  .window = 100,
                  .page_rows = 128,
                  .q_dtype = DType::kF16,
                  .out_dtype = DType::kF16},
                 {{1, 40, 260}});
  for (const DType dtype : {DType::kFp8, DType::kQ8_0})
    expect_matches({.heads = 4,
                    .kv_heads = 1,
                    .k_dim = 128,
                    .v_dim = 128,
                    .dtype = dtype,
                    .page_rows = 64,
                    .q_dtype = DType::kBF16,
                    .out_dtype = DType::kBF16},
                   {{1, 41, 150}, {2, 70, 0}}, {.more_rows = 9});
  // Where the tiles of the largest heads do not fit into the device.
  expect_matches({.heads = 4, .kv_heads = 1, .k_dim = 256, .v_dim = 256}, {{1, 33, 10}, {2, 1, 9}}, {.arch = 89});
}

// More tiles than blocks, so that a block has several, of one step of keys and of many; by warpgroups where the device
// has them, and without.
TEST(CudaAttention, PromptsInManyTiles) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {{.heads = 8, .kv_heads = 2, .k_dim = 128, .v_dim = 128, .page_rows = 64},
                        {.heads = 4, .kv_heads = 4, .k_dim = 128, .v_dim = 128, .dtype = DType::kF16, .window = 90},
                        {.heads = 6, .kv_heads = 2, .window = 33, .softcap = 3, .sinks = true, .page_rows = 48},
                        {.heads = 9, .kv_heads = 1, .dtype = DType::kF16, .out_dtype = DType::kF16},
                        {.heads = 5, .kv_heads = 1, .dtype = DType::kFp8, .window = 90, .page_rows = 48},
                        {.heads = 8, .kv_heads = 2, .k_dim = 128, .v_dim = 128, .dtype = DType::kQ8_0},
                        {.heads = 7,
                         .kv_heads = 1,
                         .k_dim = 128,
                         .v_dim = 128,
                         .page_rows = 32,
                         .q_dtype = DType::kBF16,
                         .out_dtype = DType::kF16}};
  for (const Case& c : cases) {
    for (const int arch : {0, 80}) {
      SCOPED_TRACE(name(c) + ", " + std::to_string(arch));
      expect_matches(c, {{1, 66, 0}, {2, 1, 77}, {3, 35, 100}}, {.more_rows = 6, .arch = arch});
    }
    expect_matches(c, {{1, 90, 63}});
  }
}

// Items of so many keys that their steps are long, beside others in the ring: by tensor copies, whole steps and parts,
// with and without the pages behind a window.
TEST(CudaAttention, PromptsBehindManyKeys) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {
      {.heads = 8, .kv_heads = 2, .k_dim = 128, .v_dim = 128, .page_rows = 64, .q_dtype = DType::kBF16},
      {.heads = 4, .kv_heads = 1, .page_rows = 128, .q_dtype = DType::kBF16, .out_dtype = DType::kBF16},
      {.heads = 3,
       .kv_heads = 1,
       .k_dim = 128,
       .v_dim = 128,
       .dtype = DType::kF16,
       .window = 1100,
       .sinks = true,
       .page_rows = 64,
       .q_dtype = DType::kF16,
       .out_dtype = DType::kF16}};
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    expect_matches(c, {{1, 70, 990}, {2, 1, 40}, {3, 20, 100}}, {.more_rows = 5, .q_rows = 600});
    expect_matches(c, {{1, 45, 1240}});
  }
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
                        {.k_dim = 70, .v_dim = 41, .dtype = DType::kFp8, .page_rows = 32},
                        {.heads = 3, .kv_heads = 1, .k_dim = 64, .v_dim = 192, .dtype = DType::kFp8},
                        {.heads = 3, .kv_heads = 1, .k_dim = 192, .v_dim = 64, .dtype = DType::kQ8_0},
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
    for (const DType dtype : {DType::kFp8, DType::kQ8_0})
      expect_matches({.heads = 4, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .dtype = dtype, .page_rows = 64},
                     {{1, 1, 1093}}, {.arch = arch});
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

// Keys of earlier steps are read before the previous kernel has written this step's: rows that are new across borders
// of tiles and pages, rows that are all new, alone, in a draft, in a chunk, behind a window.
TEST(CudaAttention, BeginsBeforeItsInputsAreWritten) {
  INGOT_NEEDS_DEVICE();
  const auto same = [](const Case& c, const std::vector<Seq>& seqs, const Bucket& bucket = {}) {
    SCOPED_TRACE(name(c));
    Step step(c, seqs);
    expect_same_bits(step.run_early(bucket), step.run_device(bucket), "begun early");
  };
  const Case plain{.heads = 4, .kv_heads = 1};
  for (const int arch : {0, 80}) {
    for (const int past : {0, 1, 15, 16, 63, 64, 191, 300}) same(plain, {{1, 1, past}}, {.arch = arch});
    same(plain, {{1, 3, 14}, {2, 4, 62}, {3, 2, 0}, {4, 1, 200}}, {.more_seqs = 1, .q_rows = 4, .arch = arch});
    same({.heads = 8, .kv_heads = 1, .page_rows = 32}, {{1, 8, 60}, {2, 5, 0}}, {.q_rows = 8, .arch = arch});
    same(plain, {{1, 40, 90}, {2, 1, 33}, {3, 30, 0}}, {.more_rows = 3, .arch = arch});
    same(plain, {{1, 40, 290}, {2, 1, 33}, {3, 30, 0}}, {.arch = arch, .invariant = true});
    for (const DType dtype : {DType::kFp8, DType::kQ8_0}) {
      const Case coded{.heads = 4, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .dtype = dtype};
      for (const int past : {0, 15, 64, 191}) same(coded, {{1, 1, past}}, {.arch = arch});
      same(coded, {{1, 40, 90}, {2, 1, 33}, {3, 30, 0}}, {.more_rows = 3, .arch = arch});
    }
  }
  same({.heads = 2, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .window = 20, .sinks = true}, {{1, 3, 77}, {2, 1, 9}});
  same({.heads = 2, .kv_heads = 2, .k_dim = 256, .v_dim = 256, .dtype = DType::kF16}, {{1, 1, 130}, {2, 2, 31}});
}

// In batch-invariant mode a row's bits are the same alone, in a batch, in a chunk and in a larger bucket.
TEST(CudaAttention, BatchInvariant) {
  INGOT_NEEDS_DEVICE();
  const Case cases[] = {{.heads = 4, .kv_heads = 1},
                        {.heads = 2, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .window = 300, .sinks = true},
                        {.heads = 3, .kv_heads = 1, .k_dim = 256, .v_dim = 256, .dtype = DType::kF16},
                        {.heads = 3, .kv_heads = 1, .dtype = DType::kFp8},
                        {.heads = 3, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .dtype = DType::kQ8_0},
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

// The squared error of normal values against a cache of float32, relative to the result: what the type itself costs, by
// every kernel.
TEST(CudaAttention, ErrorOfEachType) {
  INGOT_NEEDS_DEVICE();
  const std::pair<DType, double> bounds[] = {
      {DType::kF16, 1e-6}, {DType::kBF16, 5e-5}, {DType::kFp8, 2e-3}, {DType::kQ8_0, 2e-4}};
  for (const auto& [dtype, bound] : bounds)
    for (const int arch : {0, 80})
      for (const Seq& seq : {Seq{1, 1, 300}, Seq{1, 40, 260}}) {
        Case c{.heads = 4, .kv_heads = 2, .k_dim = 128, .v_dim = 128, .dtype = dtype, .smooth = true};
        SCOPED_TRACE(name(c) + ", " + std::to_string(seq.rows) + " rows, " + std::to_string(arch));
        Step step(c, {seq});
        c.dtype = DType::kF32;
        const std::vector<float> got = step.run_device({.arch = arch}), want = Step(c, {seq}).run_ref();
        double error = 0, all = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double off = static_cast<double>(got[i]) - static_cast<double>(want[i]);
          error += off * off;
          all += static_cast<double>(want[i]) * static_cast<double>(want[i]);
        }
        EXPECT_LT(error / all, bound);
      }
}

// Values beyond what a type holds are the largest that it has.
TEST(CudaAttention, LargeValues) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF16, DType::kFp8, DType::kQ8_0})
    for (const int rows : {1, 40}) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << rows);
      Step step({.heads = 4, .kv_heads = 1, .dtype = dtype, .values = 1e5f}, {{1, rows, 70}});
      const double most = dtype == DType::kFp8 ? 448 : 65504;
      for (const float x : step.run_device()) ASSERT_LE(std::fabs(static_cast<double>(x)), most * 1.001);
    }
}

// Twice the same, whatever the pages.
TEST(CudaAttention, PagesDoNotMatter) {
  INGOT_NEEDS_DEVICE();
  const Case c{.heads = 4, .kv_heads = 1};
  const std::vector<Seq> seqs = {{1, 1, 200}, {2, 20, 5}};
  Step one(c, seqs, 1), other(c, seqs, 2);
  for (const int arch : {0, 80})
    expect_same_bits(one.run_device({.arch = arch}), other.run_device({.arch = arch}), "other pages");
}

}  // namespace
}  // namespace ingot
