// ingot tokenize [MODEL]: JSON lines {"text": …} to {"ids": […]}.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/session.h"

namespace ingot {

namespace {

struct Options {
  std::string model;
  EncodeOptions encode;
};

int run(const Options& options) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(tokenizer_path(resolve_model(options.model)));
  answer_json_lines([&](const JsonObject& input) -> Json {
    const Json* text = find(input, "text");
    if (text == nullptr) throw Error("[tokenize] the line has no \"text\"");
    const std::vector<Token> ids = tokenizer->encode(as_string(*text, "text"), options.encode);
    return JsonObject{{"ids", JsonArray(ids.begin(), ids.end())}};
  });
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "A model, or a file or directory that holds a tokenizer (default: the default model)")
      ->type_name("");
  app.add_flag("--special", options->encode.add_special, "Add BOS and EOS as the model asks for them");
  app.add_flag("--parse-special", options->encode.parse_special, "Read <|im_end|> in the text as a control token");
  return [options] { return run(*options); };
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize", "Text to token ids, as JSON lines",
    "echo '{\"text\": \"Hello\"}' | ingot tokenize model.gguf\n\n"
    "Prints {\"ids\": […]} for each line of standard input, or {\"error\": …} for a line that is wrong.",
    setup};

}  // namespace ingot
