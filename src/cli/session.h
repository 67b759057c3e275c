// A model opened for a command that makes text: weights, engine, tokenizer and chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/engine_setup.h"
#include "ops/sample/sample.h"
#include "text/chat_template.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace ingot {

// The path of what MODEL names: a path that exists, or a name of the cache. Empty, or "default": the default model,
// fetched first where the cache has none. Throws Error that says how to fetch a name that is not there.
// REQUIRES: no InterruptGuard lives.
std::string resolve_model(const std::string& arg);
// Whether resolve_model would find it without fetching.
bool names_model(const std::string& arg);

// Where the tokenizer of a model at `path` lies: `path` itself, or the GGUF file in that directory.
std::string tokenizer_path(const std::string& path);

// The options that choose a model and how it is computed.
struct SessionOptions {
  std::string model;  // as resolve_model takes it
  CommonOptions common;
  int context = 0;      // 0: what the model was made for
  std::string kv;       // as kv_or_default takes it
  std::string no_fuse;  // names of fusion rules, separated by commas; "all"
};

// add_engine_options, --ctx, --kv and --no-fuse.
void add_session_options(CLI::App& app, SessionOptions& options);

class Session {
 public:
  // Opens everything; the tokenizer is read while the weights load. `options` fill their part of the setup. A line on
  // stderr says so where that takes over a second on a terminal. Throws Error: the model's before the tokenizer's.
  explicit Session(const SessionOptions& options, EngineSetup setup = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool has_template() const { return !source_.text.empty(); }
  // The prompt of a conversation: a list of {"role", "content"}, with the beginning of the answer.
  // Throws Error where the model has no template or the template refuses. REQUIRES: has_template().
  std::vector<Token> encode_chat(const JsonArray& messages);
  // The prompt of a text to go on with. `parse_special`: names of control tokens in it are these tokens.
  std::vector<Token> encode_text(const std::string& text, bool parse_special) const;

  const std::string& path() const { return path_; }
  const Model& model() const { return *open_.model; }
  Engine& engine() { return *open_.engine; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const SamplingParams& sampling() const { return sampling_; }          // the model's own
  const std::vector<Token>& end_tokens() const { return end_tokens_; }  // each ends an answer
  const TemplateSource& template_source() const { return source_; }
  int context() const { return model().context; }  // positions of the prompt and the answer together
  double load_seconds() const { return load_seconds_; }

 private:
  std::string path_;
  OpenEngine open_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TemplateSource source_;
  std::optional<ChatTemplate> template_;  // parsed when it is first used
  SamplingParams sampling_;
  std::vector<Token> end_tokens_;
  double load_seconds_ = 0;
};

}  // namespace ingot
