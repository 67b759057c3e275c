// The decoder of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_json_stages.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

using Kind = DecoderStep::Kind;

std::string one_character(const JsonObject& object, std::string_view key) {
  const std::string text = get_string(object, key);
  uint32_t cp = 0;
  if (text.empty() || utf8_decode(text, 0, cp) != text.size()) {
    throw Error("[tokenizer] a decoder whose {} is no single character", key);
  }
  return text;
}

std::string not_empty(const JsonObject& object, std::string_view key, std::string_view fallback) {
  const std::string text = get_string(object, key, fallback);
  if (text.empty()) throw Error("[tokenizer] a decoder with an empty {}", key);
  return text;
}

DecoderStep read_replace(const JsonObject& object) {
  const StagePattern pattern = read_pattern(object, "Replace");
  if (pattern.regex) {
    const auto matcher = make_matcher(pattern.text);
    return {.kind = Kind::kReplaceMatches, .to = get_string(object, "content"), .matcher = matcher};
  }
  if (pattern.text.empty()) throw Error("[tokenizer] a Replace decoder by the empty string");
  return {.kind = Kind::kReplace, .from = pattern.text, .to = get_string(object, "content")};
}

DecoderStep read_strip(const JsonObject& object) {
  return {.kind = Kind::kStrip,
          .from = one_character(object, "content"),
          .start = static_cast<size_t>(get_int(object, "start", 0, 0, INT64_MAX)),
          .stop = static_cast<size_t>(get_int(object, "stop", 0, 0, INT64_MAX))};
}

DecoderStep read_step(const JsonObject& object, const std::string& type) {
  if (type == "ByteLevel") return {.kind = Kind::kByteLevel};
  if (type == "ByteFallback") return {.kind = Kind::kByteFallback};
  if (type == "Fuse") return {.kind = Kind::kFuse};
  if (type == "Replace") return read_replace(object);
  if (type == "Strip") return read_strip(object);
  if (type == "Metaspace") {
    const MetaspaceOptions options = read_metaspace_options(object);
    const bool drops = options.prepend != MetaspaceOptions::Prepend::kNever;
    return {.kind = Kind::kMetaspace, .from = options.replacement, .flag = drops};
  }
  if (type == "WordPiece") {
    return {.kind = Kind::kWordPiece,
            .from = get_string(object, "prefix", "##"),
            .flag = get_bool(object, "cleanup", true)};
  }
  if (type == "BPEDecoder") return {.kind = Kind::kBpeSuffix, .from = not_empty(object, "suffix", "</w>")};
  if (type == "CTC") {
    return {.kind = Kind::kCtc,
            .from = get_string(object, "pad_token", "<pad>"),
            .to = not_empty(object, "word_delimiter_token", "|"),
            .flag = get_bool(object, "cleanup", true)};
  }
  unknown_stage("decoder", type);
}

}  // namespace

void read_decoder(const Json& json, Decoder& decoder) {
  if (json.is_null()) return decoder.add({.kind = Kind::kSpaced});
  bool bytes = false;  // what ByteLevel gave may be no UTF-8
  for_each_stage(json, "decoder", "decoders", [&](const JsonObject& object, const std::string& type) {
    if (bytes) decoder.add({.kind = Kind::kRepair});
    decoder.add(read_step(object, type));
    bytes = decoder.steps().back().kind == Kind::kByteLevel;
  });
}

}  // namespace ingot
