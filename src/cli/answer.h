// One answer of a session: from a prompt's tokens to text that is shown as it comes, and what it cost.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/session.h"

namespace ingot {

struct Question {
  std::vector<Token> prompt;
  SamplingParams sampling;
  int max_tokens = -1;
  std::vector<std::string> stop;
  std::shared_ptr<const TokenConstraint> constraint = {};  // what its text is held to; none: nothing
  bool continues = false;  // the answer goes on with the prompt's text: a leading space belongs to it
};

enum class AnswerEnd : uint8_t {
  kStop,         // an end token or a stop string
  kLength,       // max_tokens were made
  kContextFull,  // no position is left
  kInterrupted,  // Ctrl-C
};

struct Answer {
  std::string text;
  std::vector<Token> tokens;          // all that were made, an end token included
  std::vector<SampleResult> samples;  // of each token, where logprobs were asked for
  AnswerEnd end = AnswerEnd::kStop;
  int prompt_tokens = 0;
  double prefill_seconds = 0;  // to the first token
  double decode_seconds = 0;   // for all others

  double prefill_tps() const;
  double decode_tps() const;  // 0 where fewer than two tokens were made
};

// Calls `show` with each piece of text: valid UTF-8, never a part of a character or of a stop string. `stop` is asked
// before each step whether the person wants no more. Throws Error where the request can never be served.
// REQUIRES: the engine is idle.
Answer answer(Session& session, const Question& question, const std::function<void(std::string_view)>& show,
              const std::function<bool()>& stop);

// "stop", "length" or "interrupted".
const char* finish_reason(AnswerEnd end);

// One line for people: load time, speeds and memory.
std::string stats_line(const Session& session, const Answer& answer);
JsonObject stats_json(const Session& session, const Answer& answer);

// Writes a model's text to stdout and flushes it. On a terminal control characters that it might obey are replaced.
void write_text(std::string_view text);

}  // namespace ingot
