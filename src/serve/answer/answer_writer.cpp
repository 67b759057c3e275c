#include "serve/answer/answer_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <utility>

namespace ingot {
namespace {

// {"token": …, "logprob": …, "bytes": […] without the brace that ends it.
void append_token(std::string& out, const Tokenizer& tokenizer, Token token, float logprob) {
  const std::string bytes = known_bytes(tokenizer, token);
  out += "{\"token\":";
  append_json(out, bytes);
  out += ",\"logprob\":";
  append_json(out, finite_logprob(logprob));
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += fmt::format("{}{}", i > 0 ? "," : "", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  }
  out += ']';
}

}  // namespace

void ChoiceAnswer::add(ChoicePiece piece) {
  using Kind = AnswerPart::Kind;
  const auto extend = [this](Kind kind, std::string& whole, const std::string& more) {
    if (order.empty() || order.back().kind != kind) {
      order.push_back({.kind = kind, .begin = whole.size(), .first_score = scores.size(), .end_score = scores.size()});
    }
    whole += more;
    order.back().end = whole.size();
  };
  size_t last_text = SIZE_MAX;  // of the order: what the scores go with
  for (AnswerPart& part : piece.parts) {
    switch (part.kind) {
      case Kind::kText:
        extend(Kind::kText, text, part.text);
        last_text = order.size() - 1;
        break;
      case Kind::kReasoning:
        extend(Kind::kReasoning, reasoning, part.text);
        break;
      case Kind::kCallBegin:
        order.push_back({.kind = Kind::kCallBegin, .begin = calls.size()});
        calls.push_back(
            {.id = std::move(part.id), .name = std::move(part.text), .arguments = {}, .custom = part.custom});
        break;
      case Kind::kCallArguments:
        if (!calls.empty()) calls.back().arguments += part.text;
        break;
      case Kind::kCallEnd:
        if (!calls.empty()) calls.back().whole = true;
        break;
    }
  }
  if (last_text != SIZE_MAX) order[last_text].end_score = scores.size() + piece.scores.size();
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

Json call_input(const std::string& arguments) {
  if (arguments.empty()) return JsonObject{};
  try {
    Json json =
        parse_json(arguments, "arguments", {.max_depth = kMaxBodyDepth, .max_object_members = kMaxObjectMembers});
    if (json.is_object()) return json;
  } catch (const Error&) {
    // Kept as text below.
  }
  return JsonObject{{"partial_json", arguments}};
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

void append_scores(std::string& out, const Tokenizer& tokenizer, std::span<const ScoredToken> scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i > 0) out += ',';
    append_token(out, tokenizer, scores[i].token, scores[i].logprob);
    out += ",\"top_logprobs\":[";
    for (size_t t = 0; t < scores[i].top.size(); ++t) {
      if (t > 0) out += ',';
      append_token(out, tokenizer, scores[i].top[t].token, scores[i].top[t].logprob);
      out += '}';
    }
    out += "]}";
  }
}

std::string known_bytes(const Tokenizer& tokenizer, Token token) {
  return tokenizer.contains(token) ? tokenizer.token_bytes(token) : std::string();
}

}  // namespace ingot
