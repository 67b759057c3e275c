// The post_processor of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/tokenizer_json_stages.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

// Ids may leave gaps: one inside a gap is no token.
Token token_id(const Json& json, std::string_view what, const Vocab& vocab) {
  const auto id = static_cast<Token>(as_int(json, what, 0, static_cast<int64_t>(vocab.size()) - 1));
  if (vocab.kind(id) == TokenKind::kAbsent) throw Error("[tokenizer] {}: no token has the id {}", what, id);
  return id;
}

// The ids of a special token of a template.
void append_special(const JsonObject& item, const JsonObject* specials, const Vocab& vocab, std::vector<Token>& out) {
  const JsonObject* special = find_object(item, "SpecialToken");
  if (special == nullptr) throw Error("[tokenizer] an item of TemplateProcessing that is no Sequence or SpecialToken");
  const std::string name = get_string(*special, "id");
  const JsonObject* entry = specials != nullptr ? find_object(*specials, name) : nullptr;
  const JsonArray* ids = entry != nullptr ? find_array(*entry, "ids") : nullptr;
  if (ids == nullptr) throw Error("[tokenizer] TemplateProcessing: no ids for '{}'", utf8_printable(name));
  for (const Json& id : *ids) out.push_back(token_id(id, "an id of TemplateProcessing", vocab));
}

// One side of a template: what stands before the text `name` and what behind it.
void read_items(const JsonArray& items, std::string_view name, const JsonObject* specials, const Vocab& vocab,
                std::vector<Token>& before, std::vector<Token>& behind) {
  bool seen = false;
  for (const Json& json : items) {
    const JsonObject& item = as_object(json, "an item of TemplateProcessing");
    const JsonObject* sequence = find_object(item, "Sequence");
    if (sequence == nullptr) {
      append_special(item, specials, vocab, seen ? behind : before);
      continue;
    }
    const std::string id = get_string(*sequence, "id");
    if (id != "A" && id != "B") throw Error("[tokenizer] TemplateProcessing: the text '{}'", utf8_printable(id));
    if (name.empty()) continue;
    if (id != name || seen) throw Error("[tokenizer] TemplateProcessing: single is not one text A and special tokens");
    seen = true;
  }
  if (!seen && !name.empty()) throw Error("[tokenizer] TemplateProcessing: single has no text");
}

// Only `single` frames a text; `pair`, for two texts, has to be in order all the same.
void read_template(const JsonObject& object, const Vocab& vocab, std::vector<Token>& before,
                   std::vector<Token>& behind) {
  const JsonArray* single = find_array(object, "single");
  const JsonObject* specials = find_object(object, "special_tokens");
  if (single == nullptr) throw Error("[tokenizer] TemplateProcessing without single");
  read_items(*single, "A", specials, vocab, before, behind);
  std::vector<Token> unused;
  if (const JsonArray* pair = find_array(object, "pair")) read_items(*pair, "", specials, vocab, unused, unused);
}

// cls and sep of BertProcessing and RobertaProcessing: ["[CLS]", 101].
Token pair_id(const JsonObject& object, std::string_view key, const Vocab& vocab) {
  const JsonArray* pair = find_array(object, key);
  if (pair == nullptr || pair->size() != 2) throw Error("[tokenizer] a post-processor without {}", key);
  return token_id((*pair)[1], key, vocab);
}

}  // namespace

void read_post_processor(const Json& json, const Vocab& vocab, std::vector<Token>& prefix, std::vector<Token>& suffix) {
  for_each_stage(json, "post_processor", "processors", [&](const JsonObject& object, const std::string& type) {
    std::vector<Token> before, behind;
    if (type == "TemplateProcessing") {
      read_template(object, vocab, before, behind);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      before.push_back(pair_id(object, "cls", vocab));
      behind.push_back(pair_id(object, "sep", vocab));
    } else if (type != "ByteLevel") {  // which moves offsets only
      unknown_stage("post_processor", type);
    }
    prefix.insert(prefix.begin(), before.begin(), before.end());
    suffix.insert(suffix.end(), behind.begin(), behind.end());
  });
}

}  // namespace ingot
