// How often each expert of each layer was chosen, in a file: a line for each layer with experts, its counts in order,
// with a blank between two. What an engine without `--ep` has counted tells one with it which to repeat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

class Engine;

// Throws Error where the file is not there, or no such list.
std::vector<std::vector<int64_t>> read_expert_uses(const std::string& path);

// Writes what the engine has counted when it is destroyed, which must be before the engine is. Says on stderr why it
// could not.
class ExpertUseWriter {
 public:
  // Throws Error where the file cannot be written.
  ExpertUseWriter(Engine& engine, std::string path);
  ~ExpertUseWriter();
  ExpertUseWriter(const ExpertUseWriter&) = delete;
  ExpertUseWriter& operator=(const ExpertUseWriter&) = delete;

 private:
  Engine& engine_;
  const std::string path_;
};

}  // namespace ingot
