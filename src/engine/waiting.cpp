#include "engine/waiting.h"

#include <algorithm>

#include "base/check.h"

namespace ingot {
namespace {

// Names that are remembered after their last seq has left.
constexpr size_t kIdleTenants = 1024;

}  // namespace

void Waiting::add(Sequence& seq) {
  std::vector<Sequence*>& queue = tenants_.at(seq.request->tenant).queue;
  const auto place =
      std::ranges::upper_bound(queue, &seq, [](const Sequence* a, const Sequence* b) { return before(*b, *a); });
  queue.insert(place, &seq);
  ++size_;
}

void Waiting::remove(Sequence& seq) {
  std::vector<Sequence*>& queue = tenants_.at(seq.request->tenant).queue;
  const auto it = std::ranges::find(queue, &seq);
  CHECK(it != queue.end(), "seq {} does not wait", seq.id);
  queue.erase(it);
  --size_;
}

Sequence* Waiting::next() const {
  const Tenant* best = nullptr;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.queue.empty()) continue;
    const bool better = !best || tenant.rows < best->rows ||
                        (tenant.rows == best->rows && before(*tenant.queue.back(), *best->queue.back()));
    if (better) best = &tenant;
  }
  return best ? best->queue.back() : nullptr;
}

Sequence* Waiting::suspect() const {
  Sequence* first = nullptr;
  each([&](Sequence& seq) {
    if (seq.suspect && (!first || before(seq, *first))) first = &seq;
  });
  return first;
}

// A tenant that comes, or comes back, begins at the level of those who stayed: time away earns nothing, and a stream of
// new names cannot hold back one that was here before, since the level rises with every row that anyone is given.
void Waiting::enter(const std::string& name) {
  Tenant& tenant = tenants_[name];
  const size_t all = static_cast<size_t>(tenant.seqs) + 1;
  if (tenant.queue.capacity() < all) tenant.queue.reserve(2 * all);  // coming back never allocates
  if (tenant.seqs++ > 0) return;
  ++active_;
  tenant.rows = std::max(tenant.rows, level_);
}

void Waiting::served(const std::string& name, int rows) {
  tenants_.at(name).rows += rows;
  level_ += static_cast<double>(rows) / active_;
}

void Waiting::leave(const std::string& name) {
  const auto it = tenants_.find(name);
  CHECK(it != tenants_.end() && it->second.seqs > 0, "tenant has no seq");
  if (--it->second.seqs > 0) return;
  --active_;
  if (tenants_.size() > kIdleTenants) tenants_.erase(it);
}

}  // namespace ingot
