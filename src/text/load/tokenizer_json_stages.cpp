#include "text/load/tokenizer_json_stages.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"
#include "text/load/tokenizer_load.h"

namespace ingot {

std::string stage_type(const JsonObject& object, std::string_view what) {
  const Json* type = find(object, "type");
  if (type == nullptr || !type->is_string()) throw Error("[tokenizer] a {} without a type", what);
  return get_string(object, "type");
}

StagePattern read_pattern(const JsonObject& object, std::string_view what) {
  const JsonObject* pattern = find_object(object, "pattern");
  if (pattern == nullptr) throw Error("[tokenizer] a {} without a pattern", what);
  if (find(*pattern, "String") != nullptr) return {get_string(*pattern, "String"), false};
  return {get_string(*pattern, "Regex"), true};
}

MetaspaceOptions read_metaspace_options(const JsonObject& object) {
  using Prepend = MetaspaceOptions::Prepend;
  MetaspaceOptions options;
  options.replacement = get_string(object, "replacement", "\xE2\x96\x81");
  if (options.replacement.empty()) throw Error("[tokenizer] Metaspace with an empty replacement");
  const std::string scheme =
      get_string(object, "prepend_scheme", get_bool(object, "add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw Error("[tokenizer] the Metaspace prepend_scheme '{}' is not known", utf8_printable(scheme));
  }
  options.prepend = scheme == "always" ? Prepend::kAlways : scheme == "first" ? Prepend::kFirst : Prepend::kNever;
  options.split = get_bool(object, "split", true);
  return options;
}

void unknown_stage(std::string_view what, std::string_view type) {
  throw Error("[tokenizer] the {} '{}' is not supported", what, utf8_printable(type));
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
