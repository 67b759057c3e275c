#include "serve/answer/answer_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <utility>

namespace ingot {

void ChoiceAnswer::add(ChoicePiece piece) {
  using Kind = AnswerPart::Kind;
  for (AnswerPart& part : piece.parts) {
    switch (part.kind) {
      case Kind::kText:
        text += part.text;
        break;
      case Kind::kReasoning:
        reasoning += part.text;
        break;
      case Kind::kCallBegin:
        calls.push_back(
            {.id = std::move(part.id), .name = std::move(part.text), .arguments = {}, .custom = part.custom});
        break;
      case Kind::kCallArguments:
        if (!calls.empty()) calls.back().arguments += part.text;
        break;
      case Kind::kCallEnd:
        break;
    }
  }
  if (piece.echo.text) echo = std::move(piece.echo);
  scores.insert(scores.end(), std::make_move_iterator(piece.scores.begin()),
                std::make_move_iterator(piece.scores.end()));
}

AnswerNames answer_names(const ServedModel& model, const Generation& generation) {
  return {.model = model.name,
          .fingerprint = model.fingerprint(),
          .created = static_cast<int64_t>(std::time(nullptr)),
          .scored = generation.sampling.n_logprobs >= 0,
          .include_usage = generation.include_usage,
          .n_logprobs = generation.sampling.n_logprobs};
}

std::string sse(const Json& data) { return fmt::format("data: {}\n\n", to_json(data)); }

std::string sse(std::string_view event, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", event, to_json(data));
}

JsonObject usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", JsonObject{{"cached_tokens", usage.cached}}}};
}

const char* openai_reason(ChoiceEnd end) {
  switch (end) {
    case ChoiceEnd::kStop:
    case ChoiceEnd::kStopString:
      return "stop";
    case ChoiceEnd::kLength:
      return "length";
    case ChoiceEnd::kToolCalls:
      return "tool_calls";
  }
  return "stop";
}

double finite_logprob(float logprob) {
  constexpr double kNever = -9999;
  if (!std::isfinite(logprob)) return kNever;
  return std::max(static_cast<double>(logprob), kNever);
}

std::string known_bytes(const Tokenizer& tokenizer, Token token) {
  return tokenizer.contains(token) ? tokenizer.token_bytes(token) : std::string();
}

}  // namespace ingot
