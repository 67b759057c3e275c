// Real models against the reference implementation: stories15M and stories260K, and, where their files are at hand, the
// default model and Gemma 3 270M. $INGOT_MODELS names a directory that holds them; the default model is also found in
// the cache.
#include <cmath>
#include <optional>

#include "cli/cache.h"
#include "engine/engine.h"
#include "golden/support.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

std::optional<std::string> in_models(const std::string& name) {
  const char* root = std::getenv("INGOT_MODELS");
  if (!root) return {};
  const std::string path = std::string(root) + "/" + name;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

std::vector<int32_t> greedy(LocalEngine& engine, const std::vector<int32_t>& prompt, int n,
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

class Stories : public testing::TestWithParam<std::string> {
 protected:
  std::string model() const { return test_data("models/" + GetParam()); }
};

TEST_P(Stories, LogitsEqualReference) {
  const std::string golden = test_data("golden/" + GetParam() + ".logits.json");
  SKIP_WITHOUT(golden);
  SKIP_WITHOUT(model());
  const JsonObject expected = as_object(read_json_file(golden), "golden");
  const std::vector<int32_t> tokens = int_list(expected, "token_ids");
  for (const Kernels kernels : {Kernels::kRef, Kernels::kFast}) {
    TestEngine test(model(), {.threads = 2, .kernels = kernels});
    const auto rows = all_logits(*test.engine, tokens);
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
}

TEST_P(Stories, GreedyTextEqualsPublished) {
  const std::string golden = test_data("golden/llama2c_greedy.json");
  SKIP_WITHOUT(golden);
  SKIP_WITHOUT(model());
  const Json cases = read_json_file(golden);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(model());
  TestEngine test(model(), {.threads = 2});
  int checked = 0;
  for (const Json& item : as_array(cases, "cases")) {
    const JsonObject& c = as_object(item, "case");
    if (get_string(c, "model") != GetParam()) continue;
    const std::string text = get_string(c, "text");
    const std::vector<int32_t> prompt = tokenizer->encode(get_string(c, "prompt"), {.add_special = true});
    // The published text is that of 200 steps, the prompt's own included, or ends at BOS.
    std::vector<int32_t> tokens = prompt;
    const std::vector<int32_t> made =
        greedy(*test.engine, prompt, 200 - static_cast<int>(prompt.size()) + 1, {*tokenizer->bos(), *tokenizer->eos()});
    tokens.insert(tokens.end(), made.begin(), made.end());
    std::string got = tokenizer->decode(tokens);
    ASSERT_GE(got.size() + 8, text.size()) << get_string(c, "prompt");
    const size_t common = std::min(got.size(), text.size());
    EXPECT_EQ(got.substr(0, common), text.substr(0, common)) << get_string(c, "prompt");
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

INSTANTIATE_TEST_SUITE_P(All, Stories, testing::Values("stories260K", "stories15M"),
                         [](const testing::TestParamInfo<std::string>& model) { return model.param; });

struct RealModel {
  const char* name;
  const char* golden;
  const char* file;
};

class Real : public testing::TestWithParam<RealModel> {
 protected:
  std::optional<std::string> model() const {
    const RealModel& m = GetParam();
    std::optional<std::string> path = in_models(m.file);
    if (!path && std::string(m.name) == "smollm2") path = find_cached(kDefaultModel);
    return path;
  }
  JsonObject golden() const {
    return as_object(read_json_file(test_data(std::string("golden/") + GetParam().golden)), "golden");
  }
};

#define SKIP_WITHOUT_MODEL()                                                     \
  const std::optional<std::string> path = model();                               \
  if (!path) GTEST_SKIP() << "needs " << GetParam().file << " in $INGOT_MODELS"; \
  SKIP_WITHOUT(test_data(std::string("golden/") + GetParam().golden))

TEST_P(Real, IdsAndArgmaxEqualReference) {
  SKIP_WITHOUT_MODEL();
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(*path);
  const JsonObject expected = golden();
  for (const Kernels kernels : {Kernels::kRef, Kernels::kFast}) {
    const double margin = kernels == Kernels::kRef ? 0.05 : 0.5;
    TestEngine test(*path, {.threads = 2, .kernels = kernels, .context = 512});
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
}

// Each greedy token follows from the published ones before it wherever it is clear.
TEST_P(Real, GreedyTokensEqualReference) {
  SKIP_WITHOUT_MODEL();
  TestEngine test(*path, {.threads = 2, .context = 512});
  const JsonObject expected = golden();
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

TEST_P(Real, PerplexityEqualsReference) {
  SKIP_WITHOUT_MODEL();
  const std::string text_path = test_data("text/wiki.test.raw");
  SKIP_WITHOUT(text_path);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(*path);
  const JsonObject golden_file = golden();
  const JsonObject& expected = *find_object(golden_file, "perplexity");
  const std::vector<float> chunk_nll = float_list(*find_array(expected, "chunk_nll"));
  // Enough and more for eight chunks.
  const std::vector<int32_t> ids = tokenizer->encode(read_text_file(text_path).substr(0, 30000), {.add_special = true});
  const std::vector<int32_t> first_ids = int_list(expected, "first_ids");
  EXPECT_TRUE(std::equal(first_ids.begin(), first_ids.end(), ids.begin()));
  for (const Kernels kernels : {Kernels::kRef, Kernels::kFast}) {
    Model loaded = Model::load(*path, {.context = 512});
    Engine engine(loaded, {.threads = 2, .kernels = kernels});
    double got = 0, want = 0;
    // The rounding of x to 8 bits is noise of about 0.5 % on two chunks: more of them make the mark of 0.7 % bite.
    const size_t chunks = kernels == Kernels::kRef ? 2 : 8;
    for (size_t c = 0; c < chunks; ++c) {
      std::vector<int32_t> chunk(ids.begin() + static_cast<std::ptrdiff_t>(c * 512),
                                 ids.begin() + static_cast<std::ptrdiff_t>((c + 1) * 512));
      if (tokenizer->adds_bos()) chunk[0] = *tokenizer->bos();
      const double nll = negative_log_likelihood(engine, chunk, 257, 512);
      EXPECT_NEAR(nll / chunk_nll[c], 1, kernels == Kernels::kRef ? 1e-3 : 7e-3) << "chunk " << c;
      got += nll;
      want += chunk_nll[c];
    }
    EXPECT_NEAR(std::exp((got - want) / (static_cast<double>(chunks) * 255)), 1, 7e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Real,
                         testing::Values(RealModel{"smollm2", "smollm2.json", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                         RealModel{"gemma3_270m", "gemma3-270m.json", "gemma-3-270m-q4_k_m.gguf"}),
                         [](const testing::TestParamInfo<RealModel>& model) { return model.param.name; });

}  // namespace
}  // namespace ingot
