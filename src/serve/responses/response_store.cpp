#include "serve/responses/response_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ingot {
namespace {

constexpr size_t kOfEach = 512;  // the entry's own memory, about

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_empty(const std::string& list) { return list.size() <= 2; }

}  // namespace

std::string KeptResponse::conversation() const {
  if (is_empty(output)) return input;
  if (is_empty(input)) return output;
  return input.substr(0, input.size() - 1) + "," + output.substr(1);
}

ResponseStore::ResponseStore(size_t bytes, std::function<double()> now)
    : most_(bytes), room_(bytes), now_(now ? std::move(now) : steady_seconds) {}

bool ResponseStore::put(const std::string& tenant, const std::string& id, KeptResponse response) {
  const size_t need = kOfEach + id.size() + response.response.size() + response.input.size() + response.output.size();
  const auto kept = std::make_shared<const KeptResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  drop_old();
  const size_t tenants = shelves_.size() + (shelves_.contains(tenant) ? 0 : 1);
  if (need > most_ / tenants) return false;
  Shelf& shelf = shelves_[tenant];
  shelf.entries.push_back({.id = id, .response = kept, .bytes = need, .until = now_() + kSeconds});
  shelf.by_id[id] = std::prev(shelf.entries.end());
  shelf.bytes += need;
  bytes_ += need;
  ++count_;
  while (bytes_ > most_) drop_oldest_of_largest();
  return true;
}

std::shared_ptr<const KeptResponse> ResponseStore::get(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  drop_old();
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return nullptr;
  const auto found = shelf->second.by_id.find(id);
  return found == shelf->second.by_id.end() ? nullptr : found->second->response;
}

bool ResponseStore::erase(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  drop_old();
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return false;
  const auto found = shelf->second.by_id.find(id);
  if (found == shelf->second.by_id.end()) return false;
  drop(shelf, found->second);
  return true;
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

size_t ResponseStore::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

// All have the same time: of each shelf the first ones go.
void ResponseStore::drop_old() {
  const double now = now_();
  for (auto shelf = shelves_.begin(); shelf != shelves_.end();) {
    const auto next = std::next(shelf);
    while (!shelf->second.entries.empty() && shelf->second.entries.front().until <= now) {
      const bool last = shelf->second.entries.size() == 1;
      drop(shelf, shelf->second.entries.begin());
      if (last) break;
    }
    shelf = next;
  }
}

// A shelf that is empty goes, too.
void ResponseStore::drop(Shelves::iterator shelf, std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  --count_;
  shelf->second.bytes -= entry->bytes;
  shelf->second.by_id.erase(entry->id);
  shelf->second.entries.erase(entry);
  if (shelf->second.entries.empty()) shelves_.erase(shelf);
}

void ResponseStore::drop_oldest_of_largest() {
  const auto largest = std::max_element(shelves_.begin(), shelves_.end(),
                                        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  drop(largest, largest->second.entries.begin());
}

}  // namespace ingot
