// The lexemes of a grammar as one automaton, made state by state as it is needed. A state is what is left of each
// lexeme that may be under way; the parser decides which lexemes begin.
//
// Safe for threads: transitions that are known are read without a lock; one thread at a time makes new ones.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace ingot::grammar {

using LexState = uint32_t;
inline constexpr LexState kDead = 1;  // nothing may follow; 0 is no state

class Lexer {
 public:
  Lexer(const Grammar& grammar, const Limits& limits);
  ~Lexer();

  // A lexeme and what must follow of it.
  struct Part {
    LexemeId lexeme;
    Expr rest;
    bool operator==(const Part&) const = default;
  };

  // The state in which any of `lexemes` (sorted) may begin; kDead where there are none. Throws LimitError.
  LexState start(std::span<const LexemeId> lexemes);
  // After one more byte; kDead where no lexeme goes on. Throws LimitError.
  LexState next(LexState state, uint8_t byte) {
    const uint32_t known = info(state).next[classes_[byte]].load(std::memory_order_acquire);
    return known != 0 ? known : make_next(state, byte);
  }
  // The same for many bytes after one state: its transitions are looked up once.
  using Transitions = const std::atomic<uint32_t>*;
  Transitions transitions(LexState state) const { return info(state).next; }
  LexState next(LexState state, Transitions of_state, uint8_t byte) {
    const std::atomic<uint32_t>& to = of_state[classes_[byte]];
    if (to.load(std::memory_order_relaxed) == kDead) return kDead;  // most are, and nothing of it is read
    const uint32_t known = to.load(std::memory_order_acquire);
    return known != 0 ? known : make_next(state, byte);
  }
  // What follows, up to the next call, may make as many states as one mask may cost; then next() throws LimitError.
  void begin_mask() { mask_end_.store(work_.load(std::memory_order_relaxed) + mask_work_, std::memory_order_relaxed); }
  // The lexemes that may end here, by number: 0 is none. A state where lexemes begin has none.
  uint32_t accepts(LexState state) const { return info(state).accepts; }
  std::span<const LexemeId> accepted(uint32_t accepts) const;
  // All that is under way may only end here.
  bool must_end(LexState state) const { return info(state).must_end; }
  bool is_start(LexState state) const { return info(state).is_start; }
  // How many plain characters (Vocabulary::plain_chars) may follow, whatever they are: 0 none, kUnbounded any number.
  uint32_t plain_room(LexState state);
  // How many ASCII letters may follow, whatever they are, as far as all of them lead to the same states; at most
  // `most`. Throws LimitError.
  uint32_t letter_room(LexState state, uint32_t most);
  // What a walk of at most `depth` bytes from here depends on, equal in all grammars; empty where that is too large to
  // be worth sharing. Lexemes are numbered by their order in parts().
  std::string shared_key(LexState state, size_t depth);
  std::vector<Part> parts(LexState state) const;
  // The number of the lexemes that are at these places of parts(state), and the places of a number.
  uint32_t accepts_of_places(LexState state, const std::vector<uint32_t>& places);

  // Every lexeme of the state is one that all grammars of JSON have.
  bool is_common(LexState state) const;
  // The one byte that may come next in any of these states; -1: none or several may, or that takes more than `tries`
  // looks, which are taken off.
  int only_byte(std::span<const LexState> states, size_t& tries);

  int classes() const { return class_count_; }
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  size_t states() const { return count_.load(std::memory_order_relaxed); }
  // Both without a lock.
  size_t memory() const { return bytes_.load(std::memory_order_relaxed); }
  bool worn() const { return worn_.load(std::memory_order_relaxed); }  // half of a limit was needed so far

 private:
  struct Info {
    std::atomic<uint32_t>* next = nullptr;  // by class of byte; 0: not known yet
    uint32_t accepts = 0;
    bool must_end = false, is_start = false;
    uint32_t first_part = 0, part_count = 0;  // in parts_
    uint32_t room = 0;                        // plain_room + 1; 0: not known yet
  };
  static constexpr size_t kChunk = 64;
  static constexpr size_t kSearchWork = 100;  // what a step of a search counts beside what is left of a lexeme
  static constexpr size_t kStepsOfPart = 4;   // steps of the expressions that count as much as one such
  static constexpr size_t kMaxSearched = 100'000;
  struct Chunk {
    std::array<Info, kChunk> infos;
    std::unique_ptr<std::atomic<uint32_t>[]> next;
  };

  const Info& info(LexState state) const {
    return chunks_[state / kChunk].load(std::memory_order_acquire)->infos[state % kChunk];
  }
  LexState make_next(LexState state, uint8_t byte);
  LexState derived(LexState state, uint8_t byte);
  void charge(size_t work);
  LexState state_of(std::span<const Part> parts, bool is_start);
  uint32_t accepts_number(std::vector<LexemeId> lexemes);
  uint32_t room_of(Expr rest);
  bool holds_plain(Expr one);
  void measure();

  const size_t max_states_, max_bytes_, mask_work_, max_work_;
  Regexes regexes_;
  const std::vector<Expr> lexemes_;
  const std::vector<bool> common_;
  std::array<uint8_t, 256> classes_{};
  int class_count_ = 0;
  std::vector<uint8_t> letters_;  // the first byte of each class
  std::vector<bool> single_;      // of each class: it has one byte alone
  std::string ascii_letters_;     // one of each class that has some
  std::vector<std::atomic<Chunk*>> chunks_;
  std::atomic<uint32_t> count_{0};
  std::atomic<size_t> work_{0}, mask_end_{mask_work_};
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> worn_{false};

  mutable std::mutex mutex_;  // of all that follows, of regexes_ and of making states
  std::vector<Part> parts_;
  std::unordered_multimap<uint64_t, LexState> by_parts_;
  std::map<std::vector<LexemeId>, LexState> starts_;
  std::map<std::vector<LexemeId>, uint32_t> accept_numbers_;
  std::deque<std::vector<LexemeId>> accept_lists_;  // stable: readers hold spans
  using AcceptChunk = std::array<std::span<const LexemeId>, 64>;
  std::vector<std::atomic<AcceptChunk*>> accept_chunks_;  // into accept_lists_, for readers without the lock
  std::unordered_map<Expr, bool> holds_plain_;
  Expr plain_char_ = kNothing;
  size_t memory_ = 0;
  size_t first_bytes_ = 0, first_nodes_ = 0;  // of the lexer before any state
};

}  // namespace ingot::grammar
