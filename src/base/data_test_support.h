// Where tests find files. What is committed lies in tests/data; a larger set with the same folders may lie beside the
// project, in $INGOT_TEST_DATA or ../shared/data, and is preferred where it has a file.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace ingot {

// A path under tests/data.
inline std::string committed_data(const std::string& name) {
  return std::string(INGOT_SOURCE_DIR "/tests/data/") + name;
}

// The folders of data that are here, the preferred one first.
inline std::vector<std::string> data_folders() {
  const char* set = std::getenv("INGOT_TEST_DATA");
  const std::string larger = set != nullptr ? std::string(set) : std::string(INGOT_SOURCE_DIR "/../shared/data");
  std::vector<std::string> folders;
  if (std::filesystem::is_directory(larger)) folders.push_back(larger);
  folders.push_back(committed_data(""));
  return folders;
}

// A file or folder of the data; where nobody has it, its path under tests/data.
inline std::string test_data(const std::string& name) {
  for (const std::string& folder : data_folders()) {
    if (std::filesystem::exists(folder + "/" + name)) return folder + "/" + name;
  }
  return committed_data(name);
}

// What lies in a folder of the data, by name without `suffix`, sorted. Names that end otherwise are left out.
inline std::vector<std::string> test_data_names(const std::string& name, const std::string& suffix = "") {
  std::set<std::string> names;
  for (const std::string& folder : data_folders()) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + name, missing)) {
      const std::string file = entry.path().filename().string();
      if (file.ends_with(suffix)) names.insert(file.substr(0, file.size() - suffix.size()));
    }
  }
  return {names.begin(), names.end()};
}

// The file that an environment variable names, as the only parameter of a test; none where it is not set.
inline std::vector<std::string> named_file(const char* variable) {
  const char* file = std::getenv(variable);
  return file != nullptr ? std::vector<std::string>{file} : std::vector<std::string>{};
}

// A name as GoogleTest wants it for a test's parameter.
inline std::string test_name(std::string name) {
  for (char& c : name) {
    const bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!word) c = '_';
  }
  return name;
}

}  // namespace ingot
