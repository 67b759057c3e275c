// ingot tokenize [MODEL]: JSON lines {"text": …} to {"ids": […]}.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/session.h"

namespace ingot {

namespace {

struct Options {
  std::string model;
  EncodeOptions encode;
  bool lines = false;  // which is so anyway
  bool time = false;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void append_ids(const std::vector<Token>& ids, std::string& out) {
  constexpr size_t kLongest = 12;  // an id and a comma
  const size_t begin = out.size();
  out.resize(begin + ids.size() * kLongest);
  char* p = out.data() + begin;
  for (const Token id : ids) {
    p = std::to_chars(p, p + kLongest, id).ptr;
    *p++ = ',';
  }
  out.resize(static_cast<size_t>(p - out.data()) - (ids.empty() ? 0 : 1));
}

int run(const Options& options) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(tokenizer_path(resolve_model(options.model)));
  answer_lines([&](const JsonObject& input, std::string& line) {
    const Json* text = find(input, "text");
    if (text == nullptr) throw Error("[tokenize] the line has no \"text\"");
    const double start = options.time ? cpu_seconds() : 0;
    const std::vector<Token> ids = tokenizer->encode(as_string(*text, "text"), options.encode);
    const double seconds = options.time ? cpu_seconds() - start : 0;
    line = "{\"ids\":[";
    append_ids(ids, line);
    line += ']';
    if (options.time) line += fmt::format(",\"seconds\":{:.9f}", seconds);
    line += '}';
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
  app.add_flag("--time", options->time, "Add the \"seconds\" of the processor that making the ids took to each line");
  app.add_flag("--lines", options->lines, "JSON lines in and out, which is the only way")->group("");
  return [options] { return run(*options); };
}

}  // namespace

const Command kTokenizeCommand = {
    "tokenize", "Text to token ids, as JSON lines",
    "echo '{\"text\": \"Hello\"}' | ingot tokenize model.gguf\n\n"
    "Prints {\"ids\": […]} for each line of standard input, or {\"error\": …} for a line that is wrong.",
    setup};

}  // namespace ingot
