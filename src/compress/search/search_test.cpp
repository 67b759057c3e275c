// The search for formats: the knapsack beside all choices tried, and what is found for small models.
#include "compress/search/search.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "base/data_test_support.h"
#include "base/error.h"
#include "compress/search/costs.h"
#include "compress/search/divergences.h"
#include "compress/search/knapsack.h"
#include "graph/run.h"

namespace ingot {
namespace {

double best_of_all(const std::vector<KnapsackItem>& items, int64_t budget, size_t i = 0) {
  if (budget < 0) return std::numeric_limits<double>::infinity();
  if (i == items.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const KnapsackChoice& choice : items[i])
    best = std::min(best, choice.cost + best_of_all(items, budget - choice.bytes, i + 1));
  return best;
}

std::vector<KnapsackItem> random_items(std::mt19937& random, int64_t unit, int64_t most) {
  std::vector<KnapsackItem> items(1 + random() % 6);
  for (KnapsackItem& item : items) {
    item.resize(1 + random() % 4);
    for (KnapsackChoice& choice : item) {
      choice.bytes = unit * (1 + static_cast<int64_t>(random() % static_cast<unsigned>(most)));
      choice.cost = static_cast<double>(random() % 1000);
    }
  }
  return items;
}

TEST(Knapsack, IsTheBestOfAllChoices) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<KnapsackItem> items = random_items(random, 1 + random() % 5000, 60);
    const Knapsack sack(items);
    EXPECT_FALSE(sack.solve(sack.least_bytes() - 1));
    for (int part = 0; part <= 8; ++part) {
      const int64_t budget = sack.least_bytes() + (sack.most_bytes() - sack.least_bytes()) * part / 8;
      const KnapsackChoice total = sack.total(sack.solve(budget).value());
      EXPECT_LE(total.bytes, budget);
      EXPECT_EQ(total.cost, best_of_all(items, budget)) << round << ' ' << part;
    }
  }
}

// Sizes without a common unit: within the budget, and near the best.
TEST(Knapsack, RoundsToAGridWhereBytesHaveNoUnit) {
  std::mt19937 random(8);
  double found = 0, best = 0;
  for (int round = 0; round < 50; ++round) {
    const std::vector<KnapsackItem> items = random_items(random, 1, 2'000'000'000);
    const Knapsack sack(items);
    const int64_t budget = (sack.least_bytes() + sack.most_bytes()) / 2;
    const KnapsackChoice total = sack.total(sack.solve(budget).value());
    EXPECT_LE(total.bytes, budget);
    found += total.cost;
    best += best_of_all(items, budget);
  }
  EXPECT_LE(found, 1.001 * best);
}

TEST(FittedCosts, FindKindAndLayer) {
  std::vector<CostPlace> places;
  std::vector<double> costs;
  for (int layer = 0; layer < 4; ++layer) {
    for (const auto& [kind, factor] : {std::pair("q", 1.0), std::pair("v", 5.0)}) {
      places.push_back({kind, layer});
      costs.push_back(factor * std::pow(3.0, layer));
    }
  }
  const std::vector<double> fitted = fitted_costs(places, costs, 1);
  for (size_t i = 0; i < costs.size(); ++i) EXPECT_NEAR(fitted[i] / costs[i], 1, 1e-9);
  std::vector<double> noisy = costs;
  noisy[3] *= 4;
  noisy[6] = 0;  // not known
  EXPECT_EQ(fitted_costs(places, noisy, 1)[6], 0);
  EXPECT_LT(fitted_costs(places, noisy, 1)[3], 3 * costs[3]);
  EXPECT_NEAR(fitted_costs(places, noisy, 0)[3], noisy[3], 1e-9 * noisy[3]);
}

constexpr int64_t kChunk = 64;

// The model's own samples: what it was trained for.
const CalibrationText& text_of(const std::string& model) {
  static std::map<std::string, CalibrationText> known;
  const auto [it, is_new] = known.try_emplace(model);
  if (is_new)
    it->second =
        calibration_text({.model = model, .text = "", .chunk_rows = kChunk, .tokens = 16 * kChunk, .threads = 2});
  return it->second;
}

std::string stories() { return committed_data("models/stories260K"); }

SearchOptions options_for(const std::string& model, double bits, int threads = 2) {
  SearchOptions options;
  options.quantize.model = model;
  options.quantize.out = "out.gguf";
  options.quantize.threads = threads;
  options.bits = bits;
  options.text = text_of(model);
  return options;
}

std::string error_of(const SearchOptions& options) {
  try {
    search(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What the head gives behind the layers one by one is what the whole model gives.
TEST(LayerRunner, GivesTheLogitsOfTheWholeModel) {
  const Model model = Model::load(stories(), layer_options(kChunk));
  const std::span<const int32_t> tokens = text_of(stories()).chunk(0);
  Runner whole(model.graph,
               {.limits = {.rows = kChunk, .seqs = 1, .logits = kChunk, .context = kChunk, .page_rows = 64}});
  const KvStore kv(whole.program(), std::vector<int>(model.graph.kv_groups.size(), 1), 64);
  whole.bind(kv);
  Batch batch(whole.options().limits, static_cast<int>(model.graph.kv_groups.size()));
  batch.n_rows = batch.n_logits = kChunk;
  batch.n_seqs = 1;
  batch.q_start = {0, kChunk};
  batch.kv_len = {kChunk};
  for (int i = 0; i < kChunk; ++i) {
    const auto at = static_cast<size_t>(i);
    batch.token[at] = tokens[at];
    batch.position[at] = batch.logit_row[at] = i;
    for (Batch::Group& group : batch.groups) group.slot[at] = i;
  }
  for (Batch::Group& group : batch.groups) group.page_table[0] = 0;
  whole.run_body(batch);
  whole.run_head(batch);

  ThreadPool pool(2);
  LayerRunner runner(model, kChunk, pool);
  std::vector<float> hidden(static_cast<size_t>(kChunk * runner.width()));
  runner.embed(tokens, hidden.data());
  for (int layer = 0; layer < runner.layers(); ++layer) {
    runner.open(layer);
    runner.run(kChunk, hidden.data());
  }
  runner.open_head();
  const std::vector<int32_t> rows = {0, 5, 40, 63};
  const Tensor& logits = runner.logits(kChunk, hidden.data(), rows);
  ASSERT_EQ(logits.cols, runner.vocab());
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t v = 0; v < logits.cols; ++v)
      ASSERT_EQ(logits.f32(static_cast<int64_t>(i))[v], whole.output("logits").f32(rows[i])[v]) << rows[i] << ' ' << v;
}

// The mean KLD over the text's last chunks when tensors have these formats.
double measured(const std::string& path, const std::vector<std::pair<std::string, std::string>>& formats) {
  const CalibrationText& text = text_of(path);
  const GgufModel gguf(path);
  const Model model = Model::load(path, layer_options(kChunk));
  ThreadPool pool(2);
  LayerRunner runner(model, kChunk, pool);
  const Importances none;
  LayerValues values(model, none, pool);
  TensorFormats variant;
  for (const ModelTensor& tensor : gguf.tensors())
    for (const auto& [name, format] : formats)
      if (tensor.name == name || (name == "*" && mix_quantizes({tensor.name, tensor.shape}) && tensor.cols() % 32 == 0))
        variant[&tensor] = format_by_name(format).value();
  DivergenceText scored;
  for (int64_t c = text.chunks() - held_out_chunks(text); c < text.chunks(); ++c)
    scored.chunks.push_back(text.chunk(c));
  for (int32_t r = kChunk / 2; r < kChunk; ++r) scored.scored.push_back(r);
  const DivergenceSetup setup{.runner = runner, .values = values, .pool = pool, .tensors = gguf.tensors()};
  const std::vector<double> klds = divergences(setup, scored, {variant, {}});
  EXPECT_EQ(klds[1], 0);
  return klds[0];
}

TEST(Divergences, GrowAsFormatsShrink) {
  double last = 0;
  for (const char* format : {"f32", "q8_0", "q5_0", "q4_0"}) {
    const double layer = measured(stories(), {{"blk.2.ffn_up.weight", format}});
    EXPECT_TRUE(layer > last || layer == 0) << format;
    EXPECT_EQ(layer == 0, std::string(format) == "f32") << format;
    last = layer;
  }
  // A table that is embedding and head counts at both ends.
  EXPECT_GT(measured(stories(), {{"token_embd.weight", "q4_0"}}), 0);
  EXPECT_GT(measured(stories(), {{"*", "q4_0"}}), last);
}

TEST(Search, FindsBetterThanOneFormatForAll) {
  for (const auto& [model, format] :
       {std::pair(stories(), "q4_1"), std::pair(test_data("models/stories15M"), "q5_0")}) {
    if (!std::filesystem::exists(model)) continue;  // of the larger set
    QuantizeOptions pure = options_for(model, 0).quantize;
    pure.format = format;
    pure.pure = true;
    const SearchResult found = search(options_for(model, plan_quantize(pure, *nearest_rounder()).bits()));
    const double uniform = measured(model, {{"*", format}}), kld = measured(model, found.tensors);
    EXPECT_LT(kld, 0.9 * uniform) << model;
    const SearchResult::Candidate& best = found.candidates[found.best];
    EXPECT_LT(best.predicted, 3 * best.measured) << model;
    EXPECT_GT(best.predicted, best.measured / 3) << model;
    for (size_t p = 1; p < found.front.size(); ++p) {
      EXPECT_GE(found.front[p].bytes, found.front[p - 1].bytes);
      EXPECT_LE(found.front[p].predicted, found.front[p - 1].predicted);
    }
  }
}

TEST(Search, FindsTheSameForAnyNumberOfThreads) {
  const std::string one = to_json(search(options_for(stories(), 8, 1)).json());
  for (const int threads : {2, 7})
    EXPECT_EQ(to_json(search(options_for(stories(), 8, threads)).json()), one) << threads;
}

TEST(Search, KeepsToTheSizeAndToWhatIsNamed) {
  const std::string out = testing::TempDir() + fmt::format("ingot_search_{}.gguf", ::getpid());
  SearchOptions options = options_for(stories(), 0);
  options.size = 290'000;
  options.quantize.tensors = {{"*attn_v*", "q8_0"}};
  const SearchResult found = search(options);
  QuantizeOptions quantized = options.quantize;
  quantized.out = out;
  quantized.tensors = found.tensors;
  quantized.format = found.format;
  quantized.search = to_json(found.json());
  const QuantizeSummary summary = quantize(quantized, *nearest_rounder());
  EXPECT_EQ(summary.bytes, found.candidates[found.best].bytes);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(out));
  EXPECT_LE(size, options.size);
  EXPECT_GT(size, options.size * 9 / 10);
  for (const QuantizeSummary::Class& one : summary.classes)
    EXPECT_TRUE(one.name != "attn_v" || one.format == "q8_0") << one.format;
  std::filesystem::remove(out);
}

TEST(Search, SaysWhatCannotBe) {
  EXPECT_NE(error_of(options_for(stories(), 3)).find("the smallest that this model can become is 7.0"),
            std::string::npos);
  SearchOptions options = options_for(stories(), 0);
  options.size = 1000;
  EXPECT_NE(error_of(options).find("the smallest"), std::string::npos);
  options = options_for(stories(), 5);
  options.text.tokens.resize(kChunk);
  EXPECT_NE(error_of(options).find("two chunks"), std::string::npos);
  options = options_for(stories(), 5);
  options.quantize.out = "directory";
  EXPECT_NE(error_of(options).find(".gguf"), std::string::npos);
  options = options_for(stories(), 5);
  options.quantize.tensors = {{"*", "q8_0"}};
  EXPECT_NE(error_of(options).find("no matrix"), std::string::npos);
}

}  // namespace
}  // namespace ingot
