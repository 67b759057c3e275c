// A hash of byte strings that comes from outside (keys of JSON, names of tensors): SipHash-1-3 with a key that is
// random in each process, so that nobody can write names that all fall into one bucket. std::hash has a fixed seed:
// 8,192 such keys are quickly made, and a table with them takes quadratic time. Any thread may use it. Values differ
// from run to run: nothing that is stored or told may depend on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace ingot {

uint64_t seeded_hash(std::string_view bytes);

// For the standard's tables.
struct SeededHash {
  size_t operator()(std::string_view bytes) const { return static_cast<size_t>(seeded_hash(bytes)); }
};

template <class Value>
using SeededMap = std::unordered_map<std::string, Value, SeededHash>;
template <class Value>
using SeededViewMap = std::unordered_map<std::string_view, Value, SeededHash>;  // the keys' bytes lie elsewhere
using SeededSet = std::unordered_set<std::string, SeededHash>;

// A quick hash of numbers that follow from what a client wrote, such as ids that are given out in its order: with the
// same key, for tables that are filled a hundred thousand times for one request.
class SeededNumbers {
 public:
  SeededNumbers();
  void add(uint64_t number) {
    const unsigned __int128 product = static_cast<unsigned __int128>(state_ ^ number) * factor_;
    state_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_, factor_;
};

// SipHash-1-3 of `bytes` with a given key.
uint64_t sip_hash(std::string_view bytes, uint64_t key0, uint64_t key1);

}  // namespace ingot
