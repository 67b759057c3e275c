#include "compress/scoring.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/mapping_guard.h"

namespace ingot {

double log_sum_exp(std::span<const float> x) {
  const double top = *std::ranges::max_element(x);
  double sum = 0;
  for (const float v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}

int arg_max(std::span<const float> x) { return static_cast<int>(std::ranges::max_element(x) - x.begin()); }

void for_each_logits(Engine& engine, std::vector<int32_t> tokens, int from,
                     const std::function<void(int position, std::span<const float> logits)>& row) {
  Request request;
  request.prompt = std::move(tokens);
  request.max_tokens = 0;
  request.on_logits = row;
  request.logits_from = from;
  const Submission submission = engine.submit(std::move(request));
  if (!submission.stream) throw Error("[eval] {}", submission.refused);
  FinishReason finish = FinishReason::kNone;
  while (const std::optional<Event> event = submission.stream->next()) finish = event->finish;
  if (finish == FinishReason::kError) throw Error("[eval] the engine could not compute the logits");
  if (mapping_damaged()) throw Error("[model] a file of the model was cut short while it was in use");
}

double negative_log_likelihood(Engine& engine, const std::vector<int32_t>& tokens, int from, int to) {
  double total = 0;
  const std::vector<int32_t> read(tokens.begin(), tokens.begin() + (to - 1));
  for_each_logits(engine, read, from - 1, [&](int position, std::span<const float> logits) {
    const auto next = static_cast<size_t>(tokens[static_cast<size_t>(position) + 1]);
    total += log_sum_exp(logits) - static_cast<double>(logits[next]);
  });
  return total;
}

}  // namespace ingot
