// Which files of a repository make a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Written beside a pulled model's files: where it came from (JSON with name, endpoint, revision), and
// its checksums (files/manifest.h). Neither ends in .json, so that neither is taken for a part of the model.
inline constexpr const char* kSourceFile = "ingot.source";
inline constexpr const char* kManifestFile = "ingot.manifest";

bool is_safetensors(std::string_view file);
bool is_gguf(std::string_view file);

// The files to fetch of all files of the repository `name`: configuration, tokenizer and *.safetensors, or
// one GGUF file with all its parts. `pattern` chooses among the GGUF files: a shell pattern, or a part of the
// name where it has none of *?[; letters' case does not matter. Empty: safetensors where there are some, else the only
// GGUF. Throws Error that lists the choices when there is none or more than one. REQUIRES: every file passes
// check_repo_file.
std::vector<std::string> choose_files(const std::string& name, const std::vector<std::string>& files,
                                      const std::string& pattern);

// Whether `file` is meant by such a pattern.
bool matches_pattern(const std::string& file, const std::string& pattern);

// A path as a repository may list it: relative, of printable characters, without "." and ".." parts. Throws Error.
void check_repo_file(const std::string& name, const std::string& file);

}  // namespace ingot
