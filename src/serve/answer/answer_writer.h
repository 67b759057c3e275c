// The bytes of an answer, as one API has them: OpenAI's conversations, its completions, Anthropic's messages, Ollama's
// objects.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/answer/answer_parser.h"
#include "serve/answer/choice_text.h"
#include "serve/answer/prompt_logprobs.h"
#include "serve/api/generation.h"

namespace ingot {

// Tokens of a request, for its usage.
struct Usage {
  int64_t prompt = 0, completion = 0;
  int64_t cached = 0;     // of the prompt: found in the prefix cache
  int64_t reasoning = 0;  // of the completion: thoughts, with the marks around them
  // From the request's last byte to the first token, and to the end of the answer.
  double first_seconds = 0, seconds = 0;
};

enum class ChoiceEnd : uint8_t { kStop, kStopString, kLength, kToolCalls };

// The prompt before an answer, where it was asked for. All choices of a prompt refer to the same text and scores: they
// are written once for each, and held once.
struct EchoedPrompt {
  const std::string* text = nullptr;             // of the Generation; none: no echo
  std::shared_ptr<const PromptLogprobs> scores;  // where logprobs were asked for
};

// What came of one choice, or came since the last time.
struct ChoicePiece {
  std::vector<AnswerPart> parts;
  std::vector<ScoredToken> scores;  // where logprobs were asked for
  EchoedPrompt echo = {};           // before the parts
};

// What came of one choice in all.
struct ChoiceAnswer {
  struct Call {
    std::string id, name, arguments;
    bool custom = false;  // arguments are the text of a custom tool
    bool whole = false;   // its arguments have ended
  };
  // What came, in its order: a stretch of the text or of the reasoning, or one call.
  struct Stretch {
    AnswerPart::Kind kind = AnswerPart::Kind::kText;  // kCallBegin: a call
    size_t begin = 0, end = 0;              // bytes of `text` or `reasoning`; of a call the first is its index
    size_t first_score = 0, end_score = 0;  // of the text: those of the pieces that it came with
  };
  std::string text, reasoning;
  std::vector<Call> calls;
  std::vector<Stretch> order;
  std::vector<ScoredToken> scores;
  EchoedPrompt echo;  // before the text
  ChoiceEnd end = ChoiceEnd::kStop;
  std::string stop;  // of kStopString

  void add(ChoicePiece piece);
};

// One request's. One thread at a time. Either whole(), or begin(), any number of piece() with one end_choice() for each
// choice, and end().
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // The content type of a stream.
  virtual const char* stream_type() const { return "text/event-stream"; }
  // Events of a stream.
  virtual std::string begin(const Usage& usage) = 0;  // the prompt is counted, nothing else is known
  virtual std::string piece(int choice, const ChoicePiece& piece) = 0;
  virtual std::string end_choice(int choice, ChoiceEnd end, const std::string& stop) = 0;
  virtual std::string end(const Usage& usage) = 0;
  // The last event of a stream that cannot go on, in place of end().
  virtual std::string failed(const ApiError& error, ApiStyle style) { return error_event(error, style); }
  // A JSON document.
  virtual std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) = 0;
};

// What all of a request's answer repeats.
struct AnswerNames {
  std::string model;
  std::string fingerprint;  // as ServedModel has it
  int64_t created = 0;      // unix time
  bool scored = false;      // logprobs were asked for
  bool include_usage = false;
  int n_logprobs = -1;
};
AnswerNames answer_names(const ServedModel& model, const Generation& generation);

// `tokenizer` must outlive them.
std::unique_ptr<AnswerWriter> chat_writer(const Tokenizer& tokenizer, AnswerNames names);
std::unique_ptr<AnswerWriter> completion_writer(const Tokenizer& tokenizer, AnswerNames names);
std::unique_ptr<AnswerWriter> messages_writer(AnswerNames names);

// "data: …" of a server-sent event.
std::string sse(const Json& data);
std::string sse(std::string_view event, const Json& data);
JsonObject usage_json(const Usage& usage);
// The arguments of a call as an object; those that the answer's end cut short are kept as text.
Json call_input(const std::string& arguments);
// OpenAI's "stop", "length", "tool_calls".
const char* openai_reason(ChoiceEnd end);
// A log-probability that JSON can hold: what is not finite becomes -9999, as OpenAI has it.
double finite_logprob(float logprob);
// Appends tokens with their log-probabilities as OpenAI has them, a JSON array without the brackets.
void append_scores(std::string& out, const Tokenizer& tokenizer, std::span<const ScoredToken> scores);
// The bytes of a token; none where the model's vocabulary is larger than the tokenizer's.
std::string known_bytes(const Tokenizer& tokenizer, Token token);

}  // namespace ingot
