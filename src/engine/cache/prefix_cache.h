// Content addresses of full KV pages: a seq whose first tokens were computed before takes the pages that hold them.
// A node is one page of tokens after its parent's; roots stand for what else decides the content (tenant, adapter,
// media, KV format). A node is found by a keyed hash and then compared in full, so a collision, made or met, can never
// give a seq another's pages.
// Nodes, their tokens and their table lie in arrays with room for a node of each page from the start: until there are
// more nodes than pages (windows leave nodes without pages behind), adding one allocates nothing.
// Snapshots of states: no model has them yet; the simulation does.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/seeded_hash.h"
#include "engine/cache/kv_pages.h"
#include "engine/cache/state_slots.h"

namespace ingot {

struct PrefixCacheOptions {
  uint64_t key = 0;        // of the hash: random in a server, so that nobody can aim at collisions
  int hash_bits = 64;      // fewer in tests, to force collisions
  bool has_state = false;  // the model has recurrent state: a hit ends where a snapshot is
  int first_snapshot = 0;  // slots of snapshots
  int n_snapshots = 0;
};

// What a lookup found: the first `pages` pages of the tokens, ending with `node`.
struct PrefixHit {
  int32_t node = -1;
  int pages = 0;
};

class PrefixCache {
 public:
  PrefixCache(KvPages& pages, const PrefixCacheOptions& options);
  ~PrefixCache() { pages_.on_evict = nullptr; }
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The root of a content space; made when it is new. The caller holds it until release(). What is kept below it is the
  // owner's (KvPages::set_owner). REQUIRES: a space has one owner.
  int32_t root(const std::string& space, const std::string& owner = {}, double weight = 1);

  // The longest run of pages at the beginning of `tokens` that is there whole, in every group, as far as its window
  // reaches, and at most `most` pages.
  PrefixHit find(int32_t root, std::span<const int32_t> tokens, int most) const;
  // Gives the pages of a hit to a seq that holds none.
  void take(const PrefixHit& hit, SeqPages& seq);
  // How many pages of the hit nobody holds: taking it makes so many unavailable to others.
  int idle_pages(const PrefixHit& hit, int group) const;

  // The page after `parent` that holds `tokens` is now in `seq`, as its page `index`. Returns its node; the caller's
  // hold moves from `parent` to it. REQUIRES: the caller holds `parent`, and tokens fill a page.
  int32_t add(int32_t parent, std::span<const int32_t> tokens, const SeqPages& seq, int index);

  // Nobody shall find the content of these pages again. REQUIRES: `seq` holds them.
  void forget(const SeqPages& seq);

  void hold(int32_t node) { ++nodes_[static_cast<size_t>(node)].holders; }
  void release(int32_t node);

  // A slot where the state after `node` shall be kept, or -1 where it is kept already or there is no slot at all; the
  // least recently used snapshot gives way.
  int snapshot(int32_t node);
  int snapshot_of(int32_t node) const { return nodes_[static_cast<size_t>(node)].snapshot; }
  // The snapshot in `slot` was never taken.
  void forget_snapshot(int slot);

  int n_nodes() const { return n_nodes_; }
  // Of those that ever were at once, the most.
  int n_owners() const { return static_cast<int>(owners_.size()); }

 private:
  struct Node {
    int32_t parent = -1;  // -1 of roots
    uint64_t hash = 0;
    int holders = 0;    // children, and seqs that stand here
    int32_t next = -1;  // in the chain of its bucket
    int owner = 0;
    std::string space;  // of roots
    int snapshot = -1;
    uint64_t used = 0;  // when the snapshot was last used
  };

  struct Owner {
    std::string name;
    int roots = 0;  // 0: the number is free
  };

  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  // [page_rows] of a node that is no root.
  std::span<int32_t> tokens_of(int32_t node) {
    const auto rows = static_cast<size_t>(pages_.page_rows());
    return std::span(tokens_).subspan(static_cast<size_t>(node) * rows, rows);
  }
  // [group] kNoPage where it was given away, and of roots.
  std::span<PageId> pages_of(int32_t node) {
    const auto groups = static_cast<size_t>(pages_.n_groups());
    return std::span(node_pages_).subspan(static_cast<size_t>(node) * groups, groups);
  }
  std::span<const int32_t> tokens_of(int32_t node) const { return const_cast<PrefixCache*>(this)->tokens_of(node); }
  std::span<const PageId> pages_of(int32_t node) const { return const_cast<PrefixCache*>(this)->pages_of(node); }
  int32_t& bucket(uint64_t hash) { return buckets_[hash % buckets_.size()]; }
  void make_room();
  uint64_t hash_of(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t child(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t make(Node node);
  int number_of(const std::string& owner);
  bool usable(int32_t node, int n) const;
  void evicted(int group, int32_t address);
  void prune(int32_t node);

  KvPages& pages_;
  const PrefixCacheOptions options_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;     // [node, page_rows]
  std::vector<PageId> node_pages_;  // [node, group]
  std::vector<int32_t> unused_;     // numbers of nodes that are not live
  std::vector<int32_t> buckets_;    // the first node of each chain; -1
  int n_nodes_ = 0;
  SeededMap<int32_t> roots_;
  std::vector<Owner> owners_;
  StateSlots snapshots_;
  std::vector<int32_t> snapshot_node_;  // whose state is in each slot of snapshots; -1
  uint64_t clock_ = 0;
};

}  // namespace ingot
