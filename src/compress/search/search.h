// Which format each tensor of a GGUF file gets so that the file has a given size and predicts as the model does: the
// search of `ingot quantize --bits` and `--size`.
//
// Each matrix is rounded alone to one format, and the KLD of the model's predictions measured over a few hundred tokens
// (divergences.h); in its other formats it costs as much more or less as its error, weighted by the importances, is
// larger or smaller. A knapsack over bytes then chooses (knapsack.h), by the costs as measured, by a smooth fit of them
// and by what lies between (costs.h): those three are measured whole, over text that nothing was fitted to, and the
// best is the result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compress/calibrate.h"
#include "compress/quantize.h"
#include "files/json.h"

namespace ingot {

struct SearchOptions {
  QuantizeOptions quantize;  // its format is not read; its tensors are not searched but stay as named there
  double bits = 0;           // of a parameter; or
  int64_t size = 0;          // bytes of the file at most
  CalibrationText text;
  WorkProgress progress = {};
};

struct SearchResult {
  struct Candidate {
    double share = 0;  // of the fit in its costs
    int64_t bytes = 0;
    double predicted = 0, measured = 0;  // KLD
  };
  struct Point {
    int64_t bytes = 0;
    double predicted = 0;
  };
  std::vector<std::pair<std::string, std::string>> tensors;  // for QuantizeOptions: those named before, and the found
  std::string format;                                        // likewise: what most values have
  std::vector<Candidate> candidates;
  size_t best = 0;           // of them
  std::vector<Point> front;  // the least KLD that is foreseen for so many bytes of tensors
  int64_t scored = 0;        // tokens by which candidates were measured

  // For the metadata and the report.
  JsonObject json() const;
};

// The chunks of a text that a search measures with; methods must not see them. They are its last.
int64_t held_out_chunks(const CalibrationText& text);

// Throws Error where the formats of this OUT cannot be searched: search() does so too, after what costs time.
void check_searched(const std::string& out);

// Reads the model only. Throws Error: a size that no choice has, too little text. The same for any number of threads.
SearchResult search(const SearchOptions& options);

}  // namespace ingot
