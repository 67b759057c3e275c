// A file that says how ranks reach each other: published numbers, with where they are from. JSON:
//
//   {"name": "NVLink of eight H200", "source": "a document's title", "date": "2026-11-19",
//    "ranks": {"kind": "NVLink 4", "collectives": "ring" | "direct" | "switch",
//              "call_us": 0, "latency_us": 0.6, "gbs": 450},
//    "stages": {"kind": "InfiniBand NDR", "call_us": 0, "latency_us": 5, "gbs": 50}}
//
// `ranks`: the links between those that share a layer; `stages`: between stages, where these are others.
// comm/link_model.h has the formula; call_us may be left out. Other members are for people.
#pragma once

#include <string>

#include "comm/link_model.h"
#include "files/json.h"

namespace ingot {

struct LinksFile {
  std::string path, name, source, date;
  std::string kind, stages_kind;
  LinkModel ranks, stages;
};

// Throws Error, in one line: no file, no JSON, a member that is missing, of another type or out of its range.
LinksFile read_links_file(const std::string& path);

JsonObject links_json(const LinksFile& links);
// In one line, with those between stages where there are several.
std::string links_text(const LinksFile& links, bool several_stages);

}  // namespace ingot
