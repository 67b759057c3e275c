// Names that nobody can guess.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// The prefix and 128 random bits of the system: "resp_5f0c…". Throws Error where it has none to give.
std::string unguessable_id(std::string_view prefix);

}  // namespace ingot
