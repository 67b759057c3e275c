// What the readers of a tokenizer.json's stages share: normalizer, pre_tokenizer, post_processor, decoder. Inside text/
// only.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "files/json.h"
#include "text/split/pretokenizer.h"

namespace ingot {

// The member "type". Throws Error naming `what` where there is none.
std::string stage_type(const JsonObject& object, std::string_view what);

// Calls `visit(object, type)` for every stage that is no Sequence, in order; a Sequence's stages are its array
// `members`. Depth is bounded by the parser's.
template <class Visit>
void for_each_stage(const Json& json, std::string_view what, std::string_view members, Visit&& visit) {
  if (json.is_null()) return;
  const JsonObject& object = as_object(json, what);
  const std::string type = stage_type(object, what);
  if (type != "Sequence") {
    visit(object, type);
    return;
  }
  const JsonArray* array = find_array(object, members);
  if (array == nullptr) throw Error("[tokenizer] a {} Sequence without {}", what, members);
  for (const Json& stage : *array) for_each_stage(stage, what, members, visit);
}

// {"String": "text"} or {"Regex": "text"}.
struct StagePattern {
  std::string text;
  bool regex = false;
};
StagePattern read_pattern(const JsonObject& object, std::string_view what);

// Metaspace, which stands as a pre_tokenizer and as a decoder.
struct MetaspaceOptions {
  using Prepend = MetaspacePrepend;
  std::string replacement;
  Prepend prepend = Prepend::kNever;
  bool split = true;
};
MetaspaceOptions read_metaspace_options(const JsonObject& object);

[[noreturn]] void unknown_stage(std::string_view what, std::string_view type);

}  // namespace ingot
