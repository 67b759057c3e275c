// One seq: a choice's tokens, what of them is in the KV cache, and what it still wants.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/cache/kv_pages.h"
#include "engine/mask/mask_task.h"
#include "engine/request.h"

namespace ingot {

struct TenantShare;

// Where a seq stands. The scheduler alone moves it, by Sequence::become():
//
//   from         to           by
//   ----------   ----------   ------------------------------------------------------------------------------
//   kNew         kWaiting     add: it comes to the scheduler
//   kNew         kHeldBack    add, of a later choice of a request
//   kHeldBack    kWaiting     release: the first choice has read the prompt, or has gone
//   kWaiting     kRunning     begin: it is given a slot
//   kPreempted   kRunning     begin, again
//   kRunning     kPlanned     place: the next step has rows of it
//   kPlanned     kRunning     launched: that step is in flight; take_out, unplan: it will not run with this seq
//   kRunning     kPreempted   preempt, restart: slot and pages are given back
//   all but kNew, kPlanned → kGone, by remove
//
// Three facts are independent of it. `finish`: a seq that has ended keeps its place
// until the core sweeps, and a failed step moves it with the others until then. `awaited`: steps in flight make tokens
// of a seq that is planned again, or was set back meanwhile. `suspect`: it was in a step that failed.
enum class SeqState : uint8_t {
  kNew,        // made; the scheduler does not know it
  kHeldBack,   // waits for the first choice of its request to read the prompt
  kWaiting,    // for its first turn
  kRunning,    // has a slot, and pages for what it has in the cache
  kPlanned,    // is running, and in the plan of the next step
  kPreempted,  // has run, was set back, and waits for its turn to be computed again
  kGone,       // has left the scheduler and holds nothing
};

inline const char* name_of(SeqState state) {
  constexpr const char* kNames[] = {"new", "held back", "waiting", "running", "planned", "preempted", "gone"};
  return kNames[static_cast<size_t>(state)];
}

// The table above.
constexpr bool may_become(SeqState from, SeqState to) {
  using enum SeqState;
  switch (to) {
    case kNew:
      return false;
    case kHeldBack:
      return from == kNew;
    case kWaiting:
      return from == kNew || from == kHeldBack;
    case kRunning:
      return from == kWaiting || from == kPreempted || from == kPlanned;
    case kPlanned:
    case kPreempted:
      return from == kRunning;
    case kGone:
      return from == kHeldBack || from == kWaiting || from == kRunning || from == kPreempted;
  }
  return false;
}

class Sequence {
 public:
  SeqId id = 0;
  int choice = 0;
  std::shared_ptr<const Request> request;  // shared by the choices
  std::shared_ptr<MaskTask> masking;       // its own clone of the request's constraint, and its masks; null: none
  std::vector<int32_t> tokens;             // the prompt, then what was made
  // Rows in the cache; from the launch of a step on, that step's rows too.
  int kv_len = 0;
  // Steps in flight that make a token of it: 2 where one was launched ahead.
  int awaited = 0;
  bool guessing = false;  // such a step has guesses of it, and may make more tokens: it is planned afterwards
  // While it awaits a token, of the newest such step: its number (Flight), and the token's place among its results.
  int64_t result_step = 0;
  int result = 0;

  SeqPages pages;
  int state_slot = -1;           // of the recurrent state; -1 while it waits
  int32_t prefix_root = -1;      // where its tokens begin in the prefix cache; -1: it does not take part
  int32_t prefix_node = -1;      // the last of its pages that has an address there; -1: no more get one
  int addressed = 0;             // pages that have one
  std::vector<int32_t> draft;    // guesses to verify in the planned step, after the token that it awaits
  std::vector<int32_t> guessed;  // tokens, then the draft: what its rows have seen
  std::vector<uint32_t> mask;    // where there is no constraint: without the ends that min_tokens forbids; empty: all

  Sequence* first = nullptr;         // of a later choice: the first one, while it lives
  std::vector<Sequence*> followers;  // of the first choice: the others, while they live

  TenantShare* tenant = nullptr;     // while the scheduler knows it
  TenantShare* taken_for = nullptr;  // whose share it was set back for, until it is computed again
  double taken_at = -1;              // Tenants::spent() then, where that put off its whole tenant; -1: it did not
  bool taken_in_turn = false;        // by one beyond its tenant's share
  int paid = 0;                      // rows that its tenant was charged for: computing them again is free
  int lost = 0;                      // of them, those that another seq of its tenant has cost it: not free
  int queued_rows = 0;               // tokens that it had when it came to the queue
  int safe_rows = 0;                 // nobody else's share sets it back before so many rows are in the cache again,
  int interrupted = 0;               // but for that of one that has nothing: so often since it last had so many;
  int far_rows = 0;                  // while it gets on: rows that it had when it was last a page further, and
  double far_at = 0;                 // Tenants::elapsed() then

  // Seqs that had begun when it did; while it waits, when it was first gone past or its turn began; -1: it was not.
  int64_t begun = -1;
  double passed_at = -1;  // Tenants::spent() when it was first gone past and none of its tenant's ran; -1: it was not

  int64_t rank = 0;         // the lower, the earlier; fixed for life
  int64_t deadline_ns = 0;  // when it has to have begun; 0: whenever
  int64_t timeout_ns = 0;   // when it has to have ended; 0: whenever
  int64_t came_ns = 0;      // when its caller gave it to the engine
  int64_t began_ns = 0;     // when its first step was launched; 0: not yet
  int suspect = 0;          // was in a step that failed: runs alone until so many rows are in the cache
  int reused = 0;           // rows of the prompt that came from the cache
  int reported = 0;         // positions whose logits were reported: a row computed again does not report again
  FinishReason finish = FinishReason::kNone;  // of its last event

  SeqState state() const { return state_; }
  // REQUIRES: may_become(state(), to).
  void become(SeqState to) {
    CHECK(may_become(state_, to), "seq {} is {} and cannot be {}", id, name_of(state_), name_of(to));
    state_ = to;
  }
  bool running() const { return state_ == SeqState::kRunning || state_ == SeqState::kPlanned; }
  // Has never run: a deadline ends it.
  bool unserved() const { return state_ == SeqState::kWaiting || state_ == SeqState::kHeldBack; }
  bool ended() const { return finish != FinishReason::kNone; }

  const SamplingParams& sampling() const {
    return masking && masking->endless() ? masking->endless()->sampling : request->sampling;
  }
  // Whether it may bring guesses.
  bool drafts() const {
    const bool reports = request->on_logits || request->on_hidden;  // not of guesses
    return request->drafter || (masking && !reports && masking->proposes());
  }
  // Room for all that its steps add to it, up to `rows` tokens and `guesses` a step: they allocate nothing then.
  void reserve(int rows, int guesses, size_t mask_words) {
    tokens.reserve(static_cast<size_t>(rows));
    const auto most = static_cast<size_t>(drafts() ? guesses : 0);
    draft.reserve(most);
    if (most > 0) guessed.reserve(static_cast<size_t>(rows));
    if (masking) {
      masking->reserve(static_cast<int>(most));
    } else if (request->min_tokens > 0 && !request->end_tokens.empty()) {
      mask.reserve(mask_words * (1 + most));
    }
  }

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_prompt() const { return static_cast<int>(request->prompt.size()); }
  int n_made() const { return n_tokens() - n_prompt(); }
  // Tokens, the prompt's among them, with which it ends at the latest.
  int longest(int context) const { return longest_of(*request, context); }
  int choice_of_request() const { return choice - request->first_choice; }
  // Rows to compute before the next token, once the steps in flight have ended.
  int pending() const { return n_tokens() + awaited - kv_len; }
  // Its prompt is in the cache: each step gives it a token.
  bool decoding() const { return pending() == 1 && n_tokens() + awaited > n_prompt(); }
  // Nothing of it is read any more, guesses under way or not.
  bool answers() const { return pending() <= 1 && n_tokens() + awaited > n_prompt(); }

 private:
  SeqState state_ = SeqState::kNew;
};

}  // namespace ingot
