// How the ranks of one model reach each other. A model in stages of several ranks each has tp x pp of them: rank r is
// the rank r % tp of the stage that is r / tp before the last, so that rank 0 is the first of the stage with the head.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace ingot {

class World;

// One rank's ends. A null one has nobody to speak to; one thread at a time calls each.
struct RankLinks {
  int rank = 0, tp = 1, pp = 1;
  std::shared_ptr<Comm> stage;   // its own stage: collectives, and on the last one the steps
  std::shared_ptr<Comm> rows;    // all ranks: rows from stage to stage, and what rank 0 is told
  std::shared_ptr<Comm> orders;  // all ranks: the steps of stages before the last

  int ranks() const { return tp * pp; }
  bool on_first_stage() const { return rank + tp >= ranks(); }
  bool on_last_stage() const { return rank < tp; }
  int rank_before() const { return rank + tp; }  // whose rows this one gets
  int rank_after() const { return rank - tp; }

  // All ranks.
  Comm& whole() const { return rows ? *rows : *stage; }
  Comm& steps() const { return on_last_stage() ? *stage : *orders; }  // where they come from
  RankMeter& meter() const { return whole().meter; }                  // of its steps
  // Over all of its ends. Any thread may ask.
  RankCounts counts() const;

  // What each wait of a step is given, but for those of `orders`.
  void begin_step(int64_t step) const;
  void abort(const std::string& reason) const;
};

// Of ranks that are threads of this process. `spins` as make_local_comms().
std::vector<RankLinks> local_links(int tp, int pp, bool spins);

// This process's, as a rank of its world. Once in its life. REQUIRES: the world has tp x pp ranks.
RankLinks world_links(World& world, int tp, int pp);

}  // namespace ingot
