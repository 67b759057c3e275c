// `ingot eval compare`, and what `quantize --report` ends with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/open_engine.h"
#include "files/json.h"

namespace ingot {

struct CompareOptions {
  std::string teacher;              // these as resolve_model takes them
  std::vector<std::string> models;  // of the same vocabulary
  std::string text;                 // the file's path
  std::string html;                 // the page's path; empty: none
  int chunks = 0;                   // 0: all
  int chunk_tokens = 512;
  // Multiple-choice tasks, each its name and its file, and how many questions of each (0: all).
  std::vector<std::pair<std::string, std::string>> tasks = {};
  int limit = 0;
  bool speed = true;     // prefill and decode are measured, too
  bool table = true;     // the figures are printed
  bool verbose = false;  // each chunk is told on stderr
  OpenOptions open = {.kv = "f32"};
  JsonObject search = {};  // what a search for formats found, for the page; empty: none
};

// Compares the models with the teacher and writes the page. What `eval compare --json` prints. Throws Error where they
// cannot be compared, and Interrupted.
JsonObject run_compare(const CompareOptions& options);

}  // namespace ingot
