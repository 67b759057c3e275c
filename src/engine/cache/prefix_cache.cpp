#include "engine/cache/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

// Content spaces for which there is room from the start beside a node of each page.
constexpr size_t kRoots = 16;

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
  size_t most = 0;
  for (int g = 0; g < pages_.n_groups(); ++g) most = std::max(most, static_cast<size_t>(pages_.total_pages(g)));
  most += kRoots;
  nodes_.reserve(most);
  tokens_.reserve(most * static_cast<size_t>(pages_.page_rows()));
  node_pages_.reserve(most * static_cast<size_t>(pages_.n_groups()));
  unused_.reserve(most);
  buckets_.assign(most, -1);
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

// A number for another node. Pruning never allocates: there is room for every number before there is a node.
void PrefixCache::make_room() {
  const size_t all = nodes_.size() + 1;
  if (unused_.capacity() < all) unused_.reserve(2 * all);
  tokens_.resize(all * static_cast<size_t>(pages_.page_rows()));
  node_pages_.resize(all * static_cast<size_t>(pages_.n_groups()), kNoPage);
  if (buckets_.size() < all) {
    buckets_ = std::vector<int32_t>(2 * all, -1);
    for (size_t id = 0; id < nodes_.size(); ++id) {
      if (nodes_[id].parent >= 0) nodes_[id].next = std::exchange(bucket(nodes_[id].hash), static_cast<int32_t>(id));
    }
  }
  nodes_.emplace_back();
  unused_.push_back(static_cast<int32_t>(all) - 1);
}

int32_t PrefixCache::make(Node node) {
  if (unused_.empty()) make_room();
  const int32_t id = unused_.back();
  unused_.pop_back();
  if (node.parent >= 0) node.next = std::exchange(bucket(node.hash), id);
  at(id) = std::move(node);
  ++n_nodes_;
  return id;
}

// That of its other roots, or a free one.
int PrefixCache::number_of(const std::string& owner) {
  auto it = std::ranges::find_if(owners_, [&](const Owner& o) { return o.roots > 0 && o.name == owner; });
  if (it == owners_.end()) it = std::ranges::find(owners_, 0, &Owner::roots);
  if (it == owners_.end()) it = owners_.emplace(it);
  it->name = owner;
  return static_cast<int>(it - owners_.begin());
}

int32_t PrefixCache::root(const std::string& space, const std::string& owner, double weight) {
  if (const auto it = roots_.find(space); it != roots_.end()) {
    pages_.set_owner(at(it->second).owner, weight);
    ++at(it->second).holders;
    return it->second;
  }
  Node node;
  node.space = space;
  node.holders = 1;
  node.owner = number_of(owner);
  const auto number = static_cast<size_t>(node.owner);
  pages_.set_owner(node.owner, weight);
  const auto [it, _] = roots_.emplace(space, -1);
  try {
    it->second = make(std::move(node));
  } catch (...) {
    roots_.erase(it);
    throw;
  }
  ++owners_[number].roots;
  return it->second;
}

int32_t PrefixCache::child(int32_t parent, std::span<const int32_t> tokens) const {
  const uint64_t hash = hash_of(parent, tokens);
  for (int32_t id = buckets_[hash % buckets_.size()]; id >= 0; id = at(id).next) {
    const Node& node = at(id);
    if (node.hash == hash && node.parent == parent && std::ranges::equal(tokens_of(id), tokens)) return id;
  }
  return -1;
}

// Whether a row after the `n` pages that end with `node` would find all that it sees.
bool PrefixCache::usable(int32_t node, int n) const {
  if (options_.has_state && at(node).snapshot < 0) return false;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const int first = pages_.first_page(g, n * pages_.page_rows());
    int32_t page = node;
    for (int i = n - 1; i >= first; --i, page = at(page).parent) {
      if (pages_of(page)[static_cast<size_t>(g)] == kNoPage) return false;
    }
  }
  return true;
}

PrefixHit PrefixCache::find(int32_t root, std::span<const int32_t> tokens, int most) const {
  const auto rows = static_cast<size_t>(pages_.page_rows());
  PrefixHit hit{.node = root};
  while (hit.pages < most && (static_cast<size_t>(hit.pages) + 1) * rows <= tokens.size()) {
    const int32_t next = child(hit.node, tokens.subspan(static_cast<size_t>(hit.pages) * rows, rows));
    if (next < 0) break;
    hit = {.node = next, .pages = hit.pages + 1};
  }
  while (hit.pages > 0 && !usable(hit.node, hit.pages)) hit = {.node = at(hit.node).parent, .pages = hit.pages - 1};
  return hit.pages > 0 ? hit : PrefixHit{};
}

int PrefixCache::idle_pages(const PrefixHit& hit, int group) const {
  int idle = 0;
  int32_t node = hit.node;
  const int first = pages_.first_page(group, hit.pages * pages_.page_rows());
  for (int i = hit.pages - 1; i >= first; --i, node = at(node).parent) {
    idle += !pages_.held_beside(group, pages_of(node)[static_cast<size_t>(group)]);
  }
  return idle;
}

void PrefixCache::take(const PrefixHit& hit, SeqPages& seq) {
  const int n = hit.pages;
  pages_.reserve(seq, n * pages_.page_rows());  // from here on nothing can fail
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const int first = pages_.first_page(g, n * pages_.page_rows());
    seq.slid[static_cast<size_t>(g)] = first;
    seq.groups[static_cast<size_t>(g)].assign(static_cast<size_t>(n), kNoPage);
    int32_t node = hit.node;
    for (int i = n - 1; i >= first; --i, node = at(node).parent) {
      const PageId page = pages_of(node)[static_cast<size_t>(g)];
      pages_.hold(g, page);
      seq.groups[static_cast<size_t>(g)][static_cast<size_t>(i)] = page;
    }
  }
  at(hit.node).used = ++clock_;
}

int32_t PrefixCache::add(int32_t parent, std::span<const int32_t> tokens, const SeqPages& seq, int index) {
  int32_t id = child(parent, tokens);
  if (id < 0) {
    Node node;
    node.parent = parent;
    node.owner = at(parent).owner;
    node.hash = hash_of(parent, tokens);
    id = make(std::move(node));
    std::ranges::copy(tokens, tokens_of(id).begin());
    ++at(parent).holders;
  }
  ++at(id).holders;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    const PageId page = seq.groups[static_cast<size_t>(g)][static_cast<size_t>(index)];
    PageId& known = pages_of(id)[static_cast<size_t>(g)];
    // Where two seqs computed the same page, the first one's stays the known one.
    if (page == kNoPage || known != kNoPage || pages_.address(g, page) >= 0) continue;
    known = page;
    pages_.set_address(g, page, id, at(id).owner);
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
  pages_of(address)[static_cast<size_t>(group)] = kNoPage;
  prune(address);
}

// Nodes that nobody holds, that nothing follows and that have no page left go, and then perhaps their parents.
void PrefixCache::prune(int32_t id) {
  while (id >= 0) {
    Node& node = at(id);
    const bool no_page = std::ranges::all_of(pages_of(id), [](PageId page) { return page == kNoPage; });
    // A model that keeps nothing but state has no pages: there a snapshot is what a node is kept for.
    const bool only_state = pages_.n_groups() == 0 && node.snapshot >= 0;
    if (node.holders > 0 || !no_page || only_state) return;
    if (node.snapshot >= 0) forget_snapshot(node.snapshot);
    if (node.parent < 0) {
      roots_.erase(node.space);
      --owners_[static_cast<size_t>(node.owner)].roots;
    } else {
      int32_t* link = &bucket(node.hash);
      while (*link != id) link = &at(*link).next;
      *link = node.next;
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
