// ingot template [MODEL]: messages to the text that the model's chat template makes of them.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/session.h"
#include "cli/strings.h"
#include "text/chat_template_input.h"
#include "text/prompt.h"

namespace ingot {

namespace {

struct Options {
  std::string model;
  bool lines = false;
  CommonOptions common;
};

// The moment that templates print: $SOURCE_DATE_EPOCH, or now.
RenderOptions render_options() {
  const std::string text = environment("SOURCE_DATE_EPOCH");
  RenderOptions options;
  if (text.empty()) return options;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error("[template] SOURCE_DATE_EPOCH is '{}', not a number of seconds", utf8_printable(text));
  }
  options.now = static_cast<std::time_t>(seconds);
  return options;
}

// The model's templates: the plain one parsed at once, that for tools when it is first asked for.
class Templates {
 public:
  Templates(TemplateSource source, const std::string& path) : source_(std::move(source)) {
    if (source_.text.empty()) throw Error("[template] '{}' has no chat template", path);
    plain_ = ChatTemplate::parse(source_.text);
  }

  std::string render(const JsonObject& input) {
    const Json* tools = find(input, "tools");
    const bool with_tools = tools != nullptr && tools->is_array() && !tools->get_array().empty();
    const bool tool_use = with_tools && !source_.tool_use.empty();
    if (tool_use && !tool_use_) tool_use_ = ChatTemplate::parse(source_.tool_use);
    const ChatTemplate& chat_template = tool_use ? *tool_use_ : *plain_;
    JsonObject variables = template_variables(input, source_);
    // Otherwise what is given is all there is: templates may ask whether a variable is defined.
    if (!input.contains("continue_final_message")) return chat_template.render(variables, options_);
    std::string text;
    for (const ChatTemplate::Piece& piece : render_chat(chat_template, std::move(variables), options_)) {
      text += piece.text;
    }
    return text;
  }

 private:
  const TemplateSource source_;
  const RenderOptions options_ = render_options();
  std::optional<ChatTemplate> plain_, tool_use_;
};

int run(const Options& options) {
  const std::string path = resolve_model(options.model);
  Templates templates(find_template(path), path);
  if (options.lines) {
    answer_json_lines([&](const JsonObject& input) -> Json { return JsonObject{{"text", templates.render(input)}}; });
    return 0;
  }
  const Json input = parse_json(read_stdin(), "[template] standard input");
  std::string text = templates.render(as_object(input, "[template] standard input"));
  if (options.common.json) text = to_json(JsonObject{{"text", text}}) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "A model, a directory or a .jinja file that holds a template (default: the default model)")
      ->type_name("");
  app.add_flag("--lines", options->lines, "JSON lines in, {\"text\": …} or {\"error\": …} out for each");
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kTemplateCommand = {
    "template", "Messages to the text of a prompt",
    "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}' |\n"
    "    ingot template model.gguf\n\n"
    "Reads one JSON object; its members are the template's variables: messages, tools, documents,\n"
    "add_generation_prompt, enable_thinking and any other. With \"continue_final_message\": true the text ends\n"
    "inside the last message, where the model is to go on. Prints the text.\n"
    "Environment: SOURCE_DATE_EPOCH, seconds since 1970, is the moment that templates print as now.",
    setup};

}  // namespace ingot
