#include "engine/model/known_ranks.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace ingot {
namespace {

struct Known {
  std::mutex mutex;
  std::vector<std::pair<const KnownRanks*, std::function<std::vector<RankUse>()>>> engines;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

KnownRanks::KnownRanks(std::function<std::vector<RankUse>()> ask) {
  const std::lock_guard lock(known().mutex);
  known().engines.emplace_back(this, std::move(ask));
}

KnownRanks::~KnownRanks() {
  const std::lock_guard lock(known().mutex);
  std::erase_if(known().engines, [this](const auto& engine) { return engine.first == this; });
}

std::vector<RankUse> known_ranks() {
  const std::lock_guard lock(known().mutex);
  std::vector<RankUse> all;
  int number = 0;
  for (const auto& [unused, ask] : known().engines) {
    for (RankUse& one : ask()) {
      one.engine = number;
      all.push_back(std::move(one));
    }
    ++number;
  }
  return all;
}

}  // namespace ingot
