#include "text/prompt.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "files/directory.h"
#include "files/gguf/gguf.h"

namespace ingot {

namespace {

// A chat template is a few kilobytes; the largest published ones have about 30.
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

bool starts_as_gguf(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  return bytes.size() >= 4 && std::string_view(reinterpret_cast<const char*>(bytes.data()), 4) == "GGUF";
}

// Every member named *_token whose value is a name, or an object with its content.
void read_token_names(const JsonObject& object, JsonObject& tokens) {
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    if (!key.ends_with("_token") || tokens.contains(member.key())) continue;
    const Json& value = member.value();
    if (value.is_string()) tokens[member.key()] = value;
    if (!value.is_object()) continue;
    const Json* content = find(value.get_object(), "content");
    if (content != nullptr && content->is_string()) tokens[member.key()] = *content;
  }
}

// The member chat_template: a string, or a list of templates with names.
void read_template_member(const JsonObject& object, const std::string& path, TemplateSource& source) {
  const Json* value = find(object, "chat_template");
  if (value == nullptr || value->is_null() || !source.text.empty()) return;
  if (value->is_string()) {
    source.text = value->get_string();
    return;
  }
  for (const Json& item : as_array(*value, path + ": chat_template")) {
    const JsonObject& entry = as_object(item, path + ": chat_template");
    const std::string name = get_string(entry, "name");
    if (name == "default") source.text = get_string(entry, "template");
    if (name == "tool_use") source.tool_use = get_string(entry, "template");
  }
}

void read_config(const std::string& path, TemplateSource& source) {
  const Json json = read_json_file(path);
  const JsonObject& object = as_object(json, path);
  read_template_member(object, path, source);
  read_token_names(object, source.tokens);
}

}  // namespace

std::optional<std::string> gguf_in(const std::string& directory) {
  if (exists(directory + "/config.json")) return std::nullopt;
  for (const std::string& file : list_files(directory)) {
    if (file.ends_with(".gguf")) return file;
  }
  return std::nullopt;
}

TemplateSource template_of(const Gguf& gguf) {
  TemplateSource source;
  source.text = gguf.get_string("tokenizer.chat_template", "");
  source.tool_use = gguf.get_string("tokenizer.chat_template.tool_use", "");
  static constexpr std::array<std::pair<const char*, const char*>, 6> kNames = {{{"bos_token", "bos"},
                                                                                 {"eos_token", "eos"},
                                                                                 {"unk_token", "unknown"},
                                                                                 {"pad_token", "padding"},
                                                                                 {"cls_token", "cls"},
                                                                                 {"mask_token", "mask"}}};
  if (!gguf.has("tokenizer.ggml.tokens")) return source;
  const std::vector<std::string_view>& names = gguf.get_string_array("tokenizer.ggml.tokens");
  for (const auto& [variable, name] : kNames) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (!gguf.has(key)) continue;
    const uint64_t id = gguf.get_u64(key);
    if (id < names.size()) source.tokens[variable] = names[id];
  }
  return source;
}

TemplateSource template_in(const std::string& directory) {
  TemplateSource source;
  const std::string jinja = directory + "/chat_template.jinja";
  const std::string json = directory + "/chat_template.json";
  const std::string config = directory + "/tokenizer_config.json";
  const std::string map = directory + "/special_tokens_map.json";
  if (exists(jinja)) source.text = read_text_file(jinja, kMaxTemplateBytes);
  if (exists(json)) read_config(json, source);
  if (exists(config)) read_config(config, source);
  if (exists(map)) read_config(map, source);
  if (!source.text.empty() || exists(config)) return source;
  if (const std::optional<std::string> gguf = gguf_in(directory)) return template_of(Gguf::open(*gguf));
  return source;
}

TemplateSource find_template(const std::string& path) {
  if (!exists(path)) throw Error("[template] '{}' does not exist", path);
  if (is_directory(path)) return template_in(path);
  if (starts_as_gguf(path)) return template_of(Gguf::open(path));
  TemplateSource source;
  if (path.ends_with(".json")) {
    read_config(path, source);
  } else {
    source.text = read_text_file(path, kMaxTemplateBytes);
  }
  return source;
}

JsonObject template_variables(const JsonObject& given, const TemplateSource& source) {
  JsonObject variables = source.tokens;
  for (const auto& member : given) variables[member.key()] = member.value();
  return variables;
}

std::vector<Token> encode_prompt(const Tokenizer& tokenizer, std::span<const ChatTemplate::Piece> pieces,
                                 const EncodePause* pause) {
  std::string text;
  std::vector<TextRange> plain;
  for (const ChatTemplate::Piece& piece : pieces) {
    const size_t begin = text.size();
    text += piece.text;
    if (!piece.from_template) plain.push_back({begin, text.size()});
  }
  return tokenizer.encode(text, {.parse_special = true, .plain = plain, .pause = pause});
}

}  // namespace ingot
