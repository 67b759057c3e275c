// The normalizer of a tokenizer.json.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/tokenizer_json_stages.h"
#include "text/tokenizer_load.h"

namespace ingot {

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
      const StagePattern pattern = read_pattern(object, "Replace");
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

}  // namespace ingot
