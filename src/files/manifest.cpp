#include "files/manifest.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/mmap.h"
#include "base/seeded_hash.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "files/atomic_file.h"
#include "files/directory.h"
#include "files/gguf/gguf.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace ingot {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kVersion = 1;

struct Region {
  std::string name;
  uint64_t begin;
  uint64_t bytes;
};

// The regions of a file whose tensors are `tensors`: these, "metadata" before the first, "padding" elsewhere.
std::vector<Region> cover(std::vector<Region> tensors, uint64_t metadata_bytes, uint64_t file_bytes) {
  std::ranges::sort(tensors, {}, &Region::begin);
  std::vector<Region> all = {{"metadata", 0, metadata_bytes}};
  uint64_t end = metadata_bytes;
  const auto pad_to = [&](uint64_t to) {
    if (to > end) all.push_back({"padding", end, to - end});
    end = std::max(end, to);
  };
  for (Region& tensor : tensors) {
    pad_to(tensor.begin);
    end = tensor.begin + tensor.bytes;
    all.push_back(std::move(tensor));
  }
  pad_to(file_bytes);
  return all;
}

// `Tensor` is GgufTensor or SafeTensor.
template <class Tensor>
std::vector<Region> regions_of(const std::vector<Tensor>& tensors, int file_index, const MappedFile& file) {
  std::vector<Region> found;
  uint64_t first = file.bytes().size();
  for (const Tensor& tensor : tensors) {
    if (tensor.file_index != file_index || tensor.bytes == 0) continue;
    const auto begin = static_cast<uint64_t>(tensor.data - file.bytes().data());
    first = std::min(first, begin);
    found.push_back({fmt::format("tensor '{}'", utf8_printable(tensor.name)), begin, tensor.bytes});
  }
  return cover(std::move(found), first, file.bytes().size());
}

Json describe(const MappedFile& file, const std::vector<Region>& regions) {
  const std::span<const std::byte> bytes = file.bytes();
  file.advise_sequential(bytes);
  JsonArray list;
  for (const Region& region : regions) {
    list.push_back(JsonObject{{"name", region.name},
                              {"offset", region.begin},
                              {"bytes", region.bytes},
                              {"sha256", sha256_hex(bytes.subspan(region.begin, region.bytes))}});
  }
  return JsonObject{{"name", fs::path(file.path()).filename().string()},
                    {"bytes", bytes.size()},
                    {"sha256", sha256_hex(bytes)},
                    {"regions", std::move(list)}};
}

template <class Model>
void describe_all(const Model& model, JsonArray& files) {
  for (size_t i = 0; i < model.files().size(); i++) {
    const MappedFile& file = model.files()[i];
    files.push_back(describe(file, regions_of(model.tensors(), static_cast<int>(i), file)));
  }
}

// Of llama2.c.
bool is_token_list(std::string_view name) { return name.starts_with("tok") && name.ends_with(".bin"); }

// The small files of a model's directory: whatever decides how the weights are read and the text is made, and what
// lies beside it in the same kinds of files.
std::vector<std::string> side_files(const std::string& directory) {
  std::vector<std::string> paths = list_files(directory);
  std::erase_if(paths, [](const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const std::string ending = fs::path(path).extension().string();
    return name.starts_with('.') ||
           (ending != ".json" && ending != ".model" && ending != ".txt" && ending != ".jinja" && !is_side_file(name));
  });
  return paths;
}

// "x-00001-of-00003.gguf" → "x-", "-of-00003.gguf". Others: the name and nothing.
std::pair<std::string, std::string> split_name(const std::string& name) {
  constexpr size_t kDigits = 5, kTail = std::string_view("-of-00003.gguf").size();
  if (name.size() <= kDigits + kTail || name.substr(name.size() - kTail, 4) != "-of-") return {name, ""};
  return {name.substr(0, name.size() - kTail - kDigits), name.substr(name.size() - kTail)};
}

// The file and, of a split model, all its parts.
std::vector<std::string> gguf_parts(const std::string& path) {
  const auto [begin, end] = split_name(fs::path(path).filename().string());
  if (end.empty()) return {path};
  const std::string parent = fs::path(path).parent_path().string();
  std::vector<std::string> parts = list_files(parent.empty() ? "." : parent);
  std::erase_if(parts, [&](const std::string& part) {
    const auto [its_begin, its_end] = split_name(fs::path(part).filename().string());
    return its_begin != begin || its_end != end;
  });
  return parts;
}

// The GGUF model of a directory, as ModelFiles::open finds it; none where it is of safetensors.
std::optional<std::string> gguf_of(const std::string& directory) {
  if (exists((fs::path(directory) / "config.json").string())) return std::nullopt;
  for (const std::string& path : list_files(directory)) {
    if (path.ends_with(".gguf")) return path;
  }
  return std::nullopt;
}

void require_listed(const std::vector<std::string>& paths, const SeededSet& listed) {
  for (const std::string& path : paths) {
    const std::string name = fs::path(path).filename().string();
    if (listed.contains(name)) continue;
    throw Error("[manifest] {}: is read with the model, and the manifest does not list it", utf8_printable(name));
  }
}

// One file of the manifest against the file on the disk.
void verify_file(const fs::path& directory, const JsonObject& entry) {
  const std::string name = get_string(entry, "name");
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw Error("[manifest] '{}' is no name of a file", utf8_printable(name));
  }
  const MappedFile file = MappedFile::open((directory / name).string());
  const std::span<const std::byte> bytes = file.bytes();
  const auto size = static_cast<uint64_t>(get_int(entry, "bytes", 0, 0));
  file.advise_sequential(bytes);
  const JsonArray* regions = find_array(entry, "regions");
  if (regions == nullptr) throw Error("[manifest] file '{}' has no 'regions'", name);
  CheckedSize end(0, "[manifest] end of a region");
  for (const Json& value : *regions) {
    const JsonObject& region = as_object(value, "[manifest] a region");
    const std::string region_name = get_string(region, "name");
    const auto n = static_cast<uint64_t>(get_int(region, "bytes", 0, 0));
    if (static_cast<uint64_t>(get_int(region, "offset", 0, 0)) != end.value()) {
      throw Error("[manifest] file '{}': {} does not follow the region before it", name, region_name);
    }
    if ((end + n).value() > bytes.size()) {
      throw Error("[manifest] {}: {} is cut short: the file has {} bytes, not {}", name, region_name, bytes.size(),
                  size);
    }
    if (sha256_hex(bytes.subspan(end.as_size(), n)) != get_string(region, "sha256")) {
      throw Error("[manifest] {}: {} differs (bytes {} to {})", name, region_name, end.value(), (end + n).value());
    }
    end += n;
  }
  if (end.value() != size) throw Error("[manifest] the regions of file '{}' do not cover it", name);
  if (bytes.size() != size) throw Error("[manifest] {}: has {} bytes, not {}", name, bytes.size(), size);
}

}  // namespace

bool is_side_file(std::string_view name) {
  static constexpr std::string_view kNames[] = {"config.json",
                                                "generation_config.json",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "tekken.json",
                                                "tokenizer.model",
                                                "tiktoken.model",
                                                "vocab.json",
                                                "merges.txt",
                                                "vocab.txt",
                                                "chat_template.json",
                                                "chat_template.jinja",
                                                "model.safetensors.index.json"};
  return std::ranges::find(kNames, name) != std::end(kNames) || name.ends_with(".tiktoken") || is_token_list(name);
}

void write_manifest(const std::string& model_path, const std::string& out_path) {
  JsonArray files;
  if (is_directory(model_path)) {
    if (const std::optional<std::string> gguf = gguf_of(model_path)) {
      describe_all(Gguf::open(*gguf), files);
    } else {
      describe_all(SafeTensors::open(model_path), files);
    }
    for (const std::string& path : side_files(model_path)) {
      std::error_code ignored;
      if (fs::equivalent(path, out_path, ignored)) continue;  // the manifest that is being replaced
      const MappedFile file = MappedFile::open(path);
      files.push_back(describe(file, {{"file", 0, file.bytes().size()}}));
    }
  } else if (model_path.ends_with(".safetensors") || model_path.ends_with(".index.json")) {
    describe_all(SafeTensors::open(model_path), files);
  } else {
    describe_all(Gguf::open(model_path), files);
  }
  AtomicFile out(out_path);
  out.write(to_json_pretty(JsonObject{{"ingot_manifest", kVersion}, {"files", std::move(files)}}));
  out.write("\n");
  out.commit();
}

void verify_manifest(const std::string& model_path, const std::string& manifest_path) {
  const Json root = read_json_file(manifest_path, {.reject_duplicate_keys = true});
  const JsonObject& manifest = as_object(root, "[manifest] the file");
  if (get_int(manifest, "ingot_manifest", 0) != kVersion) {
    throw Error("[manifest] {}: is not a manifest of version {}", manifest_path, kVersion);
  }
  const JsonArray* files = find_array(manifest, "files");
  if (files == nullptr || files->empty()) throw Error("[manifest] {}: names no files", manifest_path);
  const bool whole_directory = is_directory(model_path);
  const fs::path directory = whole_directory ? fs::path(model_path) : fs::path(model_path).parent_path();
  SeededSet listed;
  for (const Json& file : *files) listed.insert(get_string(as_object(file, "[manifest] a file"), "name"));
  if (whole_directory) {
    std::vector<std::string> side = list_files(model_path);
    std::erase_if(side, [](const std::string& path) { return !is_side_file(fs::path(path).filename().string()); });
    require_listed(side, listed);
  }
  for (const Json& file : *files) verify_file(directory, file.get_object());
  if (!whole_directory && !listed.contains(fs::path(model_path).filename().string())) {
    throw Error("[manifest] {}: does not name the model {}", manifest_path, model_path);
  }
  // The index that names the weights has been verified by now.
  const std::optional<std::string> gguf = whole_directory ? gguf_of(model_path) : model_path;
  require_listed(gguf ? gguf_parts(*gguf) : SafeTensors::files_in(model_path), listed);
}

}  // namespace ingot
