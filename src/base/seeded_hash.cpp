#include "base/seeded_hash.h"

#include <bit>
#include <cstring>
#include <random>

namespace ingot {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round();
    v0 ^= word;
  }
};

struct ProcessKey {
  uint64_t key0, key1;
  ProcessKey() {
    std::random_device device;
    const auto word = [&] { return uint64_t{device()} << 32 | device(); };
    key0 = word();
    key1 = word();
  }
};

const ProcessKey& process_key() {
  static const ProcessKey key;
  return key;
}

}  // namespace

uint64_t sip_hash(std::string_view bytes, uint64_t key0, uint64_t key1) {
  SipState state{key0 ^ 0x736f6d6570736575u, key1 ^ 0x646f72616e646f6du, key0 ^ 0x6c7967656e657261u,
                 key1 ^ 0x7465646279746573u};
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    state.take(word);
  }
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (size_t i = 0; i < left; ++i) last |= uint64_t{static_cast<unsigned char>(p[i])} << (8 * i);
  state.take(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

uint64_t seeded_hash(std::string_view bytes) {
  const ProcessKey& key = process_key();
  return sip_hash(bytes, key.key0, key.key1);
}

SeededNumbers::SeededNumbers() : state_(process_key().key0), factor_(process_key().key1 | 1) {}

}  // namespace ingot
