#include "engine/fill.h"

#include <algorithm>
#include <bit>

#include "engine/sampler.h"

namespace ingot {
namespace {

void fill_seq(Batch& batch, int s, const Plan::Item& item, int page_rows) {
  const Sequence& seq = *item.seq;
  const auto si = static_cast<size_t>(s);
  batch.q_start[si] = batch.n_rows;
  batch.kv_len[si] = item.begin + item.rows;
  batch.state_slot[si] = seq.state_slot;
  const auto first = static_cast<size_t>(batch.n_rows);
  for (int i = 0; i < item.rows; ++i) {
    batch.position[first + static_cast<size_t>(i)] = item.begin + i;
    batch.seq[first + static_cast<size_t>(i)] = s;
  }
  for (size_t g = 0; g < batch.groups.size(); ++g) {
    const std::vector<PageId>& pages = seq.pages.groups[g];
    std::ranges::copy(pages, batch.groups[g].page_table.begin() + s * int64_t{batch.pages_per_seq});
    int page = item.begin / page_rows, place = item.begin % page_rows;
    for (int i = 0; i < item.rows; ++i) {
      batch.groups[g].slot[first + static_cast<size_t>(i)] = pages[static_cast<size_t>(page)] * page_rows + place;
      if (++place == page_rows) place = 0, ++page;
    }
  }
  batch.n_rows += item.rows;
}

// Whether the logits of the row at `position` are to be reported.
bool asked_for(const Sequence& seq, int position) {
  return seq.request->on_logits && position >= std::max(seq.request->logits_from, seq.reported);
}

// The rows whose hidden state is to be reported.
void fill_hidden(const Plan& plan, StepWork& work) {
  work.hidden.clear();
  int row = 0;
  for (const Plan::Item& item : plan.items) {
    const Request& request = *item.seq->request;
    const int from = std::max({item.begin, request.hidden_from, item.seq->reported});
    for (int position = from; request.on_hidden && position < item.begin + item.rows; ++position) {
      work.hidden.push_back({row + position - item.begin, position, &request.on_hidden});
    }
    row += item.rows;
  }
}

// Rows of it that make a token.
int samples_of(const Plan::Item& item) {
  const int pending = item.seq->n_tokens() + item.seq->awaited - item.begin;
  return item.seq->request->max_tokens == 0 ? 0 : std::max(0, item.rows - pending + 1);
}

bool allowed(std::span<const uint32_t> mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// Clears the bits of `tokens`, none of which is there twice, unless nothing else would be left.
void refuse(std::span<uint32_t> mask, std::span<const int32_t> tokens, int vocab) {
  const auto in_vocab = [&](int32_t token) { return token >= 0 && token < vocab; };
  int64_t others = 0;
  for (const uint32_t word : mask) others += std::popcount(word);
  others -= std::ranges::count_if(tokens, [&](int32_t t) { return in_vocab(t) && allowed(mask, t); });
  if (others == 0) return;
  for (const int32_t token : tokens) {
    if (in_vocab(token)) mask[static_cast<size_t>(token) / 32] &= ~(1u << (token % 32));
  }
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

// What the seq's constraint lets through, and of that what its biases without end do.
void constrain(Sequence& seq, std::span<uint32_t> mask) {
  seq.constraint->mask(mask);
  if (std::ranges::none_of(mask, [](uint32_t word) { return word != 0; })) {
    throw ConstraintError("no token of the model can follow");
  }
  if (!seq.endless) return;
  keep_only(mask, seq.endless->forced);
  refuse(mask, seq.endless->refused, static_cast<int>(mask.size()) * 32);
}

}  // namespace

void fill_rows(const Plan& plan, int page_rows, StepWork& work) {
  Batch& batch = work.batch;
  batch.n_rows = 0;
  batch.n_seqs = static_cast<int>(plan.items.size());
  batch.n_logits = 0;
  for (size_t s = 0; s < plan.items.size(); ++s) fill_seq(batch, static_cast<int>(s), plan.items[s], page_rows);
  batch.q_start[plan.items.size()] = batch.n_rows;
}

void fill_masks(const Plan::Item& item, int vocab) {
  Sequence& seq = *item.seq;
  TokenConstraint* constraint = seq.constraint.get();
  const int made = seq.n_made() + seq.awaited;
  const bool too_early = made < seq.request->min_tokens && !seq.request->end_tokens.empty();
  seq.masks.clear();
  if ((!constraint && !too_early) || samples_of(item) == 0) return;
  const size_t words = mask_words(vocab);
  seq.masks.assign(words * (1 + seq.draft.size()), ~0u);
  int advanced = 0;
  for (size_t i = 0; i <= seq.draft.size(); ++i) {
    const std::span<uint32_t> mask(seq.masks.data() + i * words, words);
    if (vocab % 32 != 0) mask.back() = (1u << (vocab % 32)) - 1;
    if (constraint) constrain(seq, mask);
    if (made + static_cast<int>(i) < seq.request->min_tokens) refuse(mask, seq.request->end_tokens, vocab);
    // A guess that may not come, or ends the answer, ends the draft: no row after it will be asked.
    if (i == seq.draft.size() || !allowed(mask, seq.draft[i])) break;
    if (constraint) constraint->advance(seq.draft[i]);
    ++advanced;
    if (constraint && constraint->complete()) break;
  }
  if (constraint && advanced > 0) constraint->rollback(advanced);
}

void fill_tokens(Plan& plan, int vocab, StepWork& work) {
  work.logits.clear();
  work.samples.clear();
  const size_t words = mask_words(vocab);
  size_t row = 0;
  for (Plan::Item& item : plan.items) {
    Sequence& seq = *item.seq;
    if (!seq.draft.empty()) {
      seq.guessed = seq.tokens;
      seq.guessed.insert(seq.guessed.end(), seq.draft.begin(), seq.draft.end());
    }
    const std::vector<int32_t>& tokens = seq.draft.empty() ? seq.tokens : seq.guessed;
    item.samples = samples_of(item);
    for (int i = 0; i < item.rows; ++i, ++row) {
      const int position = item.begin + i;
      const bool known = position < static_cast<int>(tokens.size());
      work.batch.token[row] = known ? tokens[static_cast<size_t>(position)] : -1 - seq.result;
      const int sample = i - (item.rows - item.samples);
      if (sample < 0) continue;
      const bool asked = asked_for(seq, position);
      work.logits.push_back({static_cast<int>(row), position, asked ? &seq.request->on_logits : nullptr});
      const auto history = std::span(tokens).first(known ? static_cast<size_t>(position) + 1 : 0);
      SampleRow params = sample_row(seq, history, position + 1);
      if (!seq.masks.empty()) params.mask = std::span(seq.masks).subspan(static_cast<size_t>(sample) * words, words);
      seq.result = static_cast<int>(work.samples.size());
      work.samples.push_back(params);
    }
  }
  // After the rows to sample, those whose logits alone are wanted.
  row = 0;
  for (const Plan::Item& item : plan.items) {
    for (int i = 0; i < item.rows - item.samples; ++i) {
      if (asked_for(*item.seq, item.begin + i)) {
        work.logits.push_back({static_cast<int>(row) + i, item.begin + i, &item.seq->request->on_logits});
      }
    }
    row += static_cast<size_t>(item.rows);
  }
  fill_hidden(plan, work);
  work.results.assign(work.samples.size(), {});
  work.threw.assign(work.logits.size(), 0);
  work.copies = plan.copies;
  work.states = plan.states;
}

}  // namespace ingot
