#include "weights/stored_tensors.h"

#include <gtest/gtest.h>

#include "weights/active_weights.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

TEST(StoredTensors, TheFormatInAWord) {
  EXPECT_EQ(format_text({}), "");
  EXPECT_EQ(format_text({{"f32", 0}}), "");
  EXPECT_EQ(format_text({{"f32", 5}, {"q8_0", 1000}}), "q8_0");
  EXPECT_EQ(format_text({{"f32", 5}, {"q4_k", 700}, {"q6_k", 300}}), "q4_k+q6_k");
  EXPECT_EQ(format_text({{"f16", 100}, {"bf16", 100}}), "bf16+f16");
}

TEST(StoredTensors, OfAModelsFiles) {
  const ModelFiles files = ModelFiles::open(INGOT_SOURCE_DIR "/tests/data/arch/llama");
  int64_t bytes = 0;
  for (const StoredTensor& tensor : stored_tensors(files)) {
    EXPECT_EQ(tensor.format, "f32");
    bytes += tensor.bytes;
  }
  EXPECT_EQ(bytes_of_formats(files), (FormatBytes{{"f32", bytes}}));
}

// The file is half as many bytes as values, and its scales are none of them.
TEST(StoredTensors, BlocksOfMxfp4AreCountedAsTheirValues) {
  const ModelFiles packed = ModelFiles::open(INGOT_SOURCE_DIR "/tests/data/arch/gpt-oss-mxfp4");
  int64_t blocks = 0, values = 0;
  for (const StoredTensor& tensor : stored_tensors(packed)) {
    if (tensor.name.ends_with("_scales")) {
      EXPECT_EQ(tensor.parameters, 0);
    }
    if (!tensor.name.ends_with("_blocks")) continue;
    EXPECT_EQ(tensor.format, "mxfp4");
    blocks += tensor.bytes;
    values += tensor.parameters;
  }
  EXPECT_GT(blocks, 0);
  EXPECT_EQ(values, 2 * blocks);
}

// A layer behind the last, and scales beside weights, are not the model's parameters.
TEST(ActiveWeights, CountsWhatRowsMeet) {
  const ModelFiles files = ModelFiles::open(INGOT_SOURCE_DIR "/tests/data/arch/mixtral");
  Hparams hp;
  hp.layers = 2;
  hp.experts.count = 8;
  hp.experts.used = 2;
  const ActiveWeights one = active_weights(files, hp, 1), many = active_weights(files, hp, 1000);
  int64_t all = 0, experts = 0, bytes = 0, table = 0, last = 0;
  for (const StoredTensor& tensor : stored_tensors(files)) {
    all += tensor.parameters;
    bytes += tensor.bytes;
    if (tensor.name.find(".experts.") != std::string::npos) experts += tensor.parameters;
    if (tensor.name.find("embed_tokens") != std::string::npos) table += tensor.bytes;
    if (tensor.name.find("layers.1.") != std::string::npos) last += tensor.parameters;
  }
  ASSERT_GT(experts, 0);
  EXPECT_EQ(one.parameters, all);
  EXPECT_EQ(one.active, static_cast<double>(all - experts / 4 * 3));
  EXPECT_NEAR(many.step_bytes, static_cast<double>(bytes - table), 1);
  hp.layers = 1;
  EXPECT_EQ(active_weights(files, hp, 1).parameters, all - last);
}

}  // namespace
}  // namespace ingot
