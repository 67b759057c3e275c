// Fuzz target: matrices as other tools compress them. The first byte of an input chooses what config.json says of the
// method, the rest is a safetensors file, of which every weight is asked for. What is made must have the bytes that its
// format and shape say, and a row that can be decoded.
// coverage: src/weights/schemes/
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/format.h"
#include "weights/model_files.h"
#include "weights/source.h"

namespace {

constexpr std::array<const char*, 6> kSettings = {R"({"quant_method": "gptq", "checkpoint_format": "gptq"})",
                                                  R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})",
                                                  R"({"quant_method": "awq", "version": "gemm"})",
                                                  R"({"quant_method": "compressed-tensors"})",
                                                  R"({"quant_method": "bitsandbytes"})",
                                                  R"({"quant_method": "auto-round"})"};

void read_weight(const ingot::StoredWeight& weight) {
  if (weight.bytes || weight.shape.size() != 2) return;
  const int64_t rows = weight.shape[0], cols = weight.shape[1];
  if (rows < 1 || cols < 1 || cols % ingot::format_block(weight.format) != 0) return;
  std::vector<float> row(static_cast<size_t>(cols));
  for (const int64_t n : {int64_t{0}, rows - 1})
    ingot::format_decode(weight.format, weight.data + n * ingot::format_row_bytes(weight.format, cols), row.data(),
                         cols);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ingot::ModelFiles files;
  try {
    const ingot::Json settings = ingot::parse_json(kSettings[data[0] % kSettings.size()], "settings");
    files.config["quantization_config"] = settings;
    files.safetensors =
        std::make_unique<ingot::SafeTensors>(ingot::SafeTensors::parse(std::as_bytes(std::span(data + 1, size - 1))));
    const std::unique_ptr<ingot::WeightSource> source = ingot::open_source(files, {.prefix = ""});
    for (const std::string& name : source->names()) {
      try {
        if (const ingot::StoredWeight* weight = source->find(name, {})) read_weight(*weight);
      } catch (const ingot::Error&) {
      }
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}
