// Tokens → Program. Accepts the grammar of jinja2 3.1 with the loop controls and the generation tag.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/parse/ast.h"

namespace ingot::jinja {

// Parses and resolves every name. Throws Error naming line and column.
std::unique_ptr<Program> parse_program(std::string_view source);

}  // namespace ingot::jinja
