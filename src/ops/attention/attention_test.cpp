#include "ops/attention/attention.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/attention/attention_test_support.h"
#include "ops/attention/cpu/attention_plan.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot {
namespace {

using namespace test_attention;

std::vector<Case> cases() {
  std::vector<Case> all = {
      {},
      {.heads = 1, .kv_heads = 1, .k_dim = 1, .v_dim = 1},
      {.heads = 6, .kv_heads = 2, .k_dim = 20, .v_dim = 13, .page_rows = 48},
      {.heads = 40, .kv_heads = 1, .k_dim = 64, .v_dim = 64, .page_rows = 64},
      {.window = 5},
      {.window = 64, .page_rows = 128},
      {.window = 7, .chunked = true, .page_rows = 32},
      {.window = 100, .chunked = true, .sinks = true},
      {.k_dim = 80, .v_dim = 80, .window = 100, .softcap = 5},
      {.softcap = 2, .sinks = true},
      {.window = 33, .sinks = true, .page_rows = 64},
      {.dtype = DType::kF16},
      {.k_dim = 17, .v_dim = 35, .dtype = DType::kBF16, .page_rows = 32},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kBF16, .page_rows = 32},
      {.k_dim = 20, .v_dim = 40, .window = 33, .softcap = 5, .sinks = true, .dtype = DType::kBF16},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kQ8_0, .page_rows = 64},
      {.heads = 6, .kv_heads = 2, .k_dim = 41, .v_dim = 70, .window = 40, .dtype = DType::kQ8_0},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kFp8, .page_rows = 64},
      {.heads = 6, .kv_heads = 2, .k_dim = 41, .v_dim = 70, .window = 40, .dtype = DType::kFp8},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kFp8, .page_rows = 64, .scaled = true},
      {.k_dim = 17, .v_dim = 35, .window = 40, .softcap = 5, .sinks = true, .dtype = DType::kFp8, .scaled = true},
      {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64, .dtype = DType::kInt8, .page_rows = 64, .scaled = true},
      {.heads = 6, .kv_heads = 2, .k_dim = 41, .v_dim = 70, .window = 40, .dtype = DType::kInt8, .scaled = true},
      {.heads = 6, .scale = -1.0f / 128},
      {.heads = 5, .kv_heads = 1, .k_dim = 8, .v_dim = 24, .latent = true},
      {.heads = 3,
       .kv_heads = 1,
       .k_dim = 6,
       .v_dim = 13,
       .window = 40,
       .sinks = true,
       .page_rows = 48,
       .latent = true},
      {.heads = 50, .kv_heads = 1, .k_dim = 16, .v_dim = 64, .dtype = DType::kF16, .page_rows = 64, .latent = true},
      {.heads = 16, .kv_heads = 1, .k_dim = 16, .v_dim = 72, .dtype = DType::kBF16, .latent = true},
      {.heads = 16, .kv_heads = 1, .k_dim = 8, .v_dim = 64, .dtype = DType::kFp8, .page_rows = 32, .latent = true},
      {.heads = 4, .kv_heads = 1, .k_dim = 10, .v_dim = 41, .dtype = DType::kQ8_0, .latent = true},
  };
  if (!kPairs) return all;
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i)
    if (all[i].k_dim % 4 == 0 && all[i].v_dim % 8 == 0 && !all[i].latent && !all[i].scaled) {
      all.push_back(all[i]);
      all.back().dtype = DType::kBF16;
      all.back().pairs = true;
    }
  return all;
}

const std::vector<std::vector<Seq>>& batches() {
  static const std::vector<std::vector<Seq>> all = {
      {{1, 1, 0}},  {{1, 63, 0}},  {{1, 131, 0}},
      {{1, 1, 63}}, {{1, 1, 256}}, {{1, 9, 60}, {2, 1, 0}, {3, 40, 0}, {4, 1, 130}, {5, 3, 62}},
  };
  return all;
}

TEST(Attention, RefIsTheDefinition) {
  for (const Case& c : cases())
    for (const std::vector<Seq>& seqs : batches()) {
      Step step(c, seqs);
      test::expect_near(step.run_ref(2), step.brute_force(), step.cols(), test::relative(4, 1e-5), "ref");
    }
}

TEST(Attention, CpuMatchesRef) {
  size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << "case " << index++);
    for (const std::vector<Seq>& seqs : batches()) {
      Step step(c, seqs);
      const std::vector<float> want = step.run_ref();
      test::for_each_kernels([&] {
        if (!fits(c)) return;
        const std::vector<float> got = step.run_cpu();
        test::expect_near(got, want, step.cols(), step.tolerance(), "cpu");
        for (int threads : {2, 3}) test::expect_same_bits(step.run_cpu(threads), got, "threads");
      });
    }
  }
}

// The rows of one seq, in one piece, in pieces of every length, and among others in other pages.
TEST(Attention, ChunksAndBatchMatesChangeNothing) {
  const int total = 131;
  for (const Case& c : cases()) {
    test::for_each_kernels([&] {
      if (!fits(c)) return;
      const std::vector<float> whole = Step(c, {{7, total, 0}}).run_cpu();
      for (int chunk : {1, 7, 64}) {
        std::vector<float> pieces;
        for (int past = 0; past < total; past += chunk) {
          const std::vector<float> piece = Step(c, {{7, std::min(chunk, total - past), past}}, 3).run_cpu(2);
          pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        test::expect_same_bits(pieces, whole, "chunks of " + std::to_string(chunk));
      }
      Step batch(c, {{8, 30, 10}, {7, 20, 111}, {9, 1, 200}}, 9);
      const std::vector<float> got = batch.run_cpu(3);
      const auto row = [&](const std::vector<float>& v, int64_t r) { return v.begin() + r * batch.cols(); };
      test::expect_same_bits({row(got, 30), row(got, 50)}, {row(whole, 111), row(whole, 131)}, "in a batch");
    });
  }
}

// Heads and ratios of real models, in every type of the cache.
TEST(Attention, HeadSizesAndRatios) {
  for (const auto& [dtype, pairs] : types())
    for (int dim : {64, 80, 96, 128, 256})
      for (int ratio : {1, 3, 4, 7, 8}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << dim << ", " << ratio);
        const Case c{.heads = 2 * ratio, .kv_heads = 2, .k_dim = dim, .v_dim = dim, .dtype = dtype, .pairs = pairs};
        Step step(c, {{1, 9, 60}, {2, 1, 130}});
        const std::vector<float> want = step.run_ref();
        test::for_each_kernels([&] {
          if (!fits(c)) return;
          const std::vector<float> got = step.run_cpu();
          test::expect_near(got, want, step.cols(), step.tolerance(), "cpu");
          for (int threads : {2, 3}) test::expect_same_bits(step.run_cpu(threads), got, "threads");
        });
      }
}

// Long seqs, whose keys several threads share: against the reference, whatever the threads, and a row among others
// (of its own and of other seqs) as alone.
TEST(Attention, SplitsOfLongSeqs) {
  for (const auto& [dtype, pairs] : types())
    for (int window : {0, 300}) {
      const Case c{.heads = 6,
                   .kv_heads = 2,
                   .k_dim = 64,
                   .v_dim = 64,
                   .window = window,
                   .sinks = true,
                   .dtype = dtype,
                   .pairs = pairs};
      Step alone(c, {{7, 1, 1500}});
      Step chunk(c, {{7, 40, 1461}}, 3);
      Step batch(c, {{8, 1, 900}, {7, 1, 1500}, {9, 5, 3}, {10, 1, 0}}, 9);
      const cpu::AttentionPlan plan(alone.op(), alone.batch(), 2, 1 << 20);
      EXPECT_GT(plan.units[0].items, 1) << "not cut: nothing is tested";
      const std::vector<float> want = alone.run_ref();
      test::for_each_kernels([&] {
        if (!fits(c)) return;
        const std::vector<float> got = alone.run_cpu();
        test::expect_near(got, want, alone.cols(), alone.tolerance(), "cpu");
        for (int threads : {1, 2, 3}) {
          const auto row = [&](const std::vector<float>& v, int64_t r) { return v.begin() + r * alone.cols(); };
          test::expect_same_bits(alone.run_cpu(threads), got, "threads");
          const std::vector<float> rows = chunk.run_cpu(threads), mates = batch.run_cpu(threads);
          test::expect_same_bits({row(rows, 39), row(rows, 40)}, got, "the last of a chunk");
          test::expect_same_bits({row(mates, 1), row(mates, 2)}, got, "in a batch");
        }
      });
    }
}

// The squared error of normal values, relative to what is exact: of the arithmetic, and of the cache's type.
TEST(Attention, ErrorOfEachType) {
  const std::map<DType, double> bounds = {
      {DType::kF32, 1e-11}, {DType::kF16, 1e-6}, {DType::kBF16, 5e-5}, {DType::kFp8, 2e-3}, {DType::kQ8_0, 2e-4}};
  for (const auto& [dtype, pairs] : types()) {
    const Case c{.heads = 4, .kv_heads = 2, .k_dim = 64, .v_dim = 64, .dtype = dtype, .pairs = pairs, .smooth = true};
    Step step(c, {{1, 20, 580}});
    const std::vector<float> want = step.brute_force();
    test::for_each_kernels([&] {
      if (!fits(c)) return;
      const std::vector<float> got = step.run_cpu(2);
      double error = 0, all = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
        all += std::pow(static_cast<double>(want[i]), 2);
      }
      EXPECT_LT(error / all, bounds.at(dtype)) << dtype_name(dtype);
    });
  }
}

// Every split of every unit is in one item, with and without room for the splits' results.
TEST(AttentionPlan, ItemsCoverEverySplit) {
  const Case c{.heads = 6, .kv_heads = 2, .k_dim = 4, .v_dim = 4, .window = 700};
  Step step(c, {{1, 1, 2000}, {2, 100, 0}, {3, 1, 300}});
  for (int threads : {1, 2, 16})
    for (int64_t room : {0, 200, 1 << 20}) {
      const cpu::AttentionPlan plan(step.op(), step.batch(), threads, room);
      std::vector<std::vector<int>> seen;
      for (const cpu::AttentionUnit& unit : plan.units) seen.emplace_back(static_cast<size_t>(unit.splits()));
      for (const cpu::AttentionItem& item : plan.items) {
        const cpu::AttentionUnit& unit = plan.units[static_cast<size_t>(item.unit)];
        EXPECT_EQ(unit.parts >= 0, unit.items > 1);
        if (unit.parts >= 0) {
          EXPECT_LE(unit.parts + unit.splits() * unit.queries() * (4 + 2), room);
        }
        for (int s = item.first_split; s < item.end_split; ++s)
          ++seen[static_cast<size_t>(item.unit)][static_cast<size_t>(s - unit.first_split)];
      }
      for (const std::vector<int>& counts : seen) EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
    }
}

TEST(AttentionKernels, WideningIsExact) {
  std::vector<uint16_t> all(65536);
  std::vector<float> got(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  test::for_each_kernels([&] {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      cpu::attention_kernels().open_values(dtype, reinterpret_cast<const std::byte*>(all.data()), 1, 65536, got.data());
      for (size_t i = 0; i < all.size(); ++i) {
        const float want = dtype == DType::kF16 ? f16_to_f32(all[i]) : bf16_to_f32(all[i]);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << i;
        }
      }
    }
  });
}

// Every code of fp8, and what is written for values around all of them.
TEST(AttentionKernels, Fp8IsTheFormats) {
  std::vector<uint8_t> all(256);
  std::iota(all.begin(), all.end(), uint8_t{0});
  std::vector<float> values, got(256);
  for (const uint8_t code : all) {
    float x = 0;
    F8_E4M3::decode(&code, &x);
    for (const float factor : {1.0f, 1.03f, 1.0625f, 1.09f, 0.97f}) values.push_back(x * factor);
    values.push_back(x + 0x1p-10f);
  }
  for (const float x : {449.0f, 1e9f, -1e9f, INFINITY, -INFINITY, 0x1p-11f, -0x1p-30f}) values.push_back(x);
  test::for_each_kernels([&] {
    const cpu::AttentionKernels& kernels = cpu::attention_kernels();
    kernels.open_values(DType::kFp8, reinterpret_cast<const std::byte*>(all.data()), 1, 256, got.data());
    for (size_t i = 0; i < all.size(); ++i) {
      float want = 0;
      F8_E4M3::decode(&all[i], &want);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << i;
      }
    }
    std::vector<uint8_t> codes(values.size());
    kernels.store_value(DType::kFp8, values.data(), std::ssize(values), reinterpret_cast<std::byte*>(codes.data()));
    for (size_t i = 0; i < values.size(); ++i) {
      uint8_t want = 0;
      F8_E4M3::encode(&values[i], &want);
      ASSERT_EQ(codes[i], want) << values[i];
    }
  });
}

// Scores of many hundreds: nothing overflows, and what is far below the largest counts nothing.
TEST(Attention, LargeScores) {
  Case c{.heads = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4};
  Step step(c, {{1, 130, 0}});
  Attention op = step.op();
  op.scale = 50;
  test::run_cpu(op, test::make_batch({{130, 0}}, c.page_rows, 2), 2);
  for (int64_t t = 0; t < 130; ++t)
    for (int64_t d = 0; d < 4; ++d) ASSERT_TRUE(std::isfinite(op.out.f32(t)[d])) << t;
}

}  // namespace
}  // namespace ingot
