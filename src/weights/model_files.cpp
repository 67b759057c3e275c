#include "weights/model_files.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/folder.h"

namespace ingot {
namespace fs = std::filesystem;
namespace {

bool begins_with_gguf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  return file.gcount() == 4 && std::memcmp(magic.data(), "GGUF", 4) == 0;
}

JsonObject read_object(const fs::path& path) {
  return as_object(read_json_file(path.string()), path.filename().string());
}

// A directory without safetensors may hold one GGUF model: its first file is enough to open all parts.
std::optional<std::string> only_gguf_in(const std::string& directory) {
  std::optional<std::string> found;
  int problem = 0;
  for (const std::string& name : names_in(directory, problem)) {
    const fs::path path = fs::path(directory) / name;
    if (path.extension() != ".gguf") continue;
    if (!found || path.string() < *found) found = path.string();
  }
  if (problem != 0) throw Error("[model] {}: {}", directory, std::generic_category().message(problem));
  return found;
}

ModelFiles open_directory(const std::string& path) {
  const fs::path directory(path);
  ModelFiles model;
  model.path = path;
  if (!fs::exists(directory / "config.json")) {
    if (const std::optional<std::string> gguf = only_gguf_in(path)) return ModelFiles::open(*gguf);
    throw Error("[model] directory '{}' has neither config.json nor a .gguf file", path);
  }
  model.config = read_object(directory / "config.json");
  if (fs::exists(directory / "generation_config.json")) {
    model.generation_config = read_object(directory / "generation_config.json");
  }
  model.safetensors = std::make_unique<SafeTensors>(SafeTensors::open(path));
  return model;
}

}  // namespace

void ModelFiles::give_back_pages() const {
  for (const MappedFile& file : gguf ? gguf->files() : safetensors->files()) file.advise_dont_need(file.bytes());
}

int64_t ModelFiles::bytes() const {
  int64_t total = 0;
  for (const MappedFile& file : gguf ? gguf->files() : safetensors->files()) {
    total += static_cast<int64_t>(file.bytes().size());
  }
  return total;
}

ModelFiles ModelFiles::open(const std::string& path) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (!fs::exists(status)) throw Error("[model] '{}' does not exist", path);
  if (fs::is_directory(status)) return open_directory(path);
  if (!fs::is_regular_file(status)) throw Error("[model] '{}' is neither a file nor a directory", path);
  if (fs::file_size(path) == 0) throw Error("[model] '{}' is empty", path);
  if (!begins_with_gguf(path)) {
    if (fs::path(path).extension() == ".safetensors") {
      throw Error("[model] '{}': give the directory that holds config.json, not the .safetensors file", path);
    }
    throw Error("[model] '{}' is not a model: neither a GGUF file nor a directory with config.json", path);
  }
  ModelFiles model;
  model.path = path;
  model.gguf = std::make_unique<Gguf>(Gguf::open(path));
  return model;
}

}  // namespace ingot
