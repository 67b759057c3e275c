// /v1/chat/completions: from the body to what is to be generated.
#include <fmt/format.h>

#include "serve/api/forced_call.h"
#include "serve/api/generation.h"

namespace ingot {
namespace {

// Calls of custom tools are those of functions with one argument.
JsonArray template_calls(const JsonArray& calls, const std::string& path) {
  JsonArray list;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Fields call(calls[i].get_object());
    const bool custom = call.string("type").value_or("") == "custom";
    const char* kind = custom ? "custom" : "function";
    const JsonObject* object = call.object(kind);
    const std::string where = fmt::format("{}[{}].{}", path, i, kind);
    if (!object) throw bad_field(where, where + " is required");
    const Fields function(*object);
    const Json* arguments = function.value("arguments");
    Json given = arguments ? *arguments : Json(JsonObject{});
    if (custom) given = JsonObject{{kCustomKey, function.string("input").value_or("")}};
    JsonObject entry{{"type", "function"},
                     {"function", JsonObject{{"name", *function.string("name")}, {"arguments", std::move(given)}}}};
    if (const Json* id = call.value("id")) entry["id"] = *id;
    list.push_back(std::move(entry));
  }
  return list;
}

// One message in the shape that templates expect: content as one text, arguments of calls as objects.
JsonObject template_message(const Fields& message, const ServedModel& model) {
  const std::string role = template_role(*message.string("role"), model);
  const Json* content = message.value("content");
  const JsonArray* calls = message.array("tool_calls");
  const bool has_calls = calls && !calls->empty();
  if (has_calls && role != "assistant") {
    throw bad_field(message.path("tool_calls"),
                    fmt::format("{} may stand in messages of the assistant only", message.path("tool_calls")));
  }
  if (!content && !has_calls) {
    throw bad_field(message.path("content"), fmt::format("{} is required", message.path("content")));
  }
  JsonObject result{{"role", role}, {"content", content ? content_text(*content, message.path("content")) : ""}};
  if (has_calls) result["tool_calls"] = template_calls(*calls, message.path("tool_calls"));
  for (const char* name : {"name", "tool_call_id"}) {
    if (const Json* value = message.value(name)) result[name] = *value;
  }
  const Json* thought = message.value("reasoning_content");
  if (!thought) thought = message.value("reasoning");
  if (thought && role == "assistant") result["reasoning_content"] = *thought;
  return result;
}

JsonObject read_variables(const Fields& fields) {
  JsonObject variables;
  if (const std::optional<std::string> effort = fields.string("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (effort == "none") variables["enable_thinking"] = false;
  }
  if (const JsonObject* given = fields.object("chat_template_kwargs")) {
    for (const auto& member : *given) {
      if (!member.value().is_null()) variables[member.key()] = member.value();
    }
  }
  return variables;
}

void read_logprobs(const Fields& fields, Generation& generation) {
  const std::optional<int64_t> top = fields.integer("top_logprobs");
  if (fields.boolean("logprobs").value_or(false)) {
    generation.sampling.n_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    throw bad_field("top_logprobs", "top_logprobs needs logprobs to be true");
  }
}

void check_modalities(const Fields& fields) {
  const JsonArray* modalities = fields.array("modalities");
  for (size_t i = 0; modalities && i < modalities->size(); ++i) {
    if ((*modalities)[i].get_string() != "text") {
      const std::string path = fmt::format("modalities[{}]", i);
      throw bad_field(path, fmt::format("{} must be text: nothing else is made", path));
    }
  }
}

}  // namespace

Generation read_chat(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  Generation generation;
  read_common(fields, model, generation);
  read_wanted(fields, model, generation);
  read_logprobs(fields, generation);
  check_modalities(fields);
  Conversation conversation;
  const JsonArray& messages = *fields.array("messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Fields message(messages[i].get_object(), fmt::format("messages[{}].", i));
    conversation.messages.push_back(template_message(message, model));
  }
  prepare_calls(conversation.messages);
  conversation.tools = read_openai_tools(body, tool_form_of(model));
  if (!conversation.tools.forced.empty()) {
    want(forced_call(conversation.tools, *tool_form_of(model).calls), model.end_tokens, generation);
  }
  conversation.variables = read_variables(fields);
  render_conversation(model, conversation, generation, work);
  check_prompts(generation, model, "messages");
  bound_answer(generation, model);
  return generation;
}

}  // namespace ingot
