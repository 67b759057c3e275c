#include "files/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/checked_size.h"
#include "base/error.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace ingot {
namespace {

uint64_t bytes_of(const SafeTensorSpec& spec) {
  const int bits = safetensors_dtype_bits(spec.dtype);
  if (bits < 8) throw Error("[safetensors] '{}' has the dtype {}, which cannot be written", spec.name, spec.dtype);
  CheckedSize bytes(static_cast<uint64_t>(bits / 8), "[safetensors] bytes of a tensor");
  for (const int64_t d : spec.shape) bytes *= d;
  return bytes.value();
}

// The tensors of one file, by the size of their values.
void lay_out_file(const std::vector<SafeTensorSpec>& tensors, std::vector<size_t> members,
                  const std::map<std::string, std::string>& metadata, size_t file, SafeTensorsLayout& layout) {
  std::ranges::stable_sort(members, [&](size_t a, size_t b) {
    return safetensors_dtype_bits(tensors[a].dtype) > safetensors_dtype_bits(tensors[b].dtype);
  });
  JsonObject header, about;
  for (const auto& [key, value] : metadata) about[key] = value;
  if (!about.empty()) header["__metadata__"] = about;
  uint64_t at = 0;
  for (const size_t i : members) {
    const SafeTensorSpec& spec = tensors[i];
    const uint64_t bytes = layout.places[i].bytes;
    layout.places[i].file = file;
    layout.places[i].offset = at;
    header[spec.name] = JsonObject{{"dtype", spec.dtype},
                                   {"shape", JsonArray(spec.shape.begin(), spec.shape.end())},
                                   {"data_offsets", JsonArray{at, at + bytes}}};
    at += bytes;
  }
  std::string text = to_json(header);
  text.resize(CheckedSize(text.size()).round_up(8).as_size(), ' ');
  const uint64_t length = text.size();
  std::string& out = layout.files[file].header;
  out.resize(8);
  std::memcpy(out.data(), &length, 8);
  out += text;
  layout.files[file].bytes = out.size() + at;
  for (const size_t i : members) layout.places[i].offset += out.size();
}

}  // namespace

SafeTensorsLayout lay_out_safetensors(const std::vector<SafeTensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata, uint64_t shard_bytes) {
  SafeTensorsLayout layout;
  layout.places.resize(tensors.size());
  std::vector<std::vector<size_t>> shards(1);
  uint64_t held = 0, total = 0;
  std::set<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!names.insert(tensors[i].name).second) throw Error("[safetensors] '{}' is added twice", tensors[i].name);
    const uint64_t bytes = layout.places[i].bytes = bytes_of(tensors[i]);
    if (held > 0 && held + bytes > shard_bytes) {
      shards.emplace_back();
      held = 0;
    }
    shards.back().push_back(i);
    held += bytes;
    total += bytes;
  }
  layout.files.resize(shards.size());
  JsonObject weight_map;
  for (size_t f = 0; f < shards.size(); ++f) {
    layout.files[f].name = shards.size() == 1 ? std::string("model.safetensors")
                                              : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, shards.size());
    lay_out_file(tensors, shards[f], metadata, f, layout);
    for (const size_t i : shards[f]) weight_map[tensors[i].name] = layout.files[f].name;
  }
  if (shards.size() > 1) {
    layout.index = to_json_pretty(
        JsonObject{{"metadata", JsonObject{{"total_size", total}}}, {"weight_map", std::move(weight_map)}});
  }
  return layout;
}

}  // namespace ingot
