// Models with experts: files that do not fit are refused at load, with one line that says what and where; a row that is
// not a number ends its own request alone; and what experts were met is counted.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "files/safetensors.h"
#include "golden/support.h"

namespace ingot {
namespace {

// A copy of a checkpoint whose files may be changed.
class Copy {
 public:
  explicit Copy(const std::string& name)
      : folder_(testing::TempDir() + "ingot_experts_" + name + "_" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(arch_directory(name), folder_);
  }
  ~Copy() { std::filesystem::remove_all(folder_); }
  const std::string& folder() const { return folder_; }

  // `from` is `to` in one of its files.
  void change(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(file, text.replace(at, from.size(), to));
  }
  // Sets the first values of the tensor, which is stored in F32.
  void set(const std::string& tensor, int64_t first, int64_t count, float value) {
    int64_t offset = -1;
    {
      const SafeTensors tensors = SafeTensors::open(folder_);
      const SafeTensor* found = tensors.find(tensor);
      ASSERT_NE(found, nullptr) << tensor;
      ASSERT_EQ(found->dtype, "F32");
      // The file begins with the length of its head.
      const std::string text = read("model.safetensors");
      const std::string_view bytes(reinterpret_cast<const char*>(found->data), found->bytes);
      offset = static_cast<int64_t>(text.find(bytes));
    }
    std::string text = read("model.safetensors");
    for (int64_t i = first; i < first + count; ++i) std::memcpy(text.data() + offset + i * 4, &value, sizeof(value));
    write("model.safetensors", text);
  }

 private:
  std::string read(const std::string& file) const {
    std::ifstream in(folder_ + "/" + file, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::remove(folder_ + "/" + file);
    std::ofstream(folder_ + "/" + file, std::ios::binary) << text;
  }

  const std::string folder_;
};

std::string load_error(const std::string& folder) {
  try {
    Model::load(folder, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_said(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// What loading says when `from` is `to` in one of the checkpoint's files; "" where it loads.
std::string said(const std::string& name, const std::string& file, const std::string& from, const std::string& to) {
  Copy copy(name);
  copy.change(file, from, to);
  return load_error(copy.folder());
}

TEST(Experts, FilesThatDoNotFitAreRefused) {
  const std::string config = "config.json", weights = "model.safetensors";
  expect_said(said("mixtral", config, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9"),
              "a row asks for 9 of 4 experts");
  expect_said(said("mixtral", config, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 0"),
              "a row asks for 0 of 4 experts");
  expect_said(
      said("mixtral", weights, "layers.1.block_sparse_moe.experts.3.w1", "layers.1.block_sparse_moe.experts.3.w9"),
      "'model.layers.1.block_sparse_moe.experts.3.w1.weight' [");
  expect_said(said("mixtral", config, "\"num_local_experts\": 4", "\"num_local_experts\": 3"),
              "gate.weight' is [4, 64], expected [3, 64]");
  expect_said(said("deepseek-v3", config, "\"n_group\": 2", "\"n_group\": 3"),
              "8 experts cannot be divided into 3 groups");
  expect_said(said("dots1", config, "\"moe_intermediate_size\": 24", "\"moe_intermediate_size\": 16"),
              "'model.layers.1.mlp.experts.0.gate_proj.weight' is [24, 64], expected [16, 64]");
  expect_said(said("mimo-v2-flash", config, "\"v_head_dim\": 16", "\"v_head_dim\": 8"), "v_proj.weight' is [32, 64]");
  expect_said(said("llama4", config, "\"num_local_experts\": 4", "\"num_local_experts\": 5"), "feed_forward.router");
  expect_said(said("granitemoe", config, "\"intermediate_size\": 16", "\"intermediate_size\": 8"), "input_linear");
}

TEST(Experts, ScoresThatAreNoNumbersAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Copy router("dots1");
    router.set("model.layers.1.mlp.gate.weight", 70, 1, bad);
    expect_said(load_error(router.folder()), "'model.layers.1.mlp.gate.weight' has a value that is not a number");
    Copy bias("dots1");
    bias.set("model.layers.1.mlp.gate.e_score_correction_bias", 3, 1, bad);
    expect_said(load_error(bias.folder()), "e_score_correction_bias' has a value that is not a number");
  }
}

// Two requests in the same steps, one of which meets a token whose row is not a number.
TEST(Experts, ARowThatIsNoNumberEndsItsRequestAlone) {
  constexpr int kBad = 77;
  Copy copy("qwen3-moe");
  copy.set("model.embed_tokens.weight", kBad * int64_t{64}, 64, std::numeric_limits<float>::quiet_NaN());
  struct Reply {
    std::vector<int32_t> tokens;
    FinishReason finish = FinishReason::kNone;
  };
  const auto run = [&](bool company) {
    TestEngine test(copy.folder(), {.threads = 2, .max_seqs = 2});
    std::vector<Reply> answers(2);
    std::vector<SeqId> ids;
    for (int i = 0; i < (company ? 2 : 1); ++i) {
      Request request;
      request.prompt = {5, 9, 13, 17};
      if (i == 1) request.prompt[2] = kBad;
      request.max_tokens = 8;
      request.sampling.temperature = 0;
      ids.push_back(test.engine->submit(std::move(request)).id);
    }
    while (!test.engine->idle()) {
      for (const Event& event : test.engine->step()) {
        Reply& answer = answers[event.request == ids[0] ? 0 : 1];
        if (event.sample.token >= 0) answer.tokens.push_back(event.sample.token);
        if (event.finish != FinishReason::kNone) answer.finish = event.finish;
      }
    }
    return answers;
  };
  const std::vector<Reply> alone = run(false), both = run(true);
  EXPECT_EQ(alone[0].tokens.size(), 8u);
  EXPECT_EQ(both[0].tokens, alone[0].tokens);
  EXPECT_EQ(both[0].finish, FinishReason::kLength);
  EXPECT_EQ(both[1].finish, FinishReason::kError);
  EXPECT_TRUE(both[1].tokens.empty());
}

// Each of a step's layers meets at least the experts of one row, at most those of all rows.
TEST(Experts, AreCounted) {
  TestEngine test(arch_directory("qwen3-moe"), {.threads = 2});
  const ExpertParams& e = test.model->hp.experts;
  const std::vector<int32_t> tokens = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  all_logits(*test.engine, tokens);
  const ExpertUse use = test.engine->device().expert_use();
  const auto rows = static_cast<int64_t>(tokens.size());
  EXPECT_EQ(use.layers, test.model->hp.layers);
  EXPECT_GE(use.touched, use.layers * e.used);
  EXPECT_LE(use.touched, use.layers * std::min<int64_t>(e.count, rows * e.used));
  EXPECT_GE(use.busiest, use.layers * (rows * e.used / e.count));
  EXPECT_LE(use.busiest, use.layers * rows);
}

}  // namespace
}  // namespace ingot
