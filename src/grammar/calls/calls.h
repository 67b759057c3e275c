// Calls of tools in the form of a family of models (grammar/call_form.h), their arguments held to each tool's schema.
//
// The text of Language::kCalls is JSON:
//   {"form": NAME, "required": false, "one": false,
//    "tools": [{"name": NAME, "schema": {…}, "strict": false} or {"name": NAME, "key": KEY, "text": {…}}, …]}
// required: the answer is one or more calls, from its beginning to its end. Else it is one section of calls, in the
// form or another of its family: what an answer goes on with at a section's mark (CallStart). one: a single call. A
// tool whose schema is refused is an error; unless it is not strict and no call is required: then any object may be its
// arguments, and Grammar::relaxed() has its name. "text": a tool that takes a text under the one key KEY: {"regex":
// PATTERN}, {"lark": GRAMMAR} or {} for any; always strict.
//
// With Source::instead the answer is calls from its beginning to its end, or that other text behind Source::lead. No
// call is required: such schemas are relaxed as above.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/call_form.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

// From the place of an error in such a text to one in the tool's own schema: "#/properties/a of the parameters of f".
std::string place_in_tools(std::string_view place);

// Where sections of calls begin in an answer.
struct CallStart {
  std::string mark;    // its text; empty: an object that is the whole answer, and that names one of the tools
  int32_t token = -1;  // the special token that it is; -1: none
};
std::vector<CallStart> call_starts(const CallForm& form, const Vocabulary& vocabulary);

}  // namespace ingot::grammar
