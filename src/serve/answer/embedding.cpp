#include "serve/answer/embedding.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/checked_size.h"

namespace ingot {

size_t EmbeddingJob::held_bytes(int hidden) const {
  CheckedSize sum(0, "[request] bytes");
  for (const std::vector<Token>& input : inputs) {
    sum += CheckedSize(input.size()) * (3 * sizeof(Token) + 1) + CheckedSize(hidden) * sizeof(double);
  }
  return sum.as_size();
}

void read_inputs(const Fields& fields, const char* param, const ServedModel& model, TokenWork* work,
                 EmbeddingJob& job) {
  if (const std::optional<int64_t> size = fields.integer("dimensions"); size && *size != model.hidden) {
    throw bad_field("dimensions",
                    fmt::format("dimensions is {}, and vectors of this model have {}", *size, model.hidden));
  }
  Generation generation;
  generation.max_tokens = 0;
  generation.prompts = read_prompts(*fields.value(param), param, model, true, work).tokens;
  check_prompts(generation, model, param);
  job.param = param;
  job.inputs = std::move(generation.prompts);
}

EmbeddingJob read_embedding(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  EmbeddingJob job;
  const std::string pooling = fields.string("pooling").value_or("mean");
  job.pooling = pooling == "last" ? Pooling::kLast : pooling == "cls" ? Pooling::kCls : Pooling::kMean;
  job.normalize = fields.boolean("normalize").value_or(true);
  job.timeout_seconds = fields.number("timeout").value_or(0);
  job.base64 = fields.string("encoding_format") == "base64";
  read_inputs(fields, "input", model, work, job);
  return job;
}

PooledVector::PooledVector(Pooling pooling, size_t rows, size_t size)
    : pooling_(pooling), rows_(rows), seen_(rows, 0), sum_(size, 0.0) {}

int PooledVector::first_row() const { return pooling_ == Pooling::kLast ? static_cast<int>(rows_) - 1 : 0; }

void PooledVector::take(int position, std::span<const float> hidden) {
  const auto row = static_cast<size_t>(position);
  if (position < first_row() || row >= rows_ || hidden.size() != sum_.size() || seen_[row]) return;
  if (pooling_ == Pooling::kCls && row > 0) return;
  seen_[row] = 1;
  for (size_t i = 0; i < hidden.size(); ++i) sum_[i] += hidden[i];
}

std::vector<float> PooledVector::vector(bool normalize) const {
  size_t rows = 0;
  for (const char seen : seen_) rows += seen != 0;
  if (rows != (pooling_ == Pooling::kMean ? rows_ : 1)) return {};
  double scale = 1.0 / static_cast<double>(rows);
  if (normalize) {
    double squares = 0;
    for (const double value : sum_) squares += value * value;
    scale = squares > 0 ? 1.0 / std::sqrt(squares) : 0;
  }
  std::vector<float> result;
  result.reserve(sum_.size());
  for (const double value : sum_) {
    if (!std::isfinite(value * scale)) return {};
    result.push_back(static_cast<float>(value * scale));
  }
  return result;
}

std::string base64_floats(std::span<const float> values) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((bits >> shift) & 0xFF);
  }
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t b = 0; b < 3; ++b) {
      group = (group << 8) | (i + b < bytes.size() ? static_cast<unsigned char>(bytes[i + b]) : 0u);
    }
    for (size_t digit = 0; digit < 4; ++digit) {
      const bool padding = i + digit > bytes.size();
      text += padding ? '=' : kDigits[(group >> (18 - 6 * digit)) & 63];
    }
  }
  return text;
}

}  // namespace ingot
