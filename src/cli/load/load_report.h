// What a load test has shown: counts, percentiles, rates and goodput, as a table, as JSON and as a page with charts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/load/load_run.h"
#include "cli/load/slo.h"
#include "files/json.h"

namespace ingot {

struct LoadSetup {
  std::string url = {};
  LoadOptions options = {};
  const char* mode = "";
  Slo slo = {};
};

struct LoadReport {
  LoadSetup setup;
  int64_t sent = 0, ok = 0, cancelled = 0, rejected = 0, failed = 0, lost = 0;
  int64_t rejected_429 = 0, rejected_503 = 0;  // of the rejected: beyond a limit of one's own; the server is busy
  int64_t without_retry_after = 0;             // likewise
  int64_t good = 0;                            // ok, and within the SLO
  int64_t first_in_time = 0;                   // first tokens within the SLO's, whatever came after them
  int64_t good_tokens = 0;
  double seconds = 0;
  double late_ms = 0;  // the most that this client was behind the plan
  double client_cpu_percent = 0;
  int64_t prompt_tokens = 0, output_tokens = 0;
  bool counted = true;  // every answer's tokens were counted by the server; otherwise pieces stand for tokens
  // Sorted. First pieces and gaps of all answers that had any, whole answers of those that are ok.
  std::vector<double> ttft_ms = {}, gap_ms = {}, e2e_ms = {};
  std::vector<double> request_tps = {};  // tokens after the first over their time, of each ok request with two or more
  std::vector<double> reject_ms = {};    // until a rejection
  std::vector<double> retry_after_s = {};                      // what rejections said, where they did
  std::vector<std::pair<std::string, int64_t>> problems = {};  // the most frequent first
  std::vector<std::pair<std::string, int64_t>> finishes = {};
  JsonArray series = {};
};

LoadReport make_load_report(const LoadRun& run, const LoadSetup& setup);

std::string load_table(const LoadReport& report);
JsonObject load_json(const LoadReport& report);
// One HTML page that needs nothing from outside.
std::string load_page(const LoadReport& report);

}  // namespace ingot
