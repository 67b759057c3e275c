#include "files/json_keys.h"

#include <array>
#include <cstdint>

#include "base/seeded_hash.h"

namespace ingot {
namespace {

constexpr size_t kAddresses = 16;  // of tables that differ in their lowest byte: memory is aligned to 16
constexpr uint64_t kFnvBegin = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

using Hashes = std::array<uint64_t, kAddresses>;

// Of the key in a table at each of the addresses from `base` on, as Boost.JSON has them.
Hashes hashes(std::string_view key, uint64_t base) {
  Hashes all;
  for (size_t a = 0; a < kAddresses; ++a) all[a] = kFnvBegin + base + (a << 4);
  for (const char c : key) {
    const auto byte = static_cast<uint64_t>(c);
    for (uint64_t& hash : all) hash = (byte ^ hash) * kFnvPrime;
  }
  return all;
}

}  // namespace

bool JsonKeys::close() {
  const size_t first = begins_.back();
  const bool fine = ends_.size() - first <= kMostAlike || spread(first);
  begins_.pop_back();
  ends_.resize(first);
  text_.resize(first == 0 ? 0 : ends_.back());
  return fine;
}

bool JsonKeys::spread(size_t first) const {
  // The upper bytes of an address move all keys of a length alike: what they are makes no difference that anybody could
  // write keys for, so they are any.
  const uint64_t base = seeded_hash("address") & ~uint64_t{0xff};
  const size_t places = ends_.size() - first;
  std::array<std::vector<uint8_t>, kAddresses> alike;  // keys in each place
  for (std::vector<uint8_t>& counts : alike) counts.resize(places);
  size_t begin = first == 0 ? 0 : ends_[first - 1];
  for (size_t k = first; k < ends_.size(); ++k) {
    const Hashes all = hashes(std::string_view(text_).substr(begin, ends_[k] - begin), base);
    begin = ends_[k];
    for (size_t a = 0; a < kAddresses; ++a) {
      if (++alike[a][all[a] % places] > kMostAlike) return false;
    }
  }
  return true;
}

}  // namespace ingot
