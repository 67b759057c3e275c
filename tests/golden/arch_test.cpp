// Every architecture against the reference implementation in float32: a tiny seeded checkpoint each, with the hidden
// state after every layer, so that the first wrong layer is named.
#include <algorithm>
#include <cmath>

#include "golden/support.h"
#include "graph/traits.h"

namespace ingot {
namespace {

// Of 1 in logits and of the largest value in hidden states: where weights are published in bf16, kernels that multiply
// bf16 round the rows that meet them, too, in each layer.
double tolerance_of(const Model& model, Kernels kernels) {
  bool bf16 = false;
  for (const Node& node : model.graph.nodes)
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { bf16 |= weight.format == Format::kBF16; });
  return bf16 && kernels == Kernels::kFast ? 1e-2 * model.hp.layers : 1e-3;
}

class Arch : public testing::TestWithParam<std::tuple<std::string, Kernels>> {
 protected:
  std::string directory() const { return arch_directory(std::get<0>(GetParam())); }
  RunSetup setup() const {
    const Kernels kernels = std::get<1>(GetParam());
    RunSetup s{.threads = 2, .kernels = kernels};
    if (kernels == Kernels::kRef) s.fuse_off = {"all"};
    return s;
  }
};

TEST_P(Arch, LogitsEqualReference) {
  const JsonObject expected = as_object(read_json_file(directory() + "/expected.json"), "expected");
  TestEngine test(directory(), setup());
  const std::vector<int32_t> tokens = int_list(expected, "token_ids");
  const auto rows = all_logits(*test.engine, tokens);
  ASSERT_EQ(rows.size(), tokens.size());
  const std::vector<int32_t> argmax = int_list(expected, "argmax");
  const std::vector<float> logsumexp = float_list(*find_array(expected, "logsumexp"));
  const double tolerance = tolerance_of(*test.model, std::get<1>(GetParam()));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(arg_max(rows[i]), argmax[i]) << "position " << i;
    EXPECT_NEAR(log_sum_exp(rows[i]), logsumexp[i], tolerance) << "position " << i;
  }
  const std::vector<float> last = float_list(*find_array(expected, "logits_last"));
  for (size_t v = 0; v < last.size(); ++v) EXPECT_NEAR(rows.back()[v], last[v], tolerance) << "token " << v;
}

TEST_P(Arch, HiddenStatesEqualReference) {
  const JsonObject expected = as_object(read_json_file(directory() + "/expected.json"), "expected");
  RunSetup s = setup();
  s.keep_hidden = true;
  TestEngine test(directory(), s);
  const std::vector<int32_t> tokens = int_list(expected, "token_ids");
  const JsonArray& layers = *find_array(expected, "hidden");
  ASSERT_EQ(layers.size(), static_cast<size_t>(test.model->hp.layers) + 1);
  const double tolerance = tolerance_of(*test.model, std::get<1>(GetParam()));
  bool seen = false;
  test.engine->device().on_body = [&](const Batch& batch, const StepOutputs& runner) {
    seen = true;
    const int64_t checked[] = {0, 1, batch.n_rows - 1};
    for (size_t l = 0; l < layers.size(); ++l) {
      const Tensor& hidden = runner.output("hidden." + std::to_string(l));
      const JsonArray& rows = as_array(layers[l], "hidden");
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<float> want = float_list(as_array(rows[r], "row"));
        const float largest = std::abs(*std::ranges::max_element(want, {}, [](float v) { return std::abs(v); }));
        const float* got = hidden.f32(checked[r]);
        for (size_t c = 0; c < want.size(); ++c) {
          ASSERT_NEAR(got[c], want[c], tolerance * largest)
              << "after layer " << l << ", row " << checked[r] << ", column " << c;
        }
      }
    }
  };
  all_logits(*test.engine, tokens);
  EXPECT_TRUE(seen);
}

INSTANTIATE_TEST_SUITE_P(All, Arch,
                         testing::Combine(testing::ValuesIn(arch_names()),
                                          testing::Values(Kernels::kRef, Kernels::kFast)),
                         [](const testing::TestParamInfo<std::tuple<std::string, Kernels>>& arch) {
                           const std::string name = test_name(std::get<0>(arch.param));
                           return name + (std::get<1>(arch.param) == Kernels::kRef ? "_ref" : "_fast");
                         });

}  // namespace
}  // namespace ingot
