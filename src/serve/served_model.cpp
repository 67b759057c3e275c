#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "weights/stored_tensors.h"

namespace ingot {

namespace {

// None where it cannot be parsed: completions work without it. `why` is told.
std::shared_ptr<const ChatTemplate> parse_template(const std::string& text, std::string& why) {
  if (text.empty()) return nullptr;
  try {
    return std::make_shared<const ChatTemplate>(ChatTemplate::parse(text));
  } catch (const Error& e) {
    why = e.what();
    return nullptr;
  }
}

std::string name_of(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

}  // namespace

bool ServedModel::answers_to(std::string_view asked) const {
  return asked.empty() || asked == name || std::ranges::find(aliases, asked) != aliases.end();
}

std::string ServedModel::fingerprint() const {
  std::string facts = name + "\n" + architecture;
  for (const auto& [of, bytes] : formats) facts += fmt::format("\n{} {}", of, bytes);
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : facts) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("fp_{:010x}", hash >> 24);
}

ServedModel served_model(Session& session, const std::string& name, std::vector<std::string> aliases,
                         std::string& template_error) {
  ServedModel served;
  served.name = name.empty() ? name_of(session.path()) : name;
  served.aliases = std::move(aliases);
  served.created = std::time(nullptr);
  served.engine = &session.engine();
  served.tokenizer = &session.tokenizer();
  served.source = session.template_source();
  served.chat = parse_template(served.source.text, template_error);
  served.tool_chat =
      served.source.tool_use.empty() ? served.chat : parse_template(served.source.tool_use, template_error);
  if (served.tool_chat) served.taught = taught_form(*served.tool_chat, served.source);
  if (served.chat) served.reasoning = taught_reasoning(*served.chat, served.source);
  served.sampling = session.sampling();
  served.end_tokens = session.end_tokens();
  served.constraints =
      std::make_shared<Constraints>(session.tokenizer(), session.end_tokens(), session.model().hp.vocab);
  served.context = session.context();
  served.vocab = session.model().hp.vocab;
  served.hidden = session.model().hp.hidden;
  served.architecture = session.model().arch->name;
  served.formats = bytes_of_formats(*session.model().files);
  served.format = format_text(served.formats);
  return served;
}

}  // namespace ingot
