// Commands that answer a stream of JSON lines.
#pragma once

#include <functional>
#include <string>

#include "files/json.h"

namespace ingot {

// Reads an object from each line of standard input and writes what `answer` makes of it as one line: a line out for
// each line in. Where the line is no object or `answer` throws Error, that line is {"error": …} and the stream goes on.
// Output is flushed whenever no further line has arrived yet, so that a program may wait for each answer.
void answer_json_lines(const std::function<Json(const JsonObject&)>& answer);

// The same where `answer` appends the line itself, without its end: for long lists of numbers, of which a tree of
// values would take longer than making them.
void answer_lines(const std::function<void(const JsonObject&, std::string& line)>& answer);

// All of standard input. Throws Error where it cannot be read or has over `max_bytes`.
std::string read_stdin(size_t max_bytes = size_t{256} << 20);

}  // namespace ingot
