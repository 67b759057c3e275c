#include "serve/answer/tool_calls.h"

#include <algorithm>
#include <utility>

namespace ingot {
namespace {

constexpr std::string_view kHermesClose = "</tool_call>";
constexpr std::string_view kArgs = "[ARGS]";
constexpr std::string_view kCallId = "[CALL_ID]";
// Longer is no name with an id: text that only begins like a call is not held back for ever.
constexpr size_t kMaxNameBytes = 256;

// The first byte of each occurs in it once: after a mismatch the match can only begin anew at the byte itself.
std::string_view mark_of(ToolForm form) {
  switch (form) {
    case ToolForm::kHermes:
      return "<tool_call>";
    case ToolForm::kLlama3:
      return "<|python_tag|>";
    case ToolForm::kMistral:
      return "[TOOL_CALLS]";
    case ToolForm::kNone:
    case ToolForm::kOther:
      break;
  }
  return {};
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

uint64_t scramble(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

std::string call_id(ToolForm form, uint64_t seed, int index) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool is_short = form == ToolForm::kMistral;
  std::string id = is_short ? "" : "call_";
  uint64_t state = scramble(seed ^ scramble(static_cast<uint64_t>(index)));
  for (int i = is_short ? 9 : 24; i > 0; --i) {
    state = scramble(state);
    id += kLetters[state % kLetters.size()];
  }
  return id;
}

void append_part(std::vector<AnswerPart>& out, AnswerPart part) {
  using Kind = AnswerPart::Kind;
  const bool joins = part.kind == Kind::kText || part.kind == Kind::kReasoning || part.kind == Kind::kCallArguments;
  if (joins && part.text.empty()) return;
  if (joins && !out.empty() && out.back().kind == part.kind && out.back().index == part.index) {
    out.back().text += part.text;
  } else {
    out.push_back(std::move(part));
  }
}

ToolCalls::ToolCalls(ToolForm form, std::vector<std::string> names, uint64_t id_seed)
    : form_(form), names_(std::move(names)), id_seed_(id_seed), mark_(mark_of(form)) {}

void ToolCalls::push(std::string_view text, std::vector<AnswerPart>& out) {
  out_ = &out;
  if (mark_.empty()) {
    emit(AnswerPart::Kind::kText, std::string(text));
  } else {
    for (const char c : text) feed(c);
  }
  out_ = nullptr;
}

void ToolCalls::feed(char c) {
  switch (at_) {
    case At::kText:
      return text_byte(c);
    case At::kAfterMark:
      return after_mark(c);
    case At::kName:
      return name_byte(c);
    case At::kArguments:
      return arguments_byte(c);
    case At::kObject:
      return object_byte(c);
    case At::kClose:
      return close_byte(c);
    case At::kBetween:
      return between(c);
  }
}

void ToolCalls::text_byte(char c) {
  if (c == mark_[matched_]) {
    if (++matched_ < mark_.size()) return;
    matched_ = 0;
    raw_ = std::exchange(space_, {}) + std::string(mark_);
    in_list_ = false;
    at_ = At::kAfterMark;
    return;
  }
  if (matched_ > 0) {
    for (const char held : mark_.substr(0, std::exchange(matched_, 0))) plain(held);
    return text_byte(c);
  }
  plain(c);
}

void ToolCalls::plain(char c) {
  if (edge_ && is_json_space(c)) {
    space_ += c;
    return;
  }
  if (edge_ && c == '{' && form_ == ToolForm::kLlama3 && n_calls_ == 0) {
    edge_ = false;  // if it is no call, nothing after it is looked at
    raw_ = std::exchange(space_, {});
    return begin_object(c, false);
  }
  edge_ = false;
  emit(AnswerPart::Kind::kText, std::exchange(space_, {}) + c);
}

void ToolCalls::after_mark(char c) {
  if (is_json_space(c)) {
    raw_ += c;
  } else if (c == '{') {
    begin_object(c, true);
  } else if (form_ == ToolForm::kMistral && c == '[' && !in_list_) {
    raw_ += c;
    in_list_ = true;
  } else if (form_ == ToolForm::kMistral && !in_list_ && is_name_byte(c)) {
    at_ = At::kName;
    name_.clear();
    name_byte(c);
  } else {
    fail(c);
  }
}

void ToolCalls::name_byte(char c) {
  if ((!is_name_byte(c) && c != '[' && c != ']') || name_.size() >= kMaxNameBytes) return fail(c);
  raw_ += c;
  name_ += c;
  if (!name_.ends_with(kArgs)) return;
  name_.resize(name_.size() - kArgs.size());
  const size_t bracket = name_.find('[');
  // An id that the model made up is not used: the ids of answers must differ.
  const bool whole = bracket == std::string::npos || std::string_view(name_).substr(bracket).starts_with(kCallId);
  name_.resize(std::min(bracket, name_.size()));
  at_ = whole && !name_.empty() ? At::kArguments : At::kText;
  value_ = {};
  value_begun_ = false;
  if (at_ == At::kText) {
    edge_ = false;
    emit(AnswerPart::Kind::kText, std::exchange(raw_, {}));
  }
}

void ToolCalls::arguments_byte(char c) {
  if (!value_begun_) {
    if (is_json_space(c)) {
      raw_ += c;
      return;
    }
    if (c != '{') return fail(c);
    value_begun_ = true;
    raw_.clear();
    begin_call(name_);
  }
  std::string piece;
  const JsonStep step = value_.feed(c, piece);
  emit(AnswerPart::Kind::kCallArguments, std::move(piece));
  if (step == JsonStep::kMore) return;
  end_call();
  at_ = At::kText;
  if (step == JsonStep::kBad) feed(c);
}

void ToolCalls::begin_object(char c, bool marked) {
  marked_ = marked;
  at_ = At::kObject;
  object_.emplace(marked, [this](std::string_view name) { return marked_ || is_known(name); });
  object_byte(c);
}

void ToolCalls::object_byte(char c) {
  const bool had_begun = object_->committed();
  const JsonStep step = object_->feed(c);
  if (step == JsonStep::kBad) return fail(c);
  if (!object_->committed()) {
    raw_ += c;
    return;
  }
  if (!had_begun) {
    raw_.clear();
    begin_call(object_->name());
  }
  emit(AnswerPart::Kind::kCallArguments, object_->take_arguments());
  if (step == JsonStep::kMore) return;
  end_call();
  at_ = form_ == ToolForm::kHermes ? At::kClose : At::kBetween;
  if (form_ == ToolForm::kMistral && !in_list_) at_ = At::kText;
  if (step == JsonStep::kEnded) feed(c);
}

void ToolCalls::close_byte(char c) {
  if (matched_ == 0 && is_json_space(c)) {
    raw_ += c;
    return;
  }
  if (c == kHermesClose[matched_]) {
    if (++matched_ < kHermesClose.size()) return;
    raw_.clear();
  }
  // Either all of it, or something else comes: its text, and perhaps the next mark.
  const bool closed = matched_ == kHermesClose.size();
  const std::string held = std::exchange(raw_, {}) + std::string(kHermesClose.substr(0, std::exchange(matched_, 0)));
  at_ = At::kText;
  if (closed) return;
  for (const char h : held) feed(h);
  feed(c);
}

void ToolCalls::between(char c) {
  const bool list = form_ == ToolForm::kMistral;
  if (is_json_space(c) || c == (list ? ',' : ';')) {
    raw_ += c;
  } else if (c == '{') {
    begin_object(c, marked_);
  } else if (list && c == ']') {
    raw_.clear();
    at_ = At::kText;
  } else {
    at_ = At::kText;
    for (const char held : std::exchange(raw_, {})) text_byte(held);
    feed(c);
  }
}

void ToolCalls::begin_call(const std::string& name) {
  out_->push_back({.kind = AnswerPart::Kind::kCallBegin,
                   .text = name,
                   .index = n_calls_,
                   .id = call_id(form_, id_seed_, n_calls_)});
  ++n_calls_;
}

void ToolCalls::end_call() {
  emit(AnswerPart::Kind::kCallEnd, {});
  ++n_ended_;
  edge_ = true;
}

// What was held back is no call.
void ToolCalls::fail(char c) {
  at_ = At::kText;
  edge_ = false;
  emit(AnswerPart::Kind::kText, std::exchange(raw_, {}));
  feed(c);
}

void ToolCalls::emit(AnswerPart::Kind kind, std::string text) {
  const bool of_call = kind == AnswerPart::Kind::kCallArguments || kind == AnswerPart::Kind::kCallEnd;
  append_part(*out_, {.kind = kind, .text = std::move(text), .index = of_call ? n_calls_ - 1 : -1, .id = {}});
}

void ToolCalls::finish(std::vector<AnswerPart>& out) {
  out_ = &out;
  std::string rest;
  if (at_ == At::kText) {
    if (n_calls_ == 0) rest = std::exchange(space_, {});
    rest += mark_.substr(0, std::exchange(matched_, 0));
  } else if (at_ != At::kClose && at_ != At::kBetween) {
    rest = std::exchange(raw_, {});  // of a call whose name was not known yet
  }
  emit(AnswerPart::Kind::kText, std::move(rest));
  out_ = nullptr;
}

bool ToolCalls::is_known(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

}  // namespace ingot
