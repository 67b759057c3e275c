// The items of /v1/responses as the conversation that templates take.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "serve/api/generation.h"

namespace ingot {

// Items in their order. Reasoning, text and calls of one turn of the assistant become one message, and what is said to
// the system at the beginning another.
class ResponseInput {
 public:
  // `model` must outlive it.
  explicit ResponseInput(const ServedModel& model) : model_(model) {}

  void add_instructions(const std::string& text);
  // A text of the user, or items that passed the table. `path` is the field's name.
  void add(const Json& input, const std::string& path);
  // Those of a stored answer; not repeated by items() of the request itself.
  void add_kept(const JsonArray& items);
  // No more come. Throws ApiError 400 where arguments of calls go beyond what a body may hold.
  void finish();

  JsonArray& messages() { return messages_; }
  // All items that were added, in the shape that input_items has.
  JsonArray take_items() { return std::move(items_); }

  // The messages without the first `turns` turns of the user, the system's kept. REQUIRES: turns < n_turns().
  JsonArray without_turns(size_t turns) const;
  // For each number of turns that may be left out, how much the messages without them hold: bytes of text, and some for
  // each message, which templates put words of their own around.
  std::vector<size_t> sizes() const;
  size_t n_turns() const { return turns_.size(); }
  size_t n_items() const { return items_.size(); }

 private:
  void add_item(const Fields& item);
  void add_message(const Fields& item);
  void add_reasoning(const Fields& item);
  void add_call(const Fields& item, bool custom);
  void add_output(const Fields& item);
  void say(const std::string& role, std::string text);
  void keep(const Fields& item, const std::string& type, JsonObject object);
  void end_turn();  // of the assistant
  // Said before the first turn, and not by the assistant. REQUIRES: n_turns() > 0.
  bool stays(size_t message) const;

  const ServedModel& model_;
  JsonArray messages_, items_;
  std::vector<size_t> turns_;                               // messages of the user that begin a turn
  std::map<std::string, std::string> names_;                // of tools, by the id of the call
  std::map<std::pair<size_t, size_t>, std::string> calls_;  // the field of each message's call
  std::vector<std::string> pending_paths_;                  // of the calls below
  struct {
    std::string text, thoughts;
    JsonArray calls;
    bool open = false, has_text = false;
  } turn_;  // of the assistant, while it goes on
};

}  // namespace ingot
