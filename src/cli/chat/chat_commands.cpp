// The commands of a chat: /help, /system and so on.
#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/chat/chat.h"
#include "cli/strings.h"

namespace ingot {

namespace {

constexpr const char* kHelp =
    "/help           this list\n"
    "/system [TEXT]  show or set the system message; /system - removes it\n"
    "/reset          forget the conversation, keep the system message\n"
    "/save FILE      write the conversation to a file\n"
    "/load FILE      go on with the conversation of a file\n"
    "/stats          speed of the last answer, context in use, memory\n"
    "/exit           leave; Ctrl-D does the same\n"
    "\n"
    "A line that ends with \\ goes on in the next one; \"\"\" begins and ends a message of several lines.\n"
    "Ctrl-C stops an answer. A message that begins with / is written with //.\n";

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// ~/notes.json as a shell would read it.
std::string expand_home(const std::string& path) {
  return path.starts_with("~/") ? environment("HOME") + path.substr(1) : path;
}

}  // namespace

void Chat::command_help() const { fmt::print(stderr, "{}", kHelp); }

void Chat::command_system(const std::string& text) {
  if (text.empty()) {
    const std::string& system = conversation_.system();
    fmt::print(stderr, "{}\n", system.empty() ? "no system message is set" : "system: " + system);
    return;
  }
  conversation_.set_system(text == "-" ? "" : text);
  fmt::print(stderr, "{}\n", text == "-" ? "system message removed" : "system message set");
}

void Chat::command_save(const std::string& path) {
  if (path.empty()) throw Error("/save needs a file: /save notes.json");
  conversation_.save(expand_home(path));
  fmt::print(stderr, "saved {} messages to {}\n", conversation_.messages().size(), path);
}

void Chat::command_load(const std::string& path) {
  if (path.empty()) throw Error("/load needs a file: /load notes.json");
  conversation_.load(expand_home(path));
  fmt::print(stderr, "loaded {} messages from {}\n", conversation_.messages().size(), path);
}

void Chat::command_stats() const {
  if (!last_) {
    fmt::print(stderr, "no answer yet\n");
    return;
  }
  fmt::print(stderr, "{}\ncontext: {} of {} tokens\n", stats_line(session_, *last_),
             static_cast<size_t>(last_->prompt_tokens) + last_->tokens.size(), session_.context());
}

bool Chat::command(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : trim(line.substr(space));
  if (name == "/exit" || name == "/quit") return false;
  if (name == "/help" || name == "/?") {
    command_help();
  } else if (name == "/system") {
    command_system(rest);
  } else if (name == "/reset") {
    conversation_.reset();
    fmt::print(stderr, "the conversation is forgotten\n");
  } else if (name == "/save") {
    command_save(rest);
  } else if (name == "/load") {
    command_load(rest);
  } else if (name == "/stats") {
    command_stats();
  } else {
    throw Error("no command {}; /help lists them, and a message that begins with / is written with //",
                utf8_printable(name));
  }
  return true;
}

}  // namespace ingot
