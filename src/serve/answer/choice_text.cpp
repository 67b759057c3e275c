#include "serve/answer/choice_text.h"

#include <algorithm>
#include <utility>

namespace ingot {

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

ChoiceText::ChoiceText(const Tokenizer& tokenizer, const Generation& generation, size_t offset)
    : tokenizer_(tokenizer),
      scored_(generation.sampling.n_logprobs >= 0),
      marks_(mark_tokens(tokenizer, generation.form)),
      decoder_(tokenizer, {.show_special = false, .continues = generation.continues}),
      stops_(generation.is_searched() ? std::vector<std::string>() : generation.stops),
      characters_(offset) {}

TextPiece ChoiceText::push(const SampleResult& sample) {
  std::string text;
  const auto mark = std::ranges::find(marks_, sample.token, &MarkToken::id);
  if (mark != marks_.end()) {
    text = decoder_.finish() + mark->text;
  } else if (tokenizer_.contains(sample.token)) {
    // A model's vocabulary may be padded beyond the tokenizer's: such an id stands for nothing.
    text = decoder_.push(sample.token);
  }
  if (scored_) {
    waiting_.push_back(
        {.token = {.token = sample.token, .logprob = sample.logprob, .top = sample.top, .offset = characters_},
         .begin = decoded_,
         .end = decoded_ + text.size()});
  }
  decoded_ += text.size();
  characters_ += count_characters(text);
  return take(stops_.push(text), false);
}

TextPiece ChoiceText::finish() {
  if (stops_.stopped()) return take({}, true);
  std::string text = stops_.push(decoder_.finish());
  if (!stops_.stopped()) text += stops_.finish();
  return take(std::move(text), true);
}

// Scores go with the text that their tokens made; `all`: with nothing to wait for any more.
TextPiece ChoiceText::take(std::string text, bool all) {
  given_ += text.size();
  TextPiece piece{.text = std::move(text), .scores = {}};
  if (piece.text.empty() && !all) return piece;
  const bool cut = stops_.stopped();
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    if (all && cut && next.begin >= given_) break;  // of the stop string
    if (!all && next.end > given_) break;
    piece.scores.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  if (all) waiting_.clear();
  return piece;
}

}  // namespace ingot
