// The engine on a CUDA device against the reference implementation: every architecture and every weight format. Where
// the host plays the device the larger files are left to a real one.
#include <cmath>

#include "engine/model/cuda.h"
#include "golden/support.h"
#include "graph/traits.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

#define NEEDS_DEVICE() \
  if (const std::string why = cuda_refusal(0); !why.empty()) GTEST_SKIP() << why

RunSetup on_device() { return {.step_rows = 64, .device = {.cuda = 0}}; }

// Products of all weights but those in f32 round the rows that meet them to bf16, in each layer.
double tolerance_of(const Model& model) {
  bool bf16 = false;
  for (const Node& node : model.graph.nodes)
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { bf16 |= weight.format != Format::kF32; });
  return bf16 ? 1e-2 * model.hp.layers : 1e-3;
}

class CudaArch : public testing::TestWithParam<std::string> {};

TEST_P(CudaArch, LogitsEqualReference) {
  NEEDS_DEVICE();
  const std::string directory = arch_directory(GetParam());
  const JsonObject expected = as_object(read_json_file(directory + "/expected.json"), "expected");
  TestEngine test(directory, on_device());
  const std::vector<int32_t> tokens = int_list(expected, "token_ids");
  const auto rows = all_logits(*test.engine, tokens);
  ASSERT_EQ(rows.size(), tokens.size());
  const std::vector<float> logsumexp = float_list(*find_array(expected, "logsumexp"));
  for (size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (const float x : rows[i]) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(std::log(sum), logsumexp[i], tolerance_of(*test.model)) << "position " << i;
  }
  const std::vector<float> last = float_list(*find_array(expected, "logits_last"));
  for (size_t v = 0; v < last.size(); ++v)
    EXPECT_NEAR(rows.back()[v], last[v], tolerance_of(*test.model)) << "token " << v;
}

// Chunks of 7 rows beside others, so that positions, pages and padding of mixed steps are right too.
TEST_P(CudaArch, HiddenStatesEqualReference) {
  NEEDS_DEVICE();
  const std::string directory = arch_directory(GetParam());
  const JsonObject expected = as_object(read_json_file(directory + "/expected.json"), "expected");
  RunSetup setup = on_device();
  setup.keep_hidden = true;
  TestEngine test(directory, setup);
  const std::vector<int32_t> tokens = int_list(expected, "token_ids");
  const JsonArray& layers = *find_array(expected, "hidden");
  bool seen = false;
  test.engine->device().on_body = [&](const Batch& batch, const StepOutputs& outputs) {
    seen = true;
    const int64_t checked[] = {0, 1, batch.n_rows - 1};
    for (size_t l = 0; l < layers.size(); ++l) {
      const Tensor& hidden = outputs.output("hidden." + std::to_string(l));
      const JsonArray& rows = as_array(layers[l], "hidden");
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<float> want = float_list(as_array(rows[r], "row"));
        float largest = 0;
        for (const float w : want) largest = std::max(largest, std::abs(w));
        const float* got = hidden.f32(checked[r]);
        for (size_t c = 0; c < want.size(); ++c) {
          ASSERT_NEAR(got[c], want[c], tolerance_of(*test.model) * largest)
              << "after layer " << l << ", row " << checked[r];
        }
      }
    }
  };
  all_logits(*test.engine, tokens);
  EXPECT_TRUE(seen);
}

INSTANTIATE_TEST_SUITE_P(All, CudaArch, testing::ValuesIn(arch_names()),
                         [](const auto& arch) { return test_name(arch.param); });

// The files of quant_test.cpp in tests/golden.
class CudaFormat : public testing::TestWithParam<std::string> {};

TEST_P(CudaFormat, LogitsEqualReference) {
  NEEDS_DEVICE();
  const std::string path = test_data("quant-vectors/" + GetParam() + ".gguf");
  SKIP_WITHOUT(path);
  const Json all = read_json_file(test_data("quant-vectors/expected.json"));
  const JsonObject want =
      as_object(as_object(as_object(all, "all").at("files"), "files").at(GetParam() + ".gguf"), "file");
  std::vector<int32_t> tokens = int_list(want, "token_ids");
  std::vector<float> last = float_list(*find_array(want, "logits_last"));
  if (cuda::is_emulated()) {
    // The reference knows the last position alone: a shorter prompt is held against the CPU.
    tokens.resize(2);
    TestEngine cpu(path, {.kernels = Kernels::kRef, .fuse_off = {"all"}});
    last = all_logits(*cpu.engine, tokens).back();
  }
  TestEngine test(path, on_device());
  // Products of all weights but F32 round x to bf16; two tokens leave more of that than a whole prompt.
  const double most = GetParam() == "bf16" || cuda::is_emulated() ? 5e-4 : 1e-4;
  EXPECT_LE(nmse(all_logits(*test.engine, tokens).back(), last), GetParam() == "f32" ? 1e-6 : most);
}

INSTANTIATE_TEST_SUITE_P(All, CudaFormat, testing::ValuesIn(test_data_names("quant-vectors", ".gguf")),
                         [](const auto& file) { return file.param; });

// The first step of a profile is counted, and its rows meet the experts that they meet on the CPU.
TEST(CudaExperts, AreCountedByAProfile) {
  NEEDS_DEVICE();
  const std::vector<int32_t> tokens = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto use = [&](const RunSetup& setup) {
    TestEngine test(arch_directory("qwen3-moe"), setup);
    if (setup.device.cuda >= 0) test.engine->device().profile(true);
    all_logits(*test.engine, tokens);
    return test.engine->device().expert_use();
  };
  const ExpertUse on_cpu = use({}), counted = use(on_device());
  EXPECT_GT(counted.layers, 0);
  EXPECT_EQ(counted.layers, on_cpu.layers);
  EXPECT_EQ(counted.touched, on_cpu.touched);
  EXPECT_EQ(counted.busiest, on_cpu.busiest);
}

}  // namespace
}  // namespace ingot
