// Ollama's requests: from the body to what is to be generated.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "serve/ollama/ollama.h"

namespace ingot {
namespace {

const JsonObject& options_of(const Fields& fields) {
  static const JsonObject kNone;
  const JsonObject* options = fields.object("options");
  return options ? *options : kNone;
}

// The options under the names that all other requests have for them.
void read_options(const Fields& fields, const ServedModel& model, Generation& generation) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"temperature", "temperature"},
      {"top_k", "top_k"},
      {"top_p", "top_p"},
      {"min_p", "min_p"},
      {"typical_p", "typical_p"},
      {"repeat_penalty", "repetition_penalty"},
      {"repeat_last_n", "penalty_last_n"},
      {"presence_penalty", "presence_penalty"},
      {"frequency_penalty", "frequency_penalty"},
      {"seed", "seed"},
      {"stop", "stop"},
  };
  const Fields options(options_of(fields));
  JsonObject common;
  for (const auto& [name, shared] : kNames) {
    if (const Json* value = options.value(name)) common[shared] = *value;
  }
  if (options.integer("seed") == -1) common.erase("seed");  // Ollama's word for any
  read_common(Fields(common, "options."), model, generation);
  if (const int64_t most = options.integer("num_predict").value_or(-1); most > 0) {
    generation.max_tokens = static_cast<int>(most);
  }
  generation.stream = fields.boolean("stream").value_or(true);
  // Ollama takes top_logprobs alone for nothing.
  if (fields.boolean("logprobs").value_or(false)) {
    generation.sampling.n_logprobs = static_cast<int>(fields.integer("top_logprobs").value_or(0));
  }
}

// num_ctx is a limit within the server's own context: no model is loaded again for it.
void check_num_ctx(const Fields& fields, const ServedModel& model) {
  const std::optional<int64_t> asked = Fields(options_of(fields)).integer("num_ctx");
  if (!asked || *asked <= model.context) return;
  throw bad_field("options.num_ctx",
                  fmt::format("options.num_ctx is {}, and the context of this server is {}", *asked, model.context));
}

ApiError over_num_ctx(const std::string& param, size_t tokens, int64_t num_ctx) {
  return {.status = 400,
          .message = fmt::format("{} has {} tokens, and options.num_ctx is {} for the prompt and the answer", param,
                                 tokens, num_ctx),
          .param = param,
          .code = "context_length_exceeded"};
}

void apply_num_ctx(const Fields& fields, Generation& generation) {
  const std::optional<int64_t> asked = Fields(options_of(fields)).integer("num_ctx");
  if (!asked) return;
  const auto prompt = static_cast<int64_t>(generation.prompts.at(0).size());
  if (prompt >= *asked) throw over_num_ctx(generation.param, static_cast<size_t>(prompt), *asked);
  const auto room = static_cast<int>(*asked - prompt);
  generation.max_tokens = generation.max_tokens < 0 ? room : std::min(generation.max_tokens, room);
}

void read_format(const Fields& fields, const ServedModel& model, Generation& generation) {
  using grammar::Language;
  const Json* format = fields.value("format");
  if (!format || (format->is_string() && format->get_string().empty())) return;
  ConstraintRequest request{.param = "format",
                            .source = {.language = Language::kJsonObject, .text = {}, .choices = {}}};
  if (format->is_object()) {
    request.source = {.language = Language::kJsonSchema, .text = to_json(*format), .choices = {}};
  }
  want(std::move(request), model.end_tokens, generation);
}

JsonObject read_think(const Fields& fields, const ServedModel& model) {
  JsonObject variables;
  const std::optional<std::string> effort = fields.string("think");
  const std::optional<bool> think = effort ? true : fields.boolean("think");
  if (!think) return variables;
  if (*think && !reasoning_of(model)) {
    throw bad_field("think", "think is for models that reason, and this one does not");
  }
  variables["enable_thinking"] = *think;
  if (effort) variables["reasoning_effort"] = *effort;
  return variables;
}

// Calls and their answers have ids in every template that looks for them; Ollama's clients leave them out. Nine letters
// and digits are what the strictest template takes.
class CallIds {
 public:
  std::string begin(const std::string& name, const std::optional<std::string>& given) {
    std::string id = given ? *given : next_id();
    const size_t at = begun_++;
    open_[at] = {name, id};
    by_name_.insert({name, at});
    by_id_.insert({id, at});
    return id;
  }
  // The call that a tool's answer is to: by its id, by the tool's name, or the first that has none yet.
  std::string answer(const std::optional<std::string>& given, const std::optional<std::string>& name) {
    const std::optional<size_t> named = given ? first(by_id_, *given) : name ? first(by_name_, *name) : std::nullopt;
    const auto call = named ? open_.find(*named) : given ? open_.end() : open_.begin();
    if (call == open_.end()) return given ? *given : next_id();
    std::string id = call->second.second;
    by_name_.erase({call->second.first, call->first});
    by_id_.erase({id, call->first});
    open_.erase(call);
    return id;
  }

 private:
  // Of calls that were not answered yet, by what they are found with: bodies may have tens of thousands.
  using Index = std::set<std::pair<std::string, size_t>>;
  static std::optional<size_t> first(const Index& index, const std::string& key) {
    const auto found = index.lower_bound({key, 0});
    return found != index.end() && found->first == key ? std::optional(found->second) : std::nullopt;
  }
  std::string next_id() { return fmt::format("call{:05}", count_++); }

  std::map<size_t, std::pair<std::string, std::string>> open_;  // name and id, in their order
  Index by_name_, by_id_;
  size_t begun_ = 0;
  int count_ = 0;
};

JsonArray template_calls(const JsonArray& calls, CallIds& ids) {
  JsonArray list;
  for (const Json& item : calls) {
    const Fields call(item.get_object());
    const Fields function(*call.object("function"));
    const std::string name = *function.string("name");
    const Json* arguments = function.value("arguments");
    list.push_back(JsonObject{
        {"id", ids.begin(name, call.string("id"))},
        {"type", "function"},
        {"function", JsonObject{{"name", name}, {"arguments", arguments ? *arguments : Json(JsonObject{})}}}});
  }
  return list;
}

JsonObject template_message(const Fields& message, const ServedModel& model, CallIds& ids) {
  const std::string role = template_role(*message.string("role"), model);
  const JsonArray* calls = message.array("tool_calls");
  JsonObject result{{"role", role}, {"content", message.string("content").value_or("")}};
  if (calls && !calls->empty()) {
    if (role != "assistant") {
      throw bad_field(message.path("tool_calls"),
                      fmt::format("{} may stand in messages of the assistant only", message.path("tool_calls")));
    }
    result["tool_calls"] = template_calls(*calls, ids);
  }
  if (role == "tool") {
    const std::optional<std::string> name = message.string("tool_name");
    result["tool_call_id"] = ids.answer(message.string("tool_call_id"), name);
    if (name) result["name"] = *name;
  }
  const Json* thought = message.value("thinking");
  if (thought && role == "assistant") result["reasoning_content"] = *thought;
  return result;
}

void finish(const Fields& fields, const ServedModel& model, Generation& generation) {
  check_prompts(generation, model, generation.param);
  apply_num_ctx(fields, generation);
  bound_answer(generation, model);
}

EmbeddingJob read_vectors(const Fields& fields, const char* param, const ServedModel& model, TokenWork* work) {
  check_model(fields, model);
  check_num_ctx(fields, model);
  EmbeddingJob job;
  read_inputs(fields, param, model, work, job);
  const int64_t most = Fields(options_of(fields)).integer("num_ctx").value_or(model.context);
  for (const std::vector<Token>& input : job.inputs) {
    if (static_cast<int64_t>(input.size()) > most) throw over_num_ctx(param, input.size(), most);
  }
  return job;
}

}  // namespace

Generation read_ollama_chat(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  check_num_ctx(fields, model);
  Generation generation;
  read_options(fields, model, generation);
  const JsonArray* messages = fields.array("messages");
  if (!messages || messages->empty()) return generation;
  read_format(fields, model, generation);
  Conversation conversation;
  CallIds ids;
  for (size_t i = 0; i < messages->size(); ++i) {
    const Fields message((*messages)[i].get_object(), fmt::format("messages[{}].", i));
    conversation.messages.push_back(template_message(message, model, ids));
  }
  conversation.tools = read_openai_tools(body, tool_form_of(model));
  conversation.variables = read_think(fields, model);
  render_conversation(model, conversation, generation, work);
  finish(fields, model, generation);
  return generation;
}

Generation read_ollama_generate(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  check_num_ctx(fields, model);
  Generation generation;
  generation.param = "prompt";
  read_options(fields, model, generation);
  const std::optional<std::string> prompt = fields.string("prompt");
  if (!prompt || prompt->empty()) return generation;
  read_format(fields, model, generation);
  const std::optional<std::string> system = fields.string("system");
  const bool raw = fields.boolean("raw").value_or(false) || !model.chat;
  if (!raw) {
    Conversation conversation;
    if (system && !system->empty()) {
      conversation.messages.push_back(JsonObject{{"role", "system"}, {"content", *system}});
    }
    conversation.messages.push_back(JsonObject{{"role", "user"}, {"content", *prompt}});
    conversation.variables = read_think(fields, model);
    render_conversation(model, conversation, generation, work);
  } else {
    const char* const why = model.chat ? "does not go with raw" : "needs a chat template, and this model has none";
    if (system && !system->empty()) throw bad_field("system", fmt::format("system {}", why));
    if (fields.string("think") || fields.boolean("think").value_or(false)) {
      throw bad_field("think", fmt::format("think {}", why));
    }
    generation.continues = true;
    generation.prompts = read_prompts(*fields.value("prompt"), "prompt", model, false, work).tokens;
  }
  finish(fields, model, generation);
  return generation;
}

EmbeddingJob read_ollama_embed(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  EmbeddingJob job = read_vectors(Fields(body), "input", model, work);
  job.shape = EmbeddingShape::kOllamaList;
  return job;
}

EmbeddingJob read_ollama_embeddings(const JsonObject& body, const ServedModel& model, TokenWork* work) {
  EmbeddingJob job = read_vectors(Fields(body), "prompt", model, work);
  job.shape = EmbeddingShape::kOllamaOne;
  job.normalize = false;
  return job;
}

}  // namespace ingot
