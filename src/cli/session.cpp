#include "cli/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/hub/cache.h"
#include "cli/interrupt.h"
#include "cli/sampling_options.h"
#include "cli/strings.h"
#include "files/directory.h"
#include "tensor/memory.h"
#include "weights/model_files.h"

namespace ingot {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct TextParts {
  std::unique_ptr<Tokenizer> tokenizer;
  TemplateSource source;
};

TextParts load_text(const std::string& path) {
  const std::string file = tokenizer_path(path);
  if (is_directory(file)) return {.tokenizer = Tokenizer::load(file), .source = template_in(file)};
  const Gguf gguf = Gguf::open(file);
  return {.tokenizer = Tokenizer::from_gguf(gguf), .source = template_of(gguf)};
}

// Says that the model is being loaded, with the seconds so far: on a terminal, and only after one second.
class LoadNotice {
 public:
  explicit LoadNotice(std::string name) : name_(std::move(name)) {
    if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
  }
  ~LoadNotice() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  LoadNotice(const LoadNotice&) = delete;
  LoadNotice& operator=(const LoadNotice&) = delete;

 private:
  void show() {
    const Clock::time_point start = Clock::now();
    std::unique_lock lock(mutex_);
    const auto done = [this] { return done_; };
    if (wake_.wait_for(lock, std::chrono::seconds(1), done)) return;
    do {
      fmt::print(stderr, "\r\033[Kloading {} … {:.0f} s", name_, seconds_since(start));
      std::fflush(stderr);
    } while (!wake_.wait_for(lock, std::chrono::milliseconds(500), done));
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// eos_token_id of generation_config.json: one id or a list. Others than the vocabulary's are passed over.
void add_config_end_tokens(const JsonObject& config, int vocab, std::vector<Token>& ends) {
  const Json* value = find(config, "eos_token_id");
  if (value == nullptr || value->is_null()) return;
  const auto add = [&](const Json& id) {
    const int64_t token = as_int(id, "[model] generation_config.json: eos_token_id");
    if (token >= 0 && token < vocab) ends.push_back(static_cast<Token>(token));
  };
  if (value->is_array()) {
    for (const Json& id : value->get_array()) add(id);
  } else {
    add(*value);
  }
}

}  // namespace

bool names_model(const std::string& arg) {
  return arg.empty() || arg == kDefaultModel || exists(arg) || find_cached(arg).has_value();
}

std::string resolve_model(const std::string& arg) {
  if (!arg.empty() && exists(arg)) return arg;
  if (arg.empty() || arg == kDefaultModel) {
    const InterruptGuard guard;  // a download that is stopped keeps what it has
    return default_model_path(true);
  }
  if (std::optional<std::string> path = find_cached(arg)) return *std::move(path);
  const std::string name = utf8_printable(arg, 300);
  if (!valid_model_name(arg) || arg.find('/') == std::string::npos || arg.ends_with(".gguf")) {
    throw Error("[model] '{}' is neither a path nor a model of the cache (see ingot ls)", name);
  }
  throw Error("[model] '{}' is neither a path nor a model of the cache; fetch it with 'ingot pull {}'", name, name);
}

std::string tokenizer_path(const std::string& path) {
  if (!is_directory(path)) return path;
  for (const char* file : {"/tokenizer.json", "/tokenizer.model"}) {
    if (exists(path + file)) return path;
  }
  return gguf_in(path).value_or(path);
}

void add_session_options(CLI::App& app, SessionOptions& options) {
  app.add_option("--ctx", options.context, "Context in tokens (default: the model's)")
      ->check(integer_in(1, 1 << 30))
      ->type_name("N");
  app.add_option("--kv", options.kv,
                 "Type of the KV cache (f16; bf16 where the CPU multiplies it; on a GPU by the weights)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->type_name("TYPE");
  app.add_option("--no-fuse", options.no_fuse, "Fusion rules to switch off, by name, or all")->type_name("RULES");
  add_engine_options(app, options.common);
}

Session::Session(const SessionOptions& options, EngineSetup setup) {
  path_ = resolve_model(options.model);
  const Clock::time_point start = Clock::now();
  const LoadNotice notice(base_name(path_));
  std::future<TextParts> text = std::async(std::launch::async, load_text, path_);
  setup.context = options.context;
  set_kv(setup, options.kv, options.common);
  setup.fuse_off = split_names(options.no_fuse);
  open_ = open_engine(path_, options.common, setup);
  TextParts parts = text.get();
  tokenizer_ = std::move(parts.tokenizer);
  source_ = std::move(parts.source);
  sampling_ = model_sampling(*model().files);
  end_tokens_ = tokenizer_->end_tokens();
  add_config_end_tokens(model().files->generation_config, model().hp.vocab, end_tokens_);
  std::ranges::sort(end_tokens_);
  end_tokens_.erase(std::ranges::unique(end_tokens_).begin(), end_tokens_.end());
  trim_heap();
  load_seconds_ = seconds_since(start);
}

std::vector<Token> Session::encode_chat(const JsonArray& messages) {
  if (!template_) template_ = ChatTemplate::parse(source_.text);
  const JsonObject given{
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  return encode_prompt(*tokenizer_, template_->render_pieces(template_variables(given, source_)));
}

std::vector<Token> Session::encode_text(const std::string& text, bool parse_special) const {
  std::vector<Token> tokens = tokenizer_->encode(text, {.add_special = true, .parse_special = parse_special});
  // EOS behind the text would end what is to be continued.
  if (tokenizer_->adds_eos() && !tokens.empty() && tokens.back() == *tokenizer_->eos()) tokens.pop_back();
  return tokens;
}

}  // namespace ingot
