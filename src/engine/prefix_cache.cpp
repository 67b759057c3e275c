#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ingot {
namespace {

// SipHash-1-3 over 32-bit words: a keyed hash against which nobody can prepare collisions, at about 1 ns a token.
class SipHash {
 public:
  explicit SipHash(uint64_t key) {
    v_[0] = key ^ 0x736f6d6570736575u;
    v_[1] = std::rotl(key, 32) ^ 0x646f72616e646f6du;
    v_[2] = key ^ 0x6c7967656e657261u;
    v_[3] = std::rotl(key, 32) ^ 0x7465646279746573u;
  }
  void add(uint64_t word) {
    v_[3] ^= word;
    round();
    v_[0] ^= word;
  }
  uint64_t finish() {
    v_[2] ^= 0xff;
    for (int i = 0; i < 3; ++i) round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }

 private:
  void round() {
    v_[0] += v_[1];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[3];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] += v_[3];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] += v_[1];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[2] = std::rotl(v_[2], 32);
  }
  uint64_t v_[4];
};

}  // namespace

PrefixCache::PrefixCache(KvPages& pages, const PrefixCacheOptions& options)
    : pages_(pages), options_(options), snapshots_(options.first_snapshot, options.n_snapshots) {
  snapshot_node_.assign(static_cast<size_t>(options.n_snapshots), -1);
  pages_.on_evict = [this](int group, PageId, int32_t address) { evicted(group, address); };
}

uint64_t PrefixCache::hash_of(int32_t parent, std::span<const int32_t> tokens) const {
  SipHash hash(options_.key);
  hash.add(static_cast<uint32_t>(parent) | uint64_t{tokens.size()} << 32);
  size_t i = 0;
  for (; i + 2 <= tokens.size(); i += 2) {
    hash.add(static_cast<uint32_t>(tokens[i]) | uint64_t{static_cast<uint32_t>(tokens[i + 1])} << 32);
  }
  if (i < tokens.size()) hash.add(static_cast<uint32_t>(tokens[i]));
  return hash.finish() >> (64 - options_.hash_bits);
}

int32_t PrefixCache::make(Node node) {
  node.live = true;
  if (unused_.empty()) {
    // Pruning never allocates: there is room for every number before there is a node.
    if (unused_.capacity() <= nodes_.size()) unused_.reserve(2 * nodes_.size() + 16);
    nodes_.emplace_back();
    unused_.push_back(static_cast<int32_t>(nodes_.size()) - 1);
  }
  const int32_t id = unused_.back();
  if (node.parent >= 0) by_hash_.emplace(node.hash, id);
  unused_.pop_back();
  at(id) = std::move(node);
  ++n_nodes_;
  return id;
}

int32_t PrefixCache::root(const std::string& space) {
  if (const auto it = roots_.find(space); it != roots_.end()) {
    ++at(it->second).holders;
    return it->second;
  }
  Node node;
  node.space = space;
  node.holders = 1;
  const auto [it, _] = roots_.emplace(space, -1);
  try {
    it->second = make(std::move(node));
  } catch (...) {
    roots_.erase(it);
    throw;
  }
  return it->second;
}

int32_t PrefixCache::child(int32_t parent, std::span<const int32_t> tokens) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it) {
    const Node& node = at(it->second);
    if (node.parent == parent && std::ranges::equal(node.tokens, tokens)) return it->second;
  }
  return -1;
}

// Whether a row after the last of these pages would find all that it sees.
bool PrefixCache::usable(std::span<const int32_t> path) const {
  if (options_.has_state && at(path.back()).snapshot < 0) return false;
  const int n = static_cast<int>(path.size());
  for (int g = 0; g < pages_.n_groups(); ++g) {
    for (int i = pages_.first_page(g, n * pages_.page_rows()); i < n; ++i) {
      if (at(path[static_cast<size_t>(i)]).pages[static_cast<size_t>(g)] == kNoPage) return false;
    }
  }
  return true;
}

PrefixHit PrefixCache::find(int32_t root, std::span<const int32_t> tokens, int most) const {
  const auto rows = static_cast<size_t>(pages_.page_rows());
  std::vector<int32_t> path;
  int32_t node = root;
  for (int i = 0; i < most && (static_cast<size_t>(i) + 1) * rows <= tokens.size(); ++i) {
    node = child(node, tokens.subspan(static_cast<size_t>(i) * rows, rows));
    if (node < 0) break;
    path.push_back(node);
  }
  while (!path.empty() && !usable(path)) path.pop_back();
  if (path.empty()) return {};
  return {path.back(), static_cast<int>(path.size())};
}

int PrefixCache::idle_pages(const PrefixHit& hit, int group) const {
  int idle = 0;
  int32_t node = hit.node;
  const int first = pages_.first_page(group, hit.pages * pages_.page_rows());
  for (int i = hit.pages - 1; i >= first; --i, node = at(node).parent) {
    idle += pages_.refs(group, at(node).pages[static_cast<size_t>(group)]) == 0;
  }
  return idle;
}

void PrefixCache::take(const PrefixHit& hit, SeqPages& seq) {
  const int n = hit.pages;
  const auto groups = static_cast<size_t>(pages_.n_groups());
  SeqPages taken{.groups = std::vector(groups, std::vector<PageId>(static_cast<size_t>(n), kNoPage)),
                 .slid = std::vector<int>(groups, 0)};
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const int first = pages_.first_page(g, n * pages_.page_rows());
    taken.slid[static_cast<size_t>(g)] = first;
    int32_t node = hit.node;
    for (int i = n - 1; i >= first; --i, node = at(node).parent) {
      const PageId page = at(node).pages[static_cast<size_t>(g)];
      pages_.hold(g, page);
      taken.groups[static_cast<size_t>(g)][static_cast<size_t>(i)] = page;
    }
  }
  seq = std::move(taken);
  at(hit.node).used = ++clock_;
}

int32_t PrefixCache::add(int32_t parent, std::span<const int32_t> tokens, const SeqPages& seq, int index) {
  int32_t id = child(parent, tokens);
  if (id < 0) {
    Node node;
    node.parent = parent;
    node.hash = hash_of(parent, tokens);
    node.depth = at(parent).depth + 1;
    node.tokens.assign(tokens.begin(), tokens.end());
    node.pages.assign(static_cast<size_t>(pages_.n_groups()), kNoPage);
    id = make(std::move(node));
    ++at(parent).holders;
  }
  ++at(id).holders;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const PageId page = seq.groups[static_cast<size_t>(g)][static_cast<size_t>(index)];
    PageId& known = at(id).pages[static_cast<size_t>(g)];
    // Where two seqs computed the same page, the first one's stays the known one.
    if (page == kNoPage || known != kNoPage || pages_.address(g, page) >= 0) continue;
    known = page;
    pages_.set_address(g, page, id);
  }
  release(parent);
  return id;
}

void PrefixCache::forget(const SeqPages& seq) {
  for (int g = 0; g < static_cast<int>(seq.groups.size()); ++g) {
    for (const PageId page : seq.groups[static_cast<size_t>(g)]) {
      if (page == kNoPage || pages_.address(g, page) < 0) continue;
      const int32_t address = pages_.address(g, page);
      pages_.forget(g, page);
      evicted(g, address);
    }
  }
}

void PrefixCache::release(int32_t node) {
  CHECK(at(node).holders > 0, "node {} is not held", node);
  --at(node).holders;
  prune(node);
}

void PrefixCache::evicted(int group, int32_t address) {
  at(address).pages[static_cast<size_t>(group)] = kNoPage;
  prune(address);
}

// Nodes that nobody holds, that nothing follows and that have no page left go, and then perhaps their parents.
void PrefixCache::prune(int32_t id) {
  while (id >= 0) {
    Node& node = at(id);
    const bool no_page = std::ranges::all_of(node.pages, [](PageId page) { return page == kNoPage; });
    // A model that keeps nothing but state has no pages: there a snapshot is what a node is kept for.
    const bool only_state = pages_.n_groups() == 0 && node.snapshot >= 0;
    if (node.holders > 0 || !no_page || only_state) return;
    if (node.snapshot >= 0) forget_snapshot(node.snapshot);
    if (node.parent < 0) {
      roots_.erase(node.space);
    } else {
      const auto [begin, end] = by_hash_.equal_range(node.hash);
      by_hash_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == id; }));
    }
    const int32_t parent = node.parent;
    node = Node{};
    unused_.push_back(id);
    --n_nodes_;
    if (parent >= 0) --at(parent).holders;
    id = parent;
  }
}

int PrefixCache::snapshot(int32_t id) {
  if (options_.n_snapshots == 0 || at(id).snapshot >= 0) return -1;
  int slot = snapshots_.take();
  if (slot < 0) {
    const auto oldest = std::ranges::min_element(snapshot_node_, {}, [&](int32_t node) { return at(node).used; });
    slot = options_.first_snapshot + static_cast<int>(oldest - snapshot_node_.begin());
    at(*oldest).snapshot = -1;
    prune(*oldest);
  }
  snapshot_node_[static_cast<size_t>(slot - options_.first_snapshot)] = id;
  at(id).snapshot = slot;
  at(id).used = ++clock_;
  return slot;
}

void PrefixCache::forget_snapshot(int slot) {
  int32_t& node = snapshot_node_[static_cast<size_t>(slot - options_.first_snapshot)];
  if (node < 0) return;
  at(node).snapshot = -1;
  node = -1;
  snapshots_.give(slot);
}

}  // namespace ingot
