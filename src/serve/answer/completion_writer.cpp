// OpenAI's text_completion. Choices are written as text from the start: a prompt of 10,000 tokens with the 20 likeliest
// of each is 7 MB so, and 60 MB as a JSON value that is built first.
#include <fmt/format.h>

#include <algorithm>

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
    if (answer.text.empty() && answer.scores.empty() && !answer.echo.text) return {};
    return event(choice, answer, nullptr);
  }

  std::string end_choice(int choice, ChoiceEnd end, const std::string&) override {
    return event(choice, {}, openai_reason(end));
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
    std::string body = to_json(head());
    body.back() = ',';
    body += "\"choices\":[";
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) body += ',';
      append_choice(body, static_cast<int>(i), choices[i], openai_reason(choices[i].end));
    }
    body += fmt::format("],\"usage\":{}}}", to_json(usage_json(usage)));
    return body;
  }

 private:
  JsonObject head() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", names_.created},
            {"model", names_.model},
            {"system_fingerprint", names_.fingerprint}};
  }

  std::string event(int index, const ChoiceAnswer& answer, const char* reason) const {
    std::string data = "data: " + to_json(head());
    data.back() = ',';
    data += "\"choices\":[";
    append_choice(data, index, answer, reason);
    data += names_.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
    return data;
  }

  void append_choice(std::string& out, int index, const ChoiceAnswer& answer, const char* reason) const {
    out += fmt::format("{{\"index\":{},\"text\":", index);
    append_json(out, answer.echo.text ? *answer.echo.text + answer.text : answer.text);
    out += ",\"logprobs\":";
    if (names_.scored && (reason || !answer.scores.empty() || answer.echo.scores)) {
      append_logprobs(out, answer);
    } else {
      out += "null";
    }
    out += ",\"finish_reason\":";
    if (reason) {
      append_json(out, reason);
    } else {
      out += "null";
    }
    out += '}';
  }

  // f(PromptScore) of the prompt's tokens and the answer's, with a comma between two of what f appends.
  template <class F>
  static void list(std::string& out, const ChoiceAnswer& answer, F&& f) {
    out += '[';
    const size_t begin = out.size();
    const auto add = [&](const PromptScore& score) {
      if (out.size() > begin) out += ',';
      f(score);
    };
    const PromptLogprobs* prompt = answer.echo.scores.get();
    for (size_t i = 0; prompt && i < prompt->size(); ++i) add(prompt->at(i));
    for (const ScoredToken& s : answer.scores) {
      add({.token = s.token, .scored = s.scored, .logprob = s.logprob, .top = s.top});
    }
    out += ']';
  }

  void append_logprobs(std::string& out, const ChoiceAnswer& answer) const {
    out += "{\"tokens\":";
    list(out, answer, [&](const PromptScore& score) { append_json(out, known_bytes(tokenizer_, score.token)); });
    out += ",\"token_logprobs\":";
    list(out, answer, [&](const PromptScore& score) {
      score.scored ? append_json(out, finite_logprob(score.logprob)) : void(out += "null");
    });
    out += ",\"top_logprobs\":";
    if (names_.n_logprobs > 0) {
      list(out, answer, [&](const PromptScore& score) { score.scored ? append_top(out, score) : void(out += "null"); });
    } else {
      out += "null";
    }
    std::vector<size_t> offsets;
    if (answer.echo.scores) offsets = answer.echo.scores->offsets(tokenizer_, *answer.echo.text);
    for (const ScoredToken& score : answer.scores) offsets.push_back(score.offset);
    out += fmt::format(",\"text_offset\":[{}]}}", fmt::join(offsets, ","));
  }

  // The likeliest by name, and the token itself. Where two have the same name the likelier one is kept.
  void append_top(std::string& out, const PromptScore& score) const {
    std::vector<std::string> names;
    const auto add = [&](Token token, float logprob) {
      std::string name = known_bytes(tokenizer_, token);
      if (std::ranges::find(names, name) != names.end()) return;
      out += names.empty() ? '{' : ',';
      append_json(out, name);
      out += ':';
      append_json(out, finite_logprob(logprob));
      names.push_back(std::move(name));
    };
    for (const TokenLogprob& other : score.top) add(other.token, other.logprob);
    add(score.token, score.logprob);
    out += '}';
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
