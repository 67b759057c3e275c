// The pre_tokenizer of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/tokenizer_json_stages.h"
#include "text/tokenizer_load.h"

namespace ingot {

namespace {

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
  const MetaspaceOptions options = read_metaspace_options(object);
  PreTokenizerStage stage;
  stage.kind = PreTokenizerStage::Kind::kMetaspace;
  stage.text = options.replacement;
  stage.prepend = options.prepend;
  stage.split = options.split;
  return stage;
}

}  // namespace

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

}  // namespace ingot
