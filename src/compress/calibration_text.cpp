#include "compress/calibration_text.h"

#include <algorithm>
#include <sstream>

#include "app/model_text.h"
#include "app/open_engine.h"
#include "base/error.h"
#include "base/sha256.h"
#include "files/json.h"
#include "models/model.h"
#include "text/chat_template.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

constexpr int64_t kSampleTokens = 8192;

std::vector<Token> chat_tokens(const std::string& path, const std::string& text, const ModelText& model) {
  if (model.source.text.empty()) throw Error("[calibrate] '{}' holds chats, and the model has no template", path);
  const ChatTemplate chat = ChatTemplate::parse(model.source.text);
  std::vector<Token> tokens;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("[calibrate] {}, line {}", path, number);
    const Json value = parse_json(line, where);
    const JsonArray* messages = value.is_array() ? &value.as_array() : find_array(as_object(value, where), "messages");
    if (messages == nullptr) throw Error("{}: no messages", where);
    const JsonObject given{
        {"messages", *messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
    const std::vector<Token> one =
        encode_prompt(*model.tokenizer, chat.render_pieces(template_variables(given, model.source)));
    tokens.insert(tokens.end(), one.begin(), one.end());
  }
  return tokens;
}

// What the model says when it is given nothing, or its first token alone: a sample for each chunk.
std::vector<Token> sampled(const CalibrationTextOptions& options, const Tokenizer& tokenizer, int64_t chunk_rows) {
  OpenOptions open;
  open.engine.threads = options.threads;
  open.model.context = static_cast<int>(chunk_rows);
  OpenEngine opened = open_engine(options.model, open);
  const int64_t wanted = options.tokens > 0 ? options.tokens : kSampleTokens;
  std::vector<Submission> submitted;
  const auto chunks = static_cast<uint64_t>(std::max<int64_t>(1, wanted / chunk_rows));
  std::vector<Token> first;
  for (uint64_t c = 0; c < chunks; ++c) {
    Request request;
    // Without BOS: some token of the vocabulary, another one for each sample.
    const auto some = static_cast<Token>((c * 2654435761u + 97) % static_cast<uint64_t>(tokenizer.vocab_size()));
    first.push_back(tokenizer.bos() && tokenizer.adds_bos() ? *tokenizer.bos() : some);
    request.prompt = {first.back()};
    request.max_tokens = static_cast<int>(chunk_rows) - 1;
    request.sampling.temperature = 1;
    request.sampling.seed = c + 1;
    submitted.push_back(opened.engine->submit(std::move(request)));
    if (!submitted.back().stream) throw Error("[calibrate] {}", submitted.back().refused);
  }
  std::vector<Token> tokens;
  for (size_t c = 0; c < submitted.size(); ++c) {
    std::vector<Token> chunk = {first[c]};
    while (const std::optional<Event> event = submitted[c].stream->next())
      if (event->sample.token >= 0) chunk.push_back(event->sample.token);
    if (static_cast<int64_t>(chunk.size()) < chunk_rows) continue;  // a sample that ended early is no whole chunk
    chunk.resize(static_cast<size_t>(chunk_rows));
    tokens.insert(tokens.end(), chunk.begin(), chunk.end());
  }
  return tokens;
}

}  // namespace

std::string calibration_hashes(const ModelFiles& files) {
  if (files.is_gguf()) return files.gguf->get_string("ingot.quantize.text_sha256", "");
  const JsonObject* own = find_object(files.config, "ingot_quantize");
  return own != nullptr ? get_string(*own, "text_sha256", "") : "";
}

std::string with_hash(const std::string& hashes, const std::string& hash) {
  if (hash.empty() || hashes.find(hash) != std::string::npos) return hashes;
  return hashes.empty() ? hash : hashes + " " + hash;
}

void check_other_text(const std::string& path, const std::string& text) {
  const std::string hashes = calibration_hashes(ModelFiles::open(path));
  if (!hashes.empty() && hashes.find(sha256_file(text)) != std::string::npos)
    throw Error("[eval] '{}' was compressed with the text '{}': it would look better than it is; give another", path,
                text);
}

CalibrationText calibration_text(const CalibrationTextOptions& options) {
  const ModelText model = load_text(options.model);
  const ModelFiles files = ModelFiles::open(options.model);
  CalibrationText result;
  result.chunk_rows = std::min<int64_t>(options.chunk_rows, Model::read_numbers(files).context);
  if (options.text.empty()) {
    result.dataset = "samples of the model";
    result.tokens = sampled(options, *model.tokenizer, result.chunk_rows);
    if (result.tokens.empty()) throw Error("[calibrate] no sample of the model has {} tokens", result.chunk_rows);
    return result;
  }
  const std::string text = read_text_file(options.text);
  result.dataset = options.text;
  result.hash = sha256_hex(std::as_bytes(std::span(text)));
  result.tokens = options.text.ends_with(".jsonl") ? chat_tokens(options.text, text, model)
                                                   : model.tokenizer->encode(text, {.add_special = true});
  auto whole = static_cast<int64_t>(result.tokens.size()) / result.chunk_rows;
  if (whole == 0)
    throw Error("[calibrate] the text has {} tokens, a chunk is {}", result.tokens.size(), result.chunk_rows);
  if (options.tokens > 0) whole = std::clamp<int64_t>(options.tokens / result.chunk_rows, 1, whole);
  result.tokens.resize(static_cast<size_t>(whole * result.chunk_rows));
  if (model.tokenizer->adds_bos()) {
    for (int64_t c = 0; c < whole; ++c)
      result.tokens[static_cast<size_t>(c * result.chunk_rows)] = *model.tokenizer->bos();
  }
  return result;
}

}  // namespace ingot
