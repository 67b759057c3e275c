// Real models against the reference implementation, however they run: the small Llamas of tests/data/models, and,
// where their files are at hand, the default model and Gemma 3 270M. $INGOT_MODELS names a directory that holds them;
// the default model is also found in the cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/hub/cache.h"
#include "engine/engine.h"
#include "golden/support.h"
#include "text/tokenizer.h"

namespace ingot {

inline std::string story_model(const std::string& name) { return test_data("models/" + name); }

// The small Llamas whose logits and texts are published, where their files are here.
inline std::vector<std::string> story_names() {
  std::vector<std::string> names = test_data_names("golden", ".logits.json");
  std::erase_if(names, [](const std::string& name) { return !std::filesystem::exists(story_model(name)); });
  return names;
}

// Logits of the first `most` positions.
inline void expect_story_logits(const std::string& name, const RunSetup& setup, size_t most = 1000) {
  const std::string golden = test_data("golden/" + name + ".logits.json");
  const JsonObject expected = as_object(read_json_file(golden), "golden");
  std::vector<int32_t> tokens = int_list(expected, "token_ids");
  tokens.resize(std::min(tokens.size(), most));
  TestEngine test(story_model(name), setup);
  const auto rows = all_logits(*test.engine, tokens);
  ASSERT_EQ(rows.size(), tokens.size());
  const std::vector<float> logsumexp = float_list(*find_array(expected, "logsumexp"));
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_NEAR(log_sum_exp(rows[r]), logsumexp[r], 1e-3) << "row " << r;
    const JsonArray& ids = as_array(find_array(expected, "top_ids")->at(r), "top_ids");
    const JsonArray& values = as_array(find_array(expected, "top_logits")->at(r), "top_logits");
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<size_t>(as_int(ids[i], "id"));
      EXPECT_NEAR(rows[r][id], as_float(values[i], "logit"), 1e-3) << "row " << r << ", token " << id;
    }
  }
}

inline std::vector<int32_t> greedy(LocalEngine& engine, const std::vector<int32_t>& prompt, int n,
                                   std::vector<int32_t> end_tokens) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = n;
  request.sampling.temperature = 0;
  request.end_tokens = std::move(end_tokens);
  EXPECT_EQ(engine.submit(std::move(request)).refused, "");
  std::vector<int32_t> made;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) made.push_back(event.sample.token);
  }
  return made;
}

// The published texts of this model, 200 steps each, or the first `most` texts and `steps` of each.
inline void expect_story_texts(const std::string& name, const RunSetup& setup, int most = 6, int steps = 200) {
  const std::string golden = test_data("golden/llama2c_greedy.json");
  const Json cases = read_json_file(golden);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(story_model(name));
  TestEngine test(story_model(name), setup);
  int checked = 0;
  for (const Json& item : as_array(cases, "cases")) {
    const JsonObject& c = as_object(item, "case");
    if (get_string(c, "model") != name || checked == most) continue;
    const std::string text = get_string(c, "text");
    const std::vector<int32_t> prompt = tokenizer->encode(get_string(c, "prompt"), {.add_special = true});
    // The published text is that of 200 steps, the prompt's own included, or ends at BOS.
    std::vector<int32_t> tokens = prompt;
    const std::vector<int32_t> made = greedy(*test.engine, prompt, steps - static_cast<int>(prompt.size()) + 1,
                                             {*tokenizer->bos(), *tokenizer->eos()});
    tokens.insert(tokens.end(), made.begin(), made.end());
    std::string got = tokenizer->decode(tokens);
    if (steps == 200) {
      ASSERT_GE(got.size() + 8, text.size()) << get_string(c, "prompt");
    }
    const size_t common = std::min(got.size(), text.size());
    ASSERT_GT(common, 0u);
    EXPECT_EQ(got.substr(0, common), text.substr(0, common)) << get_string(c, "prompt");
    ++checked;
  }
  EXPECT_EQ(checked, most);
}

struct RealModel {
  const char* name;
  const char* golden;
  const char* file;

  std::optional<std::string> path() const {
    const char* root = std::getenv("INGOT_MODELS");
    const std::string in_models = std::string(root ? root : "") + "/" + file;
    if (root && std::filesystem::exists(in_models)) return in_models;
    if (std::string(name) == "smollm2") return find_cached(kDefaultModel);
    return {};
  }
  std::string golden_path() const { return test_data(std::string("golden/") + golden); }
};

inline const RealModel kRealModels[] = {{"smollm2", "smollm2.json", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                        {"gemma3_270m", "gemma3-270m.json", "gemma-3-270m-q4_k_m.gguf"}};

// Names the model's file in the variable `path`.
#define SKIP_WITHOUT_MODEL(model)                                             \
  const std::optional<std::string> path = (model).path();                     \
  if (!path) GTEST_SKIP() << "needs " << (model).file << " in $INGOT_MODELS"; \
  SKIP_WITHOUT((model).golden_path())

// `margin`: how much ahead of the second the reference's choice must be to be ours.
inline void expect_real_argmax(const RealModel& model, const RunSetup& setup, double margin) {
  SKIP_WITHOUT_MODEL(model);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(*path);
  const JsonObject expected = as_object(read_json_file(model.golden_path()), "golden");
  TestEngine test(*path, setup);
  int compared = 0;
  for (const Json& item : *find_array(expected, "cases")) {
    const JsonObject& c = as_object(item, "case");
    const std::vector<int32_t> ids = int_list(c, "ids");
    EXPECT_EQ(tokenizer->encode(get_string(c, "prompt"), {.add_special = true}), ids) << get_string(c, "prompt");
    const std::vector<int32_t> argmax = int_list(c, "argmax");
    const std::vector<float> margins = float_list(*find_array(c, "margin"));
    const auto rows = all_logits(*test.engine, ids);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (margins[r] <= margin) continue;
      EXPECT_EQ(arg_max(rows[r]), argmax[r]) << get_string(c, "prompt") << ", position " << r;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

// Each greedy token follows from the published ones before it wherever it is clear.
inline void expect_real_greedy(const RealModel& model, const RunSetup& setup) {
  SKIP_WITHOUT_MODEL(model);
  TestEngine test(*path, setup);
  const JsonObject expected = as_object(read_json_file(model.golden_path()), "golden");
  for (const Json& item : *find_array(expected, "cases")) {
    const JsonObject& c = as_object(item, "case");
    std::vector<int32_t> tokens = int_list(c, "ids");
    const size_t prompt = tokens.size();
    const std::vector<int32_t> published = int_list(c, "greedy");
    const std::vector<float> margins = float_list(*find_array(c, "greedy_margin"));
    tokens.insert(tokens.end(), published.begin(), published.end());
    const auto rows = all_logits(*test.engine, tokens);
    for (size_t i = 0; i < published.size(); ++i) {
      if (margins[i] <= 0.5) continue;
      EXPECT_EQ(arg_max(rows[prompt - 1 + i]), published[i]) << get_string(c, "prompt") << ", token " << i;
    }
  }
}

// The first chunks of 512 tokens of a text, and what the reference gives for the second half of each.
struct ScoredText {
  static constexpr int kScored = 255;  // tokens of each chunk
  std::vector<std::vector<int32_t>> chunks;
  std::vector<float> nll;

  static std::string path() { return test_data("text/wiki.test.raw"); }
  // `model` is the file, `golden` the reference's.
  static ScoredText read(const std::string& model, const std::string& golden) {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(model);
    const JsonObject all = as_object(read_json_file(golden), "golden");
    const JsonObject& expected = *find_object(all, "perplexity");
    const std::string text = read_text_file(path()).substr(0, 150000);  // 40 chunks are about 90,000
    const std::vector<int32_t> ids = tokenizer->encode(text, {.add_special = true});
    const std::vector<int32_t> first_ids = int_list(expected, "first_ids");
    EXPECT_TRUE(std::equal(first_ids.begin(), first_ids.end(), ids.begin()));
    ScoredText result;
    result.nll = float_list(*find_array(expected, "chunk_nll"));
    EXPECT_GE(ids.size(), result.nll.size() * 512);
    for (size_t c = 0; c < result.nll.size(); ++c) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(c * 512);
      result.chunks.emplace_back(begin, begin + 512);
      if (tokenizer->adds_bos()) result.chunks.back()[0] = *tokenizer->bos();
    }
    return result;
  }

  // The engine's, of chunk c.
  double score(Engine& engine, size_t c) const { return negative_log_likelihood(engine, chunks[c], 257, 512); }
  // The first n chunks: each log-likelihood within `near` of the reference's, and the perplexity of all within `off`.
  void expect_near(Engine& engine, size_t n, double near, double off) const {
    double sum = 0;
    for (size_t c = 0; c < n; ++c) {
      const double difference = score(engine, c) - nll[c];
      EXPECT_NEAR(difference / nll[c], 0, near) << "chunk " << c;
      sum += difference;
    }
    EXPECT_NEAR(std::exp(sum / (static_cast<double>(n) * kScored)), 1, off) << n << " chunks";
  }
};

// `chunks` of 512 tokens; each within `near` of the reference's log-likelihood.
inline void expect_real_perplexity(const RealModel& model, const RunSetup& setup, size_t chunks, double near) {
  SKIP_WITHOUT_MODEL(model);
  SKIP_WITHOUT(ScoredText::path());
  const ScoredText text = ScoredText::read(*path, model.golden_path());
  Model loaded = Model::load(*path, {.context = setup.context, .kv = setup.kv});
  Engine engine(loaded, {.threads = setup.threads, .kernels = setup.kernels, .device = setup.device});
  text.expect_near(engine, chunks, near, 7e-3);
}

}  // namespace ingot
