#include "weights/stored_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "quant/format.h"
#include "weights/model_files.h"

namespace ingot {

std::string container_name(const ModelFiles& files) { return files.is_gguf() ? "gguf" : "safetensors"; }

std::vector<StoredTensor> stored_tensors(const ModelFiles& files) {
  std::vector<StoredTensor> tensors;
  if (files.is_gguf()) {
    for (const GgufTensor& t : files.gguf->tensors()) {
      const std::optional<Format> format = format_by_gguf_type(t.type);
      tensors.push_back({t.name,
                         {t.dims.rbegin(), t.dims.rend()},
                         format ? std::string(format_name(*format)) : fmt::format("type {}", t.type),
                         static_cast<int64_t>(t.bytes)});
    }
  } else {
    for (const SafeTensor& t : files.safetensors->tensors()) {
      const std::optional<Format> format = format_by_name(t.dtype);
      tensors.push_back(
          {t.name, t.shape, format ? std::string(format_name(*format)) : t.dtype, static_cast<int64_t>(t.bytes)});
    }
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
