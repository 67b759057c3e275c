// The messages of a chat: what was said, and which part of it the model still sees.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

struct Message {
  std::string role;  // "user" or "assistant"
  std::string content;
};

class Conversation {
 public:
  const std::string& system() const { return system_; }
  void set_system(std::string text) { system_ = std::move(text); }

  void add_user(std::string text) { messages_.push_back({"user", std::move(text)}); }
  void add_answer(std::string text) { messages_.push_back({"assistant", std::move(text)}); }
  // Takes back the last message. REQUIRES: not empty.
  void drop_last() { messages_.pop_back(); }
  // Forgets all but the system message.
  void reset();

  // The oldest turn that the model sees (a user's message and what answers it) is not shown to it any more. False
  // where only one is left.
  bool hide_oldest_turn();

  bool empty() const { return messages_.empty(); }
  const std::vector<Message>& messages() const { return messages_; }
  size_t hidden() const { return hidden_; }  // messages that the model does not see

  // {"role", "content"} of the messages that the model sees, the system message first.
  JsonArray visible() const;

  // A file of {"messages": […]}, the system message first, hidden ones included. load() also takes the list alone; it
  // throws Error and changes nothing where the file is wrong.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  std::string system_;
  std::vector<Message> messages_;
  size_t hidden_ = 0;
};

}  // namespace ingot
