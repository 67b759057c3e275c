// One seq: a request's tokens, what of them is in the KV cache, and what it still wants.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/kv_pages.h"
#include "ops/sample/sample.h"

namespace ingot {

using SeqId = int64_t;

enum class FinishReason : uint8_t {
  kNone,       // still running
  kStop,       // one of the request's end tokens
  kLength,     // max_tokens, or the context is full
  kCancelled,  // by the caller
  kError,      // the logits were not numbers
  kDamaged,    // a file of the model was cut short while it was in use
};

struct Request {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int max_tokens = -1;              // tokens to make; -1: until the context is full; 0: read the prompt only
  std::vector<int32_t> end_tokens;  // any of these ends the answer
  int choice = 0;                   // which of several answers to one request: keys the randomness
  // Called with the logits of every row from position `logits_from` on; the span is valid during the call.
  std::function<void(int position, std::span<const float> logits)> on_logits;
  int logits_from = 0;
};

struct Sequence {
  SeqId id = 0;
  Request request;
  std::vector<int32_t> tokens;  // the prompt, then what was made
  int kv_len = 0;               // of tokens, how many are in the cache
  SeqPages pages;
  int state_slot = -1;

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_prompt() const { return static_cast<int>(request.prompt.size()); }
  int n_made() const { return n_tokens() - n_prompt(); }
  int pending() const { return n_tokens() - kv_len; }  // rows to compute before the next token
};

}  // namespace ingot
