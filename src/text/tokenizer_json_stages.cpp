// The stages of a tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

std::string type_of(const JsonObject& object, std::string_view what) {
  const Json* type = find(object, "type");
  if (type == nullptr || !type->is_string()) throw Error("[tokenizer] a {} without a type", what);
  return get_string(object, "type");
}

// Calls `visit` for every stage that is no Sequence, in order. Depth is bounded by the parser's.
template <class Visit>
void for_each_stage(const Json& json, std::string_view what, std::string_view members, Visit&& visit) {
  if (json.is_null()) return;
  const JsonObject& object = as_object(json, what);
  const std::string type = type_of(object, what);
  if (type != "Sequence") {
    visit(object, type);
    return;
  }
  const JsonArray* array = find_array(object, members);
  if (array == nullptr) throw Error("[tokenizer] a {} Sequence without {}", what, members);
  for (const Json& stage : *array) for_each_stage(stage, what, members, visit);
}

struct Pattern {
  std::string text;
  bool regex = false;
};

Pattern read_pattern(const JsonObject& object, std::string_view what) {
  const JsonObject* pattern = find_object(object, "pattern");
  if (pattern == nullptr) throw Error("[tokenizer] a {} without a pattern", what);
  if (find(*pattern, "String") != nullptr) return {get_string(*pattern, "String"), false};
  return {get_string(*pattern, "Regex"), true};
}

[[noreturn]] void unknown_stage(std::string_view what, const std::string& type) {
  throw Error("[tokenizer] the {} '{}' is not supported", what, utf8_printable(type));
}

SplitBehavior read_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error("[tokenizer] the Split behavior '{}' is not known", utf8_printable(name));
}

PreTokenizerStage read_split(const JsonObject& object) {
  const Pattern pattern = read_pattern(object, "Split");
  PreTokenizerStage stage;
  stage.behavior = read_behavior(get_string(object, "behavior"));
  stage.invert = get_bool(object, "invert", false);
  if (pattern.regex) {
    stage.scanner = find_scanner(pattern.text);
    if (stage.scanner == nullptr) {
      throw Error("[tokenizer] no scanner for the pattern {}", utf8_printable(pattern.text, 400));
    }
  } else {
    if (pattern.text.empty()) throw Error("[tokenizer] a Split by the empty string");
    stage.kind = PreTokenizerStage::Kind::kLiteral;
    stage.text = pattern.text;
  }
  return stage;
}

PreTokenizerStage read_metaspace(const JsonObject& object) {
  using Prepend = PreTokenizerStage::Prepend;
  PreTokenizerStage stage;
  stage.kind = PreTokenizerStage::Kind::kMetaspace;
  stage.text = get_string(object, "replacement", "\xE2\x96\x81");
  if (stage.text.empty()) throw Error("[tokenizer] Metaspace with an empty replacement");
  const std::string scheme =
      get_string(object, "prepend_scheme", get_bool(object, "add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw Error("[tokenizer] the Metaspace prepend_scheme '{}' is not known", utf8_printable(scheme));
  }
  stage.prepend = scheme == "always" ? Prepend::kAlways : scheme == "first" ? Prepend::kFirst : Prepend::kNever;
  stage.split = get_bool(object, "split", true);
  return stage;
}

// Where the steps of a decoder may stand: Replace and ByteFallback work on tokens, Strip on the fused text.
struct DecoderOrder {
  bool fallback = false;
  bool fused = false;
};

void read_decoder_step(const JsonObject& object, const std::string& type, DecoderOrder& order, Decoder& decoder) {
  if (type == "ByteLevel") {
    decoder.byte_level = true;
  } else if (type == "Replace" && !order.fallback && !order.fused) {
    const Pattern pattern = read_pattern(object, "Replace");
    if (pattern.regex || pattern.text.empty()) throw Error("[tokenizer] a Replace decoder by a regular expression");
    decoder.replace.emplace_back(pattern.text, get_string(object, "content"));
  } else if (type == "ByteFallback" && !order.fused) {
    decoder.byte_fallback = order.fallback = true;
  } else if (type == "Fuse") {
    order.fused = true;
  } else if (type == "Strip" && order.fused && get_string(object, "content", " ") == " " &&
             get_int(object, "stop", 0) == 0) {
    decoder.strip_left = static_cast<int>(get_int(object, "start", 0, 0, 1 << 20));
  } else if (type == "Metaspace" && !order.fused) {
    const PreTokenizerStage stage = read_metaspace(object);
    if (stage.prepend != PreTokenizerStage::Prepend::kNever) decoder.drop_in_first = stage.text;
    decoder.replace.emplace_back(stage.text, " ");
  } else {
    unknown_stage("decoder (at this place)", type);
  }
}

void read_template(const JsonObject& object, const Vocab& vocab, std::vector<Token>& before,
                   std::vector<Token>& behind) {
  const JsonArray* single = find_array(object, "single");
  const JsonObject* specials = find_object(object, "special_tokens");
  if (single == nullptr) throw Error("[tokenizer] TemplateProcessing without single");
  bool seen = false;
  for (const Json& json : *single) {
    const JsonObject& item = as_object(json, "an item of TemplateProcessing");
    if (find(item, "Sequence") != nullptr) {
      seen = true;
      continue;
    }
    const JsonObject* special = find_object(item, "SpecialToken");
    const std::string name = special != nullptr ? get_string(*special, "id") : "";
    const JsonObject* entry = specials != nullptr ? find_object(*specials, name) : nullptr;
    const JsonArray* ids = entry != nullptr ? find_array(*entry, "ids") : nullptr;
    if (ids == nullptr) throw Error("[tokenizer] TemplateProcessing: no ids for '{}'", utf8_printable(name));
    for (const Json& id : *ids) {
      const auto last = static_cast<int64_t>(vocab.size()) - 1;
      (seen ? behind : before).push_back(static_cast<Token>(as_int(id, "an id of TemplateProcessing", 0, last)));
    }
  }
}

// cls and sep of BertProcessing and RobertaProcessing: ["[CLS]", 101].
Token pair_id(const JsonObject& object, std::string_view key, const Vocab& vocab) {
  const JsonArray* pair = find_array(object, key);
  if (pair == nullptr || pair->size() != 2) throw Error("[tokenizer] a post-processor without {}", key);
  return static_cast<Token>(as_int((*pair)[1], key, 0, static_cast<int64_t>(vocab.size()) - 1));
}

}  // namespace

void read_normalizer(const Json& json, Normalizer& normalizer) {
  using Kind = NormalizerStep::Kind;
  for_each_stage(json, "normalizer", "normalizers", [&](const JsonObject& object, const std::string& type) {
    if (type == "NFC") {
      normalizer.add({.kind = Kind::kNfc});
    } else if (type == "NFD") {
      normalizer.add({.kind = Kind::kNfd});
    } else if (type == "Prepend") {
      normalizer.add({.kind = Kind::kPrepend, .to = get_string(object, "prepend")});
    } else if (type == "Strip") {
      normalizer.add({.kind = Kind::kStrip,
                      .left = get_bool(object, "strip_left", true),
                      .right = get_bool(object, "strip_right", true)});
    } else if (type == "Replace") {
      const Pattern pattern = read_pattern(object, "Replace");
      if (pattern.regex) {
        throw Error("[tokenizer] a Replace normalizer by the pattern {}", utf8_printable(pattern.text, 400));
      }
      if (pattern.text.empty()) throw Error("[tokenizer] a Replace normalizer by the empty string");
      normalizer.add({.kind = Kind::kReplace, .from = pattern.text, .to = get_string(object, "content")});
    } else {
      unknown_stage("normalizer", type);
    }
  });
}

bool read_pre_tokenizer(const Json& json, PreTokenizer& pre_tokenizer) {
  bool byte_level = false;
  for_each_stage(json, "pre_tokenizer", "pretokenizers", [&](const JsonObject& object, const std::string& type) {
    if (byte_level) throw Error("[tokenizer] the pre_tokenizer '{}' behind ByteLevel", utf8_printable(type));
    if (type == "ByteLevel") {
      byte_level = true;
      if (get_bool(object, "add_prefix_space", true)) {
        pre_tokenizer.add({.kind = PreTokenizerStage::Kind::kPrefixSpace});
      }
      if (get_bool(object, "use_regex", true)) pre_tokenizer.add({.scanner = scan_gpt2});
    } else if (type == "Split") {
      pre_tokenizer.add(read_split(object));
    } else if (type == "Digits") {
      const bool individual = get_bool(object, "individual_digits", false);
      pre_tokenizer.add({.scanner = individual ? scan_number : scan_numbers});
    } else if (type == "Metaspace") {
      pre_tokenizer.add(read_metaspace(object));
    } else {
      unknown_stage("pre_tokenizer", type);
    }
  });
  return byte_level;
}

void read_decoder(const Json& json, Decoder& decoder) {
  if (json.is_null()) throw Error("[tokenizer] a tokenizer.json without a decoder is not supported");
  DecoderOrder order;
  for_each_stage(json, "decoder", "decoders", [&](const JsonObject& object, const std::string& type) {
    read_decoder_step(object, type, order, decoder);
  });
}

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

AddedToken read_added_token(const JsonObject& object, Token id) {
  AddedToken token;
  token.id = id;
  token.content = get_string(object, "content");
  token.special = get_bool(object, "special", false);
  token.single_word = get_bool(object, "single_word", false);
  token.lstrip = get_bool(object, "lstrip", false);
  token.rstrip = get_bool(object, "rstrip", false);
  token.normalized = get_bool(object, "normalized", !token.special);
  return token;
}

}  // namespace ingot
