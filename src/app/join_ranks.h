// How the processes of a world (comm/world.h) come to share one model. All of these do nothing in a process that was
// started alone.
#pragma once

#include <functional>

#include "engine/config.h"
#include "models/model.h"

namespace ingot {

// Each process is one rank: without --tp and --ep, stages have as many as there are for each. Throws Error where
// one of these times --pp is another number.
void fit_to_world(ModelOptions& model);

// The cores that this process may use, shared with other ranks that may use the same.
int threads_of_rank();

// Compares program, model and options with rank 0's, and takes from it what follows from its machine. On a rank above 0
// it then runs that rank's part until rank 0's engine ends, and throws RankEnded; `on_ready` is called once that part
// is packed. Throws Error that names the first difference, or where this process has had an engine before.
void join_ranks(const Model& model, const ModelOptions& options, EngineConfig& config,
                const std::function<void()>& on_ready);

}  // namespace ingot
