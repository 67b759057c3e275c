#include "grammar/matcher.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "grammar/shared.h"

namespace ingot::grammar {
namespace {

constexpr size_t kForcedTries = 8192;  // some 10 µs; a byte of a literal takes one for each class of bytes
constexpr size_t kWordsOfStep = 8;     // of a mask, merged in the time of a step of Limits::mask_steps
constexpr size_t kByteBrings = 8;      // 64ths of the steps that a token brings: a text may be as long as many

// A lexeme is under way, or about to begin: `state` of the lexer since `row` of the parser.
struct Active {
  RowId row;
  LexState state;
  bool operator==(const Active&) const = default;
};

void merge(const TokenMask& mask, std::span<uint32_t> words) {
  for (size_t i = 0; i < mask.bits.size(); i++) words[i] |= mask.bits[i];
  for (const int32_t token : mask.tokens) words[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token & 31);
}

bool has_bit(std::span<const uint32_t> words, int32_t token) {
  return (words[static_cast<size_t>(token) / 32] >> (token & 31) & 1) != 0;
}

}  // namespace

struct Matcher::State {
  std::shared_ptr<const Compiled> compiled;
  Rows rows;
  std::vector<Active> now;
  bool ended = false;  // an end token came
  std::string failure;
  // Before each call of advance: what was active, and whether an end token had come.
  struct Before {
    uint32_t first;
    bool ended;
  };
  std::vector<Before> history;
  std::vector<Active> past;
  // Reused between calls.
  std::vector<Active> next;
  std::vector<Rows::Taken> taken;
  struct Below {
    MaskCache::NodesId nodes;
    Active at;
  };
  std::vector<Below> waiting;
  Counted counted;  // by the grammar's owner

  explicit State(std::shared_ptr<const Compiled> shared)
      : compiled(std::move(shared)),
        rows(compiled->grammar(), lexer(), compiled->limits()),
        counted(compiled->account()) {
    now.push_back({Rows::kFirst, rows.start(Rows::kFirst)});
  }

  Lexer& lexer() const { return compiled->shared().lexer; }
  void step(std::vector<Active>& from, uint8_t byte);
  void settle(std::vector<Active>& at);
  bool follow(std::string_view bytes);
  void push();
  bool may_end();
  void fill(std::span<uint32_t> words);
  size_t memory() const {
    return sizeof(State) + rows.memory() + past.capacity() * sizeof(Active) + history.capacity() * sizeof(Before);
  }
};

// One byte: lexemes go on, or end and others begin. What begins at one place is one row.
void Matcher::State::step(std::vector<Active>& from, uint8_t byte) {
  next.clear();
  taken.clear();
  for (const Active& at : from) {
    const LexState to = lexer().next(at.state, byte);
    if (to != kDead) next.push_back({at.row, to});
    if (const uint32_t accepts = lexer().accepts(at.state); accepts != 0) taken.push_back({at.row, accepts});
  }
  if (!taken.empty()) {
    const RowId row = taken.size() == 1 ? rows.after(taken[0].row, taken[0].accepts) : rows.after(taken);
    const LexState to = lexer().next(rows.start(row), byte);
    if (to != kDead) next.push_back({row, to});
  }
  if (next.size() > 1) {  // what is equal by now goes on as one
    const auto key = [](const Active& at) { return std::pair(at.row, at.state); };
    std::ranges::sort(next, {}, key);
    const auto equal = std::ranges::unique(next, {}, key);
    next.erase(equal.begin(), equal.end());
  }
  std::swap(from, next);
}

// Where all that is under way has to end, the parser goes on at once: equal places of a text are then equal states.
// Where that is too dear for one token the next mask, which may take more and is made by another thread, does it.
void Matcher::State::settle(std::vector<Active>& at) {
  if (at.size() != 1 || !lexer().must_end(at[0].state)) return;
  const std::optional<RowId> row = rows.try_after(at[0].row, lexer().accepts(at[0].state));
  if (row) at[0] = {*row, rows.start(*row)};
}

void Matcher::State::push() {
  history.push_back({static_cast<uint32_t>(past.size()), ended});
  past.insert(past.end(), now.begin(), now.end());
  const size_t most = compiled->limits().matcher_bytes;
  if (past.size() * sizeof(Active) > most) throw LimitError("[grammar] a matcher takes more than {} bytes", most);
}

bool Matcher::State::follow(std::string_view bytes) {
  if (ended || bytes.empty()) return false;
  std::vector<Active> at = now;
  for (const char c : bytes) {
    rows.begin(Rows::For::kToken, kByteBrings);
    step(at, static_cast<uint8_t>(c));
    if (at.empty()) return false;
  }
  settle(at);
  push();
  now = std::move(at);
  return true;
}

bool Matcher::State::may_end() {
  if (ended) return true;
  return std::ranges::any_of(now, [&](const Active& at) {
    if (lexer().is_start(at.state)) return rows.may_end(at.row);
    const uint32_t accepts = lexer().accepts(at.state);
    return accepts != 0 && rows.may_end(rows.after(at.row, accepts));
  });
}

// All tokens from `now`: those within a lexeme by its state alone, those beyond its end through the parser.
void Matcher::State::fill(std::span<uint32_t> words) {
  MaskCache& masks = compiled->shared().masks;
  size_t steps = 0;
  waiting.clear();
  std::unordered_set<uint64_t> seen;
  const auto meet = [&](MaskCache::NodesId nodes, Active at) {
    if (at.state == kDead) return;
    uint64_t key = (uint64_t{nodes} << 32 | at.state) * 0x9E3779B97F4A7C15u;
    key = (key ^ key >> 31 ^ at.row) * 0xD6E8FEB86659FD93u;
    if (seen.insert(key).second) waiting.push_back({nodes, at});
  };
  for (const Active& at : now) {
    meet(MaskCache::kWhole, at);
    if (const uint32_t accepts = lexer().accepts(at.state); accepts != 0) {
      const RowId row = rows.after(at.row, accepts);
      meet(MaskCache::kWhole, {row, rows.start(row)});
    }
  }
  while (!waiting.empty()) {
    const Below below = waiting.back();
    waiting.pop_back();
    const auto entry = masks.get(below.nodes, below.at.state, steps);
    merge(*entry->mask, words);
    steps += entry->mask->bits.size() / kWordsOfStep + entry->mask->tokens.size();
    for (const MaskCache::Entry::Exit& exit : entry->exits) {
      const RowId row = rows.after(below.at.row, exit.accepts);
      meet(exit.nodes, {row, rows.start(row)});
    }
  }
  for (const Vocabulary::Same& pair : compiled->vocabulary().same()) {
    if (has_bit(words, pair.first)) words[static_cast<size_t>(pair.second) / 32] |= uint32_t{1} << (pair.second & 31);
  }
}

Matcher::Matcher(std::shared_ptr<const Compiled> compiled) : state_(std::make_shared<State>(std::move(compiled))) {}
Matcher::Matcher(std::shared_ptr<State> state) : state_(std::move(state)), cloned_(true) {}
Matcher::~Matcher() = default;

// The state as this matcher's alone.
Matcher::State& Matcher::own() const {
  if (cloned_ || lent_) state_ = std::make_shared<State>(*state_);
  if (cloned_) {
    state_->history.clear();
    state_->past.clear();
  }
  cloned_ = lent_ = false;
  return *state_;
}

bool Matcher::mask(std::span<uint32_t> words) {
  State& state = own();
  const Vocabulary& vocabulary = state.compiled->vocabulary();
  CHECK(words.size() >= vocabulary.words(), "{} words of {}", words.size(), vocabulary.words());
  std::ranges::fill(words, 0);
  if (failed()) return false;
  try {
    state.lexer().begin_mask();
    state.rows.begin(Rows::For::kMask);
    state.settle(state.now);
    if (!state.ended) state.fill(words);
    if (state.may_end()) {
      for (const int32_t token : vocabulary.end_tokens()) {
        words[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token & 31);
      }
    }
    state.compiled->count();
    state.counted.set(state.memory());
  } catch (const GrammarError& error) {
    state.failure = error.what();
  }
  if (!failed() && std::ranges::all_of(words, [](uint32_t word) { return word == 0; })) {
    state.failure = kDeadEnd;
  }
  if (failed()) std::ranges::fill(words, 0);
  return !failed();
}

bool Matcher::advance(int32_t token) {
  if (failed()) return false;
  State& state = own();
  const Vocabulary& vocabulary = state.compiled->vocabulary();
  try {
    state.lexer().begin_mask();
    state.rows.begin(Rows::For::kToken);
    if (!vocabulary.is_end(token)) return state.follow(vocabulary.token_bytes(token));
    if (!state.may_end()) return false;
  } catch (const GrammarError& error) {
    state.failure = error.what();
    return false;
  }
  state.push();
  state.ended = true;
  return true;
}

bool Matcher::advance_text(std::string_view bytes) {
  if (failed()) return false;
  State& state = own();
  if (bytes.empty()) {
    state.push();
    return true;
  }
  try {
    return state.follow(bytes);
  } catch (const GrammarError& error) {
    state.failure = error.what();
    return false;
  }
}

void Matcher::rollback(int n) {
  State& state = own();
  CHECK(n >= 0 && static_cast<size_t>(n) <= state.history.size(), "{} of {}", n, state.history.size());
  if (n == 0) return;
  const size_t kept = state.history.size() - static_cast<size_t>(n);
  const State::Before before = state.history[kept];
  const size_t end = n == 1 ? state.past.size() : state.history[kept + 1].first;
  state.now.assign(state.past.begin() + before.first, state.past.begin() + static_cast<std::ptrdiff_t>(end));
  state.ended = before.ended;
  state.past.resize(before.first);
  state.history.resize(kept);
}

int Matcher::advanced() const { return cloned_ ? 0 : static_cast<int>(state_->history.size()); }

bool Matcher::may_end() const {
  if (failed()) return false;
  State& state = own();
  state.rows.begin(Rows::For::kToken, 0);
  try {
    return state.may_end();
  } catch (const GrammarError& error) {
    state.failure = error.what();
    return false;
  }
}

bool Matcher::complete() const {
  if (failed()) return false;
  // The cheap part first: whether a lexeme under way may be the last is the mask's matter.
  const bool over = std::ranges::all_of(state_->now, [](const Active& at) { return at.state == kDead; });
  return state_->ended || (over && may_end());
}

std::string Matcher::forced(size_t max_bytes) {
  std::string out;
  if (failed() || state_->ended) return out;
  State& state = own();
  const std::vector<Active> before = state.now;
  size_t tries = kForcedTries;
  try {
    state.lexer().begin_mask();
    state.rows.begin(Rows::For::kGuess);
    while (out.size() < max_bytes && state.now.size() == 1 && !state.may_end()) {
      std::array<LexState, 2> states = {state.now[0].state, kDead};
      const uint32_t accepts = state.lexer().accepts(states[0]);
      if (accepts != 0) states[1] = state.rows.start(state.rows.after(state.now[0].row, accepts));
      const int found = state.lexer().only_byte(std::span(states).first(accepts != 0 ? 2 : 1), tries);
      if (found < 0) break;
      state.step(state.now, static_cast<uint8_t>(found));
      out.push_back(static_cast<char>(found));
      state.settle(state.now);
    }
  } catch (const GrammarError&) {
    // A guess that is too dear is none: what an answer needs is tried again by its mask.
  }
  state.now = before;
  return out;
}

bool Matcher::failed() const { return !state_->failure.empty(); }
const std::string& Matcher::failure() const { return state_->failure; }

std::unique_ptr<Matcher> Matcher::clone() const {
  lent_ = true;
  return std::unique_ptr<Matcher>(new Matcher(state_));
}

const Compiled& Matcher::compiled() const { return *state_->compiled; }

size_t Matcher::memory() const { return state_->memory(); }
size_t Matcher::parser_steps() const { return state_->rows.steps(); }

}  // namespace ingot::grammar
