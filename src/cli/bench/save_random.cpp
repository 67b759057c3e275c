#include "cli/bench/save_random.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "compress/gguf_numbers.h"
#include "files/gguf/gguf_writer.h"

namespace ingot {
namespace {

// Three control tokens, the 256 bytes, then words: what a SentencePiece vocabulary must have.
void write_vocabulary(GgufWriter& writer, int vocab) {
  constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (int i = 0; i < vocab; ++i) {
    constexpr const char* kFirst[] = {"<unk>", "<s>", "</s>"};
    tokens.push_back(i < 3 ? kFirst[i] : i < 259 ? fmt::format("<0x{:02X}>", i - 3) : fmt::format("w{}", i));
    types.push_back(i == 0 ? kUnknown : i < 3 ? kControl : i < 259 ? kByte : kNormal);
    scores.push_back(static_cast<float>(-i));
  }
  writer.set("tokenizer.ggml.model", "llama");
  writer.set_array("tokenizer.ggml.tokens", tokens);
  writer.set_array("tokenizer.ggml.scores", std::span<const float>(scores));
  writer.set_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

// The rows of a head in the order of interleaved rotation, as GGUF files of some architectures keep q and k:
// the inverse of what Weights undoes when it reads them.
void write_permuted(const GgufSink& sink, const StoredWeight& weight, int64_t row_bytes, int heads) {
  const int64_t head_rows = weight.shape[0] / heads, half = head_rows / 2;
  for (int64_t r = 0; r < weight.shape[0]; ++r) {
    const int64_t in_head = r % head_rows;
    const int64_t from = r - in_head + in_head % 2 * half + in_head / 2;
    sink(std::span(weight.data + from * row_bytes, static_cast<size_t>(row_bytes)));
  }
}

}  // namespace

void save_random(Model& model, const std::string& path) {
  auto* source = dynamic_cast<RandomSource*>(&model.weights->source());
  CHECK(source, "the model's weights are not random");
  GgufWriter writer;
  if (model.arch->gguf_types.empty()) throw Error("[bench] GGUF has no name for '{}'", model.arch->name);
  writer.set("general.architecture", model.arch->gguf_types[0]);
  writer.set("general.name", "random weights");
  write_gguf_numbers(writer, model.arch->gguf_types[0], model.hp);
  write_vocabulary(writer, model.hp.vocab);
  for (const std::unique_ptr<StoredWeight>& weight : source->made()) {
    const std::optional<uint32_t> type = gguf_type(weight->format);
    if (!type) throw Error("[bench] GGUF has no type for {}", format_name(weight->format));
    const std::string name = gguf_from_canonical(weight->name, model.arch->names);
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < weight->shape.size(); ++d) rows *= weight->shape[d];
    const int64_t row_bytes = format_row_bytes(weight->format, weight->shape.back());
    const bool q = name.ends_with(".attn_q.weight"), k = name.ends_with(".attn_k.weight");
    const std::vector<int64_t> dims(weight->shape.rbegin(), weight->shape.rend());
    if (model.arch->names.gguf_permuted_qk && (q || k)) {
      const StoredWeight* stored = weight.get();
      const int heads = q ? model.hp.heads : model.hp.kv_heads;
      writer.add_tensor(name, dims, *type,
                        [=](const GgufSink& sink) { write_permuted(sink, *stored, row_bytes, heads); });
    } else {
      writer.add_tensor(name, dims, *type, std::span(weight->data, static_cast<size_t>(rows * row_bytes)));
    }
  }
  writer.write(path);
}

}  // namespace ingot
