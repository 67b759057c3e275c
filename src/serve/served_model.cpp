#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace ingot {

bool ServedModel::answers_to(std::string_view asked) const {
  return asked.empty() || asked == name || std::ranges::find(aliases, asked) != aliases.end();
}

std::string ServedModel::fingerprint() const {
  std::string facts = name + "\n" + architecture;
  for (const auto& [of, bytes] : formats) facts += fmt::format("\n{} {}", of, bytes);
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : facts) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("fp_{:010x}", hash >> 24);
}

}  // namespace ingot
