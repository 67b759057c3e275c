// From a model's files and a conversation to the tokens of a prompt: where the chat template lies, what it is given
// and how its output is read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ingot {

class Gguf;

// A chat template as it is stored, not yet parsed.
struct TemplateSource {
  std::string text;      // empty: the files name special tokens only
  std::string tool_use;  // another template for requests with tools; empty: `text` serves these too
  JsonObject tokens;     // bos_token, eos_token …: variables that templates print as control tokens
};

// GGUF: tokenizer.chat_template. A directory: chat_template.jinja, chat_template.json or tokenizer_config.json, or else
// the GGUF file in it. Throws Error where a file is there and cannot be read; `text` is empty where there is no
// template.
TemplateSource template_of(const Gguf& gguf);
TemplateSource template_in(const std::string& directory);
// The same, or a file that is a template itself, a tokenizer_config.json or a chat_template.json.
TemplateSource find_template(const std::string& path);

// The first .gguf file of a directory in which no config.json stands for a model, as ModelFiles::open has it.
std::optional<std::string> gguf_in(const std::string& directory);

// The variables of a render: the model's tokens and what is given, which wins.
JsonObject template_variables(const JsonObject& given, const TemplateSource& source);

// The tokens of a rendered conversation. Control tokens are found only in what the template wrote; the text between
// them is tokenized as one, whoever wrote it. No BOS is added: the template writes it where the model wants one.
std::vector<Token> encode_prompt(const Tokenizer& tokenizer, std::span<const ChatTemplate::Piece> pieces,
                                 const EncodePause* pause = nullptr);

}  // namespace ingot
