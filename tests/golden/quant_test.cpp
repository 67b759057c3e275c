// One small Llama in the weight formats that other tools write, a file each: the decoded values and the logits.
#include <cmath>

#include "files/gguf/gguf.h"
#include "golden/support.h"
#include "quant/format.h"

namespace ingot {
namespace {

class Quant : public testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return test_data("quant-vectors/" + GetParam() + ".gguf"); }
  JsonObject expected() const {
    const Json all = read_json_file(test_data("quant-vectors/expected.json"));
    return as_object(as_object(as_object(all, "all").at("files"), "files").at(GetParam() + ".gguf"), "file");
  }
};

TEST_P(Quant, DecodedValuesEqualReference) {
  const Gguf gguf = Gguf::open(path());
  const JsonObject want = expected();
  for (const auto& [name, values] : *find_object(want, "first_256_values")) {
    const GgufTensor* tensor = gguf.find_tensor(std::string_view(name.data(), name.size()));
    ASSERT_NE(tensor, nullptr) << name;
    const JsonArray& reference = as_array(values, "values");
    std::vector<float> got(reference.size());
    format_decode(*format_by_gguf_type(tensor->type), tensor->data, got.data(), static_cast<int64_t>(got.size()));
    // Stored with seven decimals.
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], as_float(reference[i], "value"), 5.1e-8) << name << " value " << i;
  }
}

TEST_P(Quant, LogitsEqualReference) {
  const JsonObject want = expected();
  const std::vector<float> last = float_list(*find_array(want, "logits_last"));
  const std::vector<int32_t> tokens = int_list(want, "token_ids");
  for (const Kernels kernels : {Kernels::kRef, Kernels::kFast}) {
    RunSetup setup{.threads = 2, .kernels = kernels};
    if (kernels == Kernels::kRef) setup.fuse_off = {"all"};
    TestEngine test(path(), setup);
    EXPECT_LE(nmse(all_logits(*test.engine, tokens).back(), last), kernels == Kernels::kRef ? 1e-6 : 5e-4);
  }
}

// The same with every weight in panels: x is rounded to 8 bits for integers, by some sets to 16 for 16-bit floats. On
// neon, dotprod and i8mm alike integers are 2.7e-4 to 1.13e-3 (Q2_K) off, bf16 1.7e-5 on i8mm; nothing else above
// 1e-11.
TEST_P(Quant, LogitsOfPanelsEqualReference) {
  const JsonObject want = expected();
  const std::vector<float> last = float_list(*find_array(want, "logits_last"));
  const std::vector<int32_t> tokens = int_list(want, "token_ids");
  TestEngine test(path(), {.threads = 2, .short_cols = 0});
  const bool rounded = GetParam() == "bf16" || GetParam() == "f16";
  const double most = GetParam() == "f32" ? 1e-6 : rounded ? 5e-5 : 3e-3;
  EXPECT_LE(nmse(all_logits(*test.engine, tokens).back(), last), most);
}

TEST_P(Quant, FusedAndCutStepsGiveTheSameBits) {
  const std::vector<int32_t> tokens = int_list(expected(), "token_ids");
  for (const int64_t short_cols : {kShortCols, int64_t{0}}) {
    TestEngine whole(path(), {.threads = 1, .short_cols = short_cols});
    TestEngine cut(path(), {.threads = 2, .chunk_rows = 3, .fuse_off = {"all"}, .short_cols = short_cols});
    EXPECT_EQ(all_logits(*whole.engine, tokens), all_logits(*cut.engine, tokens));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quant, testing::ValuesIn(test_data_names("quant-vectors", ".gguf")),
                         [](const testing::TestParamInfo<std::string>& file) { return file.param; });

}  // namespace
}  // namespace ingot
