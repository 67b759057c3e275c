// Lines from a person at a terminal, with editing and history, or from a pipe.
#pragma once

#include <memory>
#include <string>

namespace ingot {

class LineEditor {
 public:
  // Edits where standard input and output are both terminals. The history is kept in `history_file`, whose directory
  // is made when the first line is stored; empty: it is not kept.
  explicit LineEditor(std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool interactive() const { return terminal_ != nullptr; }

  enum class Result {
    kLine,
    kStopped,       // Ctrl-C while the line had text: it is forgotten
    kStoppedEmpty,  // Ctrl-C at an empty line
    kEnd,           // Ctrl-D, or the end of the input
  };
  // One line without its end. The prompt is shown at a terminal only.
  Result read(const std::string& prompt, std::string& line);

  // Stores a line in the history, which a failure to write it never disturbs.
  void remember(const std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: plain input
};

// Puts a message of several lines together: a line that ends with a backslash goes on in the next one, and between
// two """ everything counts as written.
class MessageBuilder {
 public:
  // True when the message is complete.
  bool add(std::string_view line);
  // Whether lines are missing.
  bool open() const { return open_; }
  // Whether the message was written between """: then it is never a command.
  bool quoted() const { return quoted_; }
  // The message so far; the builder is as new.
  std::string take();

 private:
  bool add_quoted(std::string_view line);

  std::string text_;
  bool open_ = false;
  bool quoted_ = false;
};

}  // namespace ingot
