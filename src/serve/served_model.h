// The model as the server's handlers use it: names, tokenizer, template, limits. Immutable; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/constraints.h"
#include "app/session.h"
#include "engine/replicas/engines.h"
#include "serve/answer/calls/taught_form.h"
#include "text/chat_template.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace ingot {

struct ServedModel {
  std::string name;                   // as /v1/models says it; requests may leave it out or give any of the others
  std::vector<std::string> aliases;   // further names, which /v1/models lists too
  std::vector<std::string> unlisted;  // further names that are told to nobody
  int64_t created = 0;                // unix time

  Engines* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  TemplateSource source;
  std::shared_ptr<const ChatTemplate> chat;       // none: the model has no template
  std::shared_ptr<const ChatTemplate> tool_chat;  // for requests with tools; may equal `chat`
  std::optional<TaughtForm> taught;               // the form of calls of `tool_chat`
  // What encloses the reasoning of `chat`; none: not looked for yet.
  std::optional<std::optional<ReasoningMarks>> reasoning;
  SamplingParams sampling;                   // the model's own defaults
  std::shared_ptr<Constraints> constraints;  // grammars for it
  std::vector<Token> end_tokens;
  int context = 0;         // positions of the prompt and the answer together
  int vocab = 0;           // logits of the head
  int hidden = 0;          // size of an embedding
  int64_t parameters = 0;  // numbers in its weights
  std::string architecture;
  std::string container;                   // of its file: "gguf" or "safetensors"
  std::string format;                      // of the weights: "q8_0", "q4_k+q6_k"
  std::map<std::string, int64_t> formats;  // bytes in each

  // By any of its names. One without a tag is the same as with the tag "latest", as Ollama's clients write it.
  bool answers_to(std::string_view asked) const;
  // The name and the aliases.
  std::vector<std::string> listed_names() const;
  // What answers carry so that clients see that they came from the same weights in the same formats: of the name, the
  // architecture and the formats with their bytes. The same after a restart.
  std::string fingerprint() const;
};

struct ModelNames {
  std::string name = {};  // empty: that of the file, without a directory, so that nobody learns where files lie
  std::vector<std::string> aliases = {};   // as ServedModel has them
  std::vector<std::string> unlisted = {};  // likewise
};

// The model of a session, which must outlive it. A chat template that cannot be parsed is left out, since completions
// work without it, and `template_error` says why; else that stays as it is.
ServedModel served_model(Session& session, ModelNames names, std::string& template_error);

}  // namespace ingot
