#include "serve/answer/calls/tool_calls.h"

#include <algorithm>
#include <utility>

#include "serve/answer/held_text.h"

namespace ingot {
namespace {

uint64_t scramble(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

std::string call_id(const CallForm& form, uint64_t seed, int index) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = form.short_ids ? "" : "call_";
  uint64_t state = scramble(seed ^ scramble(static_cast<uint64_t>(index)));
  for (int i = form.short_ids ? 9 : 24; i > 0; --i) {
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

ToolCalls::ToolCalls(const CallForm* form, const std::vector<std::string>& names,
                     const std::vector<ToolSignature>& tools, uint64_t id_seed, Read read)
    : form_(form),
      names_(names),
      tools_(tools),
      id_seed_(id_seed),
      is_known_([this](std::string_view name) { return std::ranges::find(names_, name) != names_.end(); }),
      at_beginning_(read == Read::kAtBeginning) {
  if (!form_) return;
  for (const CallForm* form_too : also_read(*form_)) {
    if (read != Read::kThisForm || form_too == form_) starts_.push_back({form_too, section_mark(*form_too)});
  }
}

void ToolCalls::push(std::string_view text, std::vector<AnswerPart>& out) {
  out_ = &out;
  if (starts_.empty()) {
    emit(AnswerPart::Kind::kText, std::string(text));
  } else {
    feed(text);
  }
  out_ = nullptr;
}

void ToolCalls::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (all_text_) {
      emit(AnswerPart::Kind::kText, std::string(1, c));
    } else if (reader_) {
      section_byte(c);
    } else {
      text_byte(c);
    }
  }
}

void ToolCalls::text_byte(char c) {
  hold_ += c;
  while (!hold_.empty() && !reader_) {
    const auto begins = [this](const Start& start) { return start.mark.starts_with(hold_); };
    if (std::ranges::any_of(starts_, begins)) {
      const auto whole = std::ranges::find(starts_, hold_, &Start::mark);
      if (whole != starts_.end()) begin_section(whole->mark, std::exchange(hold_, {}));
      return;
    }
    const char first = hold_.front();
    hold_.erase(0, 1);
    plain(first);
    if (all_text_) return emit(AnswerPart::Kind::kText, std::exchange(hold_, {}));
  }
}

void ToolCalls::plain(char c) {
  if (edge_ && is_json_space(c)) {
    space_ += c;
    if (space_.size() > kMaxHeldBytes) {
      edge_ = false;
      emit(AnswerPart::Kind::kText, space_);
      space_.clear();
    }
    return;
  }
  const bool reads_bare = std::ranges::any_of(starts_, [](const Start& start) { return start.mark.empty(); });
  if (edge_ && c == '{' && reads_bare && n_calls_ == 0) return begin_section({}, "{");
  edge_ = false;
  emit(AnswerPart::Kind::kText, std::exchange(space_, {}) + c);
  all_text_ = at_beginning_ && n_calls_ == 0;
}

void ToolCalls::begin_section(std::string_view mark, const std::string& bytes) {
  before_ = std::exchange(space_, {});
  mark_ = mark;
  next_start_ = 0;
  try_next(bytes);
}

// Reads the bytes in the next form that begins so; as text where there is none.
void ToolCalls::try_next(const std::string& bytes) {
  while (next_start_ < starts_.size() && starts_[next_start_].mark != mark_) ++next_start_;
  if (next_start_ < starts_.size()) {
    reader_.emplace(*starts_[next_start_++].form, tools_, is_known_, static_cast<CallSink&>(*this), at_beginning_);
    return feed(bytes);
  }
  reader_.reset();
  edge_ = false;
  if (at_beginning_ && n_calls_ == 0) {
    all_text_ = true;
    return emit(AnswerPart::Kind::kText, std::exchange(before_, {}) + bytes);
  }
  emit(AnswerPart::Kind::kText, std::exchange(before_, {}) + bytes.substr(0, bytes.size() - 1));
  // The first byte of a mark or of a bare object is text by now; any other is looked at.
  if (bytes.size() == 1) return emit(AnswerPart::Kind::kText, bytes);
  text_byte(bytes.back());
}

void ToolCalls::section_byte(char c) {
  const CallReader::Step step = reader_->feed(c);
  if (step == CallReader::Step::kMore) return;
  const std::string held = reader_->held();
  if (step == CallReader::Step::kNone) return try_next(held);
  reader_.reset();
  edge_ = true;
  all_text_ = at_beginning_ && n_calls_ == 0;  // what stood there says that text follows
  if (step == CallReader::Step::kOver) feed(held);
}

void ToolCalls::begin_call(const std::string& name) {
  before_.clear();
  out_->push_back({.kind = AnswerPart::Kind::kCallBegin,
                   .text = name,
                   .index = n_calls_,
                   .id = call_id(*form_, id_seed_, n_calls_)});
  ++n_calls_;
}

void ToolCalls::arguments(std::string text) { emit(AnswerPart::Kind::kCallArguments, std::move(text)); }

void ToolCalls::end_call() {
  emit(AnswerPart::Kind::kCallEnd, {});
  ++n_ended_;
}

void ToolCalls::emit(AnswerPart::Kind kind, std::string text) {
  const bool of_call = kind == AnswerPart::Kind::kCallArguments || kind == AnswerPart::Kind::kCallEnd;
  append_part(*out_, {.kind = kind, .text = std::move(text), .index = of_call ? n_calls_ - 1 : -1, .id = {}});
}

void ToolCalls::finish(std::vector<AnswerPart>& out) {
  out_ = &out;
  if (reader_ && !reader_->none_yet()) {
    reader_->finish();
  } else if (reader_) {
    emit(AnswerPart::Kind::kText, std::exchange(before_, {}) + reader_->held());
  } else {
    emit(AnswerPart::Kind::kText, (n_calls_ == 0 ? std::exchange(space_, {}) : std::string()) + hold_);
    hold_.clear();
  }
  out_ = nullptr;
}

}  // namespace ingot
