#include "serve/answer/calls/literal_stream.h"

#include <utility>

#include "serve/answer/calls/call_piece.h"
#include "serve/answer/calls/parameter_reader.h"

namespace ingot {
namespace {

constexpr size_t kMaxWord = 256;

bool is_word_byte(char c) { return is_name_byte(c) || c == '+' || (static_cast<unsigned char>(c) & 0x80) != 0; }

std::string json_of_word(const std::string& word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return json_of_value(word);
}

}  // namespace

JsonStep LiteralStream::feed(char c, std::string& out) {
  if (!std::exchange(begun_, true)) out += '{';
  switch (at_) {
    case At::kKeyOrEnd:
    case At::kKey:
    case At::kSeparator:
      return key(c, out);
    case At::kValueOrEnd:
      return value(c, out);
    case At::kString:
      return escaped_ ? escaped_byte(c, out) : text_byte(c, out);
    case At::kWord:
      return word_byte(c, out);
    case At::kAfter:
      return after(c, out);
  }
  return JsonStep::kBad;
}

// A comma before every member or item but the first.
void LiteralStream::item(std::string& out) {
  if (!std::exchange(first_, false)) out += ", ";
}

JsonStep LiteralStream::key(char c, std::string& out) {
  if (at_ == At::kKeyOrEnd) {
    if (is_json_space(c)) return JsonStep::kMore;
    if (c == closer()) return shut(out);
    word_.clear();
    if (python_ && !stack_.empty() && (c == '"' || c == '\'')) {  // a key of a dict
      item(out);
      out += '"';
      text_quote_ = c;
      key_text_ = true;
      at_ = At::kString;
      return JsonStep::kMore;
    }
    if (!is_word_byte(c)) return JsonStep::kBad;
    at_ = At::kKey;
  }
  const char separator = python_ && stack_.empty() ? '=' : ':';
  if (at_ == At::kKey && is_word_byte(c)) {
    word_ += c;
    return word_.size() > kMaxWord ? JsonStep::kBad : JsonStep::kMore;
  }
  if (is_json_space(c)) {
    if (at_ == At::kKey) at_ = At::kSeparator;
    return JsonStep::kMore;
  }
  if (c != separator) return JsonStep::kBad;
  if (!std::exchange(key_text_, false)) {
    item(out);
    out += '"';
    append_json_text(word_, out);
    out += '"';
  }
  word_.clear();
  out += ": ";
  at_ = At::kValueOrEnd;
  return JsonStep::kMore;
}

JsonStep LiteralStream::value(char c, std::string& out) {
  if (word_.empty() && is_json_space(c)) return JsonStep::kMore;
  if (!quote_.empty() && (!word_.empty() || c == quote_.front())) {  // the mark of a text
    word_ += c;
    if (!quote_.starts_with(word_)) return JsonStep::kBad;
    if (word_ != quote_) return JsonStep::kMore;
    word_.clear();
    if (in_list()) item(out);
    out += '"';
    at_ = At::kString;
    return JsonStep::kMore;
  }
  if (in_list() && c == closer()) return shut(out);
  if (in_list()) item(out);
  if (python_ && (c == '"' || c == '\'')) {
    out += '"';
    text_quote_ = c;
    at_ = At::kString;
  } else if (c == '[' || c == '{' || (python_ && c == '(')) {
    const bool is_list = c != '{';
    out += is_list ? '[' : '{';
    stack_.push_back({c == '(' ? ')' : is_list ? ']' : '}', is_list ? ']' : '}'});
    first_ = true;
    at_ = is_list ? At::kValueOrEnd : At::kKeyOrEnd;
  } else if (is_word_byte(c)) {
    word_ = c;
    at_ = At::kWord;
  } else {
    return JsonStep::kBad;
  }
  return JsonStep::kMore;
}

JsonStep LiteralStream::text_byte(char c, std::string& out) {
  if (!python_) {
    word_ += c;
    while (!word_.empty() && !quote_.starts_with(word_)) {
      append_json_text(word_.substr(0, 1), out);
      word_.erase(0, 1);
    }
    if (word_ != quote_) return JsonStep::kMore;
    word_.clear();
    out += '"';
    at_ = At::kAfter;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == text_quote_) {
    out += '"';
    at_ = key_text_ ? At::kSeparator : At::kAfter;
  } else {
    append_json_text(std::string_view(&c, 1), out);
  }
  return JsonStep::kMore;
}

JsonStep LiteralStream::escaped_byte(char c, std::string& out) {
  escaped_ = false;
  if (c == '\'') {
    out += '\'';
  } else if (std::string_view("\"\\bfnrtu").find(c) != std::string_view::npos) {
    out += '\\';
    out += c;
  } else if (c == 'x') {
    out += "\\u00";
  } else {
    out += "\\\\";
    append_json_text(std::string_view(&c, 1), out);
  }
  return JsonStep::kMore;
}

JsonStep LiteralStream::word_byte(char c, std::string& out) {
  if (is_word_byte(c) && word_.size() < kMaxWord) {
    word_ += c;
    return JsonStep::kMore;
  }
  out += json_of_word(std::exchange(word_, {}));
  at_ = At::kAfter;
  return after(c, out);
}

JsonStep LiteralStream::after(char c, std::string& out) {
  if (is_json_space(c)) return JsonStep::kMore;
  if (c == closer()) return shut(out);
  if (c != ',') return JsonStep::kBad;
  at_ = in_list() ? At::kValueOrEnd : At::kKeyOrEnd;
  return JsonStep::kMore;
}

JsonStep LiteralStream::shut(std::string& out) {
  if (stack_.empty()) {
    out += '}';
    return JsonStep::kDone;
  }
  out += stack_.back().json;
  stack_.pop_back();
  first_ = false;
  at_ = At::kAfter;
  return JsonStep::kMore;
}

std::string LiteralStream::close() {
  std::string out;
  if (!begun_) out += '{';
  if (at_ == At::kString) out += key_text_ ? "\": null" : "\"";
  if (at_ == At::kSeparator && key_text_) out += ": null";
  if (at_ == At::kWord) out += json_of_word(word_);
  if (at_ == At::kValueOrEnd && !in_list()) out += "null";
  for (; !stack_.empty(); stack_.pop_back()) out += stack_.back().json;
  return out + '}';
}

}  // namespace ingot
