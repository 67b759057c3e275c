// The KV groups of a program, with the pages that its cache has of each: what a step message is read by.
#pragma once

#include <vector>

#include "engine/cache/kv_pages.h"
#include "graph/program.h"

namespace ingot {

// REQUIRES: pages[g] are those of the program's group g.
inline std::vector<PageGroup> page_groups(const Program& program, const std::vector<int>& pages) {
  std::vector<PageGroup> groups;
  for (size_t g = 0; g < pages.size(); ++g)
    groups.push_back({.pages = pages[g], .window = program.kv_groups[g].window});
  return groups;
}

}  // namespace ingot
