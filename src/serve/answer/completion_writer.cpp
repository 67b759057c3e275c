// OpenAI's text_completion.
#include "serve/answer/answer_writer.h"

namespace ingot {
namespace {

class CompletionWriter : public AnswerWriter {
 public:
  CompletionWriter(const Tokenizer& tokenizer, AnswerNames names)
      : tokenizer_(tokenizer), names_(std::move(names)), id_(unique_id("cmpl-")) {}

  std::string begin(const Usage&) override { return {}; }

  std::string piece(int choice, const ChoicePiece& piece) override {
    ChoiceAnswer answer;
    answer.add(piece);
    if (answer.text.empty() && answer.scores.empty()) return {};
    return event(choice_json(choice, answer, nullptr));
  }

  std::string end_choice(int choice, ChoiceEnd end, const std::string&) override {
    return event(choice_json(choice, {}, openai_reason(end)));
  }

  std::string end(const Usage& usage) override {
    std::string bytes;
    if (names_.include_usage) {
      JsonObject last = head();
      last["choices"] = JsonArray{};
      last["usage"] = usage_json(usage);
      bytes = sse(last);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string whole(const std::vector<ChoiceAnswer>& choices, const Usage& usage) override {
    JsonArray list;
    for (size_t i = 0; i < choices.size(); ++i) {
      list.push_back(choice_json(static_cast<int>(i), choices[i], openai_reason(choices[i].end)));
    }
    JsonObject json = head();
    json["choices"] = std::move(list);
    json["usage"] = usage_json(usage);
    return to_json(json);
  }

 private:
  JsonObject head() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", names_.created},
            {"model", names_.model},
            {"system_fingerprint", names_.fingerprint}};
  }

  std::string event(JsonObject choice) const {
    JsonObject json = head();
    json["choices"] = JsonArray{std::move(choice)};
    if (names_.include_usage) json["usage"] = nullptr;
    return sse(json);
  }

  JsonObject choice_json(int index, const ChoiceAnswer& answer, const char* reason) const {
    const bool scores = names_.scored && (reason || !answer.scores.empty());
    return {{"index", index},
            {"text", answer.text},
            {"logprobs", scores ? Json(logprobs(answer.scores)) : Json(nullptr)},
            {"finish_reason", reason ? Json(reason) : Json(nullptr)}};
  }

  JsonObject logprobs(const std::vector<ScoredToken>& scores) const {
    JsonArray tokens, values, tops, offsets;
    for (const ScoredToken& score : scores) {
      const std::string name = known_bytes(tokenizer_, score.token);
      tokens.push_back(Json(name));
      offsets.push_back(score.offset);
      values.push_back(score.scored ? Json(finite_logprob(score.logprob)) : Json(nullptr));
      tops.push_back(score.scored && names_.n_logprobs > 0 ? Json(top(score, name)) : Json(nullptr));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(values)},
            {"top_logprobs", names_.n_logprobs > 0 ? Json(std::move(tops)) : Json(nullptr)},
            {"text_offset", std::move(offsets)}};
  }

  // The likeliest by name, and the token itself. Where two have the same name the likelier one is kept.
  JsonObject top(const ScoredToken& score, const std::string& name) const {
    JsonObject json;
    for (const TokenLogprob& other : score.top) {
      const std::string other_name = known_bytes(tokenizer_, other.token);
      if (!json.contains(other_name)) json[other_name] = finite_logprob(other.logprob);
    }
    if (!json.contains(name)) json[name] = finite_logprob(score.logprob);
    return json;
  }

  const Tokenizer& tokenizer_;
  const AnswerNames names_;
  const std::string id_;
};

}  // namespace

std::unique_ptr<AnswerWriter> completion_writer(const Tokenizer& tokenizer, AnswerNames names) {
  return std::make_unique<CompletionWriter>(tokenizer, std::move(names));
}

}  // namespace ingot
