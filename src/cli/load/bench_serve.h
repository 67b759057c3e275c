// ingot bench serve URL: load on a server that speaks OpenAI's API.
#pragma once

#include "cli/command.h"

namespace ingot {

// The options of `ingot bench serve` and its body.
CommandBody setup_bench_serve(CLI::App& app);

}  // namespace ingot
