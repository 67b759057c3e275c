#include "serve/answer/calls/call_reader.h"

#include <algorithm>
#include <iterator>

#include "serve/answer/held_text.h"

namespace ingot {
namespace {

// Longer is no name and no id: text that only begins like a call is not held back for ever.
constexpr size_t kMaxNameBytes = 256;

std::string without_any_space(std::string_view text) {
  std::string out;
  std::ranges::copy_if(text, std::back_inserter(out), [](char c) { return !is_json_space(c); });
  return out;
}

}  // namespace

CallReader::CallReader(const CallForm& form, const std::vector<ToolSignature>& tools,
                       const std::function<bool(std::string_view)>& is_known, CallSink& sink, bool in_order)
    : form_(form),
      tools_(tools),
      is_known_(is_known),
      sink_(sink),
      in_order_(in_order),
      at_(At::kOpen),
      piece_(form.open) {
  if (form_.open.empty()) start_call();
}

CallReader::Step CallReader::feed(char c) {
  byte_ = c;
  held_ += c;
  for (;;) {
    switch (step(c)) {
      case Again::kAgain:
        continue;
      case Again::kTaken:
        if (held_.size() <= kMaxHeldBytes) return Step::kMore;
        if (in_call_) throw held_too_long();
        return begun_ ? Step::kOver : Step::kNone;
      case Again::kDone:
        held_.clear();
        return Step::kDone;
      case Again::kOver:
        return Step::kOver;
      case Again::kNone:
        return Step::kNone;
    }
  }
}

CallReader::Again CallReader::step(char c) {
  switch (at_) {
    case At::kOpen:
    case At::kCallOpen:
      return open(c);
    case At::kObject:
      return object(c);
    case At::kId:
      return id(c);
    case At::kName:
      return name(c);
    case At::kNameClose:
      return name_close(c);
    case At::kAfterId:
      return after_id(c);
    case At::kBody:
      return body(c);
    case At::kCallClose: {
      const JsonStep step = piece_.feed(c);
      if (step == JsonStep::kBad) return Again::kOver;
      return step == JsonStep::kDone ? after_call(Again::kTaken) : Again::kTaken;
    }
    case At::kBetween:
      return between(c);
  }
  return fail();
}

CallReader::Again CallReader::open(char c) {
  const JsonStep step = piece_.feed(c);
  if (step == JsonStep::kBad) return fail();
  if (step == JsonStep::kDone) {
    if (at_ == At::kOpen) {
      start_call();
    } else {
      at_ = behind_call_open();
    }
  }
  return Again::kTaken;
}

void CallReader::start_call() {
  text_.clear();
  name_.clear();
  scanner_.reset();
  value_ = {};
  value_begun_ = false;
  in_call_ = false;
  piece_ = PieceMatch(form_.call_open);
  at_ = form_.call_open.empty() ? behind_call_open() : At::kCallOpen;
}

CallReader::At CallReader::behind_call_open() const {
  if (form_.body == CallForm::Body::kObject) return At::kObject;
  return form_.id_close.empty() ? At::kName : At::kId;
}

CallReader::Again CallReader::object(char c) {
  if (!scanner_) {
    if (is_json_space(c)) return Again::kTaken;
    if (c != '{') return fail();
    const auto is_name = [this](std::string_view found) { return !form_.bare || is_known_(found); };
    scanner_.emplace(!form_.bare, form_.name_key, is_name, in_order_ && form_.bare);
  }
  const JsonStep step = scanner_->feed(c);
  if (step == JsonStep::kBad) return fail();
  if (!scanner_->committed()) return Again::kTaken;
  if (!in_call_) {
    name_ = scanner_->name();
    begin();
  }
  sink_.arguments(scanner_->take_arguments());
  if (step == JsonStep::kMore) {
    held_.clear();
    return Again::kTaken;
  }
  return end(step == JsonStep::kDone ? Again::kTaken : Again::kAgain);
}

CallReader::Again CallReader::id(char c) {
  if (is_json_space(c)) return Again::kTaken;
  text_ += c;
  if (text_.size() > kMaxNameBytes) return fail();
  if (text_.ends_with(without_any_space(form_.id_close))) {
    text_.clear();
    at_ = At::kName;
  }
  return Again::kTaken;
}

CallReader::Again CallReader::name(char c) {
  if (text_.empty() && is_json_space(c)) return Again::kTaken;
  if (is_name_byte(c)) {
    text_ += c;
    return text_.size() > kMaxNameBytes ? fail() : Again::kTaken;
  }
  name_ = text_.starts_with(form_.name_prefix) ? text_.substr(form_.name_prefix.size()) : text_;
  if (name_.empty()) return fail();
  text_.clear();
  piece_ = PieceMatch(form_.name_close);
  other_ = PieceMatch(form_.id_open);
  if (piece_.alive()) {
    at_ = At::kNameClose;
    return Again::kAgain;
  }
  at_ = At::kBody;
  if (form_.name_close.empty()) return Again::kAgain;
  if (is_json_space(c) && is_text()) return Again::kDone;
  return is_json_space(c) ? Again::kTaken : fail();  // a form may end the name by white space alone
}

CallReader::Again CallReader::name_close(char c) {
  const JsonStep closes = piece_.feed(c), ids = other_.feed(c);
  if (closes == JsonStep::kDone) {
    at_ = At::kBody;
    if (is_text()) return Again::kDone;
  } else if (ids == JsonStep::kDone) {
    at_ = At::kAfterId;
  } else if (closes == JsonStep::kBad && ids == JsonStep::kBad) {
    return fail();
  }
  return Again::kTaken;
}

CallReader::Again CallReader::after_id(char c) {
  text_ += c;
  if (text_.size() > kMaxNameBytes) return fail();
  if (text_.ends_with(without_space(form_.name_close))) at_ = At::kBody;
  return Again::kTaken;
}

CallReader::Again CallReader::body(char c) {
  switch (form_.body) {
    case CallForm::Body::kObject:
    case CallForm::Body::kJson:
      return json_body(c);
    case CallForm::Body::kParameters:
      return parameter_body(c);
    case CallForm::Body::kPython:
    case CallForm::Body::kMarked:
      return literal_body(c);
  }
  return fail();
}

CallReader::Again CallReader::json_body(char c) {
  if (!value_begun_) {
    if (is_json_space(c)) return Again::kTaken;
    if (c != '{') return fail();
    value_begun_ = true;
    begin();
  }
  std::string piece;
  const JsonStep step = value_.feed(c, piece);
  sink_.arguments(std::move(piece));
  if (step == JsonStep::kMore) {
    held_.clear();
    return Again::kTaken;
  }
  if (step == JsonStep::kBad) {
    in_call_ = false;
    sink_.end_call();
    return Again::kOver;
  }
  return end(Again::kTaken);
}

CallReader::Again CallReader::literal_body(char c) {
  if (!value_begun_) {
    value_begun_ = true;
    literal_.emplace(form_.body == CallForm::Body::kPython, form_.call_close.front(), form_.quote);
    begin();
  }
  std::string piece;
  const JsonStep step = literal_->feed(c, piece);
  sink_.arguments(std::move(piece));
  if (step == JsonStep::kMore) {
    held_.clear();
    return Again::kTaken;
  }
  if (step == JsonStep::kBad) {
    sink_.arguments(literal_->close());
    in_call_ = false;
    sink_.end_call();
    return Again::kOver;
  }
  return end(Again::kTaken);
}

CallReader::Again CallReader::parameter_body(char c) {
  if (!value_begun_) {
    value_begun_ = true;
    const auto found = std::ranges::find(tools_, name_, &ToolSignature::name);
    parameters_.emplace(form_, found == tools_.end() ? nullptr : &*found);
  }
  std::string piece;
  const ParameterReader::Step step = parameters_->feed(c, piece);
  if (step == ParameterReader::Step::kNone) return fail();
  if (!in_call_ && parameters_->begun()) begin();
  if (in_call_) sink_.arguments(std::move(piece));
  if (parameters_->settled()) held_.clear();
  switch (step) {
    case ParameterReader::Step::kMore:
    case ParameterReader::Step::kNone:
      return Again::kTaken;
    case ParameterReader::Step::kDone:
      in_call_ = false;
      sink_.end_call();
      held_.clear();
      return after_call(Again::kTaken);
    case ParameterReader::Step::kBroken:
      break;
  }
  in_call_ = false;
  sink_.end_call();
  return Again::kOver;
}

void CallReader::finish() {
  if (!in_call_ || !parameters_) return;
  std::string text;
  parameters_->finish(text);
  sink_.arguments(std::move(text));
}

void CallReader::begin() {
  begun_ = in_call_ = true;
  held_.clear();
  sink_.begin_call(name_);
}

// The arguments are whole; `taken`: with this byte, or before it.
CallReader::Again CallReader::end(Again taken) {
  in_call_ = false;
  sink_.end_call();
  held_.clear();
  if (taken == Again::kAgain) held_ += byte_;  // step() sees it again
  std::string_view close = form_.call_close;
  if (form_.body == CallForm::Body::kPython || form_.body == CallForm::Body::kMarked) close.remove_prefix(1);
  if (without_space(close).empty()) return after_call(taken);
  piece_ = PieceMatch(close);
  at_ = At::kCallClose;
  return taken;
}

CallReader::Again CallReader::after_call(Again taken) {
  if (!goes_on()) return taken == Again::kTaken ? Again::kDone : Again::kOver;
  at_ = At::kBetween;
  separated_ = false;
  piece_ = PieceMatch(form_.call_open);
  other_ = PieceMatch(form_.close);
  if (taken == Again::kTaken) held_.clear();
  return taken;
}

CallReader::Again CallReader::between(char c) {
  if (is_json_space(c) && held_.size() <= kMaxNameBytes) return Again::kTaken;
  const std::string_view separator = without_space(form_.separator);
  if (!separated_ && !separator.empty() && c == separator.front() && separator.size() == 1) {
    separated_ = true;
    return Again::kTaken;
  }
  // Names within the closing text are none of a call.
  const std::string_view close = without_space(form_.close);
  const bool closing = !close.empty() && held_.find(close.front()) != std::string::npos;
  if (form_.call_open.empty() && !closing) {
    const bool starts = form_.body == CallForm::Body::kObject ? c == '{' : is_name_byte(c);
    if (starts) {
      start_call();
      return Again::kAgain;
    }
  }
  const JsonStep opens = piece_.feed(c), closes = other_.feed(c);
  if (closes == JsonStep::kDone) return Again::kDone;
  if (opens == JsonStep::kDone) {
    start_call();
    at_ = behind_call_open();
    return Again::kTaken;
  }
  return opens == JsonStep::kBad && closes == JsonStep::kBad ? Again::kOver : Again::kTaken;
}

}  // namespace ingot
