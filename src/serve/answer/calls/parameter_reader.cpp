#include "serve/answer/calls/parameter_reader.h"

#include <algorithm>

#include "files/json.h"
#include "serve/answer/calls/literal_stream.h"
#include "serve/answer/held_text.h"

namespace ingot {
namespace {

constexpr size_t kMaxKeyBytes = 1024;
constexpr std::string_view kCdataOpen = "<![CDATA[", kCdataClose = "]]>";

bool ends_with_line(std::string_view text) { return !text.empty() && text.back() == '\n'; }

}  // namespace

void append_json_text(std::string_view text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

namespace {

// A list or dict as Python prints it, as JSON; empty where it is none.
std::string json_of_python(std::string_view text) {
  if (!text.starts_with('[') && !text.starts_with('{')) return {};
  constexpr std::string_view kBefore = "{\"v\": ", kAfter = "}";
  LiteralStream stream(true, ')', {});
  std::string out;
  JsonStep step = JsonStep::kMore;
  for (const char c : "v=" + std::string(text) + ")") {
    if (step != JsonStep::kMore) return {};
    step = stream.feed(c, out);
  }
  if (step != JsonStep::kDone) return {};
  return out.substr(kBefore.size(), out.size() - kBefore.size() - kAfter.size());
}

}  // namespace

std::string json_of_value(std::string_view text, ToolSignature::Value kinds) {
  using Value = ToolSignature::Value;
  const std::string_view bare = without_space(text);
  const bool may_be_text = (kinds & Value::kText) != Value::kNone;
  // What a type of the schema has; where text has no part in it, what the model wrote is passed on as it is.
  const auto fits = [&](Value kind) { return !may_be_text || (kinds & kind) != Value::kNone; };
  try {
    const Json value = parse_json(bare, "value");
    const Value kind = value.is_null()     ? Value::kNull
                       : value.is_bool()   ? Value::kBool
                       : value.is_array()  ? Value::kArray
                       : value.is_object() ? Value::kObject
                       : value.is_string() ? Value::kText
                                           : Value::kNumber;
    // Quotes around a text are the text's own where only text may stand here beside other types.
    if (kind == Value::kText ? kinds == Value::kAny || !may_be_text : fits(kind)) return std::string(bare);
  } catch (const Error&) {
    // A text that is no JSON.
  }
  // As Python prints them.
  if (bare == "None" && fits(Value::kNull)) return "null";
  if ((bare == "True" || bare == "False") && fits(Value::kBool)) return bare == "True" ? "true" : "false";
  if (fits(Value::kArray) || fits(Value::kObject)) {
    if (const std::string python = json_of_python(bare); !python.empty()) return python;
  }
  std::string out = "\"";
  append_json_text(text, out);
  return out + '"';
}

ToolSignature::Value ToolSignature::value_of(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, [](const auto& entry) { return std::string_view(entry.first); });
  return found == keys.end() ? Value::kAny : found->second;
}

ParameterReader::ParameterReader(const CallForm& form, const ToolSignature* tool)
    : form_(form), tool_(tool), value_end_(without_space(form.value_close)) {
  begin_between();
}

void ParameterReader::begin_between() {
  at_ = At::kBetween;
  key_ = PieceMatch(form_.key_open);
  close_ = PieceMatch(form_.call_close);
  text_.clear();
}

ParameterReader::Step ParameterReader::feed(char c, std::string& out) {
  switch (at_) {
    case At::kBetween:
      return between(c, out);
    case At::kKey:
      if (c != without_space(form_.key_close).front()) {
        text_ += c;
        return text_.size() > kMaxKeyBytes ? broken(out) : Step::kMore;
      }
      key_text_ = std::exchange(text_, {});
      key_ = PieceMatch(form_.key_close);
      at_ = At::kKeyClose;
      [[fallthrough]];
    case At::kKeyClose: {
      const JsonStep step = key_.feed(c);
      if (step == JsonStep::kBad) return broken(out);
      if (step == JsonStep::kMore) return Step::kMore;
      if (!form_.attribute_close.empty()) {
        at_ = At::kAttribute;
      } else {
        start_value(tool_ ? tool_->value_of(key_text_) : ToolSignature::Value::kAny, out);
      }
      return Step::kMore;
    }
    case At::kAttribute:
      text_ += c;
      if (text_.size() > kMaxKeyBytes) return broken(out);
      if (text_.ends_with(form_.attribute_close)) {
        text_.resize(text_.size() - form_.attribute_close.size());
        const bool is_text = text_ == form_.text_attribute;
        start_value(is_text ? ToolSignature::Value::kText : ToolSignature::Value::kJson, out);
      }
      return Step::kMore;
    case At::kValue:
      value_byte(c, out);
      return Step::kMore;
  }
  return Step::kNone;
}

ParameterReader::Step ParameterReader::between(char c, std::string& out) {
  const JsonStep key = key_.feed(c), closes = close_.feed(c);
  if (closes == JsonStep::kDone) {
    begun_ = true;
    out += any_ ? "}" : "{}";
    return Step::kDone;
  }
  if (key == JsonStep::kDone) {
    begun_ = true;
    at_ = At::kKey;
    text_.clear();
    return Step::kMore;
  }
  if (key != JsonStep::kBad || closes != JsonStep::kBad) return Step::kMore;
  return begun_ ? broken(out) : Step::kNone;
}

ParameterReader::Step ParameterReader::broken(std::string& out) {
  out += any_ ? "}" : "{}";
  return Step::kBroken;
}

void ParameterReader::start_value(ToolSignature::Value kind, std::string& out) {
  out += std::exchange(any_, true) ? ", \"" : "{\"";
  append_json_text(key_text_, out);
  out += "\": ";
  kind_ = kind;
  text_.clear();
  first_byte_ = true;
  at_ = At::kValue;
  if (kind_ == ToolSignature::Value::kText) out += '"';
}

void ParameterReader::value_byte(char c, std::string& out) {
  // The line break that the form writes before a value is the form's, once.
  const std::string_view before = form_.attribute_close.empty() ? form_.key_close : form_.attribute_close;
  if (std::exchange(first_byte_, false) && c == '\n' && ends_with_line(before)) return;
  text_ += c;
  if (text_.ends_with(value_end_)) {
    text_.resize(text_.size() - value_end_.size());
    if (form_.value_close.front() == '\n' && ends_with_line(text_)) text_.pop_back();
    return end_value(out);
  }
  // Held back: what may be the closing text or the line break before it; wrapped text comes as a whole.
  if (kind_ == ToolSignature::Value::kText && !form_.cdata) give_text(value_end_.size() + 1, out);
  if (text_.size() > kMaxHeldBytes) throw held_too_long();
}

void ParameterReader::give_text(size_t held_back, std::string& out) {
  if (text_.size() <= held_back) return;
  size_t n = text_.size() - held_back;
  while (n > 0 && (static_cast<unsigned char>(text_[n]) & 0xc0) == 0x80) --n;  // whole characters
  append_json_text(std::string_view(text_).substr(0, n), out);
  text_.erase(0, n);
}

void ParameterReader::finish(std::string& out) {
  if (at_ == At::kValue && kind_ == ToolSignature::Value::kText) append_json_text(std::exchange(text_, {}), out);
}

void ParameterReader::end_value(std::string& out) {
  const std::string_view bare = without_space(text_);
  const bool wrapped = form_.cdata && bare.starts_with(kCdataOpen) && bare.ends_with(kCdataClose);
  if (wrapped) {
    const std::string inner(bare.substr(kCdataOpen.size(), bare.size() - kCdataOpen.size() - kCdataClose.size()));
    text_ = inner;
  }
  if (kind_ == ToolSignature::Value::kText) {
    append_json_text(text_, out);
    out += '"';
  } else if (wrapped) {
    out += '"';
    append_json_text(text_, out);
    out += '"';
  } else {
    out += json_of_value(text_, kind_);
  }
  begin_between();
}

}  // namespace ingot
