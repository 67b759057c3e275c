// The table by which SentencePiece rewrites characters (precompiled_charsmap): a trie over bytes whose values point to
// replacements. Immutable: any number of threads may use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

class Charsmap {
 public:
  // The bytes of the table: the trie's length, the trie, the replacements. Throws Error where they are no such table:
  // more than 16 MiB, lengths that do not fit, replacements that do not end, are not UTF-8 or longer than 1024 bytes,
  // values that point outside.
  explicit Charsmap(std::string_view blob);

  // As the `tokenizers` library applies it (Precompiled): to each grapheme cluster of less than six bytes that has an
  // entry, which replaces all of it, otherwise to each of its characters. Of several entries that begin a key the
  // shortest counts. False, with `out` as it was, where nothing changes. REQUIRES: valid UTF-8.
  bool apply_clusters(std::string_view text, std::string& out) const;

  struct Match {
    size_t length = 0;  // bytes of the key; 0: none
    std::string_view text = {};
  };
  // The longest entry that begins at text[pos] and ends where a character does, which is what SentencePiece applies.
  Match longest(std::string_view text, size_t pos) const { return find(text.substr(pos), true); }

 private:
  Match find(std::string_view key, bool longest) const;
  std::string_view replacement(uint32_t value) const;
  void check() const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace ingot
