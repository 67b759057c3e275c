// The parts of `ingot chat`: the loop over messages (chat.cpp) and the commands that begin with a slash
// (chat_commands.cpp).
#pragma once

#include <optional>
#include <string>

#include "cli/answer.h"
#include "cli/chat/conversation.h"
#include "cli/chat/line_editor.h"
#include "cli/sampling_options.h"
#include "cli/session.h"

namespace ingot {

struct ChatOptions {
  SessionOptions session;
  SamplingOptions sampling;
  std::string system;
  bool stats = false;
};

class Chat {
 public:
  Chat(Session& session, const ChatOptions& options);
  // Until the person leaves or the input ends; returns the exit status. Throws Interrupted where Ctrl-C stopped an
  // answer and nobody is at a terminal.
  int run();

 private:
  enum class Input { kMessage, kNothing, kEnd };
  Input read_message(std::string& text, bool& quoted);
  // One message and its answer. Throws Error; the message is then forgotten.
  void turn(const std::string& text);
  std::vector<Token> fit_prompt();
  void report(const Answer& answer);

  // False: leave. Commands write to stderr, so that stdout holds answers only.
  bool command(const std::string& line);
  void command_help() const;
  void command_system(const std::string& text);
  void command_save(const std::string& path);
  void command_load(const std::string& path);
  void command_stats() const;

  Session& session_;
  const ChatOptions& options_;
  LineEditor editor_;
  Conversation conversation_;
  std::optional<Answer> last_;
  bool asked_to_leave_ = false;  // by one Ctrl-C at an empty line
};

}  // namespace ingot
