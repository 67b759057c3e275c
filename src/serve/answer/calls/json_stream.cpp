#include "serve/answer/calls/json_stream.h"

#include <fmt/format.h>

#include <utility>

#include "files/json.h"
#include "serve/answer/held_text.h"

namespace ingot {
namespace {

// Whether the byte may stand in an object or array outside its strings: words are let through, other marks are not.
bool may_stand(char c) {
  return is_json_space(c) || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("+-.,:_").find(c) != std::string_view::npos;
}

void append_escaped(char c, std::string& out) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += fmt::format("\\u{:04x}", byte);
  }
}

}  // namespace

std::optional<std::string> decode_json_string(std::string_view quoted) {
  std::string clean;
  for (const char c : quoted) append_escaped(c, clean);
  try {
    const Json value = parse_json(clean, "string");
    if (!value.is_string()) return {};
    return std::string(value.as_string());
  } catch (const Error&) {
    return {};
  }
}

JsonStep JsonValueStream::feed(char c, std::string& out) {
  if (in_string_) {
    append_escaped(c, out);
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return JsonStep::kMore;
  }
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  } else if (!may_stand(c)) {
    return JsonStep::kBad;
  }
  out += c;
  return depth_ == 0 ? JsonStep::kDone : JsonStep::kMore;
}

JsonStep CallScanner::feed(char c) {
  switch (at_) {
    case At::kBegin:
      at_ = At::kKeyOrEnd;
      return c == '{' ? JsonStep::kMore : bad();
    case At::kKeyOrEnd:
    case At::kKey:
      if (is_json_space(c)) return JsonStep::kMore;
      if (c == '}' && at_ == At::kKeyOrEnd) return end();
      if (c != '"') return bad();
      token_ = c;
      escaped_ = false;
      at_ = At::kKeyEnd;
      return JsonStep::kMore;
    case At::kKeyEnd:
      return string_byte(c);
    case At::kColon:
      if (is_json_space(c)) return JsonStep::kMore;
      if (c != ':') return bad();
      at_ = At::kValue;
      return JsonStep::kMore;
    case At::kValue:
      return is_json_space(c) ? JsonStep::kMore : begin_value(c);
    case At::kString:
      return string_byte(c);
    case At::kScalar:
      return scalar_byte(c);
    case At::kNested:
      return nested_byte(c);
    case At::kAfter:
      return after_value(c);
  }
  return bad();
}

JsonStep CallScanner::begin_value(char c) {
  token_ = c;
  escaped_ = false;
  if (c == '"') {
    at_ = At::kString;
    return JsonStep::kMore;
  }
  if (member_ == Member::kName) return bad();
  if (c == '{' || (c == '[' && member_ == Member::kOther)) {
    at_ = At::kNested;
    nested_ = {};
    if (member_ == Member::kArguments) {
      has_arguments_ = true;
      if (has_name_) commit();
    }
    return nested_byte(c);
  }
  if (!may_stand(c) || c == ',' || c == ':') return bad();
  at_ = At::kScalar;
  return JsonStep::kMore;
}

JsonStep CallScanner::string_byte(char c) {
  if (at_ == At::kKeyEnd || member_ != Member::kOther) token_ += c;
  if (committed_ && token_.size() > kMaxHeldBytes) return bad();
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    return at_ == At::kKeyEnd ? key_done() : string_done();
  }
  return JsonStep::kMore;
}

JsonStep CallScanner::key_done() {
  const std::optional<std::string> key = decode_json_string(token_);
  if (!key) return bad();
  member_ = Member::kOther;
  if (*key == name_key_ && !has_name_) member_ = Member::kName;
  if ((*key == "arguments" || *key == "parameters") && !has_arguments_) member_ = Member::kArguments;
  const Member next = has_name_ ? Member::kArguments : Member::kName;
  if (in_order_ && !committed_ && member_ != next) return bad();
  at_ = At::kColon;
  return JsonStep::kMore;
}

JsonStep CallScanner::string_done() {
  at_ = At::kAfter;
  if (member_ == Member::kOther) return JsonStep::kMore;
  const std::optional<std::string> text = decode_json_string(token_);
  if (!text) return bad();
  if (member_ == Member::kName) {
    if (text->empty() || !is_name_(*text)) return bad();
    name_ = *text;
    has_name_ = true;
    if (has_arguments_) commit();
  } else {
    arguments_ = text->empty() ? "{}" : *text;
    has_arguments_ = true;
    if (has_name_) commit();
  }
  return JsonStep::kMore;
}

JsonStep CallScanner::scalar_byte(char c) {
  if (may_stand(c) && c != ',' && c != ':' && !is_json_space(c)) {
    if (member_ != Member::kOther) token_ += c;
    return JsonStep::kMore;
  }
  if (member_ == Member::kArguments) {
    if (token_ != "null" && token_ != "None") return bad();
    arguments_ = "{}";
    has_arguments_ = true;
    if (has_name_) commit();
  }
  at_ = At::kAfter;
  return after_value(c);
}

JsonStep CallScanner::nested_byte(char c) {
  std::string ignored;
  const JsonStep step = nested_.feed(c, member_ == Member::kArguments ? arguments_ : ignored);
  if (step == JsonStep::kBad) return bad();
  if (step == JsonStep::kDone) at_ = At::kAfter;
  return JsonStep::kMore;
}

JsonStep CallScanner::after_value(char c) {
  if (is_json_space(c)) return JsonStep::kMore;
  if (c == '}') return end();
  if (c != ',') return bad();
  at_ = At::kKey;
  return JsonStep::kMore;
}

JsonStep CallScanner::end() {
  if (committed_) return JsonStep::kDone;
  if (!marked_ || !has_name_) return JsonStep::kBad;
  arguments_ = "{}";
  commit();
  return JsonStep::kDone;
}

void CallScanner::commit() { committed_ = true; }

}  // namespace ingot
