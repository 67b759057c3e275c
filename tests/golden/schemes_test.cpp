// One small Llama as other tools compress and publish it, a folder for each scheme: the decoded values, and the logits
// that the reference makes of them in float32.
#include <cmath>
#include <map>

#include "golden/schemes_support.h"
#include "graph/traits.h"

namespace ingot {
namespace {

class Schemes : public testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return scheme_path(GetParam()); }
  Json expected() const { return scheme_expected(GetParam()); }
};

std::map<std::string, Weight> matrices(const Model& model) {
  std::map<std::string, Weight> all;
  for (const Node& node : model.graph.nodes)
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { all[weight.name] = weight; });
  return all;
}

TEST_P(Schemes, DecodedValuesEqualReference) {
  const Json all = expected();
  const JsonObject* want = find_object(as_object(all, "expected"), "dequantized");
  ASSERT_NE(want, nullptr);
  const Model model = Model::load(path(), {});
  const Weight weight = matrices(model).at(get_string(*want, "matrix"));
  const std::vector<int32_t> rows = int_list(*want, "rows");
  std::vector<float> got(static_cast<size_t>(weight.cols));
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> values = float_list(as_array((*find_array(*want, "values"))[i], "row"));
    ASSERT_EQ(values.size(), got.size());
    weight.decode_row(rows[i], got.data());
    for (size_t k = 0; k < got.size(); ++k) {
      // Stored with seven digits.
      const double near = (is_rounded(weight) ? 4.9e-4 : 6e-7) * std::abs(values[k]) + 6e-9;
      ASSERT_NEAR(got[k], values[k], near) << "row " << rows[i] << " column " << k;
    }
  }
}

// Sums over each matrix, stored with seven digits.
TEST_P(Schemes, SumsOfDecodedValuesEqualReference) {
  const Json all = expected();
  const JsonObject* sums = find_object(as_object(all, "expected"), "checksums");
  ASSERT_NE(sums, nullptr);
  const Model model = Model::load(path(), {});
  const std::map<std::string, Weight> weights = matrices(model);
  for (const auto& [name, want] : *sums) {
    const Weight& weight = weights.at(std::string(name.data(), name.size()));
    std::vector<float> row(static_cast<size_t>(weight.cols));
    double sum = 0, magnitudes = 0;
    for (int64_t n = 0; n < weight.rows; ++n) {
      weight.decode_row(n, row.data());
      for (const float value : row) {
        sum += static_cast<double>(value);
        magnitudes += std::abs(static_cast<double>(value));
      }
    }
    const double near = magnitudes * (is_rounded(weight) ? 2e-5 : 3e-7);
    EXPECT_NEAR(sum, get_float(as_object(want, "sums"), "sum"), near) << name;
    EXPECT_NEAR(magnitudes, get_float(as_object(want, "sums"), "sum_abs"), near) << name;
  }
}

// Whole numbers meet rows of x that are rounded to 8 bits, 16-bit floats rows of 16.
TEST_P(Schemes, LogitsEqualReference) { expect_scheme_logits(GetParam(), {.threads = 2}, 1e-3, false); }
TEST_P(Schemes, LogitsOfReferenceKernels) {
  expect_scheme_logits(GetParam(), {.threads = 2, .kernels = Kernels::kRef, .fuse_off = {"all"}}, 1e-6, true);
}

TEST_P(Schemes, FusedAndCutStepsGiveTheSameBits) {
  const Json all = expected();
  const std::vector<int32_t> tokens = int_list(as_object(all, "expected"), "token_ids");
  for (const int64_t short_cols : {kShortCols, int64_t{0}}) {
    TestEngine whole(path(), {.threads = 1, .short_cols = short_cols});
    TestEngine cut(path(), {.threads = 2, .chunk_rows = 3, .fuse_off = {"all"}, .short_cols = short_cols});
    EXPECT_EQ(all_logits(*whole.engine, tokens), all_logits(*cut.engine, tokens));
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Schemes);
INSTANTIATE_TEST_SUITE_P(All, Schemes, testing::ValuesIn(scheme_names()), scheme_test_name);

}  // namespace
}  // namespace ingot
