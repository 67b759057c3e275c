// Chat templates: messages → the text that a model was trained on. The language is that of jinja2 3.1 as the
// transformers library drives it (sandboxed, trim_blocks, lstrip_blocks, break and continue, the generation tag,
// raise_exception, strftime_now, tojson without HTML escapes).
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

namespace jinja {
struct Program;
}

struct RenderOptions {
  std::optional<std::time_t> now;  // for strftime_now; the system's clock when absent
  int64_t* steps = nullptr;        // set to the work that was done, also where the render throws
  // Called each few milliseconds of work; what it throws ends the render.
  const std::function<void()>* pause = nullptr;
};

// Immutable once parsed: any number of threads may render at the same time.
class ChatTemplate {
 public:
  // Throws Error with the line of what is wrong.
  static ChatTemplate parse(std::string source);

  // `input` is an object whose members are the template's variables: messages, tools, add_generation_prompt,
  // bos_token, eos_token and any other. Throws Error: the template's own raise_exception, an operation that Python
  // would refuse, or more work, memory, output or recursion than the size of the input justifies.
  std::string render(const Json& input, const RenderOptions& options = {}) const;

  // The same text in runs by who wrote it: the template, or the input. A variable of the input itself (not of its
  // messages) whose name ends in "_token" counts as the template's, and so does a message's role when it is a known
  // word, since templates build control tokens from both. Callers must not let a request set *_token.
  struct Piece {
    std::string text;
    bool from_template;
  };
  std::vector<Piece> render_pieces(const Json& input, const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;

  std::string source_;
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace ingot
