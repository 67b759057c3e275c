// The text side of a model's files: tokenizer, chat template, tokens that end an answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/prompt.h"
#include "text/tokenizer.h"

namespace ingot {

struct ModelFiles;

struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;
  TemplateSource source;
};

// Where the tokenizer of a model at `path` lies: `path` itself, or the GGUF file in that directory.
std::string tokenizer_path(const std::string& path);

// Throws Error where the model at `path` has no tokenizer that can be read.
ModelText load_text(const std::string& path);

// The tokenizer's own and those of generation_config.json that are in the vocabulary, sorted.
std::vector<Token> end_tokens(const Tokenizer& tokenizer, const ModelFiles& files, int vocab);

}  // namespace ingot
