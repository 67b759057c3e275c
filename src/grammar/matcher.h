// Which tokens may come next, by a grammar. One matcher follows one answer; any number of them share a Compiled.
// One thread at a time uses a matcher; it need not always be the same.
//
// A limit that is reached while matching makes the matcher fail: failed() says why, and from then on it allows nothing.
// The caller ends the answer with that message; no token goes unchecked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "grammar/compile.h"

namespace ingot::grammar {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Compiled> compiled);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Sets bit v of word v / 32 where token v may come next and clears all others; words beyond the vocabulary are
  // cleared. At least one bit is set, or it returns false and the matcher has failed. After an end token and where
  // nothing may follow the end tokens are set. REQUIRES: words.size() >= vocabulary().words().
  bool mask(std::span<uint32_t> words);
  // `token` comes next. False, and nothing changed, where the mask would not have it (or the matcher has failed).
  bool advance(int32_t token);
  // The same for a text that is no token's, such as the part of an answer that is given.
  bool advance_text(std::string_view bytes);
  // Takes the last `n` calls of advance (each advance_text is one) back. REQUIRES: there were so many.
  void rollback(int n);
  int advanced() const;  // calls that can be taken back

  bool may_end() const;  // the text so far is complete
  // And nothing may follow, or an end token came. Where taking the last token did not suffice to know (its limit),
  // false until the next mask.
  bool complete() const;
  // The text that must follow, whatever the answer: up to `max_bytes`, and as far as some thousand looks at the lexer
  // reach; empty where there is a choice or the answer may end. It may end within a character. Never fails.
  std::string forced(size_t max_bytes = 256);

  bool failed() const;
  const std::string& failure() const;  // "[grammar] …"; empty unless failed()
  // The one failure that is no limit: it never comes where the vocabulary has a token for each byte.
  static constexpr std::string_view kDeadEnd = "[grammar] no token of the vocabulary may follow";

  // A matcher in the same state that goes its own way; its calls so far cannot be taken back. Takes no time: what they
  // have in common is copied when one of them is used.
  std::unique_ptr<Matcher> clone() const;
  const Compiled& compiled() const;
  size_t memory() const;
  size_t parser_steps() const;  // what its calls have taken so far, as Limits::mask_row_steps and token_row_steps count

 private:
  struct State;
  explicit Matcher(std::shared_ptr<State> state);
  State& own() const;

  mutable std::shared_ptr<State> state_;
  mutable bool cloned_ = false;             // and not used yet: what came before is not its own
  mutable std::atomic<bool> lent_ = false;  // clones may have the same state
};

}  // namespace ingot::grammar
