#include "engine/mask/mask_task.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

bool allowed(std::span<const uint32_t> mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// Clears all other bits, unless nothing would be left. REQUIRES: `tokens` are sorted and in the vocabulary.
void keep_only(std::span<uint32_t> mask, std::span<const int32_t> tokens) {
  if (std::ranges::none_of(tokens, [&](int32_t token) { return allowed(mask, token); })) return;
  size_t next = 0;
  for (size_t w = 0; w < mask.size(); ++w) {
    uint32_t kept = 0;
    for (; next < tokens.size() && static_cast<size_t>(tokens[next]) / 32 == w; ++next)
      kept |= 1u << (tokens[next] % 32);
    mask[w] &= kept;
  }
}

}  // namespace

void refuse_tokens(std::span<uint32_t> mask, std::span<const int32_t> tokens, int vocab) {
  const auto in_vocab = [&](int32_t token) { return token >= 0 && token < vocab; };
  int64_t others = 0;
  for (const uint32_t word : mask) others += std::popcount(word);
  others -= std::ranges::count_if(tokens, [&](int32_t t) { return in_vocab(t) && allowed(mask, t); });
  if (others == 0) return;
  for (const int32_t token : tokens) {
    if (in_vocab(token)) mask[static_cast<size_t>(token) / 32] &= ~(1u << (token % 32));
  }
}

MaskTask::MaskTask(std::shared_ptr<const Request> request, std::unique_ptr<TokenConstraint> constraint,
                   std::unique_ptr<EndlessBiases> endless, int vocab)
    : request_(std::move(request)),
      constraint_(std::move(constraint)),
      endless_(std::move(endless)),
      vocab_(vocab),
      proposes_(constraint_->proposes()) {}

TokenConstraint& MaskTask::constraint() {
  CHECK(!under_way(), "a worker has the constraint");
  return *constraint_;
}

void MaskTask::reserve(int guesses) {
  if (under_way()) return;  // it has run before, with the room that it needs
  const auto most = static_cast<size_t>(guesses);
  draft_.reserve(most);
  foreseen_.reserve(most + 1);
  masks_.reserve(mask_words(vocab_) * (1 + most));
}

void MaskTask::ask(int made, std::span<const int32_t> draft, int foresee, double rank) {
  CHECK(!under_way(), "masks are asked for twice");
  made_ = -1;
  draft_.assign(draft.begin(), draft.end());
  made_ = made;
  foresee_ = foresee;
  rank_ = rank;
  threw_ = nullptr;
  state_.store(State::kPosted, std::memory_order_release);
}

bool MaskTask::covers(int made, std::span<const int32_t> draft) const {
  return made_ == made && draft.size() <= draft_.size() && std::equal(draft.begin(), draft.end(), draft_.begin());
}

void MaskTask::check() const {
  CHECK(!under_way(), "the masks are not there yet");
  if (threw_) std::rethrow_exception(threw_);
}

std::span<const uint32_t> MaskTask::mask(size_t i) const {
  if (i >= rows_) return {};
  return std::span(masks_).subspan(i * mask_words(vocab_), mask_words(vocab_));
}

double MaskTask::take_seconds() { return std::exchange(seconds_, 0); }

void MaskTask::run() noexcept {
  rows_ = 0;
  foreseen_.clear();
  if (abandoned_.load(std::memory_order_relaxed)) return;
  try {
    fill();
  } catch (...) {
    threw_ = std::current_exception();
  }
}

void MaskTask::finish(double seconds) {
  seconds_ += seconds;
  state_.store(State::kDone, std::memory_order_release);
}

// What the constraint lets through, and of that what biases without end do.
void MaskTask::constrain(std::span<uint32_t> mask) {
  constraint_->mask(mask);
  if (std::ranges::none_of(mask, [](uint32_t word) { return word != 0; })) {
    throw ConstraintError("no token of the model can follow");
  }
  if (!endless_) return;
  keep_only(mask, endless_->forced);
  refuse_tokens(mask, endless_->refused, static_cast<int>(mask.size()) * 32);
}

void MaskTask::fill() {
  if (foresee_ > 0 && proposes_) {
    constraint_->propose(foresee_, foreseen_);
    const auto bad = std::ranges::find_if(foreseen_, [&](int32_t t) { return t < 0 || t >= vocab_; });
    foreseen_.erase(bad, foreseen_.end());
  }
  const size_t words = mask_words(vocab_);
  masks_.assign(words * (1 + draft_.size()), ~0u);
  int advanced = 0;
  for (size_t i = 0; i <= draft_.size(); ++i) {
    const std::span<uint32_t> mask(masks_.data() + i * words, words);
    if (vocab_ % 32 != 0) mask.back() = (1u << (vocab_ % 32)) - 1;
    constrain(mask);
    if (made_ + static_cast<int>(i) < request_->min_tokens) refuse_tokens(mask, request_->end_tokens, vocab_);
    rows_ = i + 1;
    // A guess that may not come, or ends the answer, ends the draft: no row after it will be asked.
    if (i == draft_.size() || !allowed(mask, draft_[i])) break;
    constraint_->advance(draft_[i]);
    ++advanced;
    if (constraint_->complete()) break;
  }
  if (advanced > 0) constraint_->rollback(advanced);
}

}  // namespace ingot
