#include "cli/chat/conversation.h"

#include "base/error.h"
#include "base/utf8.h"
#include "files/atomic_file.h"

namespace ingot {

namespace {

JsonObject message_json(const std::string& role, const std::string& content) {
  return JsonObject{{"role", role}, {"content", content}};
}

}  // namespace

void Conversation::reset() {
  messages_.clear();
  hidden_ = 0;
}

bool Conversation::hide_oldest_turn() {
  size_t next = hidden_ + 1;
  while (next < messages_.size() && messages_[next].role != "user") ++next;
  if (next >= messages_.size()) return false;
  hidden_ = next;
  return true;
}

JsonArray Conversation::visible() const {
  JsonArray list;
  if (!system_.empty()) list.push_back(message_json("system", system_));
  for (size_t i = hidden_; i < messages_.size(); ++i) {
    list.push_back(message_json(messages_[i].role, messages_[i].content));
  }
  return list;
}

void Conversation::save(const std::string& path) const {
  JsonArray list;
  if (!system_.empty()) list.push_back(message_json("system", system_));
  for (const Message& message : messages_) list.push_back(message_json(message.role, message.content));
  AtomicFile file(path);
  file.write(to_json_pretty(JsonObject{{"messages", std::move(list)}}) + "\n");
  file.commit();
}

void Conversation::load(const std::string& path) {
  const Json json = read_json_file(path);
  const JsonArray* list = json.if_array();
  if (list == nullptr) list = find_array(as_object(json, path), "messages");
  if (list == nullptr) throw Error("[chat] '{}' has no messages", path);
  Conversation loaded;
  for (const Json& item : *list) {
    const JsonObject& message = as_object(item, path + ": a message");
    const std::string role = get_string(message, "role");
    std::string content = get_string(message, "content");
    if (role == "system" && loaded.empty() && loaded.system_.empty()) {
      loaded.system_ = std::move(content);
    } else if (role == "user" || role == "assistant") {
      loaded.messages_.push_back({role, std::move(content)});
    } else {
      throw Error("[chat] '{}': a message of '{}' cannot stand there", path, utf8_printable(role));
    }
  }
  *this = std::move(loaded);
}

}  // namespace ingot
