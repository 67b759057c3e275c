#include "weights/stored_tensors.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ingot
