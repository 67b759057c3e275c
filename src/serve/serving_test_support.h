// For tests: a toy model behind the handlers, without sockets. Its 256 tokens are <pad>, <s>, </s> and 253 bytes, its
// weights are random, and its answers are random bytes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "serve/answer/answering.h"
#include "serve/api/fields.h"
#include "serve/serve_context.h"

namespace ingot {

// A byte's token in the toy's vocabulary; the bytes 0xFD to 0xFF have none.
inline Token byte_token(unsigned char byte) { return static_cast<Token>(byte) + 3; }

// tokenizer.json of the toy.
inline std::string toy_tokenizer_json() {
  const auto printable = [](int b) {
    return (b >= 0x21 && b < 0x7F) || (b >= 0xA1 && b < 0xAD) || (b >= 0xAE && b < 0x100);
  };
  const auto name = [&](int byte) {
    int cp = byte;
    if (!printable(byte)) {
      cp = 256;
      for (int b = 0; b < byte; ++b) cp += !printable(b);
    }
    std::string text;
    if (cp < 0x80) {
      text += static_cast<char>(cp);
    } else {
      text += static_cast<char>(0xC0 | (cp >> 6));
      text += static_cast<char>(0x80 | (cp & 0x3F));
    }
    return text;
  };
  JsonObject vocab{{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 253; ++byte) vocab[name(byte)] = byte + 3;
  JsonArray added;
  for (const auto& [id, text] : {std::pair(0, "<pad>"), std::pair(1, "<s>"), std::pair(2, "</s>")}) {
    added.push_back(JsonObject{{"id", id},
                               {"content", text},
                               {"special", true},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", false}});
  }
  const JsonObject level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return to_json(JsonObject{{"version", "1.0"},
                            {"added_tokens", added},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", level},
                            {"post_processor", nullptr},
                            {"decoder", level},
                            {"model", JsonObject{{"type", "BPE"}, {"vocab", vocab}, {"merges", JsonArray{}}}}});
}

inline std::unique_ptr<Tokenizer> toy_tokenizer() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ingot-serve-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw Error("[test] no temporary directory");
  const std::filesystem::path directory = pattern;
  std::ofstream(directory / "tokenizer.json") << toy_tokenizer_json();
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(directory.string());
  std::filesystem::remove_all(directory);
  return tokenizer;
}

// Keeps an answer for its reader.
class TestResponder : public Responder {
 public:
  void send(HttpResponse response) override { take(std::move(response), true); }
  void start(HttpResponse head) override { take(std::move(head), false); }
  void write(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    response_.body += bytes;
    ++writes_;
    wake_.notify_all();
  }
  void finish() override { end(false); }
  void abort() override { end(true); }
  bool closed() const override {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t unsent() const override { return 0; }
  void on_close(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) {
        on_close_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  // The client goes.
  void close() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      callback = std::move(on_close_);
    }
    if (callback) callback();
  }
  // The whole answer. Waits for it, and fails the test where none comes.
  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(120), [this] { return done_; })) << "no answer came";
    return response_;
  }
  // Until `n` writes came or the answer ended.
  void wait_for_writes(int n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(120), [&] { return done_ || writes_ >= n; }));
  }
  bool aborted() const {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  int answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  void take(HttpResponse response, bool whole) {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    ++answers_;
    done_ = done_ || whole;
    wake_.notify_all();
  }
  void end(bool aborted) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    aborted_ = aborted;
    wake_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  HttpResponse response_;
  std::function<void()> on_close_;
  int answers_ = 0, writes_ = 0;
  bool done_ = false, closed_ = false, aborted_ = false;
};

inline constexpr const char* kToyTemplate =
    "{% for message in messages %}{{ '<s>' + message['role'] + '\\n' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}";

// A template with tools, in the form of Hermes.
inline constexpr const char* kHermesTemplate =
    "{% if tools %}{{ 'Answer <tool_call>{\"name\": .., \"arguments\": ..}</tool_call>' }}{% endif %}"
    "{% for message in messages %}{{ '<s>' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}";

class ToyServer {
 public:
  static constexpr int kContext = 256;

  explicit ToyServer(const EngineConfig& config = {.threads = 1, .max_seqs = 4, .step_rows = 64, .page_rows = 16},
                     const std::string& chat = kToyTemplate, std::function<void(const StepFacts&)> on_step = {})
      : weights_(Model::load(INGOT_SOURCE_DIR "/tests/data/arch/llama", model_options())),
        tokenizer_(toy_tokenizer()),
        engine_(weights_, config, std::move(on_step)) {
    model.name = "toy";
    model.engine = &engine_;
    model.tokenizer = tokenizer_.get();
    model.source = {.text = chat, .tool_use = {}, .tokens = JsonObject{{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
    if (!chat.empty()) model.chat = model.tool_chat = std::make_shared<ChatTemplate>(ChatTemplate::parse(chat));
    model.end_tokens = {2};
    model.constraints = std::make_shared<Constraints>(*tokenizer_, model.end_tokens, 256);
    model.context = kContext;
    model.vocab = 256;
    model.hidden = weights_.hp.hidden;
    model.architecture = "llama";
    model.format = "f32";
    model.formats = {{"f32", 1000}};
  }
  // The workers go last: the engine's end posts to them.
  ~ToyServer() = default;

  using Handler = void (*)(ServeContext&, HttpRequest, std::shared_ptr<Responder>);
  static Handler handler(const std::string& path) {
    if (path == "/v1/chat/completions") return handle_chat;
    if (path == "/v1/completions") return handle_completions;
    if (path == "/v1/messages") return handle_messages;
    if (path == "/v1/messages/count_tokens") return handle_count_tokens;
    if (path == "/api/chat") return handle_ollama_chat;
    if (path == "/api/generate") return handle_ollama_generate;
    if (path == "/api/embed") return handle_ollama_embed;
    if (path == "/api/embeddings") return handle_ollama_embeddings;
    return handle_embeddings;
  }
  // As the server does it: what the handler throws is the answer.
  std::shared_ptr<TestResponder> begin(const std::string& path, std::string body,
                                       std::shared_ptr<Caller> caller = nullptr) {
    auto responder = std::make_shared<TestResponder>();
    HttpRequest request;
    request.head.method = "POST";
    request.head.path = path;
    request.head.caller = std::move(caller);
    request.body = std::move(body);
    try {
      handler(path)(context, std::move(request), responder);
    } catch (const ApiError& error) {
      responder->send(error_response(error, style_of(path)));
    }
    return responder;
  }
  HttpResponse call(const std::string& path, std::string body) { return begin(path, std::move(body))->wait(); }
  // A request that must succeed, as JSON.
  JsonObject ok(const std::string& path, std::string body) {
    const HttpResponse response = call(path, std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body, "answer").as_object();
  }
  // A request that must fail with this status; what its error says.
  JsonObject error(int status, const std::string& path, std::string body) {
    const HttpResponse response = call(path, body);
    EXPECT_EQ(response.status, status) << response.body << "\nfor " << body.substr(0, 300);
    if (response.status == 200) return {};
    return parse_json(response.body, "error").as_object().at("error").as_object();
  }
  // The data of each event of a stream that must succeed; "[DONE]" as text.
  std::vector<Json> events(const std::string& path, std::string body) {
    const HttpResponse response = call(path, std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "text/event-stream");
    std::vector<Json> list;
    size_t at = 0;
    while (at < response.body.size()) {
      const size_t end = response.body.find("\n\n", at);
      EXPECT_NE(end, std::string::npos) << "an event without end";
      if (end == std::string::npos) break;
      const size_t data = response.body.find("data: ", at) + 6;
      const std::string text = response.body.substr(data, end - data);
      list.push_back(text == "[DONE]" ? Json(text) : parse_json(text, "event"));
      at = end + 2;
    }
    return list;
  }
  // Every page is free or cached, and nothing runs.
  void expect_idle() {
    EXPECT_TRUE(engine_.drain(std::chrono::seconds(120)));
    engine_.call([](LocalEngine& local) {
      EXPECT_TRUE(local.idle());
      for (int g = 0; g < local.core().pages().n_groups(); ++g) {
        EXPECT_EQ(local.core().pages().available(g), local.core().pages().total_pages(g));
      }
    });
  }

  ServedModel model;
  Metrics metrics;
  Keys keys;
  Log log;

 private:
  static ModelOptions model_options() {
    ModelOptions options;
    options.context = kContext;
    options.keep_last = true;
    return options;
  }
  Workers workers_, streams_;

 public:
  ResponseStore responses;
  ServeContext context{model, workers_, streams_, metrics, keys, log, responses};

 private:
  Model weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Engines engine_;
};

}  // namespace ingot
