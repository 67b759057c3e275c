// The options of run that hold an answer to a schema, a pattern, a grammar or a list of texts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/session.h"
#include "engine/request.h"

namespace CLI {
class App;
}

namespace ingot {

struct ConstraintArguments {
  std::string schema, grammar;  // files
  std::string regex;
  std::vector<std::string> choices;
};

// One of them at most.
void add_constraint_options(CLI::App& app, ConstraintArguments& arguments);

// None where nothing was asked for. `prompt`: where it opens reasoning, the answer is held only after that. Throws
// Error for a file that cannot be read, and CLI::ValidationError for what an answer cannot be held to.
std::shared_ptr<const TokenConstraint> make_constraint(const ConstraintArguments& arguments, const Session& session,
                                                       const std::vector<Token>& prompt);

}  // namespace ingot
