#include "cli/hub/model_files.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "cli/strings.h"

namespace ingot {

namespace {

// What a tokenizer, a configuration or a template may be called at the top of a repository.
constexpr std::array<std::string_view, 14> kSmallFiles = {"config.json",
                                                          "generation_config.json",
                                                          "tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "tokenizer.model",
                                                          "special_tokens_map.json",
                                                          "added_tokens.json",
                                                          "vocab.json",
                                                          "vocab.txt",
                                                          "merges.txt",
                                                          "chat_template.json",
                                                          "chat_template.jinja",
                                                          "preprocessor_config.json",
                                                          "model.safetensors.index.json"};

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The name that all parts of a split GGUF share: "x-00001-of-00003.gguf" -> "x-of-00003.gguf". Others: the name itself.
std::string split_family(std::string_view file) {
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (file.size() <= kTail) return std::string(file);
  const std::string_view tail = file.substr(file.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !is_digits(tail.substr(1, 5)) ||
      !is_digits(tail.substr(10, 5))) {
    return std::string(file);
  }
  return fmt::format("{}{}", file.substr(0, file.size() - kTail), tail.substr(6));
}

std::vector<std::string> choose_gguf(const std::string& name, const std::vector<std::string>& files,
                                     const std::string& pattern) {
  std::vector<std::string> candidates, families;
  for (const std::string& file : files) {
    // A projector of images beside the model is no model.
    const bool wanted = pattern.empty() ? lower_ascii(base_name(file)).find("mmproj") == std::string::npos
                                        : matches_pattern(file, pattern);
    if (is_gguf(file) && wanted) candidates.push_back(file);
  }
  for (const std::string& file : candidates) families.push_back(split_family(file));
  std::sort(families.begin(), families.end());
  families.erase(std::unique(families.begin(), families.end()), families.end());
  if (families.size() == 1) return candidates;
  if (families.empty()) {
    std::vector<std::string> all;
    std::copy_if(files.begin(), files.end(), std::back_inserter(all), is_gguf);
    if (all.empty()) throw Error("[pull] {} has no *.safetensors and no *.gguf file", name);
    throw Error("[pull] no GGUF file of {} matches '{}'; it has: {}", name, pattern, fmt::join(all, ", "));
  }
  throw Error("[pull] {} has {} GGUF files{}: choose one with --file, such as --file {}; it has: {}", name,
              families.size(), pattern.empty() ? "" : fmt::format(" that match '{}'", pattern),
              base_name(candidates.front()), fmt::join(candidates, ", "));
}

bool is_small_file(std::string_view file) {
  return std::find(kSmallFiles.begin(), kSmallFiles.end(), file) != kSmallFiles.end() || file.ends_with(".tiktoken");
}

}  // namespace

bool is_safetensors(std::string_view file) { return file.ends_with(".safetensors"); }
bool is_gguf(std::string_view file) { return file.ends_with(".gguf"); }

bool matches_pattern(const std::string& file, const std::string& pattern) {
  const std::string text = lower_ascii(file);
  const std::string wanted = lower_ascii(pattern);
  if (wanted.find_first_of("*?[") == std::string::npos) return text.find(wanted) != std::string::npos;
  return fnmatch(wanted.c_str(), text.c_str(), 0) == 0 || fnmatch(wanted.c_str(), base_name(text).c_str(), 0) == 0;
}

void check_repo_file(const std::string& name, const std::string& file) {
  bool good = !file.empty() && file.size() <= 1024 && file.front() != '/' && file.back() != '/';
  for (char c : file) good = good && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\';
  const std::string parts = "/" + file + "/";
  for (const char* bad : {"//", "/./", "/../"}) good = good && parts.find(bad) == std::string::npos;
  if (!good) throw Error("[pull] {} lists a file with an unsafe name: '{}'", name, file);
}

std::vector<std::string> choose_files(const std::string& name, const std::vector<std::string>& files,
                                      const std::string& pattern) {
  const auto top_level = [](const std::string& file) { return file.find('/') == std::string::npos; };
  std::vector<std::string> weights;
  for (const std::string& file : files) {
    if (top_level(file) && is_safetensors(file)) weights.push_back(file);
  }
  if (!pattern.empty() || weights.empty()) return choose_gguf(name, files, pattern);
  // Some repositories hold the same weights twice; model*.safetensors is the one that config.json describes.
  const auto is_main = [](const std::string& file) { return file.starts_with("model"); };
  if (std::any_of(weights.begin(), weights.end(), is_main)) {
    std::erase_if(weights, [&](const std::string& file) { return !is_main(file); });
  }
  std::vector<std::string> chosen;
  for (const std::string& file : files) {
    if (top_level(file) && is_small_file(file)) chosen.push_back(file);
  }
  // The small ones first: what is wrong with them shows before gigabytes were fetched.
  chosen.insert(chosen.end(), weights.begin(), weights.end());
  return chosen;
}

}  // namespace ingot
