// Which files make up a safetensors model: one, or the shards that an index names.
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "files/directory.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace ingot {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxIndexValues = 2'000'000;  // one for each tensor

// A shard's name comes from the index: it must be a plain file name, so that it stays in the directory.
void check_shard_name(const std::string& index, std::string_view shard) {
  const bool plain = !shard.empty() && shard.front() != '.' && shard.find('/') == std::string_view::npos &&
                     shard.find('\\') == std::string_view::npos && shard.find('\0') == std::string_view::npos &&
                     shard.ends_with(".safetensors");
  if (!plain) throw Error("[safetensors] {}: '{}' is no name of a shard", index, utf8_printable(shard));
}

Json read_index(const std::string& path) {
  return read_json_file(
      path,
      {.max_depth = 8, .max_bytes = kMaxIndexBytes, .reject_duplicate_keys = true, .max_values = kMaxIndexValues});
}

// The paths of the shards, sorted: the order of the files.
std::set<std::string> shards_of(const Json& root, const std::string& index_path) {
  const std::string index = fs::path(index_path).filename().string();
  const JsonObject* map = root.is_object() ? find_object(root.get_object(), "weight_map") : nullptr;
  if (map == nullptr) throw Error("[safetensors] {}: has no 'weight_map'", index);
  std::set<std::string> shards;
  for (const auto& member : *map) {
    const std::string_view shard = as_string(member.value(), fmt::format("[safetensors] {}: a shard's name", index));
    check_shard_name(index, shard);
    shards.insert((fs::path(index_path).parent_path() / shard).string());
  }
  return shards;
}

std::string single_in(const std::string& directory) { return (fs::path(directory) / "model.safetensors").string(); }

}  // namespace

void SafeTensors::open_file(const std::string& path) {
  MappedFile file = MappedFile::open(path);
  add_file(file.bytes(), fs::path(path).filename().string(), static_cast<int>(files_.size()));
  files_.push_back(std::move(file));
}

void SafeTensors::open_shards(const std::string& index_path) {
  const std::string index = fs::path(index_path).filename().string();
  const Json root = read_index(index_path);
  for (const std::string& path : shards_of(root, index_path)) {
    if (!exists(path)) {
      throw Error("[safetensors] {}: shard '{}' is missing", index, fs::path(path).filename().string());
    }
    open_file(path);
  }
  const JsonObject* map = find_object(root.get_object(), "weight_map");
  for (const auto& member : *map) {
    const std::string_view name(member.key().data(), member.key().size());
    const SafeTensor* tensor = find(name);
    const std::string_view shard = as_string(member.value(), name);
    if (tensor == nullptr || fs::path(files_[static_cast<size_t>(tensor->file_index)].path()).filename() != shard) {
      throw Error("[safetensors] {}: tensor '{}' is not in '{}'", index, utf8_printable(name), shard);
    }
  }
}

std::string SafeTensors::only_file_in(const std::string& directory) {
  std::vector<std::string> found = list_files(directory);
  std::erase_if(found, [](const std::string& file) { return !file.ends_with(".safetensors"); });
  if (found.size() != 1) {
    throw Error("[safetensors] {}: has neither model.safetensors nor model.safetensors.index.json", directory);
  }
  return found[0];
}

SafeTensors SafeTensors::open(const std::string& path) {
  SafeTensors result;
  const std::string single = single_in(path);
  const std::string index = single + ".index.json";
  if (!is_directory(path)) {
    path.ends_with(".index.json") ? result.open_shards(path) : result.open_file(path);
  } else if (exists(single)) {
    result.open_file(single);
  } else if (exists(index)) {
    result.open_shards(index);
  } else {
    result.open_file(only_file_in(path));
  }
  return result;
}

std::vector<std::string> SafeTensors::files_in(const std::string& directory) {
  const std::string single = single_in(directory);
  const std::string index = single + ".index.json";
  if (exists(single)) return {single};
  if (!exists(index)) return {only_file_in(directory)};
  const std::set<std::string> shards = shards_of(read_index(index), index);
  return {shards.begin(), shards.end()};
}

}  // namespace ingot
