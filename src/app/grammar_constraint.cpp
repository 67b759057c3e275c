#include "app/grammar_constraint.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "grammar/vocabulary.h"

namespace ingot {
namespace {

constexpr size_t kMostForcedBytes = 64;  // that are looked ahead for guesses

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// How many bytes of the mark the text ends with after one more; its size: all.
size_t after_byte(std::string_view mark, size_t matched, char c) {
  if (c == mark[matched]) return matched + 1;
  for (size_t n = matched; n > 0; --n) {  // the longest end that begins it anew
    if (mark[n - 1] == c && mark.substr(0, n - 1) == mark.substr(matched - (n - 1), n - 1)) return n;
  }
  return 0;
}

// Where the mark ends within `bytes`, or npos.
size_t end_of_mark(std::string_view mark, size_t matched, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    matched = after_byte(mark, matched, bytes[i]);
    if (matched == mark.size()) return i + 1;
  }
  return std::string_view::npos;
}

void clear(std::span<uint32_t> words, Token token) {
  const auto word = static_cast<size_t>(token) / 32;
  if (word < words.size()) words[word] &= ~(1u << (token % 32));
}

}  // namespace

void clear_from(std::span<uint32_t> words, size_t size) {
  if (size / 32 >= words.size()) return;
  words[size / 32] &= (1u << (size % 32)) - 1;
  std::ranges::fill(words.subspan(size / 32 + 1), 0);
}

ReasoningTokens reasoning_tokens(const Tokenizer& tokenizer, const PrefaceMarks& marks) {
  ReasoningTokens tokens;
  tokens.close = marks.close;
  tokens.open = tokenizer.encode(marks.open, {.parse_special = true});
  // A mark that is plain text could be cut into tokens in many ways, of which one is not all.
  if (!tokenizer.token_id(marks.open) && !(tokens.open.size() > 1 && tokenizer.is_special(tokens.open[0]))) {
    tokens.open.clear();
  } else if (const std::optional<Token> one = tokenizer.token_id(marks.open)) {
    tokens.open = {*one};
  }
  for (const char* blank : {"\n", "\n\n"}) {
    if (const std::optional<Token> id = tokenizer.token_id(blank)) tokens.blanks.push_back(*id);
  }
  tokens.crossing.resize(tokens.close.size());
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokens.close.empty() || !tokenizer.contains(token)) continue;
    const std::string bytes = tokenizer.token_bytes(token);
    const size_t last = bytes.find(tokens.close.back());
    if (last == std::string::npos || last + 1 == bytes.size()) continue;
    for (size_t n = 0; n < tokens.close.size(); ++n) {
      const size_t end = end_of_mark(tokens.close, n, bytes);
      if (end == std::string::npos || std::ranges::all_of(bytes.substr(end), is_space)) continue;
      tokens.crossing[n].push_back(token);
    }
  }
  return tokens;
}

GrammarConstraint::GrammarConstraint(std::unique_ptr<grammar::Matcher> matcher, Preface preface, ConstraintFrame frame,
                                     std::shared_ptr<const ConstraintFacts> facts)
    : matcher_(std::move(matcher)), facts_(std::move(facts)), frame_(std::move(frame)) {
  begin_text();
  if (preface == Preface::kOpenedReasoning) at_ = At::kInside;
  if (preface == Preface::kReasoning && !facts_->reasoning.open.empty()) at_ = At::kStart;
}

GrammarConstraint::~GrammarConstraint() = default;

std::unique_ptr<TokenConstraint> GrammarConstraint::clone() const {
  auto copy = std::make_unique<GrammarConstraint>(matcher_->clone(), Preface::kNone, frame_, facts_);
  copy->at_ = at_;
  copy->matched_ = matched_;
  return copy;
}

void GrammarConstraint::mask(std::span<uint32_t> words) {
  const auto start = std::chrono::steady_clock::now();
  if (at_ == At::kInside) {
    mask_reasoning(words);
  } else {
    if (const std::optional<Token> next = forced()) {
      std::ranges::fill(words, 0);
      allow(words, *next);
    } else {
      mask_text(words);
    }
    if (at_ == At::kStart) allow(words, facts_->reasoning.open[0]);
    if (at_ == At::kAfter) {
      for (const Token blank : facts_->reasoning.blanks) allow(words, blank);
    }
  }
  clear_from(words, static_cast<size_t>(std::max(facts_->vocab, 0)));
  if (!facts_->on_mask) return;
  facts_->on_mask(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

void GrammarConstraint::mask_text(std::span<uint32_t> words) {
  const size_t needed = matcher_->compiled().vocabulary().words();
  bool open = false;
  if (words.size() >= needed) {
    open = matcher_->mask(words);
  } else {
    words_.resize(needed);
    open = matcher_->mask(words_);
    std::ranges::copy(std::span(words_).first(words.size()), words.begin());
  }
  if (!open) throw ConstraintError(matcher_->failure());
}

// All but what would end the answer inside of it, or begin the text unseen.
void GrammarConstraint::mask_reasoning(std::span<uint32_t> words) const {
  const grammar::Vocabulary& vocabulary = matcher_->compiled().vocabulary();
  std::ranges::fill(words, ~0u);
  clear_from(words, static_cast<size_t>(vocabulary.size()));
  for (const Token token : vocabulary.end_tokens()) clear(words, token);
  for (const Token token : facts_->reasoning.crossing[matched_]) clear(words, token);
}

void GrammarConstraint::allow(std::span<uint32_t> words, Token token) const {
  const auto word = static_cast<size_t>(token) / 32;
  if (word < words.size()) words[word] |= 1u << (token % 32);
}

// True: it is no part of the text.
bool GrammarConstraint::take_reasoning(int32_t token) {
  const ReasoningTokens& reasoning = facts_->reasoning;
  if ((at_ == At::kStart && token == reasoning.open[0]) || at_ == At::kOpening) {
    matched_ = at_ == At::kStart ? 1 : matched_ + 1;
    const bool opened = matched_ == reasoning.open.size();
    at_ = opened ? At::kInside : At::kOpening;
    if (opened) matched_ = 0;
    return true;
  }
  if (at_ == At::kAfter && std::ranges::find(reasoning.blanks, token) != reasoning.blanks.end()) {
    begin_text();
    return true;
  }
  if (at_ != At::kInside) return false;
  const std::string bytes = facts_->tokenizer.contains(token) ? facts_->tokenizer.token_bytes(token) : std::string();
  for (const char c : bytes) {
    matched_ = after_byte(reasoning.close, matched_, c);
    if (matched_ < reasoning.close.size()) continue;
    matched_ = 0;
    at_ = At::kAfter;
    break;
  }
  return true;
}

void GrammarConstraint::begin_text() {
  at_ = frame_.lead.empty() ? At::kText : At::kLead;
  matched_ = 0;
}

// The one token of the frame that comes next; none: the grammar tells.
std::optional<Token> GrammarConstraint::forced() const {
  if (at_ == At::kInside || at_ == At::kText) return {};
  if (at_ == At::kOpening) return facts_->reasoning.open[matched_];
  const std::vector<Token>& tokens = at_ == At::kTail ? frame_.tail : frame_.lead;
  return matched_ < tokens.size() ? std::optional(tokens[matched_]) : std::nullopt;
}

void GrammarConstraint::advance(int32_t token) {
  Step step{.at = at_, .matched = matched_, .matched_text = false};
  constexpr const char* kNotAllowed = "a token came that the grammar does not allow";
  const std::optional<Token> next = forced();
  if (at_ == At::kOpening && token != *next) throw ConstraintError(kNotAllowed);
  if (take_reasoning(token)) {
    // The text has not begun.
  } else if (next) {
    if (token != *next) throw ConstraintError(kNotAllowed);
    if (at_ != At::kTail) at_ = At::kLead;
    if (++matched_ == frame_.lead.size() && at_ == At::kLead) {
      at_ = At::kText;
      matched_ = 0;
    }
  } else {
    if (!matcher_->advance(token)) throw ConstraintError(matcher_->failed() ? matcher_->failure() : kNotAllowed);
    step.matched_text = true;
    at_ = matcher_->complete() && !frame_.tail.empty() ? At::kTail : At::kText;
    matched_ = 0;
  }
  steps_.push_back(step);
}

void GrammarConstraint::rollback(int n) {
  int texts = 0;
  for (; n > 0 && !steps_.empty(); --n) {
    const Step step = steps_.back();
    steps_.pop_back();
    texts += step.matched_text;
    at_ = step.at;
    matched_ = step.matched;
  }
  if (texts > 0) matcher_->rollback(texts);
}

// The last token of a forced text is left out: with what follows it might be written otherwise.
void GrammarConstraint::propose(int max, std::vector<int32_t>& draft) {
  const auto most = static_cast<size_t>(std::max(max, 0));
  if (at_ == At::kOpening || at_ == At::kInside || most < 2) return;
  if (forced()) {
    const std::span<const Token> tokens(at_ == At::kTail ? frame_.tail : frame_.lead);
    const std::span<const Token> rest = tokens.subspan(matched_);
    if (rest.size() > 1 && at_ != At::kStart && at_ != At::kAfter) {
      draft.insert(draft.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(std::min(rest.size(), most)));
    }
    return;
  }
  if (at_ != At::kText) return;
  std::string text = matcher_->forced(kMostForcedBytes);
  text.resize(utf8_valid_length(text));
  if (text.size() < 2) return;
  std::vector<Token> tokens = facts_->tokenizer.encode(text);
  tokens.pop_back();
  if (tokens.size() < 2) return;
  tokens.resize(std::min(tokens.size(), most));
  draft.insert(draft.end(), tokens.begin(), tokens.end());
}

bool GrammarConstraint::complete() const { return at_ != At::kInside && !forced() && matcher_->complete(); }

}  // namespace ingot
