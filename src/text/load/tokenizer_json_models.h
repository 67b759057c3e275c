// What the readers of a tokenizer.json's model share: its tokens by id, and the models that are no BPE. Inside text/
// only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"
#include "text/added_tokens.h"
#include "text/model/vocab.h"
#include "text/tokenizer.h"

namespace ingot {

// The tokens of a tokenizer.json by id: the model's, then the added ones. Holds views of what it is given.
class JsonTokens {
 public:
  // `tokens`: how many the file lists in all, which bounds the ids.
  explicit JsonTokens(size_t tokens) : tokens_(tokens) { entries_.reserve(tokens); }

  // A token of the model. Throws Error where the id is out of bounds or taken.
  void add(std::string_view text, int64_t id);
  // An added token, which decodes from `shown`: its normalized form, where it has one. It may be the model's too.
  void add(const AddedToken& token, std::string_view shown);

  // Fills an empty vocabulary: the model's tokens indexed, and with `byte_level` mapped to bytes. Throws Error where
  // two tokens are the same.
  void fill(bool byte_level, Vocab& vocab) const;

 private:
  struct Entry {
    std::string_view text;
    std::string_view shown;
    bool there = false;
    bool in_model = false;
    bool special = false;
    bool added = false;
  };
  Entry& place(std::string_view text, int64_t id);

  size_t tokens_;
  std::vector<Entry> entries_;
};

// The model's type; where it is not said, what its members tell.
std::string model_type(const JsonObject& model);

// Fills parts.vocab and parts.model from a model that is no BPE. `shown`: of each added token what it decodes from.
// Throws Error where the type is not known.
void read_other_model(const std::string& type, const JsonObject& model, const std::vector<AddedToken>& added,
                      const std::vector<std::string>& shown, TokenizerParts& parts);

}  // namespace ingot
