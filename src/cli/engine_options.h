// The options that choose how a model is computed. Each is declared once, as a row of the table in engine_options.cpp,
// which says which commands have it: the same name means the same member, the same range and the same error.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "app/open_engine.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ingot {

// Who has an option; several may.
enum class OptionsOf : uint8_t {
  kEngine = 1,        // every command that computes with a model
  kSession = 2,       // those that make text: run, chat, serve
  kServer = 4,        // serve
  kServerHidden = 8,  // serve, but its help does not list them
  kTrace = 16,        // the replay of a trace
};

// Adds all of them, in the table's order, writing into `options`.
std::vector<CLI::Option*> add_engine_options(CLI::App& app, OptionsOf whose, OpenOptions& options);

// Adds the option of this name, which writes into `options`. `text`: what the help says where the table's words do not
// fit the command. The type's name and the group may be changed in what it returns.
// REQUIRES: the table has it.
CLI::Option* add_engine_option(CLI::App& app, std::string_view name, OpenOptions& options, const char* text = nullptr);

}  // namespace ingot
