// Seqs that wait for their turn. Tenants take turns: the one that was given the fewest rows is next, so a flood of one
// delays its own requests only. Within a tenant the lowest rank is next.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/sequence.h"

namespace ingot {

class Waiting {
 public:
  void add(Sequence& seq);
  // REQUIRES: it is here.
  void remove(Sequence& seq);
  // The seq whose turn it is; null where nobody waits.
  Sequence* next() const;
  // The lowest rank of those that are suspect; null where none is.
  Sequence* suspect() const;

  // A seq of this tenant came to the engine or left it.
  void enter(const std::string& tenant);
  void leave(const std::string& tenant);
  // The tenant was given rows of a step.
  void served(const std::string& tenant, int rows);

  bool empty() const { return size_ == 0; }
  int size() const { return size_; }

  template <class F>
  void each(F&& f) const {
    for (const auto& [name, tenant] : tenants_) {
      for (Sequence* seq : tenant.queue) f(*seq);
    }
  }

 private:
  struct Tenant {
    double rows = 0;               // given so far
    int seqs = 0;                  // in the engine
    std::vector<Sequence*> queue;  // the next at the back
  };
  std::map<std::string, Tenant> tenants_;
  int active_ = 0;    // tenants that have a seq in the engine
  double level_ = 0;  // rows that a tenant would have been given, had it always been here
  int size_ = 0;
};

// The total order of seqs: earlier arrival and higher priority come first.
inline bool before(const Sequence& a, const Sequence& b) { return a.rank != b.rank ? a.rank < b.rank : a.id < b.id; }

}  // namespace ingot
