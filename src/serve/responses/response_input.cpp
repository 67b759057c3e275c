#include "serve/responses/response_input.h"

#include <fmt/format.h>

#include <utility>

namespace ingot {
namespace {

std::string required(const Fields& item, const char* name) {
  std::optional<std::string> value = item.string(name);
  if (!value) throw bad_field(item.path(name), fmt::format("{} is required", item.path(name)));
  return *std::move(value);
}

// The texts of a list of parts, or nothing where there is none.
std::string text_of(const Fields& item, const char* name) {
  const Json* value = item.value(name);
  return value ? content_text(*value, item.path(name)) : std::string();
}

JsonArray one_part(const char* type, const std::string& text) {
  JsonObject part{{"type", type}, {"text", text}};
  if (std::string_view(type) == "output_text") part["annotations"] = JsonArray{};
  return {std::move(part)};
}

// A user's turn begins here: what came before it may be left out.
bool is_user(const Json& message) { return message.get_object().at("role") == "user"; }

size_t text_bytes(const Json& value) {
  size_t bytes = 0;
  if (value.is_string()) bytes = value.get_string().size();
  if (value.is_array()) {
    for (const Json& item : value.get_array()) bytes += text_bytes(item);
  }
  if (value.is_object()) {
    for (const auto& member : value.get_object()) bytes += text_bytes(member.value());
  }
  return bytes;
}

}  // namespace

void ResponseInput::add_instructions(const std::string& text) { say("system", text); }

void ResponseInput::add(const Json& input, const std::string& path) {
  if (input.is_string()) {
    const std::string text = content_text(input, path);
    items_.push_back(JsonObject{{"id", unique_id("msg_")},
                                {"type", "message"},
                                {"status", "completed"},
                                {"role", "user"},
                                {"content", one_part("input_text", text)}});
    say("user", text);
    return;
  }
  const JsonArray& items = input.get_array();
  if (items.empty()) throw bad_field(path, fmt::format("{} is an empty list", path));
  for (size_t i = 0; i < items.size(); ++i) add_item(Fields(items[i].get_object(), fmt::format("{}[{}].", path, i)));
}

void ResponseInput::add_kept(const JsonArray& items) {
  for (const Json& item : items) add_item(Fields(item.get_object(), "previous_response_id."));
}

void ResponseInput::add_item(const Fields& item) {
  const std::string type = item.string("type").value_or("message");
  if (type == "message") add_message(item);
  if (type == "reasoning") add_reasoning(item);
  if (type == "function_call" || type == "custom_tool_call") add_call(item, type == "custom_tool_call");
  if (type == "function_call_output" || type == "custom_tool_call_output") add_output(item);
}

void ResponseInput::add_message(const Fields& item) {
  const std::string given = required(item, "role");
  const Json* content = item.value("content");
  if (!content) throw bad_field(item.path("content"), fmt::format("{} is required", item.path("content")));
  std::string text = content_text(*content, item.path("content"));
  const bool assistant = given == "assistant";
  keep(item, "message", {{"role", given}, {"content", one_part(assistant ? "output_text" : "input_text", text)}});
  const std::string role = template_role(given, model_);
  if (!assistant) return say(role, std::move(text));
  if (turn_.has_text) end_turn();
  turn_.open = turn_.has_text = true;
  turn_.text = std::move(text);
}

void ResponseInput::add_reasoning(const Fields& item) {
  std::string text = text_of(item, "content");
  const bool summary = text.empty();
  if (summary) text = text_of(item, "summary");
  JsonObject kept{{"summary", summary && !text.empty() ? one_part("summary_text", text) : JsonArray{}}};
  if (!summary) kept["content"] = one_part("reasoning_text", text);
  keep(item, "reasoning", std::move(kept));
  if (text.empty()) return;  // encrypted, for somebody else
  if (turn_.has_text || !turn_.calls.empty()) end_turn();
  turn_.open = true;
  turn_.thoughts += (turn_.thoughts.empty() ? "" : "\n") + text;
}

void ResponseInput::add_call(const Fields& item, bool custom) {
  const std::string id = required(item, "call_id"), name = required(item, "name");
  const char* const field = custom ? "input" : "arguments";
  const std::string given = required(item, field);
  JsonObject kept{{"call_id", id}, {"name", name}};
  kept[field] = given;
  keep(item, custom ? "custom_tool_call" : "function_call", std::move(kept));
  const Json arguments = custom ? Json(JsonObject{{kCustomKey, given}}) : Json(given);
  turn_.open = true;
  turn_.calls.push_back(
      JsonObject{{"id", id}, {"type", "function"}, {"function", JsonObject{{"name", name}, {"arguments", arguments}}}});
  pending_paths_.push_back(item.path(field));
  names_[id] = name;
}

void ResponseInput::add_output(const Fields& item) {
  const std::string id = required(item, "call_id");
  const Json* output = item.value("output");
  if (!output) throw bad_field(item.path("output"), fmt::format("{} is required", item.path("output")));
  std::string text = content_text(*output, item.path("output"));
  keep(item, *item.string("type"), {{"call_id", id}, {"output", text}});
  end_turn();
  JsonObject message{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}};
  if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
  messages_.push_back(std::move(message));
}

void ResponseInput::say(const std::string& role, std::string text) {
  end_turn();
  // Few templates have a place for more than one message of the system.
  const bool more = role == "system" && messages_.size() == 1 && messages_[0].get_object().at("role") == "system";
  if (more) {
    messages_[0].get_object().at("content").get_string().append("\n\n").append(text);
    return;
  }
  if (role == "user" && (messages_.empty() || !is_user(messages_[messages_.size() - 1]))) {
    turns_.push_back(messages_.size());
  }
  messages_.push_back(JsonObject{{"role", role}, {"content", std::move(text)}});
}

// As it is told by input_items, and read again when the conversation goes on.
void ResponseInput::keep(const Fields& item, const std::string& type, JsonObject object) {
  const char* const prefix = type == "message" ? "msg_" : type == "reasoning" ? "rs_" : "item_";
  object["id"] = item.string("id").value_or(unique_id(prefix));
  object["type"] = type;
  object["status"] = "completed";
  items_.push_back(std::move(object));
}

void ResponseInput::end_turn() {
  if (!turn_.open) return;
  JsonObject message{{"role", "assistant"}, {"content", turn_.text}};
  if (!turn_.thoughts.empty()) message["reasoning_content"] = turn_.thoughts;
  if (!turn_.calls.empty()) message["tool_calls"] = std::move(turn_.calls);
  for (size_t c = 0; c < pending_paths_.size(); ++c) calls_[{messages_.size(), c}] = std::move(pending_paths_[c]);
  pending_paths_.clear();
  messages_.push_back(std::move(message));
  turn_ = {};
}

void ResponseInput::finish() {
  end_turn();
  prepare_calls(messages_, [this](size_t message, size_t call) { return calls_.at({message, call}); });
}

bool ResponseInput::stays(size_t message) const {
  return message < turns_[0] && messages_[message].get_object().at("role") != "assistant";
}

JsonArray ResponseInput::without_turns(size_t turns) const {
  if (turns == 0) return messages_;
  JsonArray left;
  const size_t first = turns_.at(turns);
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (i >= first || stays(i)) left.push_back(messages_[i]);
  }
  return left;
}

std::vector<size_t> ResponseInput::sizes() const {
  constexpr size_t kAround = 16;  // such as "<|im_start|>user\n" and what ends it
  std::vector<size_t> found(turns_.size(), 0);
  size_t kept = 0, after = 0;
  for (size_t turn = turns_.size(), i = messages_.size(); i-- > 0;) {
    const size_t bytes = text_bytes(messages_[i]) + kAround;
    (stays(i) ? kept : after) += bytes;
    if (turn > 0 && turns_[turn - 1] == i) found[--turn] = after;
  }
  for (size_t& size : found) size += kept;
  return found;
}

}  // namespace ingot
