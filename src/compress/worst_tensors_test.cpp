#include "compress/worst_tensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/data_test_support.h"
#include "base/thread_pool.h"
#include "compress/quantize.h"
#include "files/safetensors.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// Of 256 tokens, as the checkpoints of tests/data/arch have them; quantize() writes its vocabulary.
const std::string kTokenizer = [] {
  std::string vocab;
  for (int i = 0; i < 256; ++i) vocab += fmt::format("{}\"t{}\":{}", i == 0 ? "" : ",", i, i);
  return R"({"version":"1.0","normalizer":null,"post_processor":null,"added_tokens":[],)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
         R"("decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
         R"("model":{"type":"BPE","merges":[],"vocab":{)" +
         vocab + "}}}";
}();

class WorstTensorsOf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("ingot_worst_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string stories() { return committed_data("models/stories260K"); }
  static std::string phi3() { return committed_data("arch/phi3"); }

  // A directory with the model's files, which may be written.
  std::string copy(const std::string& model, const std::string& name) const {
    const fs::path to = folder_ / name;
    fs::create_directory(to);
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
      if (!fs::exists(fs::path(model) / file)) continue;
      fs::copy_file(fs::path(model) / file, to / file);
      fs::permissions(to / file, fs::perms::owner_all);
    }
    return to.string();
  }

  // Rows [first, last) of a float32 tensor of a copy, each value times `factor`.
  static void scale(const std::string& model, const std::string& tensor, float factor, int64_t first = 0,
                    int64_t last = std::numeric_limits<int64_t>::max()) {
    std::vector<float> values;
    std::streamoff at = 0;
    {
      const SafeTensors files = SafeTensors::open(model);
      const SafeTensor* found = files.find(tensor);
      ASSERT_NE(found, nullptr) << tensor;
      const int64_t cols = found->shape[1];
      last = std::min(last, found->shape[0]);
      const std::byte* data = found->data + first * cols * static_cast<int64_t>(sizeof(float));
      values.resize(static_cast<size_t>((last - first) * cols));
      std::memcpy(values.data(), data, values.size() * sizeof(float));
      at = data - files.files()[0].bytes().data();
    }
    for (float& v : values) v *= factor;
    std::fstream file(model + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    ASSERT_TRUE(file.good());
  }

  static WorstTensors compared(const std::string& teacher, const std::string& model, size_t most = 10) {
    ThreadPool pool(2);
    return worst_tensors(Model::load(teacher, tensor_error_options()), Model::load(model, tensor_error_options()), pool,
                         most);
  }

  std::string quantized(const std::string& out, const std::string& format, const std::string& method,
                        const std::string& model = stories()) const {
    QuantizeOptions options;
    options.model = model;
    options.out = (folder_ / out).string();
    options.format = format;
    options.method = method;  // for the recipe alone: what rounds is below
    quantize(options, *nearest_rounder());
    return options.out;
  }

  fs::path folder_;
};

TEST_F(WorstTensorsOf, PlantedErrorsComeFirstWithTheirExactShare) {
  const std::string model = copy(stories(), "planted");
  scale(model, "model.layers.1.mlp.up_proj.weight", 0.5f);
  scale(model, "model.layers.3.self_attn.k_proj.weight", 2);
  const WorstTensors worst = compared(stories(), model);
  EXPECT_EQ(worst.skipped, "");
  EXPECT_EQ(worst.compared, 5 * 7 + 1);  // the head is the embedding
  EXPECT_EQ(worst.alone, 0);
  ASSERT_EQ(worst.tensors.size(), 2u);
  EXPECT_EQ(worst.tensors[0].name, "model.layers.3.self_attn.k_proj.weight");
  EXPECT_EQ(worst.tensors[0].error, 1);
  EXPECT_EQ(worst.tensors[1].name, "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(worst.tensors[1].error, 0.25);
  EXPECT_EQ(worst.tensors[1].format, Format::kF32);
  EXPECT_EQ(worst.tensors[1].bits, 32);
  const WorstTensors one = compared(stories(), model, 1);
  ASSERT_EQ(one.tensors.size(), 1u);
  EXPECT_EQ(one.tensors[0].error, 1);
}

// Of more than 256 rows those that count are spread over all.
TEST_F(WorstTensorsOf, RowsAreSpread) {
  const std::string model = copy(stories(), "rows");
  const std::string name = "model.embed_tokens.weight";
  scale(model, name, 0.5f, 384);
  std::vector<float> row(64);
  const Model teacher = Model::load(stories(), tensor_error_options());
  double all = 0, last = 0;
  for (const Node& node : teacher.graph.nodes) {
    const auto* embedding = std::get_if<Embedding>(&node.op);
    if (embedding == nullptr) continue;
    ASSERT_EQ(embedding->table.rows, 512);
    for (int64_t r = 0; r < 512; ++r) {
      embedding->table.decode_row(r, row.data());
      for (const float v : row) (r < 384 ? all : last) += static_cast<double>(v) * static_cast<double>(v);
    }
  }
  all += last;
  const WorstTensors worst = compared(stories(), model);
  ASSERT_EQ(worst.tensors.size(), 1u);
  EXPECT_EQ(worst.tensors[0].name, name);
  EXPECT_NEAR(worst.tensors[0].error, 0.25 * last / all, 0.2 * 0.25 * last / all);
}

// Slices of one tensor of the file (q, k and v) are told as one.
TEST_F(WorstTensorsOf, PartsOfATensorAreOne) {
  const std::string model = copy(phi3(), "joined"), name = "model.layers.0.self_attn.qkv_proj.weight";
  scale(model, name, 0.5f, 96);  // v: q has 64 rows, k and v 32 each
  const SafeTensors files = SafeTensors::open(phi3());
  const SafeTensor* whole = files.find(name);
  ASSERT_NE(whole, nullptr);
  ASSERT_EQ(whole->shape, (std::vector<int64_t>{128, 64}));
  std::vector<float> values(size_t{128} * 64);
  std::memcpy(values.data(), whole->data, values.size() * sizeof(float));
  double all = 0, v = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double square = static_cast<double>(values[i]) * static_cast<double>(values[i]);
    all += square;
    if (i >= size_t{96} * 64) v += square;
  }
  const WorstTensors worst = compared(phi3(), model);
  ASSERT_EQ(worst.tensors.size(), 1u);
  EXPECT_EQ(worst.tensors[0].name, name);
  EXPECT_NEAR(worst.tensors[0].error, 0.25 * v / all, 1e-9);
}

// Other names, another order of the rows of q and k, a head of its own: the same weights all the same.
TEST_F(WorstTensorsOf, AnotherContainerIsNoError) {
  const WorstTensors published = compared(stories(), stories() + "/stories260K.gguf");
  EXPECT_EQ(published.skipped, "");
  EXPECT_TRUE(published.tensors.empty()) << published.tensors[0].name;
  EXPECT_GE(published.compared, 36);
  EXPECT_EQ(published.alone, 0);
  const WorstTensors rounded = compared(stories(), quantized("q.gguf", "q8_0", "rtn"));
  ASSERT_EQ(rounded.tensors.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_LE(rounded.tensors[i].error, i == 0 ? 1e-3 : rounded.tensors[i - 1].error);
    EXPECT_GT(rounded.tensors[i].error, 1e-6);
    EXPECT_EQ(rounded.tensors[i].format, Format::kQ8_0);
    EXPECT_EQ(rounded.tensors[i].bits, 8.5);
  }
}

// Experts are a tensor for each and then one for all, and the names of their nodes differ.
TEST_F(WorstTensorsOf, ExpertsOfAnotherContainerAreFound) {
  const std::string mixtral = copy(committed_data("arch/mixtral"), "mixtral");
  std::ofstream(mixtral + "/tokenizer.json") << kTokenizer;
  const std::string file = quantized("mixtral.gguf", "f32", "rtn", mixtral);
  EXPECT_TRUE(compared(mixtral, file).tensors.empty());
  const std::string planted = copy(mixtral, "planted");
  scale(planted, "model.layers.1.block_sparse_moe.experts.2.w3.weight", 2);
  const WorstTensors worst = compared(planted, file);
  EXPECT_EQ(worst.skipped, "");
  EXPECT_EQ(worst.alone, 0);
  ASSERT_EQ(worst.tensors.size(), 1u);
  EXPECT_EQ(worst.tensors[0].name, "model.layers.1.mlp.experts.up_proj.weight[2]");
  EXPECT_EQ(worst.tensors[0].error, 0.25);
}

TEST_F(WorstTensorsOf, FoldedModelsAreSkipped) {
  for (const char* method : {"awq", "smooth", "rotate"}) {
    for (const char* format : {".gguf", ""}) {
      const std::string out = quantized(std::string(method) + format, *format != '\0' ? "q8_0" : "int8", method);
      const WorstTensors worst = compared(stories(), out);
      EXPECT_EQ(worst.skipped, std::string("made with --method ") + method + ", which changes weights on purpose");
      EXPECT_TRUE(worst.tensors.empty());
    }
  }
}

TEST_F(WorstTensorsOf, OtherModelsAreSkipped) {
  const std::string model = copy(stories(), "other");
  for (int layer = 0; layer < 5; ++layer)
    for (const char* part : {"self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate"})
      scale(model, fmt::format("model.layers.{}.{}_proj.weight", layer, part), -1);
  const WorstTensors worst = compared(stories(), model);
  EXPECT_NE(worst.skipped.find("by 4.00 of their squares"), std::string::npos) << worst.skipped;
  EXPECT_TRUE(worst.tensors.empty());
  const WorstTensors shapes = compared(stories(), committed_data("arch/gpt2"));
  EXPECT_NE(shapes.skipped.find("no matrix"), std::string::npos) << shapes.skipped;
  EXPECT_GT(shapes.alone, 0);
}

// What is no number is the worst there is.
TEST_F(WorstTensorsOf, NoNumberComesFirst) {
  const std::string model = copy(stories(), "nan");
  scale(model, "model.layers.1.mlp.up_proj.weight", 2);
  scale(model, "model.layers.0.mlp.down_proj.weight", std::nanf(""), 3, 4);
  const WorstTensors worst = compared(stories(), model);
  ASSERT_EQ(worst.tensors.size(), 2u);
  EXPECT_EQ(worst.tensors[0].name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_TRUE(std::isinf(worst.tensors[0].error));
}

}  // namespace
}  // namespace ingot
