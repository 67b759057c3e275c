// The two long lists of a BPE model in a tokenizer.json, read in place: a tree of 400,000 values takes two thirds of
// the time to load. Inside text/ only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

struct ModelLists {
  std::vector<std::pair<std::string_view, int64_t>> vocab;            // in the file's order
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank
  std::string rest;                                                   // the file with both lists empty
  std::deque<std::string> memory;                                     // of strings with escapes
};

// Fills `lists` with views of `text`. False where it is not the plain JSON of a BPE model, or not valid: to be read by
// the parser then, which says what is wrong. May throw Error.
bool read_model_lists(std::string_view text, ModelLists& lists);

// "left right" as a pair; false where it is none.
bool split_merge(std::string_view text, std::pair<std::string_view, std::string_view>& pair);

}  // namespace ingot
