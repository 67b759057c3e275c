#include "compress/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "compress/scoring.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

double mean(std::span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of the mean.
double standard_error(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values), n = static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  return std::sqrt(squares / (n - 1) / n);
}

// log Σ exp(x). Exponentials in float32, half the time of double's: a sum of thousands is off by a ten-millionth.
double log_sum(std::span<const float> x) {
  const float top = *std::ranges::max_element(x);
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(std::exp(v - top));
  return static_cast<double>(top) + std::log(sum);
}

float log_prob(float logit, double whole) { return static_cast<float>(static_cast<double>(logit) - whole); }

double divergence(std::span<const float> teacher, std::span<const float> logits, double whole) {
  double kld = 0;
  for (size_t i = 0; i < teacher.size(); ++i) {
    const float p = std::exp(teacher[i]);
    kld += p > 0 ? static_cast<double>(p * (teacher[i] - log_prob(logits[i], whole))) : 0.0;  // 0 · log 0 is 0
  }
  return std::max(kld, 0.0);  // below 0 it can be by rounding alone
}

// The teacher's predictions for one chunk.
struct TeacherRows {
  size_t vocab = 0;
  std::vector<float> log_probs;  // [rows, vocab]
  std::vector<int> best;

  std::span<const float> row(size_t r) const { return std::span(log_probs).subspan(r * vocab, vocab); }
};

double run_teacher(Engine& teacher, const std::vector<int32_t>& chunk, int from, TeacherRows& rows) {
  rows.log_probs.clear();
  rows.best.clear();
  double nll = 0;
  const std::vector<int32_t> read(chunk.begin(), chunk.end() - 1);
  for_each_logits(teacher, read, from, [&](int position, std::span<const float> logits) {
    rows.vocab = logits.size();
    rows.log_probs.resize(rows.log_probs.size() + logits.size());
    log_probs(logits, rows.log_probs.data() + rows.log_probs.size() - logits.size());
    rows.best.push_back(arg_max(logits));
    nll -= static_cast<double>(
        rows.row(rows.best.size() - 1)[static_cast<size_t>(chunk[static_cast<size_t>(position) + 1])]);
  });
  return nll;
}

}  // namespace

void log_probs(std::span<const float> logits, float* out) {
  const double whole = log_sum(logits);
  std::ranges::transform(logits, out, [=](float v) { return log_prob(v, whole); });
}

double token_divergence(std::span<const float> teacher, std::span<const float> logits) {
  return divergence(teacher, logits, log_sum(logits));
}

int64_t ScoredText::scored() const {
  return static_cast<int64_t>(chunks.size()) * (chunk_tokens - chunk_tokens / 2 - 1);
}

ScoredText scored_text(const Tokenizer& tokenizer, const std::string& text, int chunk_tokens, int chunks) {
  const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true});
  const size_t size = static_cast<size_t>(chunk_tokens), available = ids.size() / size;
  if (available == 0) throw Error("[eval] the text has {} tokens, a chunk is {}", ids.size(), size);
  ScoredText result{.chunks = {}, .chunk_tokens = chunk_tokens};
  const size_t taken = chunks ? std::min(available, static_cast<size_t>(chunks)) : available;
  for (size_t c = 0; c < taken; ++c) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(c * size);
    result.chunks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    if (tokenizer.adds_bos()) result.chunks.back()[0] = *tokenizer.bos();
  }
  return result;
}

void check_same_vocabulary(const Tokenizer& teacher, const Tokenizer& model, const std::string& path) {
  if (teacher.vocab_size() != model.vocab_size()) {
    throw Error("[eval] '{}' has a vocabulary of {} tokens, the teacher of {}: they cannot be compared", path,
                model.vocab_size(), teacher.vocab_size());
  }
  for (Token t = 0; t < teacher.vocab_size(); ++t) {
    if (teacher.contains(t) != model.contains(t) ||
        (teacher.contains(t) && teacher.token_bytes(t) != model.token_bytes(t))) {
      throw Error("[eval] '{}' has another vocabulary than the teacher: token {} differs", path, t);
    }
  }
}

void DivergenceSums::add(std::span<const float> teacher, int teacher_best, std::span<const float> logits,
                         int32_t next) {
  const double whole = log_sum(logits);
  klds_.push_back(static_cast<float>(divergence(teacher, logits, whole)));
  nll_ -= static_cast<double>(log_prob(logits[static_cast<size_t>(next)], whole));
  agree_ += arg_max(logits) == teacher_best;
}

void DivergenceSums::end_chunk() { chunk_ends_.push_back(klds_.size()); }

Divergence DivergenceSums::result() const {
  Divergence d;
  if (klds_.empty()) return d;
  const double n = static_cast<double>(klds_.size());
  std::vector<double> all(klds_.begin(), klds_.end());
  size_t begin = 0;
  for (const size_t end : chunk_ends_) {
    d.chunk_kld.push_back(mean(std::span(all).subspan(begin, end - begin)));
    begin = end;
  }
  d.perplexity = std::exp(nll_ / n);
  d.kld = mean(all);
  d.kld_error = standard_error(d.chunk_kld.size() > 1 ? std::span<const double>(d.chunk_kld) : all);
  d.top1 = static_cast<double>(agree_) / n;
  std::ranges::sort(all);
  const auto quantile = [&](double q) { return all[static_cast<size_t>(std::ceil(q * n)) - 1]; };
  d.kld_median = quantile(0.5);
  d.kld_p99 = quantile(0.99);
  d.kld_max = all.back();
  return d;
}

PairedRatio paired_ratio(const Divergence& first, const Divergence& later) {
  if (!(first.kld > 0)) return {};
  PairedRatio result{.ratio = later.kld / first.kld};
  std::vector<double> rests;  // of each chunk from the ratio: their error is the ratio's, times the mean
  for (size_t c = 0; c < first.chunk_kld.size(); ++c) {
    rests.push_back(later.chunk_kld[c] - result.ratio * first.chunk_kld[c]);
  }
  result.error = standard_error(rests) / first.kld;
  return result;
}

Compared compare(Engine& teacher, std::span<Engine* const> models, const ScoredText& text,
                 const std::function<void(size_t done)>& progress) {
  const int from = text.chunk_tokens / 2;
  std::vector<DivergenceSums> sums(models.size());
  TeacherRows rows;
  double nll = 0;
  for (size_t c = 0; c < text.chunks.size(); ++c) {
    const std::vector<int32_t>& chunk = text.chunks[c];
    nll += run_teacher(teacher, chunk, from, rows);
    const std::vector<int32_t> read(chunk.begin(), chunk.end() - 1);
    for (size_t m = 0; m < models.size(); ++m) {
      for_each_logits(*models[m], read, from, [&](int position, std::span<const float> logits) {
        const auto row = static_cast<size_t>(position - from);
        sums[m].add(rows.row(row), rows.best[row], logits, chunk[static_cast<size_t>(position) + 1]);
      });
      sums[m].end_chunk();
    }
    progress(c + 1);
  }
  Compared result;
  result.teacher_perplexity = std::exp(nll / static_cast<double>(text.scored()));
  for (const DivergenceSums& s : sums) result.models.push_back(s.result());
  return result;
}

Speed measure_speed(Engine& engine, const std::vector<int32_t>& prompt, int gen) {
  using Clock = std::chrono::steady_clock;
  Speed speed;
  for (int run = 0; run < 2; ++run) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = gen;
    request.sampling.temperature = 0;
    request.reuse_prefix = false;
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    const Submission submission = engine.submit(std::move(request));
    if (!submission.stream) throw Error("[eval] {}", submission.refused);
    submission.stream->next();
    const double first = elapsed();
    while (submission.stream->next()) {
    }
    const double rest = elapsed() - first;
    speed = {.prefill_tps = static_cast<double>(prompt.size()) / first, .decode_tps = rest > 0 ? (gen - 1) / rest : 0};
  }
  return speed;
}

}  // namespace ingot
