// OpenAI's chat.completion and chat.completion.chunk.
#include <set>

#include "serve/answer/answer_writer.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

JsonObject token_json(const Tokenizer& tokenizer, Token token, float logprob) {
  const std::string bytes = known_bytes(tokenizer, token);
  JsonArray list;
  list.reserve(bytes.size());
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", bytes}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(list)}};
}

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const Tokenizer& tokenizer, AnswerNames names)
      : tokenizer_(tokenizer), names_(std::move(names)), id_(unique_id("chatcmpl-")) {}

  std::string begin(const Usage&) override { return {}; }

  std::string piece(int choice, const ChoicePiece& piece) override {
    std::string bytes = begin_choice(choice);
    JsonObject delta;
    std::string text, reasoning;
    JsonArray calls;
    for (const AnswerPart& part : piece.parts) {
      if (part.kind == Kind::kText) text += part.text;
      if (part.kind == Kind::kReasoning) reasoning += part.text;
      add_call(part, calls);
    }
    if (!reasoning.empty()) delta["reasoning_content"] = reasoning;
    if (!text.empty()) delta["content"] = text;
    if (!calls.empty()) delta["tool_calls"] = std::move(calls);
    if (delta.empty() && piece.scores.empty()) return bytes;
    return bytes + chunk(choice, std::move(delta), piece.scores, nullptr);
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
    JsonArray list;
    for (size_t i = 0; i < choices.size(); ++i) {
      list.push_back(JsonObject{{"index", i},
                                {"message", message(choices[i])},
                                {"logprobs", logprobs(choices[i].scores)},
                                {"finish_reason", openai_reason(choices[i].end)}});
    }
    JsonObject json = head("chat.completion");
    json["choices"] = std::move(list);
    json["usage"] = usage_json(usage);
    return to_json(json);
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

  std::string chunk(int choice, JsonObject delta, const std::vector<ScoredToken>& scores, const char* reason) const {
    JsonObject json = head("chat.completion.chunk");
    json["choices"] = JsonArray{JsonObject{{"index", choice},
                                           {"delta", std::move(delta)},
                                           {"logprobs", scores.empty() ? Json(nullptr) : logprobs(scores)},
                                           {"finish_reason", reason ? Json(reason) : Json(nullptr)}}};
    if (names_.include_usage) json["usage"] = nullptr;
    return sse(json);
  }

  static void add_call(const AnswerPart& part, JsonArray& calls) {
    if (part.kind == Kind::kCallBegin) {
      calls.push_back(JsonObject{{"index", part.index},
                                 {"id", part.id},
                                 {"type", "function"},
                                 {"function", JsonObject{{"name", part.text}, {"arguments", ""}}}});
    } else if (part.kind == Kind::kCallArguments) {
      calls.push_back(JsonObject{{"index", part.index}, {"function", JsonObject{{"arguments", part.text}}}});
    }
  }

  static JsonObject message(const ChoiceAnswer& answer) {
    const bool silent = answer.text.empty() && !answer.calls.empty();
    JsonObject json{
        {"role", "assistant"}, {"content", silent ? Json(nullptr) : Json(answer.text)}, {"refusal", nullptr}};
    if (!answer.reasoning.empty()) json["reasoning_content"] = answer.reasoning;
    if (answer.calls.empty()) return json;
    JsonArray calls;
    for (const ChoiceAnswer::Call& call : answer.calls) {
      calls.push_back(JsonObject{{"id", call.id},
                                 {"type", "function"},
                                 {"function", JsonObject{{"name", call.name}, {"arguments", call.arguments}}}});
    }
    json["tool_calls"] = std::move(calls);
    return json;
  }

  Json logprobs(const std::vector<ScoredToken>& scores) const {
    if (!names_.scored) return nullptr;
    JsonArray content;
    for (const ScoredToken& score : scores) {
      JsonObject entry = token_json(tokenizer_, score.token, score.logprob);
      JsonArray top;
      for (const TokenLogprob& other : score.top) top.push_back(token_json(tokenizer_, other.token, other.logprob));
      entry["top_logprobs"] = std::move(top);
      content.push_back(std::move(entry));
    }
    return JsonObject{{"content", std::move(content)}, {"refusal", nullptr}};
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
