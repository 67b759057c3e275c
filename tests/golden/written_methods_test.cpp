// Methods that ask for a model's inputs, on architectures whose experts GGUF has in another form than they are
// published: each matrix is found under its names.
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "compress/calibrate.h"
#include "compress/gptq.h"
#include "compress/quantize.h"
#include "golden/support.h"
#include "weights/config.h"

namespace ingot {
namespace {

class WrittenBy : public testing::TestWithParam<const char*> {
 protected:
  static std::string scratch() { return fmt::format("{}ingot_written_by_{}", testing::TempDir(), getpid()); }

  static CalibrationText some_text() {
    CalibrationText text{.tokens = {}, .chunk_rows = 32, .dataset = "some", .hash = "none"};
    // All over the vocabulary of 256: inputs of fewer tokens would have fewer dimensions than the matrices have
    // columns.
    for (int32_t i = 0; i < 64 * 32; ++i) text.tokens.push_back((i * i + 7 * i) / 2 % 251 + 1);
    return text;
  }

  static QuantizeOptions options() {
    QuantizeOptions options;
    options.model = arch_directory(GetParam());
    options.out = scratch() + ".gguf";
    options.format = "q4_0";
    options.pure = true;
    options.tensors = {{"token_embd.weight", "f32"}};  // it is the head of some, which no method here sees
    return options;
  }
};

// What no linear op reads as it is stored: latent attention's up-projection, and the embedding.
bool has_inputs(const std::string& name) {
  return name.find("layers") != std::string::npos && !name.ends_with(".k_b_proj.weight") &&
         !name.ends_with(".v_b_proj.weight");
}

TEST_P(WrittenBy, ImportancesOfEveryMatrix) {
  const QuantizeOptions chosen = options();
  const Stats stats = calibrate({.model = chosen.model, .scratch = scratch(), .threads = 2}, some_text());
  const ModelFiles files = ModelFiles::open(chosen.model);
  const Importances importances = stats.importances(find_architecture(Config(files)));
  size_t stacks = 0;
  for (const auto& [name, format] : planned_formats(chosen)) {
    if (!has_inputs(name)) continue;
    bool known = !importances(name, -1).empty();
    for (int e = 0; e < Model::read_numbers(files).experts.count && !known; ++e) {
      known = !importances(name, e).empty();
      stacks += known;
    }
    EXPECT_TRUE(known) << name;
  }
  EXPECT_GT(stacks, 0u);
}

// Of what the model says of the text that the method had. The middle position counts: where another expert is chosen
// all differs, whatever the method.
TEST_P(WrittenBy, GptqLosesLessThanRounding) {
  const QuantizeOptions chosen = options();
  const CalibrationText text = some_text();
  const auto answers = [&](const std::string& model) {
    TestEngine test(model, {.threads = 2});
    return all_logits(*test.engine, {text.tokens.begin(), text.tokens.begin() + 64});
  };
  const auto want = answers(chosen.model);
  const auto distance = [&](Rounder& rounder) {
    std::filesystem::remove(chosen.out);
    quantize(chosen, rounder);
    const auto got = answers(chosen.out);
    std::filesystem::remove(chosen.out);
    std::vector<double> all;
    for (size_t i = 0; i < want.size(); ++i) all.push_back(nmse(got[i], want[i]));
    std::ranges::sort(all);
    return all[all.size() / 2];
  };
  const double rounded = distance(*nearest_rounder());
  const std::unique_ptr<Rounder> gptq = gptq_rounder(
      {.model = chosen.model, .text = text, .state = scratch() + ".state", .gguf_order = true, .threads = 2});
  EXPECT_LT(distance(*gptq), rounded);
}

INSTANTIATE_TEST_SUITE_P(Arch, WrittenBy,
                         testing::Values("granitemoe", "gpt-oss", "glm4-moe", "deepseek-v2", "deepseek-v3", "dots1",
                                         "minimax-m2", "phimoe", "ernie4.5-moe", "mimo-v2-flash", "hunyuan-moe"),
                         [](const auto& one) { return test_name(one.param); });

}  // namespace
}  // namespace ingot
