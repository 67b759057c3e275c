// Vocabularies that give the bytes of each token and a rank, without a list of merges: *.tiktoken and tekken.json. Two
// neighbours merge where their bytes together are a token, the token of lowest rank first. Inside text/ only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ingot {

// Appends the bytes that `text` encodes. False where it is no base64 with its padding.
bool append_base64(std::string_view text, std::string& out);

// A longer token is refused: the time to find a token's merge grows with its length. The longest published has 512.
inline constexpr size_t kMaxRankedToken = 1024;

// Fills parts.vocab, parts.added and parts.model: token `first_rank` + i is ranked[i], where it is not empty, and the
// special tokens have the ids of their keys. Other ids are absent. Throws Error, naming `path`, where a byte has no
// token, bytes are there twice, a token is too long, or an id is both ranked and special.
void build_ranked(const std::vector<std::string>& ranked, Token first_rank, const std::map<Token, AddedToken>& special,
                  const std::string& path, TokenizerParts& parts);

}  // namespace ingot
