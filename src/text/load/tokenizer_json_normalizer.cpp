// The normalizer of a tokenizer.json.
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_json_stages.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

namespace {

using Kind = NormalizerStep::Kind;

constexpr size_t kMaxSteps = 64;
constexpr size_t kMaxContent = 4096;  // bytes of what is put in: bounds what one character can become

// Stages without options.
constexpr struct {
  std::string_view type;
  Kind kind;
} kPlain[] = {{"NFC", Kind::kNfc},
              {"NFD", Kind::kNfd},
              {"NFKC", Kind::kNfkc},
              {"NFKD", Kind::kNfkd},
              {"Lowercase", Kind::kLowercase},
              {"StripAccents", Kind::kStripMarks},
              {"Nmt", Kind::kNmt},
              {"ByteLevel", Kind::kByteLevel}};

std::string read_content(const JsonObject& object, std::string_view key) {
  std::string content = get_string(object, key);
  if (content.size() > kMaxContent) {
    throw Error("[tokenizer] the normalizer's {} has {} bytes, at most {} allowed", key, content.size(), kMaxContent);
  }
  return content;
}

void read_replace(const JsonObject& object, Normalizer& normalizer) {
  const StagePattern pattern = read_pattern(object, "Replace");
  NormalizerStep step{.to = read_content(object, "content")};
  if (pattern.regex) {
    step.kind = Kind::kReplaceMatches;
    step.matcher = make_matcher(pattern.text);
  } else {
    if (pattern.text.empty()) throw Error("[tokenizer] a Replace normalizer by the empty string");
    step.kind = Kind::kReplace;
    step.from = pattern.text;
  }
  normalizer.add(std::move(step));
}

void read_bert(const JsonObject& object, Normalizer& normalizer) {
  const bool lowercase = get_bool(object, "lowercase", true);
  if (get_bool(object, "clean_text", true)) normalizer.add({.kind = Kind::kBertClean});
  if (get_bool(object, "handle_chinese_chars", true)) normalizer.add({.kind = Kind::kBertIdeographs});
  if (get_bool(object, "strip_accents", lowercase)) {
    normalizer.add({.kind = Kind::kNfd});
    normalizer.add({.kind = Kind::kStripNonspacing});
  }
  if (lowercase) normalizer.add({.kind = Kind::kLowercase});
}

// Base64 with padding, as RFC 4648 has it.
std::string decode_base64(std::string_view text) {
  const auto bad = [&](size_t at) { throw Error("[tokenizer] precompiled_charsmap is not base64 at byte {}", at); };
  std::string out;
  out.reserve(text.size() / 4 * 3);
  if (text.size() % 4 != 0) bad(text.size());
  for (size_t pos = 0; pos < text.size(); pos += 4) {
    uint32_t bits = 0;
    size_t padding = 0;
    for (size_t i = pos; i < pos + 4; i++) {
      const char c = text[i];
      uint32_t value = 0;
      if (c >= 'A' && c <= 'Z')
        value = static_cast<uint32_t>(c - 'A');
      else if (c >= 'a' && c <= 'z')
        value = static_cast<uint32_t>(c - 'a' + 26);
      else if (c >= '0' && c <= '9')
        value = static_cast<uint32_t>(c - '0' + 52);
      else if (c == '+')
        value = 62;
      else if (c == '/')
        value = 63;
      else if (c == '=' && i >= pos + 2 && pos + 4 == text.size())
        padding++;
      else
        bad(i);
      if (padding > 0 && c != '=') bad(i);
      bits = bits << 6 | value;
    }
    for (size_t i = 0; i < 3 - padding; i++) out.push_back(static_cast<char>(bits >> (16 - 8 * i) & 0xFF));
  }
  return out;
}

void read_precompiled(const JsonObject& object, Normalizer& normalizer) {
  const std::string blob = decode_base64(get_string(object, "precompiled_charsmap"));
  normalizer.add({.kind = Kind::kCharsmap, .charsmap = std::make_shared<Charsmap>(blob)});
}

void read_step(const JsonObject& object, const std::string& type, Normalizer& normalizer) {
  for (const auto& plain : kPlain) {
    if (plain.type == type) return normalizer.add({.kind = plain.kind});
  }
  if (type == "Prepend") {
    normalizer.add({.kind = Kind::kPrepend, .to = read_content(object, "prepend")});
  } else if (type == "Strip") {
    normalizer.add({.kind = Kind::kStrip,
                    .left = get_bool(object, "strip_left", true),
                    .right = get_bool(object, "strip_right", true)});
  } else if (type == "Replace") {
    read_replace(object, normalizer);
  } else if (type == "BertNormalizer") {
    read_bert(object, normalizer);
  } else if (type == "Precompiled") {
    read_precompiled(object, normalizer);
  } else {
    unknown_stage("normalizer", type);
  }
}

}  // namespace

void read_normalizer(const Json& json, Normalizer& normalizer) {
  size_t steps = 0;
  for_each_stage(json, "normalizer", "normalizers", [&](const JsonObject& object, const std::string& type) {
    if (++steps > kMaxSteps) throw Error("[tokenizer] the normalizer has more than {} steps", kMaxSteps);
    read_step(object, type, normalizer);
  });
}

}  // namespace ingot
