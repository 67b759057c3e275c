#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <numeric>
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

// A name and the same name with the tag that stands for none.
std::string_view without_latest(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.size() > kLatest.size() && name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

}  // namespace

bool ServedModel::answers_to(std::string_view asked) const {
  if (asked.empty()) return true;
  const auto is_it = [asked](const std::string& one) { return without_latest(one) == without_latest(asked); };
  return is_it(name) || std::ranges::any_of(aliases, is_it) || std::ranges::any_of(unlisted, is_it);
}

std::vector<std::string> ServedModel::listed_names() const {
  std::vector<std::string> names = {name};
  for (const std::string& alias : aliases) {
    if (std::ranges::find(names, alias) == names.end()) names.push_back(alias);
  }
  return names;
}

std::string ServedModel::fingerprint() const {
  std::string facts = name + "\n" + architecture;
  for (const auto& [of, bytes] : formats) facts += fmt::format("\n{} {}", of, bytes);
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : facts) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("fp_{:010x}", hash >> 24);
}

ServedModel served_model(Session& session, ModelNames names, std::string& template_error) {
  ServedModel served;
  served.name = names.name.empty() ? name_of(session.path()) : std::move(names.name);
  served.aliases = std::move(names.aliases);
  served.unlisted = std::move(names.unlisted);
  served.created = std::time(nullptr);
  served.engine = &session.engines();
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
  served.container = container_name(*session.model().files);
  for (const StoredTensor& tensor : stored_tensors(*session.model().files)) {
    served.parameters += std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  }
  served.formats = bytes_of_formats(*session.model().files);
  served.format = format_text(served.formats);
  return served;
}

}  // namespace ingot
