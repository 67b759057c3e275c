// OpenAI's chat.completion and chat.completion.chunk. Log-probabilities are written as text from the start: as a JSON
// value that is built first they take ten times the memory.
#include <fmt/format.h>

#include <set>

#include "serve/answer/answer_writer.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const Tokenizer& tokenizer, AnswerNames names)
      : tokenizer_(tokenizer), names_(std::move(names)), id_(unique_id("chatcmpl-")) {}

  std::string begin(const Usage&) override { return {}; }

  std::string piece(int choice, const ChoicePiece& piece) override {
    std::string bytes = begin_choice(choice);
    JsonObject delta;
    std::string text, reasoning;
    std::vector<CallDelta> calls;
    for (const AnswerPart& part : piece.parts) {
      if (part.kind == Kind::kText) text += part.text;
      if (part.kind == Kind::kReasoning) reasoning += part.text;
      add_call(part, calls);
    }
    if (!reasoning.empty()) delta["reasoning_content"] = reasoning;
    if (!text.empty()) delta["content"] = text;
    if (calls.empty() && delta.empty() && piece.scores.empty()) return bytes;
    if (calls.empty()) return bytes + chunk(choice, delta, piece.scores, nullptr);
    // One call in each: there are clients that read the first of a list alone.
    for (size_t i = 0; i < calls.size(); ++i) {
      delta["tool_calls"] = JsonArray{delta_json(calls[i])};
      bytes += chunk(choice, delta, i == 0 ? piece.scores : std::vector<ScoredToken>{}, nullptr);
      delta.clear();
    }
    return bytes;
  }

  std::string end_choice(int choice, ChoiceEnd end, const std::string&) override {
    return begin_choice(choice) + chunk(choice, {}, {}, openai_reason(end));
  }

  std::string end(const Usage& usage) override {
    std::string bytes;
    if (names_.include_usage) {
      JsonObject last = head("chat.completion.chunk");
      last["choices"] = JsonArray{};
      last["usage"] = usage_json(usage);
      bytes = sse(last);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) override {
    std::string body = to_json(head("chat.completion"));
    body.back() = ',';
    body += "\"choices\":[";
    for (size_t i = 0; i < choices.size(); ++i) {
      body += fmt::format("{}{{\"index\":{},\"message\":{},\"logprobs\":", i > 0 ? "," : "", i,
                          to_json(message(choices[i])));
      append_logprobs(body, choices[i].scores, names_.scored);
      body += fmt::format(",\"finish_reason\":\"{}\"}}", openai_reason(choices[i].end));
    }
    body += fmt::format("],\"usage\":{}}}", to_json(usage_json(usage)));
    return body;
  }

 private:
  JsonObject head(const char* object) const {
    return {{"id", id_},
            {"object", object},
            {"created", names_.created},
            {"model", names_.model},
            {"system_fingerprint", names_.fingerprint}};
  }

  // The role comes once, before anything else of the choice.
  std::string begin_choice(int choice) {
    if (!begun_.insert(choice).second) return {};
    return chunk(choice, JsonObject{{"role", "assistant"}, {"content", ""}}, {}, nullptr);
  }

  std::string chunk(int choice, const JsonObject& delta, const std::vector<ScoredToken>& scores,
                    const char* reason) const {
    std::string data = "data: " + to_json(head("chat.completion.chunk"));
    data.back() = ',';
    data += fmt::format("\"choices\":[{{\"index\":{},\"delta\":{},\"logprobs\":", choice, to_json(delta));
    append_logprobs(data, scores, names_.scored && !scores.empty());
    data += ",\"finish_reason\":";
    data += reason ? fmt::format("\"{}\"", reason) : "null";
    data += names_.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
    return data;
  }

  static JsonObject call_json(const std::string& id, const std::string& name, const std::string& text, bool custom) {
    const char* kind = custom ? "custom" : "function";
    return {{"id", id}, {"type", kind}, {kind, JsonObject{{"name", name}, {custom ? "input" : "arguments", text}}}};
  }

  // What a piece has of one call.
  struct CallDelta {
    const AnswerPart* begin;  // null: it has begun before
    int index;
    bool custom;
    std::string text;
  };

  static void add_call(const AnswerPart& part, std::vector<CallDelta>& calls) {
    if (part.kind == Kind::kCallBegin) calls.push_back({&part, part.index, part.custom, ""});
    if (part.kind != Kind::kCallArguments) return;
    if (calls.empty() || calls.back().index != part.index) calls.push_back({nullptr, part.index, part.custom, ""});
    calls.back().text += part.text;
  }

  static JsonObject delta_json(const CallDelta& call) {
    const char* kind = call.custom ? "custom" : "function";
    JsonObject json = call.begin ? call_json(call.begin->id, call.begin->text, call.text, call.custom)
                                 : JsonObject{{kind, JsonObject{{call.custom ? "input" : "arguments", call.text}}}};
    json["index"] = call.index;
    return json;
  }

  static JsonObject message(const ChoiceAnswer& answer) {
    const bool silent = answer.text.empty() && !answer.calls.empty();
    JsonObject json{
        {"role", "assistant"}, {"content", silent ? Json(nullptr) : Json(answer.text)}, {"refusal", nullptr}};
    if (!answer.reasoning.empty()) json["reasoning_content"] = answer.reasoning;
    if (answer.calls.empty()) return json;
    JsonArray calls;
    for (const ChoiceAnswer::Call& call : answer.calls) {
      calls.push_back(call_json(call.id, call.name, call.arguments, call.custom));
    }
    json["tool_calls"] = std::move(calls);
    return json;
  }

  void append_logprobs(std::string& out, const std::vector<ScoredToken>& scores, bool wanted) const {
    if (!wanted) {
      out += "null";
      return;
    }
    out += "{\"content\":[";
    append_scores(out, tokenizer_, scores);
    out += "],\"refusal\":null}";
  }

  const Tokenizer& tokenizer_;
  const AnswerNames names_;
  const std::string id_;
  std::set<int> begun_;
};

}  // namespace

std::unique_ptr<AnswerWriter> chat_writer(const Tokenizer& tokenizer, AnswerNames names) {
  return std::make_unique<ChatWriter>(tokenizer, std::move(names));
}

}  // namespace ingot
