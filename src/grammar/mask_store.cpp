#include "grammar/mask_store.h"

#include <utility>

#include "grammar/limits.h"

namespace ingot::grammar {

size_t TokenMask::memory() const {
  size_t bytes = sizeof(TokenMask) + bits.capacity() * 4 + tokens.capacity() * 4;
  for (const Exit& exit : exits) bytes += sizeof(Exit) + exit.nodes->capacity() * sizeof(uint32_t);
  return bytes;
}

std::shared_ptr<const TokenMask> MaskStore::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = masks_.find(key);
  return it == masks_.end() ? nullptr : it->second;
}

void MaskStore::keep(const std::string& key, std::shared_ptr<const TokenMask> mask) {
  const size_t bytes = key.size() + mask->memory() + 128;
  Masks dropped;  // goes after the lock
  const std::lock_guard lock(mutex_);
  const auto empty = [&] {  // rare: all go, and those in use come back with their next walk
    dropped.swap(masks_);
    bytes_ = 0;
  };
  if (bytes_ + bytes > max_bytes_) empty();
  if (bytes > max_bytes_) return;
  if (masks_.emplace(key, std::move(mask)).second) bytes_ += bytes;
  try {
    counted_.set(bytes_);
  } catch (const LimitError&) {  // they only save time
    empty();
    counted_.set(0);
  }
}

size_t MaskStore::memory() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

size_t MaskStore::size() const {
  const std::lock_guard lock(mutex_);
  return masks_.size();
}

}  // namespace ingot::grammar
