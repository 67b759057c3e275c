#include "compress/plan.h"

#include <filesystem>

#include "base/error.h"
#include "base/sha256.h"
#include "files/json.h"
#include "weights/kv_scales.h"

namespace ingot {
namespace {

const std::vector<MappedFile>& mapped_files(const ModelFiles& files) {
  return files.gguf ? files.gguf->files() : files.safetensors->files();
}

// The bytes before the first tensor's data.
std::span<const std::byte> head_of(const ModelFiles& files, const MappedFile& file) {
  const std::byte* first = file.bytes().data() + file.bytes().size();
  const auto meet = [&](const std::byte* data) {
    if (data >= file.bytes().data() && data < first) first = data;
  };
  if (files.gguf) {
    for (const GgufTensor& tensor : files.gguf->tensors()) meet(tensor.data);
  } else {
    for (const SafeTensor& tensor : files.safetensors->tensors()) meet(tensor.data);
  }
  return {file.bytes().data(), first};
}

}  // namespace

std::string recipe_text(const QuantizeOptions& options) {
  JsonArray tensors;
  for (const auto& [pattern, format] : options.tensors) tensors.push_back(Json(pattern + "=" + format));
  JsonObject recipe{{"format", options.format}, {"method", options.method}};
  if (options.pure) recipe["pure"] = true;
  if (!options.tensors.empty()) recipe["tensors"] = tensors;
  if (options.kv != nullptr) recipe["kv"] = dtype_name(options.kv->format);
  if (!options.statistics.empty()) recipe["statistics"] = options.statistics;
  return to_json(recipe);
}

std::string source_hash(const ModelFiles& files) {
  Sha256 hash;
  for (const MappedFile& file : mapped_files(files)) {
    const uint64_t size = file.bytes().size();
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(head_of(files, file));
  }
  const std::string config = to_json(files.config);
  hash.update(std::as_bytes(std::span(config)));
  return hex(hash.finish());
}

std::string source_state(const ModelFiles& files) {
  std::string state = source_hash(files);
  for (const MappedFile& file : mapped_files(files)) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(file.path(), error).time_since_epoch().count();
    state += fmt::format(" {}", time);
  }
  return state;
}

void check_requantize(const ModelTensor& tensor, Format to, const QuantizeOptions& options, std::string_view name) {
  if (options.requantize || !tensor.stored || format_block(to) == 1) return;
  if (tensor.stored == to && !tensor.changed) return;
  const Format from = *tensor.stored;
  const int64_t cols = tensor.cols();
  if (cols % format_block(from) != 0 || format_row_bytes(from, cols) * 8 >= cols * 8) return;
  throw Error("[quantize] '{}' is in {} already: rounding it again to {} loses more; --requantize does it all the same",
              tensor.name, format_name(from), name.empty() ? format_name(to) : name);
}

void count_tensor(QuantizeSummary& summary, const ModelTensor& tensor, std::string_view format, int64_t bytes) {
  // "blk.3.attn_v.weight" and "model.layers.3.self_attn.v_proj.weight" without their number.
  std::string name = tensor.name;
  const std::string number = fmt::format(".{}.", tensor.layer);
  if (const size_t at = tensor.layer >= 0 ? name.find(number) : std::string::npos; at != std::string::npos)
    name = name.substr(at + number.size());
  if (name.ends_with(".weight")) name.resize(name.size() - 7);
  const int64_t values = tensor.rows() * tensor.cols();
  summary.values += values;
  summary.bytes += bytes;
  summary.source_bytes += tensor.stored_bytes;
  for (QuantizeSummary::Class& known : summary.classes) {
    if (known.name != name || known.format != format) continue;
    known.tensors += 1;
    known.values += values;
    known.bytes += bytes;
    return;
  }
  summary.classes.push_back({name, std::string(format), 1, values, bytes});
}

}  // namespace ingot
