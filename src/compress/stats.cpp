#include "compress/stats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/sha256.h"
#include "compress/gguf_target.h"
#include "files/gguf/gguf_writer.h"
#include "models/model.h"
#include "tensor/dtype.h"
#include "weights/kv_scales.h"
#include "weights/model_files.h"
#include "weights/source.h"

namespace ingot {
namespace {

constexpr std::string_view kSquares = ".in_sum2", kCounts = ".counts", kLargest = ".in_max";

// The tensor's values where it is one of F32, all finite and not negative. Throws Error.
std::vector<float> values_of(const GgufTensor& tensor, const std::string& path) {
  if (tensor.type != kGgufF32) throw Error("[stats] '{}': '{}' is not F32", path, tensor.name);
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v) && v >= 0; }))
    throw Error("[stats] '{}': '{}' holds a value that is no sum of squares", path, tensor.name);
  return values;
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

// Experts that are tensors of their own in a directory are one tensor in GGUF.
struct GgufPlace {
  std::string name;
  int expert;
};
GgufPlace gguf_place(std::string_view canonical, int expert, const ArchNames& names) {
  std::string name = shared_part(std::string(canonical)), usual;
  if (const size_t at = name.find(".experts."); at != std::string::npos) {
    const size_t begin = at + 9, end = name.find_first_not_of("0123456789", begin);
    if (end != std::string::npos && end > begin && name[end] == '.') {
      expert = std::atoi(name.c_str() + begin);
      name.erase(begin, end + 1 - begin);
    }
    for (const auto& [other, own] : {std::pair{".w1.", ".gate_proj."}, {".w3.", ".up_proj."}, {".w2.", ".down_proj."}})
      if (const size_t part = name.find(other, at); part != std::string::npos) name.replace(part, 4, own);
    if (const size_t block = name.find(".block_sparse_moe."); block != std::string::npos)
      usual = std::string(name).replace(block, 18, ".mlp.");
  }
  // Some architectures have the block's own name in their tables, others the usual one.
  for (const std::string& known : {name, usual}) {
    try {
      if (!known.empty()) return {gguf_from_canonical(known, names), expert};
    } catch (const Error&) {
    }
  }
  return {name, expert};
}

}  // namespace

Stats Stats::read(const std::string& path) {
  const Gguf gguf = Gguf::open(path);
  if (gguf.get_string("general.type", "") != "imatrix")
    throw Error("[stats] '{}' is no importance matrix: its general.type is '{}'", path,
                gguf.get_string("general.type", ""));
  Stats stats;
  stats.chunks = static_cast<uint32_t>(gguf.get_u64("imatrix.chunk_count", 0));
  stats.chunk_rows = static_cast<uint32_t>(gguf.get_u64("imatrix.chunk_size", 0));
  stats.text_hash = gguf.get_string("ingot.calibrate.text_sha256", "");
  stats.model = gguf.get_string("ingot.calibrate.model", "");
  if (gguf.has("imatrix.datasets"))
    for (const std::string_view name : gguf.get_string_array("imatrix.datasets")) stats.datasets.emplace_back(name);
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (!tensor.name.ends_with(kSquares)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSquares.size());
    InputStats& input = stats.tensors[name];
    input.cols = tensor.dims[0];
    input.squares = values_of(tensor, path);
    const GgufTensor* counts = gguf.find_tensor(name + std::string(kCounts));
    if (counts == nullptr) throw Error("[stats] '{}': '{}' has no counts", path, name);
    input.counts = values_of(*counts, path);
    if (input.counts.size() * static_cast<size_t>(input.cols) != input.squares.size())
      throw Error("[stats] '{}': '{}' has {} counts for {} rows", path, name, input.counts.size(),
                  input.squares.size() / static_cast<size_t>(input.cols));
    const GgufTensor* largest = gguf.find_tensor(name + std::string(kLargest));
    if (largest != nullptr) input.largest = values_of(*largest, path);
    if (largest != nullptr && input.largest.size() != input.squares.size())
      throw Error("[stats] '{}': '{}' has {} maxima for {} squares", path, name, input.largest.size(),
                  input.squares.size());
  }
  if (const std::optional<KvScales> kv = KvScales::read(gguf)) stats.kv = std::make_shared<const KvScales>(*kv);
  if (stats.tensors.empty()) throw Error("[stats] '{}' holds no statistics", path);
  return stats;
}

void Stats::write(const std::string& path) const {
  GgufWriter writer;
  writer.set("general.type", "imatrix");
  writer.set_array("imatrix.datasets", datasets);
  writer.set("imatrix.chunk_count", chunks);
  writer.set("imatrix.chunk_size", chunk_rows);
  writer.set("ingot.calibrate.text_sha256", text_hash);
  writer.set("ingot.calibrate.model", model);
  if (kv != nullptr) kv->write(writer);
  for (const auto& [name, input] : tensors) {
    const auto experts = static_cast<int64_t>(input.counts.size());
    writer.add_tensor(name + std::string(kSquares), {input.cols, experts}, kGgufF32, bytes_of(input.squares));
    writer.add_tensor(name + std::string(kCounts), {1, experts}, kGgufF32, bytes_of(input.counts));
    if (!input.largest.empty())
      writer.add_tensor(name + std::string(kLargest), {input.cols, experts}, kGgufF32, bytes_of(input.largest));
  }
  writer.write(path);
}

void Stats::check_model(const ModelFiles& files, const Architecture& arch) const {
  const std::string own = model.empty() ? "" : model_fingerprint(files, arch);
  if (own != model) throw Error("[stats] the statistics are another model's: '{}' has other weights", files.path);
  const std::unique_ptr<WeightSource> source = open_source(files, arch.names);
  size_t met = 0;
  for (const std::string& name : source->names()) {
    const StoredWeight* stored = source->find(name, {});
    if (stored == nullptr || stored->shape.size() < 2 || stored->bytes) continue;
    const auto known = tensors.find(gguf_place(name, -1, arch.names).name);
    if (known == tensors.end()) continue;
    ++met;
    const int64_t cols = stored->shape.back(), rows = stored->shape[stored->shape.size() - 2];
    if (known->second.cols != cols && known->second.cols != rows)
      throw Error("[stats] the statistics are another model's: '{}' has {} columns there, {} here", name,
                  known->second.cols, cols);
  }
  if (met == 0) throw Error("[stats] the statistics are another model's: no tensor of '{}' is in them", files.path);
}

Importances Stats::importances(const Architecture& arch) const {
  struct Means {
    std::map<std::pair<std::string, int>, std::vector<float>> rows;
  };
  auto means = std::make_shared<Means>();
  for (const auto& [name, input] : tensors) {
    for (size_t e = 0; e < input.counts.size(); ++e) {
      if (input.counts[e] <= 0) continue;  // nothing is known
      const auto cols = static_cast<size_t>(input.cols);
      std::vector<float> row(input.squares.begin() + static_cast<std::ptrdiff_t>(e * cols),
                             input.squares.begin() + static_cast<std::ptrdiff_t>((e + 1) * cols));
      for (float& v : row) v /= input.counts[e];
      means->rows.emplace(std::pair(name, input.counts.size() == 1 ? -1 : static_cast<int>(e)), std::move(row));
    }
  }
  return [means, &names = arch.names](std::string_view name, int expert) -> std::span<const float> {
    const GgufPlace place = gguf_place(name, expert, names);
    auto known = means->rows.find({place.name, place.expert});
    if (known == means->rows.end()) known = means->rows.find({place.name, -1});
    if (known == means->rows.end()) return {};
    return known->second;
  };
}

std::vector<std::string> Stats::hardly_met(float rows) const {
  std::vector<std::string> lines;
  for (const auto& [name, input] : tensors) {
    if (input.counts.size() < 2) continue;
    std::vector<size_t> few;
    for (size_t e = 0; e < input.counts.size(); ++e)
      if (input.counts[e] < rows) few.push_back(e);
    if (!few.empty()) lines.push_back(fmt::format("{}: experts {}", name, fmt::join(few, ", ")));
  }
  return lines;
}

std::string model_fingerprint(const ModelFiles& files, const Architecture& arch) {
  const std::unique_ptr<WeightSource> source = open_source(files, arch.names);
  const StoredWeight* norm = source->find("model.norm.weight", {});
  if (norm == nullptr || norm->bytes || norm->shape.empty()) return "";
  const int64_t n = norm->values();
  std::vector<float> values(static_cast<size_t>(n));
  format_decode(norm->format, norm->data, values.data(), n);
  const float offset = Model::read_numbers(files).norm_offset;
  // To 8 bits, as published: what a converter keeps in more stays the same.
  std::vector<uint16_t> rounded;
  for (const float v : values) rounded.push_back(f32_to_bf16(v + offset));
  return sha256_hex(std::as_bytes(std::span(rounded)));
}

}  // namespace ingot
