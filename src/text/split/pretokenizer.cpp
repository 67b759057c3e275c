#include "text/split/pretokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/chars.h"
#include "text/model/byte_level.h"
#include "text/unicode/unicode_library.h"

namespace ingot {

namespace {

uint32_t offset(size_t pos) { return static_cast<uint32_t>(pos); }

// Cuts `piece` into matches (true) and the text between (false).
template <class Match>
void find_matches(std::string_view text, Piece piece, bool invert, Match&& match,
                  std::vector<std::pair<Piece, bool>>& out) {
  const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
  size_t done = 0;
  for (size_t pos = 0; pos < part.size();) {
    const size_t end = match(part, pos);
    if (end == pos) {
      pos += char_length(part[pos]);
      continue;
    }
    if (done < pos) out.push_back({{offset(piece.begin + done), offset(piece.begin + pos)}, invert});
    out.push_back({{offset(piece.begin + pos), offset(piece.begin + end)}, !invert});
    pos = done = end;
  }
  if (done < part.size()) out.push_back({{offset(piece.begin + done), piece.end}, invert});
}

void apply_behavior(SplitBehavior behavior, std::vector<std::pair<Piece, bool>>& matches, std::vector<Piece>& out) {
  const size_t first = out.size();
  if (behavior == SplitBehavior::kMergedWithNext) {
    bool previous = false;
    for (size_t i = matches.size(); i-- > 0;) {
      const auto [piece, is_match] = matches[i];
      if (is_match && !previous && out.size() > first) {
        out.back().begin = piece.begin;
      } else {
        out.push_back(piece);
      }
      previous = is_match;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
    return;
  }
  bool previous = false;
  for (size_t i = 0; i < matches.size(); i++) {
    const auto [piece, is_match] = matches[i];
    const bool joins = (behavior == SplitBehavior::kMergedWithPrevious && is_match && !previous) ||
                       (behavior == SplitBehavior::kContiguous && i > 0 && is_match == previous);
    if (behavior == SplitBehavior::kRemoved && is_match) {
      // dropped
    } else if (joins && out.size() > first) {
      out.back().end = piece.end;
    } else {
      out.push_back(piece);
    }
    previous = is_match;
  }
}

template <class Match>
void split_stage(const PreTokenizerStage& stage, std::string_view text, Match&& match, PreTokenizer::Scratch& scratch) {
  scratch.next.clear();
  for (const Piece piece : scratch.pieces) {
    scratch.matches.clear();
    find_matches(text, piece, stage.invert, match, scratch.matches);
    apply_behavior(stage.behavior, scratch.matches, scratch.next);
  }
  std::swap(scratch.pieces, scratch.next);
}

// Removes pieces without a byte: empty matches leave them.
void drop_empty(std::vector<Piece>& pieces) {
  std::erase_if(pieces, [](Piece piece) { return piece.begin == piece.end; });
}

void match_stage(const PreTokenizerStage& stage, std::string_view text, PreTokenizer::Scratch& scratch) {
  scratch.next.clear();
  for (const Piece piece : scratch.pieces) {
    scratch.found.clear();
    scratch.matches.clear();
    stage.matcher->find_all(text.substr(piece.begin, piece.end - piece.begin), scratch.found);
    uint32_t done = piece.begin;
    for (const Piece found : scratch.found) {
      const Piece match{piece.begin + found.begin, piece.begin + found.end};
      if (done < match.begin) scratch.matches.push_back({{done, match.begin}, stage.invert});
      scratch.matches.push_back({match, !stage.invert});
      done = match.end;
    }
    if (done < piece.end) scratch.matches.push_back({{done, piece.end}, stage.invert});
    apply_behavior(stage.behavior, scratch.matches, scratch.next);
  }
  drop_empty(scratch.next);
  std::swap(scratch.pieces, scratch.next);
}

// Cuts each piece where `cuts(cp)` says that a new one begins; what stands before the first cut is dropped.
template <class Cuts>
void cut_stage(std::string_view text, PreTokenizer::Scratch& scratch, Cuts&& cuts) {
  scratch.next.clear();
  for (const Piece piece : scratch.pieces) {
    bool inside = false;
    for (size_t pos = piece.begin; pos < piece.end; pos += char_length(text[pos])) {
      if (!cuts(char_at(text, pos), pos == piece.begin)) continue;
      if (inside) scratch.next.back().end = offset(pos);
      scratch.next.push_back({offset(pos), piece.end});
      inside = true;
    }
  }
  std::swap(scratch.pieces, scratch.next);
}

void scripts_stage(std::string_view text, PreTokenizer::Scratch& scratch) {
  uint32_t last = 0;
  cut_stage(text, scratch, [&](uint32_t cp, bool first) {
    if (first) last = 0;
    const uint32_t script = script_9(cp);
    const bool cut = script != 0 && script != last;
    if (script != 0) last = script;
    return cut;
  });
}

void fixed_length_stage(size_t length, std::string_view text, PreTokenizer::Scratch& scratch) {
  size_t count = 0;
  cut_stage(text, scratch, [&](uint32_t, bool first) {
    if (first || count == length) count = 0;
    return count++ == 0;
  });
}

// The common case, without the list of matches.
void isolate_stage(Scanner scanner, std::string_view text, PreTokenizer::Scratch& scratch) {
  scratch.next.clear();
  for (const Piece piece : scratch.pieces) {
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    size_t done = 0;
    const auto cut = [&](size_t end) {
      if (end > done) scratch.next.push_back({offset(piece.begin + done), offset(piece.begin + end)});
      done = end;
    };
    for (size_t pos = 0; pos < part.size();) {
      const size_t end = scanner(part, pos);
      if (end == pos) {
        pos += char_length(part[pos]);
        continue;
      }
      cut(pos);
      cut(end);
      pos = end;
    }
    cut(part.size());
  }
  std::swap(scratch.pieces, scratch.next);
}

// Rewrites every piece into a new text; `rewrite(part, is_first, out)` appends one.
template <class Rewrite>
std::string_view rewrite_stage(std::string_view text, PreTokenizer::Scratch& scratch, Rewrite&& rewrite) {
  scratch.next.clear();
  scratch.next_buffer.clear();
  for (size_t i = 0; i < scratch.pieces.size(); i++) {
    const Piece piece = scratch.pieces[i];
    const size_t begin = scratch.next_buffer.size();
    rewrite(text.substr(piece.begin, piece.end - piece.begin), i == 0 && piece.begin == 0, scratch.next_buffer);
    if (scratch.next_buffer.size() > UINT32_MAX) throw Error("[tokenizer] a text of 4 GiB or more");
    scratch.next.push_back({offset(begin), offset(scratch.next_buffer.size())});
  }
  std::swap(scratch.pieces, scratch.next);
  std::swap(scratch.buffer, scratch.next_buffer);
  return scratch.buffer;
}

std::string_view metaspace_stage(const PreTokenizerStage& stage, std::string_view text, bool at_start,
                                 PreTokenizer::Scratch& scratch) {
  using Prepend = PreTokenizerStage::Prepend;
  text = rewrite_stage(text, scratch, [&](std::string_view part, bool first, std::string& out) {
    const bool wanted = stage.prepend == Prepend::kAlways || (stage.prepend == Prepend::kFirst && first && at_start);
    if (wanted && !part.starts_with(' ') && !part.starts_with(stage.text)) out.append(stage.text);
    for (const char c : part) {
      if (c == ' ') {
        out.append(stage.text);
      } else {
        out.push_back(c);
      }
    }
  });
  if (!stage.split) return text;
  PreTokenizerStage before;
  before.behavior = SplitBehavior::kMergedWithNext;
  const auto match = [&](std::string_view part, size_t pos) {
    return part.substr(pos).starts_with(stage.text) ? pos + stage.text.size() : pos;
  };
  split_stage(before, text, match, scratch);
  return text;
}

}  // namespace

void PreTokenizer::Scratch::trim(size_t bytes) {
  const size_t held = (pieces.capacity() + next.capacity()) * sizeof(Piece) + matches.capacity() * sizeof(matches[0]) +
                      buffer.capacity() + next_buffer.capacity();
  if (held > bytes) *this = {};
}

PreTokenizerStage pattern_stage(std::string_view pattern, SplitBehavior behavior, bool invert) {
  PreTokenizerStage stage{.behavior = behavior, .invert = invert};
  stage.scanner = find_scanner(pattern);
  if (stage.scanner == nullptr) {
    stage.kind = PreTokenizerStage::Kind::kMatch;
    stage.matcher = make_matcher(pattern);
  }
  return stage;
}

std::string_view PreTokenizer::split(std::string_view text, bool at_start, Scratch& scratch) const {
  scratch.pieces.clear();
  if (text.empty()) return text;
  scratch.pieces.push_back({0, offset(text.size())});
  for (const PreTokenizerStage& stage : stages_) {
    if (scratch.pieces.empty()) break;
    // Rewriting moves the first piece to the front, wherever it stood.
    const bool first_at_start = at_start && scratch.pieces[0].begin == 0;
    switch (stage.kind) {
      case PreTokenizerStage::Kind::kScan:
        if (stage.behavior == SplitBehavior::kIsolated) {
          isolate_stage(stage.scanner, text, scratch);
        } else {
          split_stage(stage, text, stage.scanner, scratch);
        }
        break;
      case PreTokenizerStage::Kind::kLiteral:
        if (!stage.invert && text.find(stage.text) == text.npos) break;  // as where spaces have become something else
        split_stage(
            stage, text,
            [&](std::string_view part, size_t pos) {
              return part.substr(pos).starts_with(stage.text) ? pos + stage.text.size() : pos;
            },
            scratch);
        break;
      case PreTokenizerStage::Kind::kMetaspace:
        text = metaspace_stage(stage, text, at_start, scratch);
        at_start = first_at_start;
        break;
      case PreTokenizerStage::Kind::kPrefixSpace:
        text = rewrite_stage(text, scratch, [](std::string_view part, bool, std::string& out) {
          if (!part.starts_with(' ')) out.push_back(' ');
          out.append(part);
        });
        at_start = first_at_start;
        break;
      case PreTokenizerStage::Kind::kByteLevel:
        text = rewrite_stage(text, scratch,
                             [](std::string_view part, bool, std::string& out) { append_byte_letters(part, out); });
        at_start = first_at_start;
        break;
      case PreTokenizerStage::Kind::kMatch:
        match_stage(stage, text, scratch);
        break;
      case PreTokenizerStage::Kind::kScripts:
        scripts_stage(text, scratch);
        break;
      case PreTokenizerStage::Kind::kFixedLength:
        fixed_length_stage(stage.length, text, scratch);
        break;
    }
  }
  return text;
}

}  // namespace ingot
