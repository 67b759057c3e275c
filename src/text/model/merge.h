// The loop of byte-pair encoding: of all neighbours that may merge, the pair of lowest rank, the leftmost of equals,
// until none is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "text/model/vocab.h"

namespace ingot {

struct Merge {
  uint32_t rank;  // the lower the earlier
  Token token;    // what the pair becomes
};
inline constexpr uint32_t kNoRank = UINT32_MAX;
inline constexpr Merge kNoMerge{kNoRank, kNoToken};

// The symbols of a word.
struct Symbols {
  std::vector<Token> tokens;
  // One more than tokens: symbol i covers the bytes [begins[i], begins[i + 1]) of the word. Kept by merge loops with
  // kSpans, left alone by others.
  std::vector<uint32_t> begins;

  // Of the long loop only.
  std::vector<uint32_t> next, previous;
  std::vector<Merge> merges;
  std::vector<uint64_t> heap;

  std::function<void()> pause;  // called now and then while a long word is merged; may throw

  size_t size() const { return tokens.size(); }
  void clear() {
    tokens.clear();
    begins.assign(1, 0);
  }
  void push(Token token, size_t end) {
    tokens.push_back(token);
    begins.push_back(static_cast<uint32_t>(end));
  }
};

// Words of up to this many symbols are merged by looking for the minimum each time: no heap, all in a few cache lines.
inline constexpr size_t kShortWord = 32;

// Lookup: Merge(left token, right token, begin, end), with [begin, end) the bytes of both; kNoMerge where none. Without
// kSpans begin and end are 0. First: the same for the neighbours i and i + 1 of the word's first symbols.
template <bool kSpans, class Lookup, class First>
void merge_short(Symbols& s, Lookup&& lookup, First&& first) {
  uint32_t ranks[kShortWord];
  Token wholes[kShortWord];
  Token* tokens = s.tokens.data();
  uint32_t* begins = s.begins.data();
  size_t n = s.size();
  const auto set = [&](size_t i, Merge merge) {
    ranks[i] = merge.rank;
    wholes[i] = merge.token;
  };
  const auto look = [&](size_t i) {
    set(i, lookup(tokens[i], tokens[i + 1], kSpans ? begins[i] : 0, kSpans ? begins[i + 2] : 0));
  };
  for (size_t i = 0; i + 1 < n; i++) set(i, first(i));
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == kNoRank) break;
    tokens[best] = wholes[best];
    for (size_t i = best + 1; i + 1 < n; i++) {
      tokens[i] = tokens[i + 1];
      ranks[i] = ranks[i + 1];
      wholes[i] = wholes[i + 1];
    }
    if (kSpans) {
      for (size_t i = best + 1; i < n; i++) begins[i] = begins[i + 1];
    }
    n--;
    if (best + 1 < n) look(best);
    if (best > 0) look(best - 1);
  }
  s.tokens.resize(n);
  if (kSpans) s.begins.resize(n + 1);
}

// The same for words of any length, in n log n: a heap of (rank, place), whose outdated entries are skipped.
template <bool kSpans, class Lookup, class First>
void merge_long(Symbols& s, Lookup&& lookup, First&& first) {
  const auto n = static_cast<uint32_t>(s.size());
  s.next.resize(n);
  s.previous.resize(n);
  s.merges.resize(n);
  s.heap.clear();
  const auto end_of = [&](uint32_t i) { return s.begins[s.next[i]]; };  // next of the last symbol is n
  const auto key = [&](uint32_t i) { return static_cast<uint64_t>(s.merges[i].rank) << 32 | i; };
  const auto look = [&](uint32_t i) {
    const uint32_t j = s.next[i];
    s.merges[i] = j < n ? lookup(s.tokens[i], s.tokens[j], kSpans ? s.begins[i] : 0, kSpans ? end_of(j) : 0) : kNoMerge;
    return s.merges[i].rank != kNoRank;
  };
  for (uint32_t i = 0; i < n; i++) {
    s.next[i] = i + 1;
    s.previous[i] = i - 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    s.merges[i] = i + 1 < n ? first(i) : kNoMerge;
    if (s.merges[i].rank != kNoRank) s.heap.push_back(key(i));
  }
  std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  const auto push = [&](uint32_t i) {
    if (!look(i)) return;
    s.heap.push_back(key(i));
    std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  };
  constexpr uint32_t kPauseMerges = 1 << 16;  // 5 to 20 ms
  for (uint32_t steps = 1; !s.heap.empty(); ++steps) {
    if (steps % kPauseMerges == 0 && s.pause) s.pause();
    const uint64_t top = s.heap.front();
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    s.heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (s.merges[i].rank != static_cast<uint32_t>(top >> 32)) continue;  // outdated
    const uint32_t right = s.next[i];
    s.tokens[i] = s.merges[i].token;
    s.next[i] = s.next[right];
    if (s.next[i] < n) s.previous[s.next[i]] = i;
    s.merges[right] = kNoMerge;
    push(i);
    if (i > 0) push(s.previous[i]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < n; i = s.next[i]) {
    s.tokens[kept] = s.tokens[i];
    if (kSpans) s.begins[kept] = s.begins[i];
    kept++;
  }
  s.tokens.resize(kept);
  if (kSpans) {
    s.begins[kept] = s.begins[n];
    s.begins.resize(kept + 1);
  }
}

template <bool kSpans, class Lookup, class First>
void merge_symbols(Symbols& s, Lookup&& lookup, First&& first) {
  if (s.size() <= kShortWord) {
    merge_short<kSpans>(s, lookup, first);
  } else {
    merge_long<kSpans>(s, lookup, first);
  }
}

// With kSpans, where the first symbols need no look of their own.
template <class Lookup>
void merge_spans(Symbols& s, Lookup&& lookup) {
  merge_symbols<true>(s, lookup,
                      [&](size_t i) { return lookup(s.tokens[i], s.tokens[i + 1], s.begins[i], s.begins[i + 2]); });
}

}  // namespace ingot
