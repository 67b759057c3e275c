// `ingot bench ladder` for the report too.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

struct LadderOptions {
  std::vector<std::string> names;  // of operators; empty: all
  std::string rivals;              // the program that runs other libraries; "-": none
  int device = -1;                 // of CUDA; -1: the CPU
  int threads = 0;                 // of the CPU; 0: all cores
  bool print = false;              // a table on stdout while it goes
  double most_seconds = 0;         // no ladder begins later, and not_measured says so; 0: all do
};

// Measures, and gives what --json prints: machine, limits, ladders, not_measured.
JsonObject bench_ladder(const LadderOptions& options);

}  // namespace ingot
