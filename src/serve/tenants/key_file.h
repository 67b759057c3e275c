// The key file as a table: a line for each key, `NAME KEY [setting]…`, where # begins a comment.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"
#include "serve/tenants/rights.h"

namespace ingot {

inline constexpr size_t kMaxKeyBytes = 512;

struct KeyTable {
  struct Key {
    std::string name, key;
  };
  std::vector<Key> keys;                        // in the file's order
  SeededMap<std::string> names;                 // by key
  std::map<std::string, TenantRights> tenants;  // by name; keys of one name have the same settings

  // Throws Error where the key is too short or too long or another name's, or its name has other settings already.
  // `line` 0: not of a file.
  void add(const std::string& name, const std::string& key, const TenantRights& rights, size_t line);
};

// Adds what the text has. `routes`: those that a line may name; empty: any. Throws Error with the line of what is
// wrong, and never with a key.
void read_key_lines(const std::string& text, std::span<const std::string_view> routes, KeyTable& table);

}  // namespace ingot
