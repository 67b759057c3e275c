// The post_processor of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_json_stages.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

constexpr size_t kMaxFrame = 65536;

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

// Each list becomes a part of its own for the processor that follows, where kNoToken stands for the text.
using Parts = std::vector<std::vector<Token>>;

void check_size(const Parts& parts) {
  size_t size = 0;
  for (const auto& part : parts) size += part.size();
  if (size > kMaxFrame) throw Error("[tokenizer] a post_processor that adds more than {} tokens", kMaxFrame);
}

// The parts of a template, `texts` for its texts A and B.
Parts read_items(const JsonArray& items, const Parts& texts, const JsonObject* specials, const Vocab& vocab) {
  Parts parts;
  size_t size = 0;
  for (const Json& json : items) {
    size += parts.empty() ? 0 : parts.back().size();
    if (size > kMaxFrame) break;  // check_size says so
    const JsonObject& item = as_object(json, "an item of TemplateProcessing");
    const JsonObject* sequence = find_object(item, "Sequence");
    if (sequence == nullptr) {
      append_special(item, specials, vocab, parts.emplace_back());
      continue;
    }
    const std::string id = get_string(*sequence, "id");
    if (id != "A" && id != "B") throw Error("[tokenizer] TemplateProcessing: the text '{}'", utf8_printable(id));
    const size_t which = id == "A" ? 0 : 1;
    if (which >= texts.size()) {
      throw Error("[tokenizer] TemplateProcessing: single is not one text A and special tokens");
    }
    parts.push_back(texts[which]);
  }
  return parts;
}

// Both sides have to be in order, whichever frames the text.
Parts read_template(const JsonObject& object, const Vocab& vocab, const Parts& parts) {
  const JsonArray* single = find_array(object, "single");
  const JsonObject* specials = find_object(object, "special_tokens");
  if (single == nullptr) throw Error("[tokenizer] TemplateProcessing without single");
  if (parts.empty() || parts.size() > 2) throw Error("[tokenizer] TemplateProcessing of {} parts", parts.size());
  const Parts one = read_items(*single, {parts[0]}, specials, vocab);
  const JsonArray* pair = find_array(object, "pair");
  if (pair == nullptr && parts.size() == 2) throw Error("[tokenizer] TemplateProcessing without pair");
  const Parts two = pair == nullptr ? Parts() : read_items(*pair, {parts[0], parts.back()}, specials, vocab);
  return parts.size() == 1 ? one : two;
}

// cls and sep of BertProcessing and RobertaProcessing: ["[CLS]", 101].
Token pair_id(const JsonObject& object, std::string_view key, const Vocab& vocab) {
  const JsonArray* pair = find_array(object, key);
  if (pair == nullptr || pair->size() != 2) throw Error("[tokenizer] a post-processor without {}", key);
  return token_id((*pair)[1], key, vocab);
}

}  // namespace

void read_post_processor(const Json& json, const Vocab& vocab, std::vector<Token>& prefix, std::vector<Token>& suffix) {
  Parts parts = {{kNoToken}};
  for_each_stage(json, "post_processor", "processors", [&](const JsonObject& object, const std::string& type) {
    if (type == "TemplateProcessing") {
      parts = read_template(object, vocab, parts);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      const Token cls = pair_id(object, "cls", vocab);
      const Token sep = pair_id(object, "sep", vocab);
      for (size_t i = 0; i < parts.size(); i++) {
        if (i == 0) parts[i].insert(parts[i].begin(), cls);
        if (i > 0 && type == "RobertaProcessing") parts[i].insert(parts[i].begin(), sep);
        parts[i].push_back(sep);
      }
    } else if (type != "ByteLevel") {  // which moves offsets only
      unknown_stage("post_processor", type);
    }
    check_size(parts);
  });
  size_t texts = 0;
  for (const auto& part : parts) {
    for (const Token token : part) {
      if (token == kNoToken) {
        texts++;
      } else {
        (texts == 0 ? prefix : suffix).push_back(token);
      }
    }
  }
  if (texts != 1) throw Error("[tokenizer] a post_processor that gives the text {} times", texts);
}

}  // namespace ingot
