#include "weights/stored_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked_size.h"
#include "quant/format.h"
#include "weights/model_files.h"

namespace ingot {

namespace {

int64_t values_of(const std::vector<int64_t>& shape) {
  CheckedSize n(1, "[model] values of a tensor");
  for (const int64_t d : shape) n *= d;
  return n.as_int64();
}

// A tensor of safetensors: some are part of another, which is packed or has scales beside it.
StoredTensor described(const SafeTensor& t) {
  const std::optional<Format> format = format_by_name(t.dtype);
  const auto ends = [&](const char* suffix) { return t.name.ends_with(suffix); };
  const bool packed = t.dtype == "U8" && (ends("_blocks") || ends("_scales"));  // MXFP4: two values in a byte
  const bool beside = ends("_scale_inv") || ends("_scale") || (packed && ends("_scales"));
  StoredTensor tensor{t.name, t.shape, t.dtype, static_cast<int64_t>(t.bytes)};
  if (packed) tensor.format = format_name(Format::kMXFP4);
  if (format) tensor.format = format_name(*format);
  tensor.parameters = beside ? 0 : values_of(t.shape) * (packed ? 2 : 1);
  return tensor;
}

}  // namespace

std::string container_name(const ModelFiles& files) { return files.is_gguf() ? "gguf" : "safetensors"; }

std::vector<StoredTensor> stored_tensors(const ModelFiles& files) {
  std::vector<StoredTensor> tensors;
  if (files.is_gguf()) {
    for (const GgufTensor& t : files.gguf->tensors()) {
      const std::optional<Format> format = format_by_gguf_type(t.type);
      tensors.push_back({t.name,
                         {t.dims.rbegin(), t.dims.rend()},
                         format ? std::string(format_name(*format)) : fmt::format("type {}", t.type),
                         static_cast<int64_t>(t.bytes),
                         values_of(t.dims)});
    }
  } else {
    for (const SafeTensor& t : files.safetensors->tensors()) tensors.push_back(described(t));
  }
  return tensors;
}

FormatBytes bytes_of_formats(const ModelFiles& files) {
  FormatBytes formats;
  for (const StoredTensor& tensor : stored_tensors(files)) formats[tensor.format] += tensor.bytes;
  return formats;
}

std::string format_text(const FormatBytes& formats) {
  int64_t all = 0;
  for (const auto& [name, bytes] : formats) all += bytes;
  std::vector<std::pair<std::string, int64_t>> most(formats.begin(), formats.end());
  std::ranges::stable_sort(most, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, bytes] : most) {
    if (bytes == 0 || bytes < all / 100) continue;
    text += (text.empty() ? "" : "+") + name;
  }
  return text;
}

}  // namespace ingot
