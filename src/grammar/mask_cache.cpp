#include "grammar/mask_cache.h"

#include <algorithm>
#include <mutex>

namespace ingot::grammar {

MaskCache::MaskCache(const Vocabulary& vocabulary, Lexer& lexer, const Limits& limits)
    : vocabulary_(vocabulary), lexer_(lexer), limits_(limits) {
  nodes_.push_back(std::make_shared<const TrieNodes>(TrieNodes{vocabulary.root()}));
}

std::shared_ptr<const MaskCache::Entry> MaskCache::get(NodesId nodes, LexState state, size_t& steps) {
  steps++;
  const uint64_t key = uint64_t{nodes} << 32 | state;
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = entries_.find(key); it != entries_.end()) return it->second;
  }
  auto made = make(nodes, state, steps);
  const size_t bytes = made->mask->memory() + made->exits.size() * sizeof(Entry::Exit) + 160;
  const std::unique_lock lock(mutex_);
  if (entry_bytes_ + bytes > limits_.cache_bytes) {  // all go; whoever holds one keeps it
    entries_.clear();
    entry_bytes_ = 0;
  }
  const auto [it, is_new] = entries_.emplace(key, std::move(made));
  if (is_new) entry_bytes_ += bytes;
  return it->second;
}

MaskCache::NodesId MaskCache::number_of(std::shared_ptr<const TrieNodes> nodes) {
  uint64_t hash = nodes->size();
  for (const uint32_t node : *nodes) hash = ((hash ^ node) * 0x9E3779B97F4A7C15u) ^ (hash >> 29);
  const std::unique_lock lock(mutex_);
  const auto [from, to] = by_hash_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    if (*nodes_[it->second] == *nodes) return it->second;
  }
  node_bytes_ += nodes->capacity() * sizeof(uint32_t) + 120;
  if (node_bytes_ > limits_.cache_bytes) {
    throw LimitError("[grammar] lexemes end within tokens at too many places: more than {} bytes", limits_.cache_bytes);
  }
  const auto id = static_cast<NodesId>(nodes_.size());
  nodes_.push_back(std::move(nodes));
  by_hash_.emplace(hash, id);
  return id;
}

std::shared_ptr<const MaskCache::Entry> MaskCache::make(NodesId nodes, LexState state, size_t& steps) {
  auto entry = std::make_shared<Entry>();
  const std::string key = nodes == kWhole ? lexer_.shared_key(state, vocabulary_.longest()) : std::string();
  if (!key.empty()) entry->mask = vocabulary_.find_mask(key);
  if (!entry->mask) {
    entry->mask = walk(nodes, state, *entry, !key.empty(), steps);
    if (key.empty()) return entry;
    vocabulary_.keep_mask(key, entry->mask);
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
    uint32_t end;
  };
  std::vector<Open> open;

  void add_exit(uint32_t accepts, uint32_t node) {
    const auto it = std::ranges::find(exits, accepts, &Exit::accepts);
    if (it == exits.end()) {
      exits.push_back({accepts, {node}});
    } else {
      it->nodes.push_back(node);
    }
  }

  // All nodes below `root`; returns how many were looked at.
  size_t below(uint32_t root, LexState state) {
    size_t looked = 0;
    const uint32_t end = trie[root].end;
    open.clear();
    open.push_back({state, end});
    for (uint32_t at = root + 1; at < end; looked++) {
      while (at >= open.back().end) open.pop_back();
      const TrieNode& node = trie[at];
      const LexState to = lexer.next(open.back().state, node.byte);
      if (to == kDead) {
        at = node.end;
        continue;
      }
      if (node.token >= 0) tokens.push_back(node.token);
      if (node.end > at + 1) {
        if (const uint32_t accepts = lexer.accepts(to); accepts != 0) add_exit(accepts, at);
        open.push_back({to, node.end});
      }
      at++;
    }
    return looked;
  }
};

// The mask; its exits are set in it by place, or in `entry` by number.
std::shared_ptr<const TokenMask> MaskCache::walk(NodesId nodes, LexState state, Entry& entry, bool by_place,
                                                 size_t& steps) {
  auto mask = std::make_shared<TokenMask>();
  Walk walk{vocabulary_.nodes().data(), lexer_, {}, {}, {}};
  std::shared_ptr<const TrieNodes> roots;
  {
    const std::shared_lock lock(mutex_);
    roots = nodes_[nodes];
  }
  uint32_t whole = vocabulary_.root();
  if (nodes == kWhole) {
    const uint32_t room = lexer_.plain_room(state);
    const auto fits = [&](const Vocabulary::Slice& slice) {
      return room >= std::min<size_t>(slice.chars, vocabulary_.longest());
    };
    const auto slice = std::ranges::find_if(vocabulary_.slices(), fits);
    if (room > 0 && slice != vocabulary_.slices().end()) {
      mask->bits = slice->bits;
      whole = slice->root;
    }
  }
  for (const uint32_t root : *roots) {
    steps += walk.below(nodes == kWhole ? whole : root, state);
    if (steps > limits_.mask_steps) throw LimitError("[grammar] a mask takes more than {} steps", limits_.mask_steps);
  }
  if (mask->bits.empty() && walk.tokens.size() > vocabulary_.words() / 2) mask->bits.resize(vocabulary_.words());
  if (mask->bits.empty()) {
    walk.tokens.shrink_to_fit();
    mask->tokens = std::move(walk.tokens);
  } else {
    for (const int32_t token : walk.tokens) mask->bits[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token & 31);
  }
  const std::vector<Lexer::Part> parts = by_place ? lexer_.parts(state) : std::vector<Lexer::Part>();
  for (Walk::Exit& exit : walk.exits) {
    exit.nodes.shrink_to_fit();
    auto shared = std::make_shared<const TrieNodes>(std::move(exit.nodes));
    if (!by_place) {
      entry.exits.push_back({exit.accepts, number_of(std::move(shared))});
      continue;
    }
    uint32_t places = 0;
    for (const LexemeId lexeme : lexer_.accepted(exit.accepts)) {
      const auto it = std::ranges::find(parts, lexeme, &Lexer::Part::lexeme);
      places |= uint32_t{1} << (it - parts.begin());
    }
    mask->exits.push_back({places, std::move(shared)});
  }
  return mask;
}

size_t MaskCache::memory() const {
  const std::shared_lock lock(mutex_);
  return entry_bytes_ + node_bytes_;
}

}  // namespace ingot::grammar
