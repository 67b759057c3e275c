// A model opened to make text: weights, engine, tokenizer and chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/model_text.h"
#include "app/open_engine.h"
#include "ops/sample/sampling_params.h"
#include "text/chat_template.h"

namespace ingot {

class Session {
 public:
  // Opens everything of the model at `path`; the tokenizer is read while the weights load. Throws Error: the model's
  // before the tokenizer's.
  Session(const std::string& path, const OpenOptions& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool has_template() const { return !text_.source.text.empty(); }
  // The prompt of a conversation: a list of {"role", "content"}, with the beginning of the answer.
  // Throws Error where the model has no template or the template refuses. REQUIRES: has_template().
  std::vector<Token> encode_chat(const JsonArray& messages);
  // The prompt of a text to go on with. `parse_special`: names of control tokens in it are these tokens.
  std::vector<Token> encode_text(const std::string& text, bool parse_special) const;

  const std::string& path() const { return path_; }
  const Model& model() const { return *open_.model; }
  Engine& engine() { return *open_.engine; }  // the first
  Engines& engines() { return *open_.engines; }
  const Tokenizer& tokenizer() const { return *text_.tokenizer; }
  const SamplingParams& sampling() const { return sampling_; }          // the model's own
  const std::vector<Token>& end_tokens() const { return end_tokens_; }  // each ends an answer
  const TemplateSource& template_source() const { return text_.source; }
  int context() const { return model().context; }  // positions of the prompt and the answer together
  double load_seconds() const { return load_seconds_; }

 private:
  const std::string path_;
  ModelText text_;  // outlives the engine, whose constraints read the tokenizer
  OpenEngine open_;
  std::optional<ChatTemplate> template_;  // parsed when it is first used
  SamplingParams sampling_;
  std::vector<Token> end_tokens_;
  double load_seconds_ = 0;
};

}  // namespace ingot
