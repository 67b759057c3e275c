#include "serve/tenants/shared_room.h"

#include <map>
#include <mutex>
#include <utility>

namespace ingot {

struct SharedRoom::State {
  explicit State(size_t bytes) : most(bytes) {}

  const size_t most;
  std::mutex mutex;  // guards all below
  std::map<std::string, size_t> held_by;
  size_t held = 0;
};

// A tenant's part, until the last who holds it lets go.
struct SharedRoom::Part {
  Part(std::shared_ptr<State> of, std::string name) : state(std::move(of)), tenant(std::move(name)) {}
  ~Part() {
    if (bytes == 0) return;
    const std::lock_guard lock(state->mutex);
    const auto own = state->held_by.find(tenant);
    own->second -= bytes;
    if (own->second == 0) state->held_by.erase(own);
    state->held -= bytes;
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const std::shared_ptr<State> state;
  const std::string tenant;
  size_t bytes = 0;
};

SharedRoom::SharedRoom(size_t most) : state_(std::make_shared<State>(most)) {}

std::shared_ptr<void> SharedRoom::hold(const std::string& tenant, size_t bytes) {
  const auto part = std::make_shared<Part>(state_, tenant);  // first: there may be no memory for it
  const std::lock_guard lock(state_->mutex);
  const size_t free = state_->most - state_->held;
  const auto own = state_->held_by.find(tenant);
  if (bytes > free || (own != state_->held_by.end() && own->second > free - bytes)) return nullptr;
  if (bytes == 0) return part;
  state_->held_by[tenant] += bytes;
  state_->held += bytes;
  part->bytes = bytes;
  return part;
}

size_t SharedRoom::most() const { return state_->most; }

size_t SharedRoom::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

}  // namespace ingot
