#include "cli/chat/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

namespace ingot {

namespace {

constexpr int kHistoryLines = 1000;
constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string history_file;
  std::string prompt;
  bool stopped = false;
  bool stopped_empty = false;

  static Terminal& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Terminal*>(self);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  // Bound to Ctrl-C.
  static unsigned char on_stop(EditLine* editor, int) {
    const LineInfo* line = el_line(editor);
    Terminal& self = of(editor);
    self.stopped = true;
    self.stopped_empty = line->lastchar == line->buffer;
    return CC_EOF;
  }
  // Bound to Ctrl-Z. The editor's handler gives the terminal back before the program sleeps.
  static unsigned char on_suspend(EditLine*, int) {
    std::raise(SIGTSTP);
    return CC_REFRESH;
  }

  explicit Terminal(std::string file) : history_file(std::move(file)) {
    // The editor counts characters as the locale says; without one it would cut UTF-8 apart.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor = el_init("ingot", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, show_prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 1);  // a signal that ends the program leaves the terminal as it was
    el_set(editor, EL_HIST, ::history, history);
    // Ctrl-C is a key here, not a signal: a signal would only make the editor try its read again.
    el_set(editor, EL_ADDFN, "ingot-stop", "Forget the line", on_stop);
    el_set(editor, EL_ADDFN, "ingot-suspend", "Suspend the program", on_suspend);
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor, EL_BIND, "^C", "ingot-stop", nullptr);
    el_set(editor, EL_BIND, "^Z", "ingot-suspend", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(editor, nullptr);
  }
  ~Terminal() {
    history_end(history);
    el_end(editor);
  }
};

LineEditor::LineEditor(std::string history_file) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
    terminal_ = std::make_unique<Terminal>(std::move(history_file));
  }
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  if (!terminal_) {
    if (!std::getline(std::cin, line)) return Result::kEnd;
    if (line.ends_with('\r')) line.pop_back();
    return Result::kLine;
  }
  terminal_->prompt = prompt;
  terminal_->stopped = false;
  int count = 0;
  const char* text = el_gets(terminal_->editor, &count);
  if (text == nullptr || count <= 0) {
    std::fputs(terminal_->stopped ? "^C\n" : "\n", stdout);
    if (!terminal_->stopped) return Result::kEnd;
    return terminal_->stopped_empty ? Result::kStoppedEmpty : Result::kStopped;
  }
  line.assign(text, static_cast<size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  return Result::kLine;
}

void LineEditor::remember(const std::string& line) {
  if (!terminal_ || line.find_first_not_of(" \t") == std::string::npos) return;
  HistEvent event;
  history(terminal_->history, &event, H_ENTER, line.c_str());
  if (terminal_->history_file.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(terminal_->history_file).parent_path(), ignored);
  history(terminal_->history, &event, H_SAVE, terminal_->history_file.c_str());
}

bool MessageBuilder::add(std::string_view line) {
  if (!open_ && line.starts_with(kQuotes)) {
    quoted_ = true;
    open_ = true;
    line.remove_prefix(kQuotes.size());
    if (line.empty()) return false;
    return add_quoted(line);
  }
  if (quoted_ && open_) return add_quoted(line);
  open_ = line.ends_with('\\');
  if (open_) line.remove_suffix(1);
  text_ += line;
  if (open_) text_ += '\n';
  return !open_;
}

bool MessageBuilder::add_quoted(std::string_view line) {
  open_ = !line.ends_with(kQuotes);
  if (!open_) line.remove_suffix(kQuotes.size());
  text_ += line;
  if (open_) text_ += '\n';
  // A closing """ on a line of its own does not add a line break to the message.
  if (!open_ && line.empty() && text_.ends_with('\n')) text_.pop_back();
  return !open_;
}

std::string MessageBuilder::take() {
  std::string text = std::move(text_);
  if (open_ && text.ends_with('\n')) text.pop_back();
  *this = MessageBuilder();
  return text;
}

}  // namespace ingot
