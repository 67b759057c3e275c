// Ollama's answers: one object, or one for each piece, one a line.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>

#include "serve/ollama/ollama.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e9)); }

std::string now() {
  return ollama_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

class OllamaWriter : public AnswerWriter {
 public:
  OllamaWriter(const Tokenizer& tokenizer, AnswerNames names, bool chat)
      : tokenizer_(tokenizer), names_(std::move(names)), chat_(chat) {}

  const char* stream_type() const override { return "application/x-ndjson"; }

  std::string begin(const Usage&) override { return {}; }

  std::string piece(int, const ChoicePiece& piece) override {
    std::string text, thought;
    JsonArray calls;
    for (const AnswerPart& part : piece.parts) {
      if (part.kind == Kind::kText) text += part.text;
      if (part.kind == Kind::kReasoning) thought += part.text;
      if (part.kind == Kind::kCallBegin) call_ = {.id = part.id, .name = part.text, .arguments = {}};
      if (part.kind == Kind::kCallArguments) call_.arguments += part.text;
      if (part.kind == Kind::kCallEnd) calls.push_back(call_json(std::exchange(call_, {}), n_calls_++));
    }
    if (text.empty() && thought.empty() && calls.empty() && piece.scores.empty()) return {};
    return with_scores(object(text, thought, std::move(calls), false), piece.scores) + "\n";
  }

  std::string end_choice(int, ChoiceEnd end, const std::string&) override {
    end_ = end;
    return {};
  }

  std::string end(const Usage& usage) override {
    JsonObject last = object({}, {}, {}, true);
    add_end(last, end_, usage);
    return to_json(last) + "\n";
  }

  std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) override {
    if (choices.empty()) {  // nothing was asked for: the model is there
      JsonObject loaded = object({}, {}, {}, true);
      loaded["done_reason"] = "load";
      return to_json(loaded);
    }
    const ChoiceAnswer& answer = choices.front();
    JsonArray calls;
    for (const ChoiceAnswer::Call& call : answer.calls) {
      if (call.whole) calls.push_back(call_json(call, static_cast<int>(calls.size())));
    }
    JsonObject json = object(answer.text, answer.reasoning, std::move(calls), true);
    add_end(json, answer.end, usage);
    return with_scores(json, answer.scores);
  }

 private:
  // Written as text from the start, as they are for OpenAI's clients.
  std::string with_scores(const JsonObject& json, const std::vector<ScoredToken>& scores) const {
    std::string text = to_json(json);
    if (scores.empty()) return text;
    text.back() = ',';
    text += "\"logprobs\":[";
    append_scores(text, tokenizer_, scores);
    return text + "]}";
  }

  static JsonObject call_json(const ChoiceAnswer::Call& call, int index) {
    return {{"id", call.id},
            {"function", JsonObject{{"index", index}, {"name", call.name}, {"arguments", call_input(call.arguments)}}}};
  }

  JsonObject object(std::string_view text, std::string_view thought, JsonArray calls, bool done) const {
    JsonObject json{{"model", names_.model}, {"created_at", now()}};
    JsonObject message{{"role", "assistant"}, {"content", text}};
    JsonObject& holder = chat_ ? message : json;
    if (!chat_) json["response"] = text;
    if (!thought.empty()) holder["thinking"] = thought;
    if (!calls.empty()) holder["tool_calls"] = std::move(calls);
    if (chat_) json["message"] = std::move(message);
    json["done"] = done;
    return json;
  }

  static void add_end(JsonObject& json, ChoiceEnd end, const Usage& usage) {
    json["done_reason"] = end == ChoiceEnd::kLength ? "length" : "stop";
    json["total_duration"] = nanoseconds(usage.seconds);
    json["load_duration"] = 0;
    json["prompt_eval_count"] = usage.prompt;
    json["prompt_eval_duration"] = nanoseconds(usage.first_seconds);
    json["eval_count"] = usage.completion;
    json["eval_duration"] = nanoseconds(usage.seconds - usage.first_seconds);
  }

  const Tokenizer& tokenizer_;
  const AnswerNames names_;
  const bool chat_;
  ChoiceAnswer::Call call_;  // whose arguments come
  int n_calls_ = 0;
  ChoiceEnd end_ = ChoiceEnd::kStop;
};

}  // namespace

std::string ollama_time(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(unix_seconds));
  const auto micros = static_cast<int>((unix_seconds - std::floor(unix_seconds)) * 1e6);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:06}Z", std::string_view(text, size), micros);
}

std::unique_ptr<AnswerWriter> ollama_chat_writer(const Tokenizer& tokenizer, AnswerNames names) {
  return std::make_unique<OllamaWriter>(tokenizer, std::move(names), true);
}

std::unique_ptr<AnswerWriter> ollama_generate_writer(const Tokenizer& tokenizer, AnswerNames names) {
  return std::make_unique<OllamaWriter>(tokenizer, std::move(names), false);
}

}  // namespace ingot
