#include "text/decode/decoder.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/model/byte_level.h"
#include "text/model/vocab.h"
#include "text/split/normalizer.h"

namespace ingot {

namespace {

using Kind = DecoderStep::Kind;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Whether text[pos, end) is the beginning of a character that more bytes may complete.
bool may_continue(std::string_view text, size_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  return first >= 0xC2 && first <= 0xF4 && pos + utf8_invalid_length(text, pos) == text.size();
}

// What tidying removes, in this order: blanks before punctuation and English clitics.
std::string tidy(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{{" .", "."},
                                                                                            {" ?", "?"},
                                                                                            {" !", "!"},
                                                                                            {" ,", ","},
                                                                                            {" ' ", "'"},
                                                                                            {" n't", "n't"},
                                                                                            {" 'm", "'m"},
                                                                                            {" do not", " don't"},
                                                                                            {" 's", "'s"},
                                                                                            {" 've", "'ve"},
                                                                                            {" 're", "'re"}}};
  if (text.find(' ') == text.npos) return text;
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != text.npos) text = replace_all(text, from, to);
  }
  return text;
}

std::string without(std::string_view text, const std::string& what, std::string_view by) {
  return what.empty() || text.find(what) == text.npos ? std::string(text) : replace_all(text, what, by);
}

std::string with_matches(const DecoderStep& step, std::string_view token) {
  const size_t limit = 64 * token.size() + (size_t{16} << 20);
  std::string text;
  return replace_matches(*step.matcher, token, step.to, limit, text) ? text : std::string(token);
}

std::string ctc(const DecoderStep& step, std::string_view token) {
  std::string text = without(token, step.from, "");
  return step.flag ? without(tidy(std::move(text)), step.to, " ") : text;
}

std::string word_piece(const DecoderStep& step, std::string_view token, bool first) {
  std::string text;
  if (first) {
    text = token;
  } else if (token.starts_with(step.from)) {
    text = token.substr(step.from.size());
  } else {
    text.append(" ").append(token);
  }
  return step.flag ? tidy(std::move(text)) : text;
}

std::string from_alphabet(std::string_view token) {
  std::string bytes;
  return append_byte_level(token, bytes) ? bytes : std::string(token);
}

bool fuses(Kind kind) {
  return kind == Kind::kFuse || kind == Kind::kByteLevel || kind == Kind::kSpaced || kind == Kind::kRepair;
}

// Moves from `pending` to `out` all that no further byte can change.
void settle(std::string& pending, std::string& out) {
  size_t whole = 0;
  for (uint32_t cp = 0; whole < pending.size();) {
    const size_t length = utf8_decode(pending, whole, cp);
    if (length == 0 && may_continue(pending, whole)) break;
    whole += length > 0 ? length : utf8_invalid_length(pending, whole);
  }
  out += utf8_replace_invalid(std::string_view(pending).substr(0, whole));
  pending.erase(0, whole);
}

}  // namespace

// One push or finish: what leaves step i enters step i + 1, as text, ends of tokens, and in the end finish().
class DecoderRun {
 public:
  DecoderRun(const Decoder& decoder, Decoder::State& state, std::string& out)
      : decoder_(decoder), state_(state), out_(out) {
    if (state.steps.size() == decoder.steps_.size()) return;
    state.steps.resize(decoder.steps_.size());
    if (!state.continues) return;
    for (size_t i = 0; i < state.steps.size(); i++) {
      const Kind kind = decoder.steps_[i].kind;
      state.steps[i].flag = kind == Kind::kStrip && decoder.fused_[i];
      state.steps[i].count = kind == Kind::kMetaspace || (kind == Kind::kWordPiece && !decoder.fused_[i]) ? 1 : 0;
    }
  }

  // A whole token.
  void token(size_t i, std::string_view text) {
    if (i < decoder_.steps_.size() && !flows(decoder_.steps_[i].kind)) {
      whole(i, text);
    } else {
      flow(i, text);
      end(i);
    }
  }

  // No more tokens come to step i.
  void finish(size_t i) {
    if (i == decoder_.steps_.size()) {
      out_ += utf8_replace_invalid(state_.pending);
      state_.pending.clear();
      return;
    }
    Decoder::State::Step& state = state_.steps[i];
    const DecoderStep& step = decoder_.steps_[i];
    if (step.kind == Kind::kByteFallback) end_bytes(i);
    if (step.kind == Kind::kBpeSuffix && state.flag) token(i + 1, without(state.last, step.from, ""));
    if (step.kind == Kind::kRepair) flow(i + 1, utf8_replace_invalid(state.held));
    if (fuses(step.kind)) end(i + 1);
    finish(i + 1);
  }

 private:
  // Steps that pass text on before its token ends.
  static bool flows(Kind kind) {
    return kind == Kind::kMetaspace || kind == Kind::kReplace || kind == Kind::kFuse || kind == Kind::kStrip ||
           kind == Kind::kRepair;
  }

  // A part of a token.
  void flow(size_t i, std::string_view text) {
    if (i == decoder_.steps_.size()) {
      if (state_.pending.empty() && utf8_valid(text)) {
        out_ += text;
      } else {
        settle(state_.pending += text, out_);
      }
      return;
    }
    const DecoderStep& step = decoder_.steps_[i];
    Decoder::State::Step& state = state_.steps[i];
    switch (step.kind) {
      case Kind::kMetaspace:
        replace(i, text, step.flag && state.count == 0 ? "" : " ");
        break;
      case Kind::kReplace:
        replace(i, text, step.to);
        break;
      case Kind::kStrip:
        strip(i, text);
        break;
      case Kind::kFuse:
        flow(i + 1, text);
        break;
      case Kind::kRepair: {
        std::string repaired;
        settle(state.held += text, repaired);
        flow(i + 1, repaired);
        break;
      }
      default:
        state.held += text;
    }
  }

  // The token that flows ends.
  void end(size_t i) {
    if (i == decoder_.steps_.size()) return;
    const DecoderStep& step = decoder_.steps_[i];
    Decoder::State::Step& state = state_.steps[i];
    if (step.kind == Kind::kFuse || step.kind == Kind::kRepair) return;
    if (!flows(step.kind)) {
      const std::string text = std::exchange(state.held, {});
      whole(i, text);
      return;
    }
    if (step.kind != Kind::kStrip) {
      flow(i + 1, std::string_view(step.from).substr(0, state.matched));
      state.count++;
    } else {
      state.count = 0;
      state.flag = false;
    }
    state.matched = 0;
    end(i + 1);
  }

  // state.matched: bytes of `from` that the text so far ends with.
  void replace(size_t i, std::string_view text, std::string_view by) {
    const std::string& from = decoder_.steps_[i].from;
    size_t& matched = state_.steps[i].matched;
    if (matched == 0 && text.find(from[0]) == text.npos) return flow(i + 1, text);
    std::string out;
    for (const char byte : text) {
      while (matched > 0 && from[matched] != byte) {
        const size_t shorter = decoder_.fallbacks_[i][matched];
        out.append(from, 0, matched - shorter);
        matched = shorter;
      }
      if (from[matched] != byte) {
        out.push_back(byte);
      } else if (++matched == from.size()) {
        out += by;
        matched = 0;
      }
    }
    flow(i + 1, out);
  }

  // state.flag: the beginning is over; count: characters it lost; matched: characters held back that may end the token.
  void strip(size_t i, std::string_view text) {
    const DecoderStep& step = decoder_.steps_[i];
    Decoder::State::Step& state = state_.steps[i];
    while (!state.flag && !text.empty()) {
      state.flag = state.count >= step.start || !text.starts_with(step.from);
      if (state.flag) break;
      state.count++;
      text.remove_prefix(step.from.size());
    }
    if (step.stop == 0) return flow(i + 1, text);
    std::string out;
    while (!text.empty()) {
      if (text.starts_with(step.from)) {
        if (state.matched < step.stop) {
          state.matched++;
        } else {
          out += step.from;
        }
        text.remove_prefix(step.from.size());
        continue;
      }
      for (; state.matched > 0; state.matched--) out += step.from;
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
    flow(i + 1, out);
  }

  // A token for a step that wants it whole.
  void whole(size_t i, std::string_view text) {
    const DecoderStep& step = decoder_.steps_[i];
    Decoder::State::Step& state = state_.steps[i];
    switch (step.kind) {
      case Kind::kByteLevel:
        return flow(i + 1, from_alphabet(text));
      case Kind::kByteTokens: {
        const auto byte = parse_byte_token(text);
        return token(i + 1, byte ? std::string(1, static_cast<char>(*byte)) : std::string(text));
      }
      case Kind::kReplaceMatches:
        return token(i + 1, with_matches(step, text));
      case Kind::kByteFallback:
        if (const auto byte = parse_byte_token(text)) return add_byte(i, static_cast<char>(*byte));
        end_bytes(i);
        return token(i + 1, text);
      case Kind::kWordPiece:
        return token(i + 1, word_piece(step, text, state.count++ == 0));
      case Kind::kSpaced:
        if (state.count++ > 0) flow(i + 1, " ");
        return flow(i + 1, text);
      case Kind::kBpeSuffix: {  // flag: there is a token before, which is not the last
        const std::string before = std::exchange(state.last, std::string(text));
        if (std::exchange(state.flag, true)) token(i + 1, without(before, step.from, " "));
        return;
      }
      case Kind::kCtc: {  // flag: there is a token before
        if (std::exchange(state.flag, true) && state.last == text) return;
        state.last = text;
        const std::string rest = ctc(step, text);
        if (!rest.empty()) token(i + 1, rest);
        return;
      }
      default:
        return;
    }
  }

  // state.last: the run; matched: its bytes that are whole characters; flag: it is no UTF-8 and was given out as such.
  void add_byte(size_t i, char byte) {
    Decoder::State::Step& state = state_.steps[i];
    if (state.flag) return token(i + 1, kReplacement);
    state.last.push_back(byte);
    for (uint32_t cp = 0; state.matched < state.last.size();) {
      const size_t length = utf8_decode(state.last, state.matched, cp);
      if (length == 0 && may_continue(state.last, state.matched)) return;
      if (length == 0) {
        state.flag = true;
        for (size_t n = std::exchange(state.last, {}).size(); n > 0; n--) token(i + 1, kReplacement);
        return;
      }
      state.matched += length;
    }
  }

  void end_bytes(size_t i) {
    Decoder::State::Step& state = state_.steps[i];
    const std::string run = std::exchange(state.last, {});
    const bool valid = std::exchange(state.matched, 0) == run.size();
    state.flag = false;
    if (valid && !run.empty()) token(i + 1, run);
    for (size_t n = valid ? 0 : run.size(); n > 0; n--) token(i + 1, kReplacement);
  }

  const Decoder& decoder_;
  Decoder::State& state_;
  std::string& out_;
};

void Decoder::add(DecoderStep step) {
  if (steps_.size() >= kMaxSteps) throw Error("[tokenizer] a decoder of more than {} steps", kMaxSteps);
  std::vector<uint32_t> fallback(step.from.size() + 1, 0);
  for (size_t n = 1; n < step.from.size(); n++) {
    uint32_t length = fallback[n];
    while (length > 0 && step.from[length] != step.from[n]) length = fallback[length];
    fallback[n + 1] = step.from[length] == step.from[n] ? length + 1 : 0;
  }
  fused_.push_back(!steps_.empty() && (fused_.back() || fuses(steps_.back().kind)));
  fallbacks_.push_back(std::move(fallback));
  steps_.push_back(std::move(step));
}

void Decoder::push(std::string_view entry, State& state, std::string& out) const {
  DecoderRun(*this, state, out).token(0, entry);
}

void Decoder::finish(State& state, std::string& out) const {
  DecoderRun(*this, state, out).finish(0);
  state.steps.clear();
}

std::string Decoder::bytes(std::string_view entry) const {
  std::string text(entry);
  for (size_t i = 0; i < steps_.size(); i++) {
    const DecoderStep& step = steps_[i];
    const auto byte = parse_byte_token(text);
    const bool is_bytes = step.kind == Kind::kByteFallback || step.kind == Kind::kByteTokens;
    if (is_bytes && byte) return std::string(1, static_cast<char>(*byte));
    if (step.kind == Kind::kByteLevel) text = from_alphabet(text);
    if (step.kind == Kind::kMetaspace || step.kind == Kind::kBpeSuffix) text = without(text, step.from, " ");
    if (step.kind == Kind::kReplace) text = without(text, step.from, step.to);
    if (step.kind == Kind::kReplaceMatches) text = with_matches(step, text);
    if (step.kind == Kind::kWordPiece && !fused_[i]) text = word_piece(step, text, false);
    if (step.kind == Kind::kCtc) text = ctc(step, text);
    if (step.kind == Kind::kSpaced) text.insert(0, " ");
  }
  return text;
}

}  // namespace ingot
