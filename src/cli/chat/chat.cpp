// ingot chat [MODEL]: a conversation in the terminal.
#include "cli/chat/chat.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/command.h"
#include "cli/hub/cache.h"
#include "cli/interrupt.h"
#include "cli/strings.h"

namespace ingot {

namespace {

// Room that is kept for an answer before old turns are hidden: a few paragraphs, at most a quarter of the context.
constexpr int kAnswerTokens = 512;

volatile std::sig_atomic_t g_stop = 0;

// While one lives, Ctrl-C stops an answer and never the program, however often it is pressed while a step takes long.
class StopKey {
 public:
  StopKey() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_stop = 1; };
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &old_);
  }
  ~StopKey() { sigaction(SIGINT, &old_, nullptr); }
  StopKey(const StopKey&) = delete;
  StopKey& operator=(const StopKey&) = delete;

 private:
  struct sigaction old_ {};
};

std::string history_file() {
  try {
    return cache_dir() + "/chat_history";
  } catch (const Error&) {
    return "";  // a chat without a home directory has no history
  }
}

}  // namespace

Chat::Chat(Session& session, const ChatOptions& options)
    : session_(session), options_(options), editor_(history_file()) {
  conversation_.set_system(options.system);
}

Chat::Input Chat::read_message(std::string& text, bool& quoted) {
  using Result = LineEditor::Result;
  MessageBuilder message;
  std::string line;
  for (;;) {
    const Result result = editor_.read(message.open() ? "… " : "> ", line);
    if (result == Result::kStoppedEmpty && !message.open()) {
      if (asked_to_leave_) return Input::kEnd;
      asked_to_leave_ = true;
      fmt::print(stderr, "Ctrl-C again or Ctrl-D to leave\n");
      return Input::kNothing;
    }
    if (result == Result::kStopped || result == Result::kStoppedEmpty) return Input::kNothing;
    if (result == Result::kEnd && !message.open()) return Input::kEnd;
    asked_to_leave_ = false;
    if (result == Result::kLine) editor_.remember(line);
    if (result == Result::kEnd || message.add(line)) break;
  }
  quoted = message.quoted();
  text = message.take();
  return text.find_first_not_of(" \t\n") == std::string::npos ? Input::kNothing : Input::kMessage;
}

// The prompt of the conversation, after hiding as many of the oldest turns as do not fit.
std::vector<Token> Chat::fit_prompt() {
  const int wanted = options_.sampling.max_tokens > 0 ? options_.sampling.max_tokens : kAnswerTokens;
  const auto room = static_cast<size_t>(session_.context() - std::clamp(session_.context() / 4, 1, wanted));
  const size_t hidden = conversation_.hidden();
  std::vector<Token> prompt = session_.encode_chat(conversation_.visible());
  while (prompt.size() > room && conversation_.hide_oldest_turn()) {
    prompt = session_.encode_chat(conversation_.visible());
  }
  if (conversation_.hidden() > hidden) {
    fmt::print(stderr, "the context of {} tokens is full: the oldest {} messages are not shown to the model\n",
               session_.context(), conversation_.hidden());
  }
  return prompt;
}

void Chat::turn(const std::string& text) {
  conversation_.add_user(text);
  g_stop = 0;
  const auto stop = [&] { return editor_.interactive() ? g_stop != 0 : interrupted(); };
  std::optional<InterruptGuard> guard;
  if (!editor_.interactive()) guard.emplace();
  try {
    const Question question{.prompt = fit_prompt(),
                            .sampling = sampling_params(options_.sampling, session_.sampling()),
                            .max_tokens = options_.sampling.max_tokens,
                            .stop = options_.sampling.stop};
    last_ = answer(session_, question, write_text, stop);
  } catch (const Error&) {
    conversation_.drop_last();
    throw;
  }
  if (last_->text.empty() && last_->end == AnswerEnd::kInterrupted) {
    conversation_.drop_last();
  } else {
    conversation_.add_answer(last_->text);
  }
  report(*last_);
  if (last_->end == AnswerEnd::kInterrupted && !editor_.interactive()) throw Interrupted{};
}

// What follows the text of an answer.
void Chat::report(const Answer& answer) {
  if (!answer.text.ends_with('\n')) write_text("\n");
  if (answer.end == AnswerEnd::kInterrupted) fmt::print(stderr, "(stopped)\n");
  if (answer.end == AnswerEnd::kContextFull) {
    fmt::print(stderr, "the answer is cut: the context of {} tokens is full\n", session_.context());
  }
  if (options_.stats) fmt::print(stderr, "{}\n", stats_line(session_, answer));
  if (editor_.interactive()) write_text("\n");
}

int Chat::run() {
  std::optional<StopKey> stop_key;
  if (editor_.interactive()) {
    stop_key.emplace();
    fmt::print(stderr, "{} · context {} · /help for commands, Ctrl-D to leave\n\n", base_name(session_.path()),
               session_.context());
  }
  int status = 0;
  std::string text;
  bool quoted = false;
  for (;;) {
    const Input input = read_message(text, quoted);
    if (input == Input::kEnd) return status;
    if (input == Input::kNothing) continue;
    try {
      const bool is_command = !quoted && text.starts_with('/');
      if (is_command && !text.starts_with("//")) {
        if (!command(text)) return status;
      } else {
        turn(is_command ? text.substr(1) : text);
      }
    } catch (const Error& e) {
      fmt::print(stderr, "ingot: {}\n", e.what());
      if (!editor_.interactive()) status = 1;
    }
  }
}

namespace {

int run(const ChatOptions& options) {
  Session session = open_session(options.session);
  if (!session.has_template()) {
    throw Error("[chat] {} has no chat template: it goes on with text, see ingot run --raw", session.path());
  }
  return Chat(session, options).run();
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  app.add_option("MODEL", options->session.model, "The model (default: the default model)")->type_name("");
  app.add_option("--system", options->system, "The system message")->type_name("TEXT");
  add_sampling_options(app, options->sampling);
  app.add_flag("--stats", options->stats, "Speed and memory after each answer, on stderr");
  add_session_options(app, options->session);
  return [options] { return run(*options); };
}

const std::string kExample =
    fmt::format("ingot chat --system \"Answer in one sentence.\"\n\n{}", more_sampling_options());

}  // namespace

const Command kChatCommand = {"chat", "A conversation in the terminal", kExample.c_str(), setup};

}  // namespace ingot
