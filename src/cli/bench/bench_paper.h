// ingot bench --as-rank R --links FILE: the speed of several devices, on paper. One rank of --tp or --ep is built and
// run for real: its cut of every weight, its graphs, its KV cache. The others do not exist, and what they would be
// waited for is waited by a model of their links (comm/comm_paper.h). What it answers means nothing.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/bench_model.h"
#include "cli/bench/bench_run.h"

namespace ingot {

struct PaperOptions {
  int as_rank = -1;   // -1: not on paper
  std::string links;  // a file as cli/bench/links_file.h says
};

void add_paper_options(CLI::App& app, PaperOptions& options);
// CLI::ValidationError where they do not go with the others, Error where this cannot be told on paper.
// Returns whether it is asked for.
bool check_paper(const PaperOptions& options, const BenchModelOptions& model);
// Measures and prints.
int run_paper(const PaperOptions& options, const BenchModelOptions& model, const BenchWork& work,
              const std::vector<int>& batches);

}  // namespace ingot
