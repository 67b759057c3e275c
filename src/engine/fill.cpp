#include "engine/fill.h"

#include <algorithm>

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

}  // namespace

void fill_rows(const Plan& plan, int page_rows, StepWork& work) {
  Batch& batch = work.batch;
  batch.n_rows = 0;
  batch.n_seqs = static_cast<int>(plan.items.size());
  batch.n_logits = 0;
  for (size_t s = 0; s < plan.items.size(); ++s) fill_seq(batch, static_cast<int>(s), plan.items[s], page_rows);
  batch.q_start[plan.items.size()] = batch.n_rows;
}

int samples_of(const Plan::Item& item) {
  const int pending = item.seq->n_tokens() + item.seq->awaited - item.begin;
  return item.seq->request->max_tokens == 0 ? 0 : std::max(0, item.rows - pending + 1);
}

void fill_mask(const Plan::Item& item, int vocab) {
  Sequence& seq = *item.seq;
  seq.mask.clear();
  if (seq.masking || seq.request->end_tokens.empty() || samples_of(item) == 0) return;
  const int made = seq.n_made() + seq.awaited;
  const int early = std::min(samples_of(item), seq.request->min_tokens - made);
  const size_t words = mask_words(vocab);
  for (int i = 0; i < early; ++i) {
    seq.mask.resize(seq.mask.size() + words, ~0u);
    const auto mask = std::span(seq.mask).last(words);
    if (vocab % 32 != 0) mask.back() = (1u << (vocab % 32)) - 1;
    refuse_tokens(mask, seq.request->end_tokens, vocab);
  }
}

void fill_tokens(Plan& plan, int vocab, StepWork& work) {
  work.logits.clear();
  work.samples.clear();
  const size_t words = mask_words(vocab);
  size_t row = 0;
  for (Plan::Item& item : plan.items) {
    Sequence& seq = *item.seq;
    const bool guesses_follow = !seq.draft.empty() && seq.awaited == 0;
    if (guesses_follow) {
      seq.guessed = seq.tokens;
      seq.guessed.insert(seq.guessed.end(), seq.draft.begin(), seq.draft.end());
    }
    const std::vector<int32_t>& tokens = guesses_follow ? seq.guessed : seq.tokens;
    const int n_before = seq.n_tokens() + seq.awaited;  // of the guesses, where tokens are awaited
    item.samples = samples_of(item);
    const int result = seq.result;  // of the token that it awaits
    for (int i = 0; i < item.rows; ++i, ++row) {
      const int position = item.begin + i;
      const bool known = position < static_cast<int>(tokens.size());
      work.batch.token[row] = known                 ? tokens[static_cast<size_t>(position)]
                              : position < n_before ? -1 - result
                                                    : seq.draft[static_cast<size_t>(position - n_before)];
      const int sample = i - (item.rows - item.samples);
      if (sample < 0) continue;
      const bool asked = asked_for(seq, position);
      work.logits.push_back({static_cast<int>(row), position, asked ? &seq.request->on_logits : nullptr});
      const auto history = std::span(tokens).first(known ? static_cast<size_t>(position) + 1 : 0);
      SampleRow params = sample_row(seq, history, position + 1);
      const size_t at = static_cast<size_t>(sample) * words;
      if (at < seq.mask.size()) params.mask = std::span(seq.mask).subspan(at, words);
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
