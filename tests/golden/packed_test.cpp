// Bit for bit, as exact_test.cpp, with weights in panels: rows long enough for the integer and 16-bit kernels, which
// the small checkpoints are not. A seq alone and in company, and with one, two and three threads.
#include <cstring>

#include "cli/bench/shapes.h"
#include "golden/support.h"

namespace ingot {
namespace {

using LogitRows = std::vector<std::vector<float>>;

constexpr int kVocab = 320;

std::vector<int32_t> tokens_of(int n, uint32_t seed) {
  std::vector<int32_t> tokens;
  uint32_t state = seed * 2654435761u + 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % kVocab));
  }
  return tokens;
}

Hparams small_numbers() {
  Hparams hp = shape_by_name("llama-3.2-1b");
  hp.layers = 2;
  hp.hidden = 768;
  hp.heads = 12;
  hp.kv_heads = 4;
  hp.ffn = 1024;
  hp.vocab = kVocab;
  hp.sliding.resize(2);
  hp.uses_rope.resize(2);
  return hp;
}

// The same with experts in place of the MLP.
Hparams expert_numbers() {
  Hparams hp = small_numbers();
  hp.experts = shape_by_name("mixtral-8x7b").experts;
  hp.experts.count = 7;
  hp.experts.used = 3;
  hp.experts.ffn = 768;
  hp.experts.layers.resize(2);
  return hp;
}

class Packed : public testing::TestWithParam<std::string> {
 protected:
  Model model(DType kv) const {
    const std::string prefix = "experts_";
    const bool experts = GetParam().starts_with(prefix);
    const Hparams hp = experts ? expert_numbers() : small_numbers();
    const std::string format = experts ? GetParam().substr(prefix.size()) : GetParam();
    return Model::random(hp, formats_by_name(format, hp), {.context = 256, .kv = kv});
  }
  // The logits of the seqs, all in one engine.
  std::vector<LogitRows> run(DType kv, const EngineConfig& options,
                             const std::vector<std::vector<int32_t>>& seqs) const {
    Model loaded = model(kv);
    LocalEngine engine(loaded, options);
    std::vector<LogitRows> logits(seqs.size());
    for (size_t s = 0; s < seqs.size(); ++s) {
      Request request;
      request.prompt = seqs[s];
      request.max_tokens = 0;
      request.on_logits = [&logits, s](int, std::span<const float> row) {
        logits[s].emplace_back(row.begin(), row.end());
      };
      EXPECT_EQ(engine.submit(std::move(request)).refused, "");
    }
    while (!engine.idle()) engine.step();
    return logits;
  }
  static void expect_same_bits(const LogitRows& got, const LogitRows& want, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t r = 0; r < want.size(); ++r) {
      ASSERT_EQ(std::memcmp(got[r].data(), want[r].data(), want[r].size() * sizeof(float)), 0) << what << ", row " << r;
    }
  }
};

TEST_P(Packed, Rows58And59ChunksThreadsAndCompanyChangeNothing) {
  for (const DType kv : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(dtype_name(kv));
    std::vector<std::vector<int32_t>> seqs;
    std::vector<LogitRows> alone;
    for (const int length : {1, 9, 40, 90}) {
      seqs.push_back(tokens_of(length, static_cast<uint32_t>(length)));
      alone.push_back(run(kv, {.threads = 1}, {seqs.back()})[0]);
      ASSERT_EQ(alone.back().size(), static_cast<size_t>(length));
      for (const float value : alone.back().back()) ASSERT_TRUE(std::isfinite(value));
    }
    // One row at a time, as answers are made; tiles of every size; a whole prompt by several threads.
    expect_same_bits(run(kv, {.threads = 1, .chunk_rows = 1}, {seqs[2]})[0], alone[2], "one row at a time");
    expect_same_bits(run(kv, {.threads = 2, .chunk_rows = 7}, {seqs[3]})[0], alone[3], "chunks of 7, 2 threads");
    expect_same_bits(run(kv, {.threads = 3}, {seqs[3]})[0], alone[3], "3 threads");
    const auto together = run(kv, {.threads = 2, .max_seqs = 4, .step_rows = 64, .chunk_rows = 13}, seqs);
    for (size_t s = 0; s < seqs.size(); ++s)
      expect_same_bits(together[s], alone[s], "with company, " + std::to_string(alone[s].size()) + " rows");
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Packed,
                         testing::Values("q4_0", "q4_1", "q5_0", "q8_0", "q4_k_m", "q5_k", "bf16", "f16", "f8_e4m3",
                                         "int4", "int8", "mxfp4", "experts_q4_0", "experts_q4_k_m", "experts_bf16",
                                         "experts_mxfp4"),
                         [](const testing::TestParamInfo<std::string>& format) { return format.param; });

}  // namespace
}  // namespace ingot
