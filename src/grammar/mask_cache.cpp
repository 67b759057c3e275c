#include "grammar/mask_cache.h"

#include <algorithm>
#include <mutex>

namespace ingot::grammar {

MaskCache::MaskCache(const Vocabulary& vocabulary, Lexer& lexer, std::shared_ptr<MaskStore> own, const Limits& limits)
    : vocabulary_(vocabulary), lexer_(lexer), own_(std::move(own)), limits_(limits) {
  nodes_.push_back(std::make_shared<const TrieNodes>(TrieNodes{vocabulary.root()}));
}

std::shared_ptr<const MaskCache::Entry> MaskCache::get(NodesId nodes, LexState state, size_t& steps) {
  charge(1, steps);
  const uint64_t key = uint64_t{nodes} << 32 | state;
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = entries_.find(key); it != entries_.end()) return it->second;
  }
  auto made = make(nodes, state, steps);
  const size_t bytes = made->mask->memory() + made->exits.size() * sizeof(Entry::Exit) + 160;
  std::unordered_map<uint64_t, std::shared_ptr<const Entry>> dropped;  // go after the lock
  const std::unique_lock lock(mutex_);
  if (entry_bytes_ + bytes > limits_.cache_bytes) {  // all go; whoever holds one keeps it
    dropped.swap(entries_);
    entry_bytes_ = 0;
  }
  const auto [it, is_new] = entries_.emplace(key, std::move(made));
  if (is_new) entry_bytes_ += bytes;
  return it->second;
}

MaskCache::NodesId MaskCache::number_of(std::shared_ptr<const TrieNodes> nodes) {
  SeededNumbers numbers;
  for (const uint32_t node : *nodes) numbers.add(node);
  const uint64_t hash = numbers.value();
  const std::unique_lock lock(mutex_);
  const auto [from, to] = by_hash_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    if (*nodes_[it->second] == *nodes) return it->second;
  }
  const size_t bytes = nodes->capacity() * sizeof(uint32_t) + 120;
  if (node_bytes_ + bytes > limits_.cache_bytes) {
    throw LimitError("[grammar] lexemes end within tokens at too many places: more than {} bytes", limits_.cache_bytes);
  }
  node_bytes_ += bytes;
  const auto id = static_cast<NodesId>(nodes_.size());
  nodes_.push_back(std::move(nodes));
  by_hash_.emplace(hash, id);
  return id;
}

std::shared_ptr<const TrieNodes> MaskCache::nodes_of(NodesId nodes) const {
  const std::shared_lock lock(mutex_);
  return nodes_[nodes];
}

void MaskCache::charge(size_t walked, size_t& steps) const {
  steps += walked;
  if (steps > limits_.mask_steps) throw LimitError("[grammar] a mask takes more than {} steps", limits_.mask_steps);
}

// One walk's tokens and exits.
struct MaskCache::Walk {
  const TrieNode* trie;
  Lexer& lexer;
  std::vector<int32_t> tokens;
  struct Exit {
    uint32_t accepts;
    TrieNodes nodes;
  };
  std::vector<Exit> exits;
  struct Open {
    LexState state;
    Lexer::Transitions next;
    uint32_t end;
  };
  std::vector<Open> open;

  TrieNodes& exits_of(uint32_t accepts) {
    const auto it = std::ranges::find(exits, accepts, &Exit::accepts);
    return it != exits.end() ? it->nodes : exits.emplace_back(Exit{accepts, {}}).nodes;
  }

  // All nodes below `root`; returns how many were looked at.
  size_t below(uint32_t root, LexState state) {
    size_t looked = 0;
    const uint32_t end = trie[root].end;
    open.clear();
    open.push_back({state, lexer.transitions(state), end});
    for (uint32_t at = root + 1; at < end; looked++) {
      while (at >= open.back().end) open.pop_back();
      const TrieNode& node = trie[at];
      const LexState to = lexer.next(open.back().state, open.back().next, node.byte);
      if (to == kDead) {
        at = node.end;
        continue;
      }
      if (node.token >= 0) tokens.push_back(node.token);
      if (node.end > at + 1) {
        if (const uint32_t accepts = lexer.accepts(to); accepts != 0) exits_of(accepts).push_back(at);
        open.push_back({to, lexer.transitions(to), node.end});
      }
      at++;
    }
    return looked;
  }
};

// The nodes where two states do not lead to the same.
struct MaskCache::WalkBeside {
  const TrieNode* trie;
  Lexer& lexer;
  struct Open {
    LexState like, state;
    Lexer::Transitions next_like, next;
    uint32_t end;
  };
  std::vector<Open> open;

  // Calls visit(node, end, state) for each node where the states differ: `state` is dead for all of [node, end), or
  // reached at `node` alone, whose children follow. Returns how many nodes were looked at.
  template <class Visit>
  size_t below(uint32_t root, LexState like, LexState state, Visit visit) {
    size_t looked = 0;
    const uint32_t end = trie[root].end;
    open.clear();
    open.push_back({like, state, lexer.transitions(like), lexer.transitions(state), end});
    for (uint32_t at = root + 1; at < end; looked++) {
      while (at >= open.back().end) open.pop_back();
      const TrieNode& node = trie[at];
      const Open& from = open.back();
      const LexState there = lexer.next(from.like, from.next_like, node.byte);
      const LexState here = lexer.next(from.state, from.next, node.byte);
      if (there == here) {
        at = node.end;
      } else if (here == kDead) {
        visit(at, node.end, kDead);
        looked += node.end - at;
        at = node.end;
      } else {
        visit(at, at + 1, here);
        open.push_back({there, here, lexer.transitions(there), lexer.transitions(here), node.end});
        at++;
      }
    }
    return looked;
  }
};

const Vocabulary::Slice* MaskCache::slice_for(LexState state) {
  const uint32_t room = lexer_.plain_room(state);
  for (const Vocabulary::Slice& slice : vocabulary_.slices()) {
    if (room > 0 && room >= std::min<size_t>(slice.chars, vocabulary_.longest())) return &slice;
  }
  return nullptr;
}

// A state after one byte that takes any plain text, such as what a name becomes once it is none of those that are
// forbidden; kDead where there is none.
LexState MaskCache::permissive_after(LexState state) {
  for (const char byte : {'~', 'Q', 'j', '7', '_'}) {
    const LexState next = lexer_.next(state, static_cast<uint8_t>(byte));
    if (next != kDead && next != state && lexer_.plain_room(next) >= vocabulary_.longest()) return next;
  }
  return kDead;
}

std::shared_ptr<const MaskCache::Entry> MaskCache::make(NodesId nodes, LexState state, size_t& steps) {
  auto entry = std::make_shared<Entry>();
  const std::string key = nodes == kWhole ? lexer_.shared_key(state, vocabulary_.longest()) : std::string();
  MaskStore& store = lexer_.is_common(state) ? vocabulary_.common_masks() : *own_;
  if (!key.empty()) entry->mask = store.find(key);
  if (!entry->mask) {
    Walk walk{vocabulary_.nodes().data(), lexer_, {}, {}, {}};
    const LexState like = nodes == kWhole && slice_for(state) == nullptr ? permissive_after(state) : kDead;
    auto mask = like != kDead ? walk_beside(like, state, walk, steps) : this->walk(nodes, state, walk, steps);
    const std::vector<Lexer::Part> parts = key.empty() ? std::vector<Lexer::Part>() : lexer_.parts(state);
    for (Walk::Exit& exit : walk.exits) {
      exit.nodes.shrink_to_fit();
      auto shared = std::make_shared<const TrieNodes>(std::move(exit.nodes));
      if (key.empty()) {
        entry->exits.push_back({exit.accepts, number_of(std::move(shared))});
        continue;
      }
      uint32_t places = 0;
      for (const LexemeId lexeme : lexer_.accepted(exit.accepts)) {
        const auto it = std::ranges::find(parts, lexeme, &Lexer::Part::lexeme);
        places |= uint32_t{1} << (it - parts.begin());
      }
      mask->exits.push_back({places, std::move(shared)});
    }
    entry->mask = mask;
    if (key.empty()) return entry;
    store.keep(key, std::move(mask));
  }
  for (const TokenMask::Exit& exit : entry->mask->exits) {
    std::vector<uint32_t> places;
    for (uint32_t place = 0; place < 32; place++) {
      if ((exit.places >> place & 1) != 0) places.push_back(place);
    }
    entry->exits.push_back({lexer_.accepts_of_places(state, places), number_of(exit.nodes)});
  }
  return entry;
}

// The mask without its exits, which are left in `walk`.
std::shared_ptr<TokenMask> MaskCache::walk(NodesId nodes, LexState state, Walk& walk, size_t& steps) {
  auto mask = std::make_shared<TokenMask>();
  const Vocabulary::Slice* slice = nodes == kWhole ? slice_for(state) : nullptr;
  const Vocabulary::Slice& letters = vocabulary_.letters();
  if (nodes == kWhole && slice == nullptr && lexer_.letter_room(state, letters.chars) == letters.chars)
    slice = &letters;
  if (slice != nullptr) {
    mask->bits = slice->bits;
    charge(walk.below(slice->root, state), steps);
  } else {
    for (const uint32_t root : *nodes_of(nodes)) charge(walk.below(root, state), steps);
  }
  if (mask->bits.empty() && walk.tokens.size() > vocabulary_.words() / 2) mask->bits.resize(vocabulary_.words());
  if (mask->bits.empty()) {
    walk.tokens.shrink_to_fit();
    mask->tokens = std::move(walk.tokens);
  } else {
    for (const int32_t token : walk.tokens) mask->bits[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token & 31);
  }
  return mask;
}

// The same for the whole trie, by what differs from the mask of `like`, which has a slice: where both lead to one state
// nothing does. Exits of `like` lie in the slice's trie, new ones in that of all tokens.
std::shared_ptr<TokenMask> MaskCache::walk_beside(LexState like, LexState state, Walk& walk, size_t& steps) {
  const std::shared_ptr<const Entry> known = get(kWhole, like, steps);
  auto mask = std::make_shared<TokenMask>();
  mask->bits = known->mask->bits;
  WalkBeside beside{walk.trie, lexer_, {}};
  const auto take = [&](uint32_t node, uint32_t end, LexState here) {
    for (uint32_t at = node; at < end; at++) {
      const int32_t token = walk.trie[at].token;
      if (token < 0) continue;
      uint32_t& word = mask->bits[static_cast<size_t>(token) / 32];
      const uint32_t bit = uint32_t{1} << (token & 31);
      word = here == kDead ? word & ~bit : word | bit;
    }
    if (here == kDead || walk.trie[node].end == node + 1) return;
    if (const uint32_t accepts = lexer_.accepts(here); accepts != 0) walk.exits_of(accepts).push_back(node);
  };
  charge(beside.below(vocabulary_.root(), like, state, take), steps);
  std::vector<std::pair<uint32_t, uint32_t>> changed;  // nodes [first, end) of the slice's trie
  const auto note = [&](uint32_t node, uint32_t end, LexState) { changed.emplace_back(node, end); };
  charge(beside.below(slice_for(like)->root, like, state, note), steps);
  for (const Entry::Exit& exit : known->exits) {
    TrieNodes& kept = walk.exits_of(exit.accepts);
    auto next = changed.begin();
    for (const uint32_t node : *nodes_of(exit.nodes)) {
      while (next != changed.end() && next->second <= node) ++next;
      if (next == changed.end() || node < next->first) kept.push_back(node);
    }
  }
  std::erase_if(walk.exits, [](const Walk::Exit& exit) { return exit.nodes.empty(); });
  return mask;
}

}  // namespace ingot::grammar
