#include "app/session.h"

#include <chrono>
#include <future>
#include <utility>

#include "app/device.h"
#include "app/model_sampling.h"
#include "files/manifest.h"
#include "tensor/memory.h"
#include "weights/model_files.h"

namespace ingot {

Session::Session(const std::string& path, const OpenOptions& options) : path_(path) {
  const auto start = std::chrono::steady_clock::now();
  OpenOptions rest = options;
  if (!options.verify.empty()) {
    choose_device(options.device, options.ref);              // what is not there is said before the model is read
    verify_manifest(path_, std::exchange(rest.verify, {}));  // before the first byte of it means anything
  }
  std::future<ModelText> text = std::async(std::launch::async, load_text, path_);
  open_ = open_engine(path_, rest);
  text_ = text.get();
  sampling_ = model_sampling(*model().files);
  end_tokens_ = ingot::end_tokens(tokenizer(), *model().files, model().hp.vocab);
  trim_heap();
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Token> Session::encode_chat(const JsonArray& messages) {
  if (!template_) template_ = ChatTemplate::parse(text_.source.text);
  const JsonObject given{
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  return encode_prompt(tokenizer(), template_->render_pieces(template_variables(given, text_.source)));
}

std::vector<Token> Session::encode_text(const std::string& text, bool parse_special) const {
  std::vector<Token> tokens = tokenizer().encode(text, {.add_special = true, .parse_special = parse_special});
  // EOS behind the text would end what is to be continued.
  if (tokenizer().adds_eos() && !tokens.empty() && tokens.back() == *tokenizer().eos()) tokens.pop_back();
  return tokens;
}

}  // namespace ingot
