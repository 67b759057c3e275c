#include "text/model/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

// A run of unknown characters that has not been written yet.
struct Unigram::Unknown {
  size_t begin = 0;
  size_t end = 0;  // begin: none
};

Unigram::Unigram(const Vocab& vocab, UnigramOptions options, std::span<const double> scores)
    : vocab_(&vocab), options_(options), trie_(vocab), scores_(scores.begin(), scores.end()) {
  if (scores.size() > vocab.size()) {
    throw Error("[tokenizer] {} scores, {} tokens", scores.size(), vocab.size());
  }
  double lowest = scores.empty() ? 0.0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < scores.size(); i++) {
    if (!std::isfinite(scores[i])) throw Error("[tokenizer] the score of token {} is not a finite number", i);
    lowest = std::min(lowest, scores[i]);
  }
  unknown_score_ = options.lowest.value_or(lowest) - kUnknownPenalty;
  if (options.single) unknown_score_ = static_cast<float>(unknown_score_);
  scores_.resize(vocab.size(), unknown_score_);
  for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
    control_.push_back(vocab.kind(token) == TokenKind::kControl);
  }
  bytes_.fill(kNoToken);
  if (options.byte_fallback) {
    for (int i = 0; i < 256; i++) bytes_[static_cast<size_t>(i)] = vocab.find(fmt::format("<0x{:02X}>", i));
    for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
      const auto byte = vocab.kind(token) == TokenKind::kByte ? parse_byte_token(vocab.bytes(token)) : std::nullopt;
      if (byte) bytes_[*byte] = token;
    }
  }
}

// Everything that begins at `at`: the best path to each place where a token ends.
void Unigram::extend(std::string_view piece, size_t at, size_t base, ModelScratch& scratch) const {
  std::vector<PathNode>& nodes = scratch.path;
  const double here = nodes[at - base].score;
  const size_t single = at + char_length(piece[at]);
  const auto offer = [&](size_t end, double score, Token token) {
    if (end - base >= nodes.size()) nodes.resize(end - base + 1);
    PathNode& node = nodes[end - base];
    const double sum = options_.single ? static_cast<double>(static_cast<float>(here + score)) : here + score;
    if (node.token == kNoToken || sum > node.score) {
      node = {sum, static_cast<uint32_t>(end - at), token};
    }
  };
  bool whole = false;  // the character is a token
  TokenTrie::Node node = TokenTrie::kRoot;
  for (size_t end = at; end < piece.size();) {
    node = trie_.step(node, piece[end++]);
    if (node == TokenTrie::kNone) break;
    const Token token = trie_.token(node);
    if (token == kNoToken || (control_[static_cast<size_t>(token)] && !scratch.control)) continue;
    offer(end, scores_[static_cast<size_t>(token)], token);
    whole = whole || end == single;
  }
  if (whole) return;
  if (options_.unknown == kNoToken) {
    throw Error("[tokenizer] no token writes '{}', and the vocabulary has none for unknown text",
                utf8_printable(piece.substr(at, single - at)));
  }
  offer(single, unknown_score_, options_.unknown);
}

void Unigram::write_unknown(std::string_view text, bool control, std::vector<Token>& out) const {
  // A run of unknown characters may be a token all the same, where scores are odd enough.
  const Token token = vocab_->find(text);
  if (token != kNoToken && (control || !control_[static_cast<size_t>(token)])) {
    out.push_back(token);
    return;
  }
  const size_t before = out.size();
  for (size_t i = 0; i < text.size() && options_.byte_fallback; i++) {
    const Token byte = bytes_[static_cast<unsigned char>(text[i])];
    if (byte == kNoToken) {
      out.resize(before);
      break;
    }
    out.push_back(byte);
  }
  if (out.size() == before) out.push_back(options_.unknown);
}

void Unigram::flush(std::string_view piece, bool control, Unknown& unknown, std::vector<Token>& out) const {
  if (unknown.begin != unknown.end) {
    write_unknown(piece.substr(unknown.begin, unknown.end - unknown.begin), control, out);
  }
  unknown = {};
}

// Writes the best path from `base` to `end`.
void Unigram::trace(std::string_view piece, size_t base, size_t end, ModelScratch& scratch, Unknown& unknown,
                    std::vector<Token>& out) const {
  scratch.steps.clear();
  for (size_t at = end; at > base; at -= scratch.path[at - base].length) scratch.steps.push_back(at);
  size_t begin = base;
  for (size_t i = scratch.steps.size(); i-- > 0;) {
    const size_t stop = scratch.steps[i];
    const Token token = scratch.path[stop - base].token;
    if (token == options_.unknown) {
      if (unknown.begin == unknown.end) unknown.begin = begin;
      unknown.end = stop;
    } else {
      flush(piece, scratch.control, unknown, out);
      out.push_back(token);
    }
    begin = stop;
  }
}

void Unigram::encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const {
  if (scratch.cache && scratch.cache->find(piece, scratch.control, out)) return;
  const size_t before = out.size();
  std::vector<PathNode>& nodes = scratch.path;
  nodes.assign(1, PathNode{0.0, 0, 0});
  size_t base = 0;                         // the place of nodes[0], which every path passes
  constexpr size_t kPauseBytes = 1 << 16;  // about 10 ms
  size_t paused = 0;
  Unknown unknown;
  for (size_t at = 0; at < piece.size(); at += char_length(piece[at])) {
    if (at > base && at - base + 1 == nodes.size()) {
      // No token reaches over this place: what lies before it is decided. The score goes on, so that sums round alike.
      trace(piece, base, at, scratch, unknown, out);
      nodes.assign(1, PathNode{nodes.back().score, 0, 0});
      base = at;
    }
    extend(piece, at, base, scratch);
    if (at - paused >= kPauseBytes && scratch.symbols.pause) {
      paused = at;
      scratch.symbols.pause();
    }
  }
  trace(piece, base, piece.size(), scratch, unknown, out);
  flush(piece, scratch.control, unknown, out);
  if (scratch.cache) scratch.cache->put(piece, scratch.control, std::span(out).subspan(before));
}

}  // namespace ingot
