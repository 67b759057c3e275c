// What each rank knows and all shall.
#pragma once

#include <type_traits>
#include <vector>

#include "comm/comm.h"

namespace ingot {

// What each rank gives, in their order; also a meeting of all.
template <class T>
std::vector<T> from_all(Comm& comm, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(comm.ranks()));
  all[static_cast<size_t>(comm.rank())] = own;
  std::vector<CommBlock> parts;
  for (T& one : all) parts.push_back({.data = reinterpret_cast<std::byte*>(&one), .bytes = sizeof(T)});
  comm.all_gather(parts);
  return all;
}

}  // namespace ingot
