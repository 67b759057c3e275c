// The pages of docs/learn: tables and figures of the ladders, written from the steps of this build and the measured
// figures beside them (measured.json).
#pragma once

#include <map>
#include <span>
#include <string>

#include "files/json.h"
#include "ladder/ladder.h"

namespace ingot {

// Files by their path within the folder: README.md, <operator>.md and figures/*.svg.
using LearnFiles = std::map<std::string, std::string>;

// What of `files` is written anew: of a page the part between two marks, of a page that is not there all of it, and
// every figure. `measured` is {ladders: […]} of `bench ladder --json`, each with machine, commit and date. A figure
// whose step has another hash now is shown as stale, a step without one as not measured. Throws Error for a figure
// without a step, and for a page without marks.
LearnFiles write_learn_pages(std::span<const ladder::StepInfo> steps, const JsonObject& measured,
                             const LearnFiles& files);

// Takes the ladders of `more`, which is of `bench ladder --json` or `report --json`, into `measured` in place of those
// of the same operator, shape, device and machine.
void add_measured(JsonObject& measured, const JsonObject& more, const std::string& commit, const std::string& date);

LearnFiles read_learn_files(const std::string& folder);
// Writes what differs, and removes figures that `files` does not have.
void save_learn_files(const std::string& folder, const LearnFiles& files);

}  // namespace ingot
