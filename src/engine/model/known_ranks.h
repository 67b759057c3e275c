// The ranks and stages of this process's engines, for who shows what they do: engines make them known, and any thread
// asks. Of the process, as its world of ranks is (comm/world.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/rank_meter.h"

namespace ingot {

// A rank as others see it.
struct RankUse {
  int engine = 0;    // of the process, in the order of their starts
  int rank = 0;      // with stages: so many before the last
  std::string host;  // empty: a thread of this process
  bool alive = true;
  RankCounts counts;
};

// The ranks of one engine are known for as long as this lives. `ask` may be called by any thread meanwhile.
class KnownRanks {
 public:
  explicit KnownRanks(std::function<std::vector<RankUse>()> ask);
  ~KnownRanks();
  KnownRanks(const KnownRanks&) = delete;
  KnownRanks& operator=(const KnownRanks&) = delete;
};

// Of all engines of this process whose model is shared by ranks or stages. Any thread may ask.
std::vector<RankUse> known_ranks();

}  // namespace ingot
