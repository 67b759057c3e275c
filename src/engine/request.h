// What callers give the engine and what they get back. Token ids only: text never enters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/sample/sample.h"

namespace ingot {

// A request, and each of its choices: choice c of request r is seq r + c.
using SeqId = int64_t;

enum class FinishReason : uint8_t {
  kNone,        // still running
  kStop,        // one of the request's end tokens, or the constraint is complete
  kLength,      // max_tokens, or the context is full
  kCancelled,   // by the caller
  kError,       // the logits were not numbers, or a part of the request threw
  kDamaged,     // a file of the model was cut short while it was in use
  kDeadline,    // it waited longer than it was willing to
  kTimeout,     // the whole request took longer than it was given, waiting or running
  kConstraint,  // its constraint could not go on: Event::reason says why
};

// What a constraint throws that cannot go on. The text is for the request's sender.
struct ConstraintError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Limits which tokens may come next: a grammar, a schema. One thread at a time calls it, and it need not always be the
// same: masks are made beside the engine's (MaskTask). One that throws ends its own seq and no other: with kConstraint
// where it is a ConstraintError, else with kError.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Another in the same state: each choice of a request has one of its own. Any thread; the two may then be used by
  // different ones.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
  // Clears the bits of the tokens that may not come next (bit v of word v / 32); the bits of all tokens are set before
  // the call. One that leaves none ends the seq with kConstraint: no token is ever made that it forbids. It goes before
  // min_tokens and banned tokens: those that would leave none are passed over.
  virtual void mask(std::span<uint32_t> words) = 0;
  // `token` comes next.
  virtual void advance(int32_t token) = 0;
  // Takes the last `n` tokens back.
  virtual void rollback(int n) = 0;
  // Nothing more may follow: the answer ends here, whatever the request's end tokens are.
  virtual bool complete() const { return false; }
  // Whether propose() may ever have something to say. It never changes.
  virtual bool proposes() const { return false; }
  // Appends at most `max` tokens that are likely to follow, such as those of a text that must come. They are verified
  // like a drafter's: the answer does not depend on them.
  virtual void propose(int /*max*/, std::vector<int32_t>& /*draft*/) {}
};

// Guesses what comes next. The model verifies each guess in the same step: a wrong one costs time and never changes
// an answer. Nothing in the program makes one yet; the simulation does.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Appends at most `max` tokens that may follow `tokens`.
  virtual void propose(std::span<const int32_t> tokens, int max, std::vector<int32_t>& draft) = 0;
};

struct Request {
  static constexpr int kMaxChoices = 128;

  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int max_tokens = -1;              // tokens to make; -1: until the context is full; 0: read the prompt only
  int min_tokens = 0;               // no end token before so many, but where the constraint demands one
  std::vector<int32_t> end_tokens;  // any of these ends the answer
  int choices = 1;                  // answers to make; they share the prompt's pages
  int first_choice = 0;             // keys the randomness of the first of them

  static constexpr double kLeastWeight = 1e-3, kMostWeight = 1e3;

  // Pages are never shared between tenants, and each gets its share of rows, places, pages and of the queue.
  std::string tenant;
  double weight = 1;  // the tenant's share beside others', kLeastWeight … kMostWeight; the last one that came counts
  // Pages are shared within one adapter and one media content only. Nothing in the program sets them yet.
  std::string adapter;  // name of the LoRA adapter
  std::string media;    // content hash of images and audio in the prompt
  // -100 … 100, among the requests of its tenant; one level is worth Scheduler::kPrioritySeconds of waiting.
  int priority = 0;
  double queue_seconds = 0;     // ends with kDeadline when it has not begun after so long; 0: waits
  double deadline_seconds = 0;  // of the whole request: ends with kTimeout after so long, waiting or running; 0: none
  bool reuse_prefix = true;     // whether pages that hold its first tokens already may be used
  std::shared_ptr<const TokenConstraint> constraint;  // each choice has a clone of it
  std::shared_ptr<Drafter> drafter;

  // Called with the logits of every row from position `logits_from` on, by the thread that runs the model; the span is
  // valid during the call.
  std::function<void(int position, std::span<const float> logits)> on_logits;
  int logits_from = 0;
  // Likewise with the last hidden state, after the final norm, of every row from position `hidden_from` on.
  // REQUIRES: the model keeps it (ModelOptions::keep_last).
  std::function<void(int position, std::span<const float> hidden)> on_hidden;
  int hidden_from = 0;

  // Rows from this position on are computed even where the cache has them: something of them is reported.
  int computed_from() const {
    int from = std::numeric_limits<int>::max();
    if (on_logits) from = std::min(from, logits_from);
    if (on_hidden) from = std::min(from, hidden_from);
    return from;
  }
};

// Tokens of the longest answer with its prompt.
inline int longest_of(const Request& request, int context) {
  const int64_t asked = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  return request.max_tokens < 0 ? context : static_cast<int>(std::min<int64_t>(asked, context));
}

// Either an id, or why there is none.
struct Submitted {
  SeqId id = -1;
  std::string refused;       // why the request can never be served
  bool busy = false;         // not now: the queue, or the tenant's share of it, is full; or it would be late
  bool late = false;         // busy, since its first token would come after EngineConfig::ttft_target_ms
  double retry_seconds = 0;  // of one that is late: when another try may be worth it
};

// What happened to one choice of a request in a step.
struct Event {
  SeqId request = 0;
  int choice = 0;
  SampleResult sample;  // sample.token is -1 where the step made none
  FinishReason finish = FinishReason::kNone;
  int reused = 0;             // with the first token: rows of the prompt that were in the cache already
  double queued_seconds = 0;  // with the choice's first event: how long it waited for its first step
  std::string reason = {};    // of kConstraint: why, for the request's sender
};

}  // namespace ingot
