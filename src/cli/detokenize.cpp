// ingot detokenize [MODEL]: JSON lines {"ids": […]} to {"text": …}.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/session.h"

namespace ingot {

namespace {

struct Options {
  std::string model;
  bool skip_special = false;
  bool lines = false;  // which is so anyway
};

int run(const Options& options) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(tokenizer_path(resolve_model(options.model)));
  answer_json_lines([&](const JsonObject& input) -> Json {
    const Json* list = find(input, "ids");
    if (list == nullptr) throw Error("[detokenize] the line has no \"ids\"");
    std::vector<Token> ids;
    for (const Json& id : as_array(*list, "ids")) {
      ids.push_back(static_cast<Token>(as_int(id, "[detokenize] an id", INT32_MIN, INT32_MAX)));
    }
    return JsonObject{{"text", tokenizer->decode(ids, !options.skip_special)}};
  });
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "A model, or a file or directory that holds a tokenizer (default: the default model)")
      ->type_name("");
  app.add_flag("--skip-special", options->skip_special, "Leave control tokens out of the text");
  app.add_flag("--lines", options->lines, "JSON lines in and out, which is the only way")->group("");
  return [options] { return run(*options); };
}

}  // namespace

const Command kDetokenizeCommand = {
    "detokenize", "Token ids to text, as JSON lines",
    "echo '{\"ids\": [19556, 905]}' | ingot detokenize model.gguf\n\n"
    "Prints {\"text\": …} for each line of standard input, or {\"error\": …} for a line that is wrong.",
    setup};

}  // namespace ingot
