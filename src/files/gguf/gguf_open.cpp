// Which files make up a GGUF model: one, or the parts of a split one.
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "files/directory.h"
#include "files/gguf/gguf.h"

namespace ingot {

namespace {

constexpr uint64_t kMaxParts = 99999;  // five digits in the names

// The end of the name of part `part`, counted from 0, as the tools that split write it.
std::string part_ending(uint64_t part, uint64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", part + 1, count); }

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

Gguf Gguf::open_file(const std::string& path) {
  MappedFile file = MappedFile::open(path);
  Gguf gguf = parse(file.bytes(), file_name(path));
  gguf.files_.push_back(std::move(file));
  return gguf;
}

Gguf Gguf::open(const std::string& path) {
  Gguf gguf = open_file(path);
  const uint64_t count = gguf.get_u64("split.count", 1);
  if (count <= 1) return gguf;
  const uint64_t part = gguf.get_u64("split.no");
  if (count > kMaxParts || part >= count) throw Error("[gguf] {}: cannot be part {} of {}", gguf.name_, part, count);
  const std::string ending = part_ending(part, count);
  if (!path.ends_with(ending)) {
    throw Error("[gguf] {}: is part {} of {} of a split model, but its name does not end in \"{}\"", gguf.name_,
                part + 1, count, ending);
  }
  return open_parts(std::move(gguf), path.substr(0, path.size() - ending.size()), part, count);
}

Gguf Gguf::open_parts(Gguf given, const std::string& stem, uint64_t given_part, uint64_t count) {
  std::optional<Gguf> all;
  for (uint64_t i = 0; i < count; i++) {
    const std::string path = stem + part_ending(i, count);
    if (!exists(path)) throw Error("[gguf] {}: part {} of {} is missing", file_name(path), i + 1, count);
    Gguf part = i == given_part ? std::move(given) : open_file(path);
    if (part.get_u64("split.count", 0) != count || part.get_u64("split.no", count) != i) {
      throw Error("[gguf] {}: does not say that it is part {} of {}", part.name_, i + 1, count);
    }
    if (!all) {
      all = std::move(part);
    } else {
      all->add_tensors(std::move(part.tensors_), static_cast<int>(i));
      all->files_.push_back(std::move(part.files_[0]));
    }
  }
  const uint64_t n_tensors = all->get_u64("split.tensors.count", all->tensors_.size());
  if (n_tensors != all->tensors_.size()) {
    throw Error("[gguf] {}: its {} parts have {} tensors, but 'split.tensors.count' is {}", all->name_, count,
                all->tensors_.size(), n_tensors);
  }
  return *std::move(all);
}

}  // namespace ingot
