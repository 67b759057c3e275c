#include "text/chat_template_input.h"

#include <algorithm>
#include <string>

#include "text/jinja/value/unicode.h"

namespace ingot {
namespace {

constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};
// Appended to the text to be continued; where it comes out is where the prompt ends.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kBareTag = "CONTINUE_FINAL_MESSAGE_TAG";

std::string_view view(const boost::json::string& s) { return {s.data(), s.size()}; }

void alias_reasoning(JsonObject& message) {
  const Json* reasoning = nullptr;
  for (std::string_view field : kReasoningFields) {
    const Json* value = find(message, field);
    if (reasoning == nullptr && value != nullptr && !value->is_null()) reasoning = value;
  }
  if (reasoning == nullptr) return;
  JsonObject out;
  out["thinking"] = *reasoning;
  for (const auto& member : message) out[member.key()] = member.value();
  out["reasoning_content"] = *reasoning;
  message = std::move(out);
}

// Appends the tag to the text that is to be continued; returns that text without it.
std::string tag_text(Json& value) {
  if (value.is_string()) {
    std::string text(view(value.get_string()));
    value = text + std::string(kTag);
    return text;
  }
  if (value.is_array()) {
    JsonArray& parts = value.get_array();
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->is_object() && part->get_object().contains("text") && part->get_object()["text"].is_string()) {
        return tag_text(part->get_object()["text"]);
      }
    }
  }
  throw Error("[template] continue_final_message: the last message has no text to continue");
}

// The field to continue, or nothing.
std::string take_continue(JsonObject& input) {
  const Json* value = find(input, "continue_final_message");
  if (value == nullptr) return {};
  std::string field;
  if (value->is_string()) {
    field = view(value->get_string());
  } else if (!value->is_null() && as_bool(*value, "continue_final_message")) {
    field = "content";
  }
  JsonObject rest;  // erase() would change the order of the members
  for (const auto& member : input) {
    if (member.key() != "continue_final_message") rest[member.key()] = member.value();
  }
  input = std::move(rest);
  return field;
}

std::string tag_last_message(JsonObject& input, const std::string& field, const std::string& source) {
  JsonArray& messages = input["messages"].as_array();
  if (messages.empty()) throw Error("[template] continue_final_message: there is no message");
  JsonObject& last = messages.back().get_object();
  if (const Json* value = find(last, field); value == nullptr || value->is_null()) {
    throw Error("[template] continue_final_message: the last message has no \"{}\" to continue", field);
  }
  std::vector<std::string> fields = {field};
  bool reasoning =
      std::find(std::begin(kReasoningFields), std::end(kReasoningFields), field) != std::end(kReasoningFields);
  if (reasoning) {  // one text under several names: whichever the template reads
    fields.clear();
    Json text = last[field];
    for (std::string_view name : kReasoningFields) {
      const Json* copy = find(last, name);
      if (copy != nullptr && *copy == text) fields.emplace_back(name);
    }
  }
  bool read = std::any_of(fields.begin(), fields.end(),
                          [&](const std::string& name) { return source.find(name) != std::string::npos; });
  if (!read) throw Error("[template] continue_final_message: the template does not read \"{}\"", field);
  std::string text;
  for (const std::string& name : fields) text = tag_text(last[name]);
  return text;
}

std::string_view strip(std::string_view s) {
  size_t begin = jinja::skip_space(s, 0), end = jinja::skip_space_back(s, s.size());
  return begin < end ? s.substr(begin, end - begin) : std::string_view();
}

// Where the prompt ends: at the tag, and before white space when the template has trimmed the message.
size_t prompt_end(const std::string& text, const std::string& message) {
  size_t tag = text.rfind(kBareTag);
  if (tag == std::string::npos || text.find(strip(message)) == std::string::npos) {
    throw Error("[template] continue_final_message: the last message does not appear in the rendered chat");
  }
  if (text.compare(tag, kTag.size(), kTag) == 0) return tag;
  return jinja::skip_space_back(std::string_view(text).substr(0, tag), tag);
}

}  // namespace

JsonObject chat_variables(JsonObject input) {
  if (!input.contains("messages")) input["messages"] = JsonArray();
  Json& messages = input["messages"];
  as_array(messages, "messages");
  for (Json& message : messages.get_array()) {
    as_object(message, "a message");
    alias_reasoning(message.get_object());
  }
  for (const char* name : {"tools", "documents"}) {
    if (!input.contains(name)) input[name] = nullptr;
  }
  if (!input.contains("add_generation_prompt")) input["add_generation_prompt"] = false;
  return input;
}

std::vector<ChatTemplate::Piece> render_chat(const ChatTemplate& chat_template, JsonObject input,
                                             const RenderOptions& options) {
  std::string field = take_continue(input);
  input = chat_variables(std::move(input));
  if (field.empty()) return chat_template.render_pieces(std::move(input), options);
  if (get_bool(input, "add_generation_prompt", false)) {
    throw Error("[template] continue_final_message and add_generation_prompt exclude each other");
  }
  std::string message = tag_last_message(input, field, chat_template.source());
  std::vector<ChatTemplate::Piece> pieces = chat_template.render_pieces(std::move(input), options);
  std::string text;
  for (const ChatTemplate::Piece& piece : pieces) text += piece.text;
  size_t left = prompt_end(text, message);
  std::vector<ChatTemplate::Piece> out;
  for (ChatTemplate::Piece& piece : pieces) {
    if (left == 0) break;
    piece.text.resize(std::min(left, piece.text.size()));
    left -= piece.text.size();
    out.push_back(std::move(piece));
  }
  return out;
}

}  // namespace ingot
