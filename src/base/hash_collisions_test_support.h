// Strings that std::hash takes for one, and keys that fall into one place of a table of Boost.JSON: what somebody would
// send who knows how they are hashed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ingot {

// The standard library mixes each 8 bytes k by an invertible f(k) and then makes h = (h ^ f(k)) · m. So for two first
// blocks there is, for each second block of the one, a second block of the other after which h is the same: two
// spellings of 16 bytes that can be chosen freely, again and again.
class HashCollisions {
 public:
  // 2^bits strings of 16 · bits printable characters with the same std::hash.
  static std::vector<std::string> strings(int bits) {
    std::vector<std::string> all = {""};
    uint64_t h = kSeed ^ static_cast<uint64_t>(16 * bits) * kM;
    uint64_t random = 1;
    for (int b = 0; b < bits; ++b) {
      std::string spellings[2];
      h = two_spellings(h, random, spellings);
      std::vector<std::string> longer;
      for (const std::string& s : all) {
        longer.push_back(s + spellings[0]);
        longer.push_back(s + spellings[1]);
      }
      all = std::move(longer);
    }
    return all;
  }

 private:
  static constexpr uint64_t kM = 0xc6a4a7935bd1e995u, kSeed = 0xc70f6907u;

  static uint64_t f(uint64_t k) {
    k *= kM;
    return (k ^ k >> 47) * kM;
  }
  static uint64_t f_inverse(uint64_t k) {
    uint64_t inverse = kM;
    for (int i = 0; i < 6; ++i) inverse *= 2 - kM * inverse;
    k *= inverse;
    return (k ^ k >> 47) * inverse;
  }
  static std::string text(uint64_t k) {
    char bytes[8];
    std::memcpy(bytes, &k, 8);
    return std::string(bytes, 8);
  }
  static bool printable(uint64_t k) {
    for (const char c : text(k)) {
      if (c < ' ' || c > '~' || c == '"' || c == '\\') return false;
    }
    return true;
  }
  static uint64_t letters(uint64_t& random) {
    uint64_t k = 0;
    for (int i = 0; i < 8; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      k = k << 8 | ('a' + (random >> 33) % 26);
    }
    return k;
  }
  // Returns h after either. About one try of 3,600 is printable.
  static uint64_t two_spellings(uint64_t h, uint64_t& random, std::string* spellings) {
    while (true) {
      const uint64_t a = letters(random), b = letters(random), after_a = letters(random);
      const uint64_t ha = (h ^ f(a)) * kM, hb = (h ^ f(b)) * kM;
      const uint64_t after_b = f_inverse(f(after_a) ^ ha ^ hb);
      if (a == b || !printable(after_b)) continue;
      spellings[0] = text(a) + text(after_a);
      spellings[1] = text(b) + text(after_b);
      return (ha ^ f(after_a)) * kM;
    }
  }
};

// So many keys of 8 characters, all in one place of an object that has no others and whose address ends in this byte.
// REQUIRES: `n` is a power of two; other numbers need a little more care.
inline std::vector<std::string> alike_json_keys(size_t n, uint64_t lowest_byte = 0) {
  const auto place = [&](const std::string& key) {
    uint64_t hash = 0xcbf29ce484222325 + lowest_byte;
    for (const char c : key) hash = (static_cast<uint64_t>(c) ^ hash) * 0x100000001b3;
    return hash % n;
  };
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < n; ++i) {
    std::string key;
    for (int digit = 0; digit < 8; ++digit) key += static_cast<char>('a' + (i >> 4 * digit) % 16);
    if (keys.empty() || place(key) == place(keys[0])) keys.push_back(key);
  }
  return keys;
}

// An object of these keys with this value.
inline std::string json_object_of(const std::vector<std::string>& keys, const std::string& value) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "{\"" : ",\"") + key + "\":" + value;
  return text + "}";
}

}  // namespace ingot
