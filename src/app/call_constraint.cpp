#include "app/call_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "grammar/calls/marks.h"
#include "grammar/vocabulary.h"

namespace ingot {
namespace {

constexpr size_t kMostSteps = 1024;     // that can be taken back: drafts are shorter by far
constexpr size_t kMostEndBytes = 64;    // of what closes a section
constexpr size_t kMostBareBytes = 512;  // up to the name of a bare object
constexpr const char* kNotAllowed = "a token came that the grammar does not allow";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool all_space(std::string_view text) { return std::ranges::all_of(text, is_space); }

// {"name": "f": nothing where the text is no beginning of it, 0 where it is and more must come, or where it ends.
std::optional<size_t> bare_name_end(std::string_view text, const CallSearch& search) {
  size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && is_space(text[at])) ++at;
  };
  const std::string key = fmt::format("\"{}\"", search.name_key);
  for (const std::string_view piece : {std::string_view("{"), std::string_view(key), std::string_view(":")}) {
    skip();
    const std::string_view rest = text.substr(at);
    if (piece.starts_with(rest)) return 0;
    if (!rest.starts_with(piece)) return {};
    at += piece.size();
  }
  skip();
  const std::string_view rest = text.substr(at);
  bool may = false;
  for (const std::string& name : search.names) {
    const std::string quoted = fmt::format("\"{}\"", name);
    if (rest.starts_with(quoted)) return at + quoted.size();
    may = may || quoted.starts_with(rest);
  }
  return may ? std::optional<size_t>(0) : std::nullopt;
}

}  // namespace

std::shared_ptr<const CrossingTokens::List> CrossingTokens::of(const std::string& mark,
                                                               const grammar::Vocabulary& vocabulary) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const List>& known = lists_[mark];
  if (known) return known;
  auto list = std::make_shared<List>();
  const char last = mark.empty() ? '"' : mark.back();
  for (Token token = 0; token < vocabulary.size(); ++token) {
    const std::string_view bytes = vocabulary.token_bytes(token);
    const size_t at = bytes.find(last);
    if (at == std::string_view::npos || at + 1 == bytes.size()) continue;
    list->ends.push_back(token);
    if (mark.empty()) continue;
    const size_t whole = bytes.find(mark);
    if (whole != std::string_view::npos && whole + mark.size() < bytes.size()) list->whole.push_back(token);
  }
  known = std::move(list);
  return known;
}

CallConstraint::CallConstraint(std::shared_ptr<const CallSearch> search,
                               std::shared_ptr<const grammar::Compiled> section,
                               std::shared_ptr<CrossingTokens> crossing, std::shared_ptr<const ConstraintFacts> facts)
    : search_(std::move(search)),
      section_(std::move(section)),
      crossing_(std::move(crossing)),
      facts_(std::move(facts)) {
  for (const grammar::CallStart& start : search_->starts) {
    longest_ = std::max(longest_, start.mark.size());
    if (start.mark.empty()) place_.bare = true;
  }
  longest_ = std::max({longest_, search_->reasoning_open.size(), search_->reasoning_close.size()});
  if (search_->in_reasoning) place_.at = At::kReasoning;
  place_.tail = search_->before;
  if (!search_->opened.empty()) {
    if (auto matcher = section_after(search_->opened, -1)) begin_section(std::move(matcher));
  }
}

CallConstraint::~CallConstraint() = default;

std::unique_ptr<TokenConstraint> CallConstraint::clone() const {
  auto copy = std::make_unique<CallConstraint>(search_, section_, crossing_, facts_);
  copy->place_ = place_;
  copy->sections_.clear();
  if (place_.at == At::kCall) copy->sections_.push_back(sections_.back()->clone());
  return copy;
}

// As the reader of answers sees it: names of special tokens are text where they are marks.
std::string CallConstraint::text_of(int32_t token) const {
  const Tokenizer& tokenizer = facts_->tokenizer;
  if (!tokenizer.contains(token)) return {};
  const bool hidden = tokenizer.is_special(token) && std::ranges::find(search_->marks, token) == search_->marks.end();
  return hidden ? std::string() : tokenizer.token_bytes(token);
}

std::optional<CallConstraint::Found> CallConstraint::find(std::string_view text) const {
  std::optional<Found> found;
  for (size_t i = 0; i < search_->starts.size(); ++i) {
    const std::string& mark = search_->starts[i].mark;
    size_t end = std::string_view::npos;
    if (!mark.empty()) {
      const size_t at = text.find(mark);
      if (at != std::string_view::npos) end = at + mark.size();
    } else if (place_.bare) {
      const std::optional<size_t> name = bare_name_end(text, *search_);
      if (name && *name > 0) end = *name;
    }
    if (end != std::string_view::npos && (!found || end < found->end)) found = Found{i, end};
  }
  return found;
}

// The grammar behind a mark; null where that is no beginning of a section.
std::unique_ptr<grammar::Matcher> CallConstraint::section_after(std::string_view mark, int32_t token) const {
  auto matcher = std::make_unique<grammar::Matcher>(section_);
  if (token >= 0) return matcher->advance(token) ? std::move(matcher) : nullptr;
  for (const grammar::MarkPart& part : grammar::mark_parts(section_->vocabulary(), mark)) {
    const bool taken = part.token >= 0 ? matcher->advance(part.token) : matcher->advance_text(part.text);
    if (!taken) return nullptr;
  }
  return matcher;
}

void CallConstraint::begin_section(std::unique_ptr<grammar::Matcher> matcher) {
  sections_.push_back(std::move(matcher));
  place_ = {.at = At::kCall, .begun = true, .bare = false, .tail = {}};
  end_if_over();
}

void CallConstraint::end_if_over() {
  if (place_.at == At::kCall && !search_->one && sections_.back()->complete()) place_.at = At::kText;
}

// What may still become a mark.
void CallConstraint::keep_tail(std::string text) {
  if (place_.bare && (!bare_name_end(text, *search_) || text.size() > kMostBareBytes)) place_.bare = false;
  if (!place_.bare && text.size() >= longest_) text.erase(0, text.size() - (longest_ > 0 ? longest_ - 1 : 0));
  place_.tail = std::move(text);
}

// Reasoning that begins or ends in the text is cut from it. True: all of it is reasoning.
bool CallConstraint::take_reasoning(std::string& text) {
  for (;;) {
    if (place_.at == At::kReasoning) {
      const size_t at = text.find(search_->reasoning_close);
      if (at == std::string::npos) {
        const size_t keep = search_->reasoning_close.size() - 1;
        place_.tail = text.size() > keep ? text.substr(text.size() - keep) : text;
        return true;
      }
      text.erase(0, at + search_->reasoning_close.size());
      place_.at = At::kText;
      place_.begun = !search_->reasons_often;
    }
    if (search_->reasoning_open.empty() || (place_.begun && !search_->reasons_often)) return false;
    const size_t at = text.find(search_->reasoning_open);
    const bool here = at != std::string::npos && (search_->reasons_often || all_space(text.substr(0, at)));
    if (!here) return false;
    const std::optional<Found> call = find(text);
    if (call && call->end < at) return false;
    text.erase(0, at + search_->reasoning_open.size());
    place_.at = At::kReasoning;
  }
}

void CallConstraint::take_text(std::string_view more) {
  std::string text = std::exchange(place_.tail, {}) + std::string(more);
  if (take_reasoning(text)) return;
  const std::optional<Found> found = find(text);
  if (!found) {
    // The beginning of the reasoning's mark is no text yet.
    const std::string_view all = text;
    const size_t first = all.find_first_not_of(" \t\r\n");
    const bool may_open =
        !place_.begun && first != std::string_view::npos && search_->reasoning_open.starts_with(all.substr(first));
    if (first != std::string_view::npos && !may_open) place_.begun = true;
    if (may_open) {
      place_.tail = std::move(text);
    } else {
      keep_tail(std::move(text));
    }
    return;
  }
  const grammar::CallStart& start = search_->starts[found->start];
  const std::string_view whole = text;
  std::unique_ptr<grammar::Matcher> matcher =
      start.mark.empty() ? section_after(whole.substr(0, found->end), -1) : section_after(start.mark, start.token);
  const std::string_view rest = whole.substr(found->end);
  if (!matcher) {  // a bare object that only begins like a call
    place_.begun = true;
    place_.bare = false;
    return keep_tail(std::string(rest));
  }
  if (!rest.empty() && !matcher->advance_text(rest)) throw ConstraintError(kNotAllowed);
  begin_section(std::move(matcher));
}

void CallConstraint::advance(int32_t token) {
  Step step{.before = place_, .sections = sections_.size(), .matched_text = false};
  if (place_.at == At::kCall) {
    grammar::Matcher& matcher = *sections_.back();
    step.matched_text = true;
    if (matcher.advance(token)) {
      end_if_over();
    } else if (matcher.failed() || !advance_beyond_end(token)) {
      throw ConstraintError(matcher.failed() ? matcher.failure() : kNotAllowed);
    }
  } else if (const std::string text = text_of(token); !text.empty()) {
    take_text(text);
  }
  steps_.push_back(std::move(step));
  if (steps_.size() > kMostSteps) steps_.pop_front();
}

void CallConstraint::rollback(int n) {
  for (; n > 0 && !steps_.empty(); --n) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    sections_.resize(step.sections);
    if (step.matched_text) sections_.back()->rollback(1);
    place_ = step.before;
  }
}

bool CallConstraint::complete() const { return place_.at == At::kCall && search_->one && sections_.back()->complete(); }

void CallConstraint::mask(std::span<uint32_t> words) {
  if (place_.at == At::kReasoning) return;
  if (place_.at == At::kText) return mask_crossing(words);
  const auto start = std::chrono::steady_clock::now();
  grammar::Matcher& matcher = *sections_.back();
  const size_t needed = section_->vocabulary().words();
  bool open = false;
  if (words.size() >= needed) {
    open = matcher.mask(words);
  } else {
    words_.resize(needed);
    open = matcher.mask(words_);
    std::ranges::copy(std::span(words_).first(words.size()), words.begin());
  }
  if (!open) throw ConstraintError(matcher.failure());
  if (!search_->one) allow_beyond_end(words);
  clear_from(words, static_cast<size_t>(std::max(facts_->vocab, 0)));
  if (!facts_->on_mask) return;
  facts_->on_mask(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// Where nothing but the rest of a closing mark can follow, tokens that begin with it may go on with text.
void CallConstraint::allow_beyond_end(std::span<uint32_t> words) {
  grammar::Matcher& matcher = *sections_.back();
  const std::string rest = matcher.forced(kMostEndBytes);
  if (rest.empty() || !matcher.advance_text(rest)) return;
  const bool ends = matcher.complete();
  matcher.rollback(1);
  if (!ends) return;
  const std::string last(1, rest.back());
  for (const Token token : crossing_->of(last, section_->vocabulary())->ends) {
    const auto word = static_cast<size_t>(token) / 32;
    if (word < words.size() && section_->vocabulary().token_bytes(token).starts_with(rest)) {
      words[word] |= 1u << (token % 32);
    }
  }
}

bool CallConstraint::advance_beyond_end(int32_t token) {
  if (search_->one) return false;
  grammar::Matcher& matcher = *sections_.back();
  const std::string_view bytes = section_->vocabulary().token_bytes(token);
  for (size_t n = 1; n < bytes.size(); ++n) {
    if (!matcher.advance_text(bytes.substr(0, n))) return false;
    if (matcher.complete()) {
      place_ = {.at = At::kText, .begun = true, .bare = false, .tail = {}};
      take_text(bytes.substr(n));
      return true;
    }
    matcher.rollback(1);
  }
  return false;
}

// A token that ends a mark may go on with what the grammar allows there, and with nothing else. There are few, and none
// where no mark has begun, but for tokens that hold a whole one.
void CallConstraint::mask_crossing(std::span<uint32_t> words) {
  const std::string_view tail = place_.tail;
  for (const grammar::CallStart& start : search_->starts) {
    const std::shared_ptr<const CrossingTokens::List> list = crossing_->of(start.mark, section_->vocabulary());
    bool begun = start.mark.empty() && place_.bare && !all_space(tail);
    for (size_t n = std::min(start.mark.size(), tail.size()); n > 0 && !begun; --n) {
      begun = std::string_view(start.mark).starts_with(tail.substr(tail.size() - n));
    }
    forbid_crossing(words, begun ? list->ends : list->whole);
  }
}

void CallConstraint::forbid_crossing(std::span<uint32_t> words, const std::vector<Token>& tokens) {
  std::vector<std::unique_ptr<grammar::Matcher>> behind(search_->starts.size());
  for (const Token token : tokens) {
    const auto word = static_cast<size_t>(token) / 32;
    const std::string_view bytes = section_->vocabulary().token_bytes(token);
    const std::string text = place_.tail + std::string(bytes);
    const std::optional<Found> found = find(text);
    if (!found || found->end == text.size() || word >= words.size()) continue;
    const grammar::CallStart& start = search_->starts[found->start];
    std::unique_ptr<grammar::Matcher>& matcher = behind[found->start];
    if (start.mark.empty()) {
      matcher = section_after(std::string_view(text).substr(0, found->end), -1);
    } else if (!matcher) {
      matcher = section_after(start.mark, start.token);
    }
    if (!matcher) continue;  // it stays text
    if (matcher->advance_text(std::string_view(text).substr(found->end))) {
      matcher->rollback(1);
    } else {
      words[word] &= ~(1u << (token % 32));
    }
  }
}

}  // namespace ingot
