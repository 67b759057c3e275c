// Vectors of texts from the model's last hidden states.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/api/generation.h"

namespace ingot {

enum class Pooling : uint8_t { kMean, kLast, kCls };

// How the vectors are sent: as OpenAI does, or as Ollama's /api/embed (a list) and /api/embeddings (one).
enum class EmbeddingShape : uint8_t { kOpenAi, kOllamaList, kOllamaOne };

// What a request for vectors wants.
struct EmbeddingJob {
  std::vector<std::vector<Token>> inputs;
  std::string param = "input";  // the field that has them, for errors
  EmbeddingShape shape = EmbeddingShape::kOpenAi;
  Pooling pooling = Pooling::kMean;
  bool normalize = true;
  bool base64 = false;
  double timeout_seconds = 0;       // the client's own; 0: none
  std::shared_ptr<void> room = {};  // of held_bytes(), until it has ended

  // What it holds while it waits and runs: its inputs, which the engine has again, and vectors of `hidden` numbers.
  size_t held_bytes(int hidden) const;
};

// `body` has passed read_body() with kEmbeddingFields. Throws ApiError.
EmbeddingJob read_embedding(const JsonObject& body, const ServedModel& model, TokenWork* work = nullptr);

// job.inputs of the field `param`, and "dimensions". Throws ApiError.
void read_inputs(const Fields& fields, const char* param, const ServedModel& model, TokenWork* work, EmbeddingJob& job);

// One input's rows become one vector. Filled by the thread that runs the model; read by others after the last event.
class PooledVector {
 public:
  PooledVector(Pooling pooling, size_t rows, size_t size);
  // The first position whose row is wanted.
  int first_row() const;
  // A row may come again, after its seq was put off: it counts once.
  void take(int position, std::span<const float> hidden);
  // Empty where a row did not come or is not finite.
  std::vector<float> vector(bool normalize) const;

 private:
  const Pooling pooling_;
  const size_t rows_;
  std::vector<char> seen_;   // [rows]
  std::vector<double> sum_;  // [size]
};

// Of the floats' bytes, little-endian, as OpenAI's clients read it.
std::string base64_floats(std::span<const float> values);

}  // namespace ingot
