// Who is told what grammars take, and may say that there is no room for more.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace ingot::grammar {

class MemoryAccount {
 public:
  virtual ~MemoryAccount() = default;
  // Something of this account's takes `now` bytes, of which `before` are counted. Throws LimitError where there is no
  // room: then `before` stay. One that takes less never throws. Any thread.
  virtual void change(size_t before, size_t now) = 0;
};

// What one thing takes, until it goes. A copy is another thing, of which nothing is counted yet. One thread at a time.
class Counted {
 public:
  explicit Counted(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}
  Counted(const Counted& other) : account_(other.account_) {}
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    if (account_ && bytes_ > 0) account_->change(bytes_, 0);
  }

  // It takes so many; what changes by less than some kilobytes is not worth telling. Throws LimitError.
  void set(size_t bytes) {
    constexpr size_t kLittle = 16 << 10;
    if (!account_ || (bytes <= bytes_ + kLittle && bytes + kLittle >= bytes_)) return;
    account_->change(bytes_, bytes);
    bytes_ = bytes;
  }

 private:
  const std::shared_ptr<MemoryAccount> account_;
  size_t bytes_ = 0;
};

}  // namespace ingot::grammar
