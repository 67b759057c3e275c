// One seq: a choice's tokens, what of them is in the KV cache, and what it still wants.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/request.h"

namespace ingot {

struct Sequence {
  SeqId id = 0;
  int choice = 0;
  std::shared_ptr<const Request> request;  // shared by the choices
  std::vector<int32_t> tokens;             // the prompt, then what was made
  // Rows in the cache; from the launch of a step on, that step's rows too.
  int kv_len = 0;
  // Steps under way that make a token of it: 2 where one was launched ahead. With a drafter a step may make more
  // tokens: such a seq is planned afterwards.
  int awaited = 0;
  int result = 0;  // while it awaits a token: its place among the results of the newest such step

  SeqPages pages;
  int state_slot = -1;           // of the recurrent state; -1 while it waits
  int32_t prefix_root = -1;      // where its tokens begin in the prefix cache; -1: it does not take part
  int32_t prefix_node = -1;      // the last of its pages that has an address there; -1: no more get one
  int addressed = 0;             // pages that have one
  std::vector<int32_t> draft;    // guesses to verify in the planned step
  std::vector<int32_t> guessed;  // tokens, then the draft: what its rows have seen
  std::vector<uint32_t> masks;   // [1 + draft, words] what the constraint lets through; empty: all

  Sequence* first = nullptr;         // of a later choice: the first one, while it lives
  std::vector<Sequence*> followers;  // of the first choice: the others, while they live
  bool held_back = false;            // waits for the first choice to read the prompt

  int64_t rank = 0;         // the lower, the earlier; fixed for life
  int64_t deadline_ns = 0;  // 0: none
  int64_t came_ns = 0;      // when its caller gave it to the engine
  int64_t began_ns = 0;     // when its first step was launched; 0: not yet
  bool running = false;     // has a slot
  bool planned = false;     // is in the plan of the next step
  bool begun = false;       // has run before
  bool entered = false;     // the scheduler knows it
  bool told = false;        // its first event was made
  bool finished = false;    // its last event was made
  int suspect = 0;          // was in a step that failed: runs alone until so many rows are in the cache
  int reused = 0;           // rows of the prompt that came from the cache
  int reported = 0;         // positions whose logits were reported: a row computed again does not report again

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_prompt() const { return static_cast<int>(request->prompt.size()); }
  int n_made() const { return n_tokens() - n_prompt(); }
  // Tokens, the prompt's among them, with which it ends at the latest.
  int longest(int context) const { return longest_of(*request, context); }
  int choice_of_request() const { return choice - request->first_choice; }
  // Rows to compute before the next token, once the steps under way have ended.
  int pending() const { return n_tokens() + awaited - kv_len; }
  // Its prompt is in the cache: each step gives it a token.
  bool decoding() const { return pending() == 1 && n_tokens() + awaited > n_prompt(); }
};

}  // namespace ingot
