// So many bytes, of which each tenant may have as much as it leaves free: one alone gets half of them and more, and
// whoever comes next finds some.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ingot {

// Any thread.
class SharedRoom {
 public:
  explicit SharedRoom(size_t most);

  // Takes the bytes until the value goes, which may outlive this; none: there is no room, or the tenant has its share.
  std::shared_ptr<void> hold(const std::string& tenant, size_t bytes);

  size_t most() const;
  size_t held() const;

 private:
  struct State;
  struct Part;
  std::shared_ptr<State> state_;
};

}  // namespace ingot
