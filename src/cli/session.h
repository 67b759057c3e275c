// How a command comes to its model: what MODEL names, and the line that is shown while it loads.
#pragma once

#include <string>

#include "app/session.h"
#include "cli/command.h"

namespace ingot {

// The path of what MODEL names: a path that exists, or a name of the cache. Empty, or "default": the default model,
// fetched first where the cache has none. Throws Error that says how to fetch a name that is not there.
// REQUIRES: no InterruptGuard lives.
std::string resolve_model(const std::string& arg);
// Whether resolve_model would find it without fetching.
bool names_model(const std::string& arg);

// The options that choose a model and how it is computed.
struct SessionOptions {
  std::string model;  // as resolve_model takes it
  OpenOptions open;
  CommonOptions common;
};

// The engine options of a session, and --verbose.
void add_session_options(CLI::App& app, SessionOptions& options);

// Opens what the options name. A line on stderr says so where that takes over a second on a terminal.
Session open_session(const SessionOptions& options);

}  // namespace ingot
