// What compression cost: how far a model's predictions are from its teacher's over the chunks of a text. The teacher's
// are kept for one chunk at a time: half a chunk × vocabulary floats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/open_engine.h"

namespace ingot {

class Tokenizer;

// A text in chunks of `chunk_tokens`, the second half of each scored, as perplexity does it: of 512 tokens 256 … 510
// predict the next.
struct ScoredText {
  std::vector<std::vector<int32_t>> chunks;
  int chunk_tokens = 0;

  int64_t scored() const;  // tokens
};
// The first token of each chunk is the BOS where the model adds one. `chunks`: at most so many, 0: all. Throws Error
// where the text has not one.
ScoredText scored_text(const Tokenizer& tokenizer, const std::string& text, int chunk_tokens, int chunks);

// Throws Error, naming `path`, where one of the tokens is not the teacher's: its predictions cannot be compared.
void check_same_vocabulary(const Tokenizer& teacher, const Tokenizer& model, const std::string& path);

// Logarithms of the probabilities that logits stand for; `out` has as many.
void log_probs(std::span<const float> logits, float* out);
// Σ p log(p / q) of one position: logarithms of the teacher's probabilities, a model's logits. At least 0.
double token_divergence(std::span<const float> teacher, std::span<const float> logits);

struct Divergence {
  double perplexity = 0;
  // Of the model's distribution from the teacher's, a token: Σ p log(p / q). The error is the standard error of the
  // mean as the chunks' means vary (with one chunk: as the tokens do).
  double kld = 0, kld_error = 0, kld_median = 0, kld_p99 = 0, kld_max = 0;
  double top1 = 0;                // share of tokens whose likeliest is the teacher's
  std::vector<double> chunk_kld;  // means
};

// One model's: filled while chunks pass.
class DivergenceSums {
 public:
  // Of one position: logarithms of the teacher's probabilities, the model's logits, the token that came.
  void add(std::span<const float> teacher, int teacher_best, std::span<const float> logits, int32_t next);
  void end_chunk();
  Divergence result() const;

 private:
  std::vector<float> klds_;         // of each token
  std::vector<size_t> chunk_ends_;  // in klds_
  double nll_ = 0;
  int64_t agree_ = 0;
};

// `later` less `first` as a share of `first`, with its error: chunk by chunk, so that what the text makes hard for both
// does not count. REQUIRES: both are of the same chunks.
struct PairedRatio {
  double ratio = 1, error = 0;  // of the means
};
PairedRatio paired_ratio(const Divergence& first, const Divergence& later);

// Every chunk through the teacher, then through each model. `progress` is called after each chunk with those done; what
// it throws ends the work.
struct Compared {
  double teacher_perplexity = 0;
  std::vector<Divergence> models;
};
Compared compare(Engine& teacher, std::span<Engine* const> models, const ScoredText& text,
                 const std::function<void(size_t done)>& progress);

// Tokens a second of one seq: `prompt` read, then `gen` made. After one run to warm up.
struct Speed {
  double prefill_tps = 0, decode_tps = 0;
};
Speed measure_speed(Engine& engine, const std::vector<int32_t>& prompt, int gen);

}  // namespace ingot
