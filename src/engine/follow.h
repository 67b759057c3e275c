// The engine of a rank that is a process of its own and not the first: it decides nothing.
#pragma once

#include <functional>

#include "engine/config.h"
#include "models/model.h"

namespace ingot {

// Runs the steps that rank 0 sends until its engine ends. `on_ready` is called before the first of them. Throws as
// follow() of engine/model/ranks.h.
// REQUIRES: World::joined(), a rank above 0, and rank 0 makes an engine of the same model and config.
void follow_engine(const Model& model, const EngineConfig& config, const std::function<void()>& on_ready = {});

}  // namespace ingot
