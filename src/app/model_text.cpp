#include "app/model_text.h"

#include <algorithm>

#include "files/directory.h"
#include "files/gguf/gguf.h"
#include "weights/model_files.h"

namespace ingot {

namespace {

// eos_token_id of generation_config.json: one id or a list. Others than the vocabulary's are passed over.
void add_config_end_tokens(const JsonObject& config, int vocab, std::vector<Token>& ends) {
  const Json* value = find(config, "eos_token_id");
  if (value == nullptr || value->is_null()) return;
  const auto add = [&](const Json& id) {
    const int64_t token = as_int(id, "[model] generation_config.json: eos_token_id");
    if (token >= 0 && token < vocab) ends.push_back(static_cast<Token>(token));
  };
  if (value->is_array()) {
    for (const Json& id : value->get_array()) add(id);
  } else {
    add(*value);
  }
}

}  // namespace

std::string tokenizer_path(const std::string& path) {
  if (!is_directory(path)) return path;
  for (const char* file : {"/tokenizer.json", "/tokenizer.model"}) {
    if (exists(path + file)) return path;
  }
  return gguf_in(path).value_or(path);
}

ModelText load_text(const std::string& path) {
  const std::string file = tokenizer_path(path);
  if (is_directory(file)) return {.tokenizer = Tokenizer::load(file), .source = template_in(file)};
  const Gguf gguf = Gguf::open(file);
  return {.tokenizer = Tokenizer::from_gguf(gguf), .source = template_of(gguf)};
}

std::vector<Token> end_tokens(const Tokenizer& tokenizer, const ModelFiles& files, int vocab) {
  std::vector<Token> ends = tokenizer.end_tokens();
  add_config_end_tokens(files.generation_config, vocab, ends);
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  return ends;
}

}  // namespace ingot
