#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

namespace {

// Memory above this is not kept from one text to the next.
constexpr size_t kKeptBytes = size_t{1} << 20;
// Of a text between two pauses: 5 to 50 ms on one core.
constexpr size_t kPauseBytes = size_t{64} << 10;

template <class Buffer>
void trim(Buffer& buffer) {
  if (buffer.capacity() * sizeof(buffer[0]) > kKeptBytes) Buffer().swap(buffer);
}

}  // namespace

// The memory of one call of encode, kept for the next: nothing is allocated for each word.
struct Tokenizer::Scratch {
  std::vector<Segment> segments;
  std::vector<Segment> normalized_segments;
  std::string normalized;
  PreTokenizer::Scratch pieces;
  ModelScratch model;
  size_t since_pause = 0;  // bytes

  void trim_all() {
    trim(segments);
    trim(normalized_segments);
    trim(normalized);
    pieces.trim(kKeptBytes);
    if (model.symbols.tokens.capacity() * sizeof(Token) > kKeptBytes / 8) model.symbols = {};
  }
};

// Scratches that no call uses now, so that short texts find words of earlier ones. As many as calls at once.
class Tokenizer::ScratchPool {
 public:
  std::unique_ptr<Scratch> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    auto scratch = std::make_unique<Scratch>();
    scratch->model.cache.emplace();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    scratch->trim_all();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

Tokenizer::~Tokenizer() = default;

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)), pool_(std::make_unique<ScratchPool>()) {
  std::vector<Token>& ends = parts_.end_tokens;
  if (parts_.eos) ends.push_back(*parts_.eos);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

std::vector<Token> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw Error("[tokenizer] a text of {} bytes, less than 2 GiB allowed", text.size());
  }
  const size_t valid = utf8_valid_length(text);
  if (valid < text.size()) throw Error("[tokenizer] the text is not UTF-8 at byte {}", valid);

  std::vector<Token> out;
  out.reserve(text.size() / 4 + 8);
  if (options.add_special) out.insert(out.end(), parts_.prefix.begin(), parts_.prefix.end());
  std::unique_ptr<Scratch> owned = pool_->take();
  Scratch& scratch = *owned;
  // Where users wrote nothing, a normalized text may still spell a control token, which is one in the library.
  scratch.model.control = options.parse_special && options.plain.empty();
  const auto pause = [&] { (*options.pause)(out.size()); };
  scratch.model.symbols.pause = options.pause ? std::function<void()>(pause) : nullptr;
  scratch.since_pause = 0;
  parts_.added.split(text, false, {options.parse_special, options.plain}, scratch.segments);
  for (const Segment& segment : scratch.segments) {
    if (segment.token != kNoToken) {
      out.push_back(segment.token);
      continue;
    }
    encode_segment(text, segment, options, scratch, out);
  }
  if (options.add_special) out.insert(out.end(), parts_.suffix.begin(), parts_.suffix.end());
  scratch.model.symbols.pause = nullptr;
  pool_->give_back(std::move(owned));
  return out;
}

void Tokenizer::encode_segment(std::string_view whole, const Segment& part, const EncodeOptions& options,
                               Scratch& scratch, std::vector<Token>& out) const {
  const std::string_view text = whole.substr(part.begin, part.end - part.begin);
  const bool at_start = part.begin == 0;
  const std::string_view normalized = parts_.normalizer.apply(text, scratch.normalized);
  if (!parts_.added.any_normalized()) {
    encode_text(normalized, at_start, scratch, out);
    return;
  }
  AddedTokens::Options added{options.parse_special, options.plain, part.begin};
  static constexpr TextRange kEverything[] = {{0, SIZE_MAX}};
  if (normalized != text && overlaps(options.plain, part.begin, part.end)) {
    // Offsets do not survive normalization: what users wrote any byte of is theirs as a whole.
    added.plain = kEverything;
  }
  parts_.added.split(normalized, true, added, scratch.normalized_segments);
  for (const Segment& segment : scratch.normalized_segments) {
    if (segment.token != kNoToken) {
      out.push_back(segment.token);
    } else {
      encode_text(normalized.substr(segment.begin, segment.end - segment.begin), at_start && segment.begin == 0,
                  scratch, out);
    }
  }
}

void Tokenizer::encode_text(std::string_view text, bool at_start, Scratch& scratch, std::vector<Token>& out) const {
  text = parts_.pre_tokenizer.split(text, at_start, scratch.pieces);
  for (const Piece piece : scratch.pieces.pieces) {
    scratch.since_pause += piece.end - piece.begin;
    if (scratch.since_pause > kPauseBytes && scratch.model.symbols.pause) {
      scratch.since_pause = 0;
      scratch.model.symbols.pause();
    }
    parts_.model->encode(text.substr(piece.begin, piece.end - piece.begin), scratch.model, out);
  }
}

void Tokenizer::check(Token token) const {
  if (!contains(token)) {
    throw Error("[tokenizer] {} is no token: the vocabulary has {}", token, parts_.vocab->size());
  }
}

bool Tokenizer::contains(Token token) const {
  return parts_.vocab->contains(token) && parts_.vocab->kind(token) != TokenKind::kAbsent;
}

bool Tokenizer::is_special(Token token) const {
  check(token);
  const TokenKind kind = parts_.vocab->kind(token);
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

void Tokenizer::append_token(Token token, bool show_special, Decoder::State& state, std::string& out) const {
  if (is_special(token) && !show_special) return;
  parts_.decoder.push(parts_.vocab->shown(token), state, out);
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool show_special) const {
  std::string text;
  Decoder::State state;
  for (const Token token : tokens) append_token(token, show_special, state, text);
  finish_text(state, text);
  return text;
}

std::string Tokenizer::token_bytes(Token token) const {
  if (is_special(token)) return std::string(parts_.vocab->bytes(token));
  return parts_.decoder.bytes(parts_.vocab->shown(token));
}

std::optional<Token> Tokenizer::token_id(std::string_view text) const {
  if (const AddedToken* added = parts_.added.find(text)) return added->id;
  const Token token = parts_.vocab->find(text);
  return token == kNoToken ? std::nullopt : std::optional<Token>(token);
}

}  // namespace ingot
