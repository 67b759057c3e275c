// The tokens that a calibration runs over: a text, chats through the model's template, or what the model says itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot {

struct ModelFiles;

struct CalibrationText {
  std::vector<int32_t> tokens;  // whole chunks
  int64_t chunk_rows = 0;
  std::string dataset;  // the file, or "samples of the model"
  std::string hash;     // sha256 of the file; of the model's own samples empty

  int64_t chunks() const { return static_cast<int64_t>(tokens.size()) / chunk_rows; }
  std::span<const int32_t> chunk(int64_t c) const {
    return std::span(tokens).subspan(static_cast<size_t>(c * chunk_rows), static_cast<size_t>(chunk_rows));
  }
};

struct CalibrationTextOptions {
  std::string model;  // a path
  std::string text;   // a file; one whose name ends in .jsonl: a chat in each line. Empty: the model's own samples
  int64_t chunk_rows = 512;  // fewer where the model's context is shorter
  int64_t tokens = 0;        // at most; 0: all of the text, 8192 of samples
  int threads = 1;
};

// The sha256 of the texts that a model was compressed with, as its metadata has them, a space between two; empty: none.
std::string calibration_hashes(const ModelFiles& files);
// The same with one more.
std::string with_hash(const std::string& hashes, const std::string& hash);
// Throws Error where the model at `path` was compressed with the text of the file `text`.
void check_other_text(const std::string& path, const std::string& text);

// Each chunk begins with BOS where the model's texts do. Throws Error where the text is no whole chunk, or a line no
// chat.
CalibrationText calibration_text(const CalibrationTextOptions& options);

}  // namespace ingot
