// Checkpoints written as GGUF by `quantize`, then loaded and held against the reference implementation; those that
// GGUF has no place for are refused by name.
#include <unistd.h>

#include "base/error.h"
#include "compress/quantize.h"
#include "golden/support.h"

namespace ingot {
namespace {

class Written : public testing::TestWithParam<std::string> {};

TEST_P(Written, AnswersAsTheCheckpoint) {
  const std::string folder = arch_directory(GetParam());
  const std::string path = fmt::format("{}ingot_written_{}_{}.gguf", testing::TempDir(), getpid(), GetParam());
  std::filesystem::remove(path);
  QuantizeOptions options;
  options.model = folder;
  options.out = path;
  options.format = "f32";
  QuantizeSummary summary;
  try {
    summary = quantize(options, *nearest_rounder());
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[quantize]")) << error.what();
    EXPECT_FALSE(std::filesystem::exists(path));
    return;  // refused by name; WrittenOf has those that are not
  }
  // What the file cannot say was told, and the answers differ.
  if (!summary.notes.empty()) {
    std::filesystem::remove(path);
    return;
  }
  const Json json = read_json_file(folder + "/expected.json");
  const JsonObject& expected = as_object(json, "expected");
  {
    TestEngine test(path, {.threads = 2});
    const auto rows = all_logits(*test.engine, int_list(expected, "token_ids"));
    const std::vector<int32_t> argmax = int_list(expected, "argmax");
    ASSERT_EQ(rows.size(), argmax.size());
    EXPECT_EQ(arg_max(rows.back()), argmax.back());
    EXPECT_LT(nmse(rows.back(), float_list(*find_array(expected, "logits_last"))), 1e-6);
  }
  std::filesystem::remove(path);
}

std::vector<std::string> names() { return arch_names(); }

INSTANTIATE_TEST_SUITE_P(Arch, Written, testing::ValuesIn(names()),
                         [](const auto& one) { return test_name(one.param); });

// The dense architectures and the plain mixtures of experts are not among the refused.
TEST(WrittenOf, TheseAreWritten) {
  for (const char* name : {"llama", "llama-tied-bias", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "granite",
                           "glm4", "gpt2", "mixtral", "qwen2-moe", "qwen3-moe", "olmoe"}) {
    QuantizeOptions options;
    options.model = arch_directory(name);
    options.out = fmt::format("{}ingot_written_{}_of.gguf", testing::TempDir(), getpid());
    options.format = "q8_0";
    std::filesystem::remove(options.out);
    EXPECT_NO_THROW(quantize(options, *nearest_rounder())) << name;
    std::filesystem::remove(options.out);
  }
}

}  // namespace
}  // namespace ingot
