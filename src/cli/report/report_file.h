// The JSON of `ingot report`: {ingot_report, version, date, quick, seconds, machine, ops, ladders, model,
// not_measured}. `ops` is as `bench ops --json` prints its results, `ladders` as `bench ladder --json`; `model`, where
// one was measured, is {name, architecture, format, limits, profiles: [{title, profile}], steps: [{name, what, prompt,
// gen, batch, prefill_tps, decode_tps}]}; `not_measured` is a list of sentences.
#pragma once

#include <string>
#include <string_view>

#include "files/json.h"

namespace ingot {

inline constexpr int kReportVersion = 1;

// The array `key`; an empty one where there is none.
const JsonArray& list_of(const JsonObject& object, std::string_view key);

// Throws Error in one line where the file is no such report or something in it is of another kind than a page takes.
JsonObject read_report(const std::string& path);

// The same of any document with `ladders`: of `bench ladder --json`, of a report, or what docs/learn keeps.
JsonObject read_ladders(const std::string& path);

// What both have, before and after: {date, version, machine, same_machine, rows: [{kind, name, unit, before, after,
// gain}], only_before, only_after}. A gain above 1 is faster now; the largest changes come first.
JsonObject compare_reports(const JsonObject& before, const JsonObject& after);

}  // namespace ingot
