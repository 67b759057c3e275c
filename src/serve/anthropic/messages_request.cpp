// Anthropic's /v1/messages: from the body to what is to be generated.
#include <fmt/format.h>

#include "serve/api/forced_call.h"
#include "serve/api/generation.h"

namespace ingot {
namespace {

std::string required(const Fields& block, const char* name) {
  std::optional<std::string> value = block.string(name);
  if (!value) throw bad_field(block.path(name), fmt::format("{} is required", block.path(name)));
  return *std::move(value);
}

// Collects the blocks of one message; what a user says and what his tools answered become messages of their own.
class MessageBuilder {
 public:
  MessageBuilder(std::string role, JsonArray& out) : role_(std::move(role)), out_(out) {}

  void add(const Fields& block) {
    const std::string type = *block.string("type");
    if (type == "text") add_text(required(block, "text"));
    if (type == "thinking") add_thought(block);
    if (type == "tool_use") add_call(block);
    if (type == "tool_result") add_result(block);
  }
  void add_text(const std::string& text) {
    if (has_text_) text_ += '\n';
    text_ += text;
    has_text_ = true;
  }
  void finish() {
    if (!has_text_ && calls_.empty() && (has_result_ || thought_.empty())) {
      if (!has_result_) out_.push_back(JsonObject{{"role", role_}, {"content", ""}});
      return;
    }
    JsonObject message{{"role", role_}, {"content", text_}};
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    if (!thought_.empty()) message["reasoning_content"] = thought_;
    out_.push_back(std::move(message));
    text_.clear();
    has_text_ = false;
  }

 private:
  void check_role(const Fields& block, std::string_view role) const {
    if (role_ == role) return;
    const std::string path = block.path("type");
    throw bad_field(path, fmt::format("{} {} may stand in messages of the {} only", path, *block.string("type"), role));
  }
  void add_thought(const Fields& block) {
    check_role(block, "assistant");
    thought_ += required(block, "thinking");
  }
  void add_call(const Fields& block) {
    check_role(block, "assistant");
    const Json* input = block.value("input");
    calls_.push_back(JsonObject{{"id", required(block, "id")},
                                {"type", "function"},
                                {"function", JsonObject{{"name", required(block, "name")},
                                                        {"arguments", input ? *input : Json(JsonObject{})}}}});
  }
  void add_result(const Fields& block) {
    check_role(block, "user");
    if (has_text_) finish();
    const Json* content = block.value("content");
    std::string text = content ? content_text(*content, block.path("content")) : "";
    // Templates have no place for it, and the model should not take what went wrong for an answer.
    if (block.boolean("is_error").value_or(false)) text = text.empty() ? "Error" : "Error: " + text;
    out_.push_back(
        JsonObject{{"role", "tool"}, {"tool_call_id", required(block, "tool_use_id")}, {"content", std::move(text)}});
    has_result_ = true;
  }

  const std::string role_;
  JsonArray& out_;
  std::string text_, thought_;
  JsonArray calls_;
  bool has_text_ = false, has_result_ = false;
};

void add_message(const Fields& message, JsonArray& out) {
  MessageBuilder builder(*message.string("role"), out);
  const Json& content = *message.value("content");
  if (content.is_string()) {
    builder.add_text(content_text(content, {}));
  } else {
    const JsonArray& blocks = content.get_array();
    for (size_t i = 0; i < blocks.size(); ++i) {
      builder.add(Fields(blocks[i].get_object(), fmt::format("{}[{}].", message.path("content"), i)));
    }
  }
  builder.finish();
}

// The schema of output_config.format, or the call that tool_choice forces.
void read_held(const JsonObject& body, const ServedModel& model, const ToolsOfRequest& tools, Generation& generation) {
  const JsonObject* config = Fields(body).object("output_config");
  const JsonObject* format = config ? Fields(*config).object("format") : nullptr;
  if (format) {
    const std::string text = to_json(*Fields(*format).value("schema"));
    want({.param = "output_config.format.schema",
          .source = {.language = grammar::Language::kJsonSchema, .text = text, .choices = {}}},
         model.end_tokens, generation);
  }
  if (tools.forced.empty()) return;
  want(forced_call(tools, *tool_form_of(model).calls), model.end_tokens, generation);
}

// Claude Code's first block of the system is a header, another one in every request: with it no prompt would begin as
// the one before did, and none of its pages be found again.
std::string system_text(const Json& system) {
  constexpr std::string_view kHeader = "x-anthropic-billing-header:";
  if (!system.is_array()) return content_text(system, "system");
  JsonArray blocks;
  for (const Json& block : system.get_array()) {
    const std::optional<std::string> text = Fields(block.get_object()).string("text");
    if (!text || !text->starts_with(kHeader)) blocks.push_back(block);
  }
  return content_text(blocks, "system");
}

void read_conversation(const JsonObject& body, const ServedModel& model, Generation& generation, TokenWork* work) {
  const Fields fields(body);
  Conversation conversation;
  if (const Json* system = fields.value("system")) {
    conversation.messages.push_back(JsonObject{{"role", "system"}, {"content", system_text(*system)}});
  }
  const JsonArray& messages = *fields.array("messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Fields message(messages[i].get_object(), fmt::format("messages[{}].", i));
    if (i + 1 == messages.size() && message.string("role") == "assistant") {
      throw bad_field(message.path("role"), fmt::format("{} must not be assistant in the last message: answers are not "
                                                        "continued",
                                                        message.path("role")));
    }
    add_message(message, conversation.messages);
  }
  conversation.tools = read_anthropic_tools(body, tool_form_of(model));
  read_held(body, model, conversation.tools, generation);
  if (const JsonObject* thinking = fields.object("thinking")) {
    conversation.variables["enable_thinking"] = Fields(*thinking).string("type") != "disabled";
  }
  if (const JsonObject* config = fields.object("output_config")) {
    if (const Json* effort = Fields(*config).value("effort")) conversation.variables["reasoning_effort"] = *effort;
  }
  render_conversation(model, conversation, generation, work);
}

}  // namespace

Generation read_messages(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  Generation generation;
  read_common(fields, model, generation);
  read_conversation(body, model, generation, work);
  check_prompts(generation, model, "messages");
  bound_answer(generation, model);
  return generation;
}

int64_t count_message_tokens(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  Generation generation;
  read_conversation(body, model, generation, work);
  return generation.prompt_tokens();
}

}  // namespace ingot
