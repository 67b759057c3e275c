// Ranks that are threads of one process: a collective reads the other ranks' memory where it lies. A rank that waits
// spins for as long as parts of a step lie apart, then sleeps.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"

namespace ingot {

// The ends of `ranks` ranks that belong together. Each may outlive the others; one that is destroyed is a rank that has
// gone. `spins`: every rank has a core of its own. Errors number the ranks from `first` on. REQUIRES: ranks >= 1.
std::vector<std::unique_ptr<Comm>> make_local_comms(int ranks, bool spins, int first = 0);

}  // namespace ingot
