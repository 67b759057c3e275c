// What a calibration knows of the inputs of each matrix: squares and maxima by column, and how many rows there were.
// The file is llama.cpp's importance matrix in GGUF (NAME.in_sum2 and NAME.counts for each tensor, imatrix.*), under
// GGUF's names of tensors; NAME.in_max and ingot.* beside it are passed over there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compress/method.h"

namespace ingot {

struct Architecture;
struct KvScales;
struct ModelFiles;

// Of one tensor; of one that stacks experts, each expert's row behind the one before.
struct InputStats {
  int64_t cols = 0;
  std::vector<float> squares;  // [experts, cols] sums
  std::vector<float> largest;  // [experts, cols] magnitudes; empty: not known
  std::vector<float> counts;   // [experts] rows; one where it stacks none
};

// Rows below which an expert's statistics say little.
constexpr float kFewRows = 32;

struct Stats {
  std::map<std::string, InputStats> tensors;  // by GGUF's name
  std::vector<std::string> datasets;
  uint32_t chunks = 0, chunk_rows = 0;
  std::string text_hash;                    // sha256 of the text; empty: not known
  std::string model;                        // model_fingerprint(); empty: not known
  std::shared_ptr<const KvScales> kv = {};  // null: none were asked for
  std::vector<double> kv_divergences =
      {};  // by each layer's cache alone, where they were measured; no part of the file

  // Throws Error: not an importance matrix, a tensor without its counts, a number that is none.
  static Stats read(const std::string& path);
  void write(const std::string& path) const;

  // Throws Error where they are another model's: by its fingerprint where it is known, else by names and columns.
  void check_model(const ModelFiles& files, const Architecture& arch) const;
  // Mean squares for the writer, by canonical names of this architecture. The Stats must outlive it.
  Importances importances(const Architecture& arch) const;
  // The experts that fewer than `rows` rows met: "blk.3.ffn_up_exps.weight: experts 5, 17".
  std::vector<std::string> hardly_met(float rows = kFewRows) const;
};

// What a model's matrices are, whatever they are stored in: a hash of the names and shapes of its tensors, of its
// norms' values and of some of its embedding's.
std::string model_fingerprint(const ModelFiles& files, const Architecture& arch);

}  // namespace ingot
