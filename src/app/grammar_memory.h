// The bytes of all grammars of a model, by tenant: being compiled, kept, and in use with the parsers of answers. A
// tenant may have as much as it leaves free, so that one alone gets half of it and whoever comes next finds some.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace ingot {

// Any thread.
class GrammarMemory {
 public:
  explicit GrammarMemory(size_t most) : most_(most) {}

  enum class Taken : unsigned char {
    kYes,
    kShare,  // no: the tenant has its share
    kFull,   // no: there is none left
  };
  // `leave`: bytes that must be free then.
  Taken take(const std::string& tenant, size_t bytes, size_t leave = 0);
  void give(const std::string& tenant, size_t bytes);

  size_t most() const { return most_; }
  size_t bytes() const;
  size_t bytes(const std::string& tenant) const;

 private:
  const size_t most_;
  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, size_t> tenants_;
  size_t bytes_ = 0;
};

}  // namespace ingot
