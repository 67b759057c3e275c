// The pre_tokenizer of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_json_stages.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

using Kind = PreTokenizerStage::Kind;

constexpr size_t kMaxStages = 64;

SplitBehavior read_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error("[tokenizer] the Split behavior '{}' is not known", utf8_printable(name));
}

PreTokenizerStage read_split(const JsonObject& object) {
  const StagePattern pattern = read_pattern(object, "Split");
  const SplitBehavior behavior = read_behavior(get_string(object, "behavior"));
  const bool invert = get_bool(object, "invert", false);
  if (pattern.regex) return pattern_stage(pattern.text, behavior, invert);
  if (pattern.text.empty()) throw Error("[tokenizer] a Split by the empty string");
  return {.kind = Kind::kLiteral, .text = pattern.text, .behavior = behavior, .invert = invert};
}

PreTokenizerStage read_metaspace(const JsonObject& object) {
  const MetaspaceOptions options = read_metaspace_options(object);
  PreTokenizerStage stage;
  stage.kind = Kind::kMetaspace;
  stage.text = options.replacement;
  stage.prepend = options.prepend;
  stage.split = options.split;
  return stage;
}

// `last`: no stage follows, so that the vocabulary can be kept as bytes instead.
void add_byte_level(const JsonObject& object, bool last, PreTokenizer& pre_tokenizer) {
  if (get_bool(object, "add_prefix_space", true)) pre_tokenizer.add({.kind = Kind::kPrefixSpace});
  if (get_bool(object, "use_regex", true)) pre_tokenizer.add({.scanner = scan_gpt2});
  if (!last) pre_tokenizer.add({.kind = Kind::kByteLevel});
}

void add_delimiter(const JsonObject& object, PreTokenizer& pre_tokenizer) {
  const std::string delimiter = get_string(object, "delimiter");
  uint32_t cp = 0;
  if (delimiter.empty() || utf8_decode(delimiter, 0, cp) != delimiter.size()) {
    throw Error("[tokenizer] the delimiter '{}' is no single character", utf8_printable(delimiter));
  }
  pre_tokenizer.add({.kind = Kind::kLiteral, .text = delimiter, .behavior = SplitBehavior::kRemoved});
}

void add_stage(const JsonObject& object, const std::string& type, PreTokenizer& pre_tokenizer) {
  if (type == "Split") {
    pre_tokenizer.add(read_split(object));
  } else if (type == "Digits") {
    const bool individual = get_bool(object, "individual_digits", false);
    pre_tokenizer.add({.scanner = individual ? scan_library_digit : scan_library_digits});
  } else if (type == "Metaspace") {
    pre_tokenizer.add(read_metaspace(object));
  } else if (type == "Whitespace") {
    pre_tokenizer.add({.scanner = scan_words_or_marks, .behavior = SplitBehavior::kRemoved, .invert = true});
  } else if (type == "WhitespaceSplit") {
    pre_tokenizer.add({.scanner = scan_space_character, .behavior = SplitBehavior::kRemoved});
  } else if (type == "Punctuation") {
    pre_tokenizer.add(
        {.scanner = scan_library_punctuation, .behavior = read_behavior(get_string(object, "behavior", "Isolated"))});
  } else if (type == "BertPreTokenizer") {
    pre_tokenizer.add({.scanner = scan_space_character, .behavior = SplitBehavior::kRemoved});
    pre_tokenizer.add({.scanner = scan_library_punctuation});
  } else if (type == "UnicodeScripts") {
    pre_tokenizer.add({.kind = Kind::kScripts});
  } else if (type == "CharDelimiterSplit") {
    add_delimiter(object, pre_tokenizer);
  } else if (type == "FixedLength") {
    const int64_t length = get_int(object, "length", 5, 1, INT32_MAX);
    pre_tokenizer.add({.kind = Kind::kFixedLength, .length = static_cast<size_t>(length)});
  } else {
    unknown_stage("pre_tokenizer", type);
  }
}

}  // namespace

bool read_pre_tokenizer(const Json& json, PreTokenizer& pre_tokenizer) {
  size_t stages = 0;
  size_t byte_levels = 0;
  bool byte_level_last = false;
  for_each_stage(json, "pre_tokenizer", "pretokenizers", [&](const JsonObject&, const std::string& type) {
    if (++stages > kMaxStages) throw Error("[tokenizer] the pre_tokenizer has more than {} stages", kMaxStages);
    byte_level_last = type == "ByteLevel";
    if (byte_level_last) byte_levels++;
  });
  const bool byte_level = byte_level_last && byte_levels == 1;
  for_each_stage(json, "pre_tokenizer", "pretokenizers", [&](const JsonObject& object, const std::string& type) {
    if (type == "ByteLevel") {
      add_byte_level(object, byte_level, pre_tokenizer);
    } else {
      add_stage(object, type, pre_tokenizer);
    }
  });
  return byte_level;
}

}  // namespace ingot
