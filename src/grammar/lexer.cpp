#include "grammar/lexer.h"

#include <algorithm>

#include "grammar/vocabulary.h"

namespace ingot::grammar {
namespace {

constexpr uint32_t kMaxAccepts = 1 << 14;  // different sets of lexemes that end together
constexpr size_t kEmptySteps = 20'000;     // of the search for a text in an intersection
constexpr size_t kMaxKeyNodes = 160;       // of a state that grammars share: a JSON string's rest has about 40

}  // namespace

Lexer::Lexer(const Grammar& grammar, const Limits& limits)
    : max_states_(limits.states),
      max_bytes_(limits.lexer_bytes),
      mask_work_(limits.mask_work),
      max_work_(limits.lexer_work),
      regexes_(grammar.regexes()),
      lexemes_(grammar.lexemes()),
      common_(grammar.common()),
      chunks_(limits.states / kChunk + 2),
      accept_chunks_(kMaxAccepts / 64) {
  first_bytes_ = regexes_.memory();
  if (first_bytes_ > max_bytes_) throw LimitError("[grammar] the grammar takes more than {} bytes", max_bytes_);
  first_nodes_ = regexes_.size();
  regexes_.set_max_nodes(first_nodes_ + 4 * limits.nodes);
  class_count_ = regexes_.byte_classes(lexemes_, classes_);
  letters_.resize(static_cast<size_t>(class_count_));
  for (int byte = 255; byte >= 0; byte--) letters_[classes_[static_cast<size_t>(byte)]] = static_cast<uint8_t>(byte);
  for (int c = 0; c < class_count_; c++) single_.push_back(std::ranges::count(classes_, static_cast<uint8_t>(c)) == 1);
  for (uint8_t byte = 'A'; byte <= 'z'; byte++) {
    const auto same = [&](char other) { return class_of(static_cast<uint8_t>(other)) == class_of(byte); };
    if (byte > 'Z' && byte < 'a') continue;
    if (std::ranges::none_of(ascii_letters_, same)) ascii_letters_.push_back(static_cast<char>(byte));
  }
  regexes_.limit_searches(kMaxSearched);
  plain_char_ = regexes_.chars(Vocabulary::plain_chars());
  accept_lists_.emplace_back();
  accept_chunks_[0] = new AcceptChunk();
  state_of({}, false);  // 0: no state
  state_of({}, true);   // kDead
  memory_ += chunks_.capacity() * sizeof(chunks_[0]) + accept_chunks_.capacity() * sizeof(accept_chunks_[0]);
  bytes_ = memory_ + regexes_.memory();
}

Lexer::~Lexer() {
  for (auto& chunk : chunks_) delete chunk.load();
  for (auto& chunk : accept_chunks_) delete chunk.load();
}

uint32_t Lexer::accepts_number(std::vector<LexemeId> lexemes) {
  if (lexemes.empty()) return 0;
  const auto number = static_cast<uint32_t>(accept_lists_.size());
  const auto [it, is_new] = accept_numbers_.try_emplace(lexemes, number);
  if (!is_new) return it->second;
  if (number >= kMaxAccepts) throw LimitError("[grammar] lexemes end together in more than {} ways", kMaxAccepts);
  accept_lists_.push_back(std::move(lexemes));
  auto& chunk = accept_chunks_[number / 64];
  if (chunk.load() == nullptr) chunk.store(new AcceptChunk(), std::memory_order_release);
  (*chunk.load())[number % 64] = accept_lists_.back();  // before any state tells the number
  return number;
}

std::span<const LexemeId> Lexer::accepted(uint32_t accepts) const {
  return (*accept_chunks_[accepts / 64].load(std::memory_order_acquire))[accepts % 64];
}

// The state with these parts, made if there is none yet. REQUIRES: mutex_ is held, or the lexer is being made.
LexState Lexer::state_of(std::span<const Part> parts, bool is_start) {
  SeededNumbers numbers;
  numbers.add(is_start ? 1 : 2);
  for (const Part& part : parts) numbers.add(uint64_t{part.lexeme} << 32 | part.rest);
  const uint64_t hash = numbers.value();
  const auto [from, to] = by_parts_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    const Info& known = info(it->second);
    if (known.is_start == is_start &&
        std::ranges::equal(parts, std::span(parts_).subspan(known.first_part, known.part_count))) {
      return it->second;
    }
  }
  const uint32_t id = count_.load(std::memory_order_relaxed);
  if (id >= max_states_) throw LimitError("[grammar] more than {} states of the lexer", max_states_);
  std::vector<LexemeId> ending;
  for (const Part& part : parts) {
    if (regexes_.nullable(part.rest) && !is_start) ending.push_back(part.lexeme);
  }
  const uint32_t accepts = accepts_number(std::move(ending));  // may throw: before anything is kept
  auto& slot = chunks_[id / kChunk];
  if (slot.load() == nullptr) {
    auto chunk = std::make_unique<Chunk>();
    const size_t entries = kChunk * static_cast<size_t>(class_count_);
    chunk->next = std::make_unique<std::atomic<uint32_t>[]>(entries);
    memory_ += sizeof(Chunk) + entries * 4;
    for (size_t i = 0; i < kChunk; i++) chunk->infos[i].next = &chunk->next[i * static_cast<size_t>(class_count_)];
    slot.store(chunk.release(), std::memory_order_release);
  }
  Info& made = slot.load()->infos[id % kChunk];
  made.is_start = is_start;
  made.first_part = static_cast<uint32_t>(parts_.size());
  made.part_count = static_cast<uint32_t>(parts.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  ByteSet first;
  for (const Part& part : parts) first = first | regexes_.first(part.rest);
  for (int c = 0; c < class_count_; c++) {
    if (!first.has(letters_[static_cast<size_t>(c)])) made.next[c].store(kDead, std::memory_order_relaxed);
  }
  made.must_end = !is_start;
  for (const Part& part : parts) made.must_end &= part.rest == kEmpty;
  made.accepts = accepts;
  by_parts_.emplace(hash, id);
  memory_ += 64 + parts.size() * sizeof(Part);
  count_.store(id + 1, std::memory_order_relaxed);
  return id;
}

// What the lexer takes by now, and whether that is half of what it may beyond what it began with. REQUIRES: as for
// state_of().
void Lexer::measure() {
  const size_t bytes = memory_ + regexes_.memory() + (parts_.capacity() + accept_lists_.size() * 4) * sizeof(Part);
  bytes_.store(bytes, std::memory_order_relaxed);
  const auto half = [](size_t now, size_t first, size_t most) {
    return now > first && now - first > (most - first) / 2;
  };
  if (half(count_.load(std::memory_order_relaxed), 0, max_states_) || half(work_, 0, max_work_) ||
      half(bytes, std::min(first_bytes_, max_bytes_), max_bytes_) || half(accept_lists_.size(), 0, kMaxAccepts) ||
      half(regexes_.size(), first_nodes_, regexes_.max_nodes()) || half(regexes_.searched(), 0, kMaxSearched)) {
    worn_.store(true, std::memory_order_relaxed);
  }
  if (bytes > max_bytes_) throw LimitError("[grammar] the lexer takes more than {} bytes", max_bytes_);
}

LexState Lexer::start(std::span<const LexemeId> lexemes) {
  if (lexemes.empty()) return kDead;
  std::vector<LexemeId> key(lexemes.begin(), lexemes.end());
  const std::lock_guard lock(mutex_);
  if (const auto it = starts_.find(key); it != starts_.end()) return it->second;
  std::vector<Part> parts;
  for (const LexemeId lexeme : lexemes) parts.push_back({lexeme, lexemes_[lexeme]});
  const LexState state = state_of(parts, true);
  memory_ += 96 + key.size() * sizeof(LexemeId);
  starts_.emplace(std::move(key), state);
  measure();
  return state;
}

// Whoever matches by the grammar waits meanwhile, and so do others: the time of one mask and of all is bounded.
void Lexer::charge(size_t work) {
  const size_t now = work_.load(std::memory_order_relaxed) + work;
  work_.store(now, std::memory_order_relaxed);
  if (now > mask_end_.load(std::memory_order_relaxed) || now > max_work_) {
    throw LimitError("[grammar] too many lexemes or alternatives are under way at once");
  }
}

LexState Lexer::make_next(LexState state, uint8_t byte) {
  const std::lock_guard lock(mutex_);
  try {
    return derived(state, byte);
  } catch (const LimitError&) {
    worn_.store(true, std::memory_order_relaxed);
    throw;
  }
}

LexState Lexer::derived(LexState state, uint8_t byte) {
  const Info& from = info(state);
  charge(from.part_count);
  const size_t searched = regexes_.searched(), spent = regexes_.spent();
  std::vector<Part> left;
  for (uint32_t i = 0; i < from.part_count; i++) {
    const Part part = parts_[from.first_part + i];
    const Expr rest = regexes_.derivative(part.rest, byte);
    if (rest == kNothing || (regexes_.may_hide_nothing(rest) && regexes_.is_empty(rest, kEmptySteps, letters_)))
      continue;
    left.push_back({part.lexeme, rest});
  }
  // A lexeme of many alternatives may be as much as many lexemes.
  const size_t steps = (regexes_.spent() - spent) / kStepsOfPart;
  charge(std::max((regexes_.searched() - searched) * kSearchWork, steps - std::min<size_t>(steps, from.part_count)));
  const LexState to = left.empty() ? kDead : state_of(left, false);
  measure();
  from.next[classes_[byte]].store(to, std::memory_order_release);
  return to;
}

std::vector<Lexer::Part> Lexer::parts(LexState state) const {
  const std::lock_guard lock(mutex_);
  const auto first = parts_.begin() + info(state).first_part;
  return {first, first + info(state).part_count};
}

uint32_t Lexer::accepts_of_places(LexState state, const std::vector<uint32_t>& places) {
  const std::lock_guard lock(mutex_);
  std::vector<LexemeId> lexemes;
  for (const uint32_t place : places) lexemes.push_back(parts_[info(state).first_part + place].lexeme);
  return accepts_number(std::move(lexemes));
}

bool Lexer::is_common(LexState state) const {
  const std::lock_guard lock(mutex_);
  const Info& of = info(state);
  const auto parts = std::span(parts_).subspan(of.first_part, of.part_count);
  return std::ranges::all_of(parts, [&](const Part& part) { return common_[part.lexeme]; });
}

int Lexer::only_byte(std::span<const LexState> states, size_t& tries) {
  int found = -1;
  for (int c = 0; c < class_count_; c++) {
    const uint8_t byte = letters_[static_cast<size_t>(c)];
    bool may_come = false;
    for (const LexState state : states) {
      if (tries == 0) return -1;
      tries--;
      may_come |= next(state, byte) != kDead;
    }
    if (!may_come) continue;
    if (found >= 0 || !single_[static_cast<size_t>(c)]) return -1;
    found = byte;
  }
  return found;
}

uint32_t Lexer::letter_room(LexState state, uint32_t most) {
  for (uint32_t room = 0; room < most; room++) {
    const LexState to = next(state, static_cast<uint8_t>(ascii_letters_[0]));
    if (to == kDead) return room;
    for (const char letter : ascii_letters_) {
      if (next(state, static_cast<uint8_t>(letter)) != to) return room;
    }
    if (to == state) return most;
    state = to;
  }
  return most;
}

std::string Lexer::shared_key(LexState state, size_t depth) {
  constexpr uint32_t kMaxParts = 4;
  const std::lock_guard lock(mutex_);
  const Info& of = info(state);
  std::string key;
  if (of.part_count > kMaxParts) return key;
  for (uint32_t i = 0; i < of.part_count; i++) {
    key.push_back('|');
    const Expr rest = parts_[of.first_part + i].rest;
    // Where a rest may be found empty, a count beyond the walk decides too.
    const auto clamp = regexes_.may_hide_nothing(rest) ? kUnbounded : static_cast<uint32_t>(depth) + 1;
    if (!regexes_.describe(rest, clamp, kMaxKeyNodes / of.part_count, key)) return {};
  }
  return key;
}

bool Lexer::holds_plain(Expr one) {
  const auto [it, is_new] = holds_plain_.try_emplace(one, false);
  if (!is_new) return it->second;
  constexpr size_t kSteps = 200;  // some ten suffice for a class of characters
  bool holds = false;
  try {
    holds = regexes_.includes(one, plain_char_, kSteps);
  } catch (const LimitError&) {  // then it gets no slice
  }
  return holds_plain_[one] = holds;
}

uint32_t Lexer::room_of(Expr rest) {
  using Kind = Regexes::Kind;
  const Regexes::Node top = regexes_.node(rest);
  const Regexes::Node node = top.kind == Kind::kConcat ? regexes_.node(top.a) : top;
  if (node.kind != Kind::kRepeat || node.extended || !holds_plain(node.a)) return 0;
  return node.max;
}

uint32_t Lexer::plain_room(LexState state) {
  const std::lock_guard lock(mutex_);
  Info& of = chunks_[state / kChunk].load()->infos[state % kChunk];
  if (of.room != 0) return of.room - 1;
  uint32_t room = 0;
  for (uint32_t i = 0; i < of.part_count; i++) {
    const Expr rest = parts_[of.first_part + i].rest;
    room = std::max(room, room_of(rest));
    if (regexes_.node(rest).kind == Regexes::Kind::kAny) {
      const std::vector<Expr> parts(regexes_.children(rest).begin(), regexes_.children(rest).end());
      for (const Expr part : parts) room = std::max(room, room_of(part));
    }
  }
  room = std::min(room, kUnbounded - 1);
  of.room = room + 1;
  return room;
}

}  // namespace ingot::grammar
