#include "serve/responses/response_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "serve/answer/choice_text.h"
#include "serve/api/forced_call.h"
#include "serve/responses/response_id.h"
#include "serve/responses/response_input.h"
#include "serve/responses/response_tools.h"

namespace ingot {
namespace {

using grammar::Language;

// text.format: what the answer's text is held to.
void read_format(const Fields& fields, const ServedModel& model, Generation& generation) {
  const JsonObject* text = fields.object("text");
  const JsonObject* object = text ? Fields(*text).object("format") : nullptr;
  if (!object) return;
  const Fields format(*object, "text.format.");
  const std::string type = *format.string("type");
  const Json* schema = format.value("schema");
  if (type != "json_schema" && schema) {
    throw bad_field(format.path("schema"), fmt::format("{} does not go with the type {}", format.path("schema"), type));
  }
  if (type == "json_schema" && !schema) {
    throw bad_field(format.path("schema"), fmt::format("{} is required", format.path("schema")));
  }
  if (type == "text") return;
  ConstraintRequest wanted;
  wanted.param = format.path(schema ? "schema" : "type");
  wanted.source.language = schema ? Language::kJsonSchema : Language::kJsonObject;
  if (schema) wanted.source.text = to_json(*schema);
  wanted.source.strict = schema && format.boolean("strict").value_or(false);
  want(std::move(wanted), model.end_tokens, generation);
}

// reasoning: variables of the template. True: thoughts are to come as a summary.
bool read_reasoning(const Fields& fields, JsonObject& variables) {
  const JsonObject* object = fields.object("reasoning");
  if (!object) return false;
  const Fields reasoning(*object, "reasoning.");
  if (const std::optional<std::string> effort = reasoning.string("effort")) {
    variables["reasoning_effort"] = *effort;
    if (effort == "none") variables["enable_thinking"] = false;
  }
  std::optional<std::string> summary = reasoning.string("summary");
  if (!summary) summary = reasoning.string("generate_summary");
  return summary && summary != "none";
}

// include and top_logprobs.
void read_logprobs(const Fields& fields, Generation& generation) {
  const JsonArray* include = fields.array("include");
  const bool wanted = include && std::ranges::find(*include, Json("message.output_text.logprobs")) != include->end();
  const std::optional<int64_t> top = fields.integer("top_logprobs");
  if (wanted || top.value_or(0) > 0) generation.sampling.n_logprobs = static_cast<int>(top.value_or(0));
}

// The items of the answer that this one goes on from.
void add_previous(const Fields& fields, const KeptResponses& kept, ResponseInput& input) {
  const std::optional<std::string> id = fields.string("previous_response_id");
  if (!id) return;
  if (!kept.on) {
    throw bad_field("previous_response_id",
                    "previous_response_id needs answers that are kept, and this server keeps none: send the items of "
                    "the conversation in input, or start it with --store-responses");
  }
  const std::optional<std::string> items = kept.conversation ? kept.conversation(*id) : std::nullopt;
  if (!items) {
    throw ApiError{.status = 404,
                   .message = "previous_response_id names no answer that is kept for this key",
                   .param = "previous_response_id",
                   .code = "previous_response_not_found"};
  }
  const Json parsed = parse_json(*items, "items");
  input.add_kept(parsed.get_array());
}

// A conversation without its first turns, as it was rendered.
struct Cut {
  size_t turns = 0;
  std::optional<size_t> tokens = {};  // of its prompt; none: it is far too long to be counted
};

// The fewest turns to leave out, more than `low` and at most `high`, by the last two whose tokens are known: these grow
// with the sizes, beside what instructions, tools and the template itself take.
size_t guess_cut(const std::vector<size_t>& sizes, const std::vector<Cut>& known, const Cut& low, const Cut& high,
                 size_t most_tokens) {
  constexpr double kBytesPerToken = 4;
  const auto size = [&](size_t turns) { return static_cast<double>(sizes[turns]); };
  const auto tokens = [&](size_t back) { return static_cast<double>(*known[known.size() - back].tokens); };
  const auto size_of = [&](size_t back) { return size(known[known.size() - back].turns); };
  double slope = 1 / kBytesPerToken, base = 0;
  if (known.size() == 1) slope = tokens(1) / size_of(1);
  if (known.size() > 1) {
    slope = (tokens(2) - tokens(1)) / (size_of(2) - size_of(1));
    base = tokens(1) - slope * size_of(1);
  }
  size_t turns = low.turns + 1;
  while (turns < high.turns && base + slope * size(turns) > static_cast<double>(most_tokens)) ++turns;
  return turns;
}

// With truncation, turns of the user are left out until there is room for an answer: a quarter of the context, or what
// was asked for where that is less. As few as can be found with the first render and kTries further ones: each costs as
// much as a request of its own.
void render(const Fields& fields, const ServedModel& model, int context, const ResponseInput& input,
            Conversation& conversation, Generation& generation, TokenWork* work) {
  constexpr int kTries = 3;
  constexpr double kFull = 0.9;  // of the room: enough of it is used
  const bool cuts = fields.string("truncation") == "auto" && input.n_turns() > 1;
  const int quarter = std::max(1, context / 4);
  const int room = generation.max_tokens < 0 ? quarter : std::min(quarter, generation.max_tokens);
  const auto most_tokens = static_cast<size_t>(std::max(0, context - room));
  std::vector<Cut> known;
  const auto fits = [&](Cut& cut) {
    const bool last = cut.turns + 1 >= input.n_turns();
    conversation.messages = input.without_turns(cut.turns);
    generation.prompts.clear();
    bool within = true;
    try {
      render_conversation(model, conversation, generation, work);
      check_prompts(generation, model, generation.param);
    } catch (const ApiError& error) {
      if (!cuts || last || error.code != "context_length_exceeded") throw;
      within = false;
    }
    if (!generation.prompts.empty()) cut.tokens = generation.prompts[0].size();
    if (cut.tokens) known.push_back(cut);
    return within && (!cuts || last || cut.tokens <= most_tokens);
  };
  Cut low;
  if (fits(low)) return;
  Cut high{.turns = input.n_turns() - 1};  // without all but one it is tried in any case
  size_t rendered = 0;
  const std::vector<size_t> sizes = input.sizes();
  for (int tries = 0; tries < kTries && low.turns + 1 < high.turns; ++tries) {
    if (high.tokens && static_cast<double>(*high.tokens) > kFull * static_cast<double>(most_tokens)) break;
    Cut cut{.turns = guess_cut(sizes, known, low, high, most_tokens)};
    if (cut.turns == high.turns) break;
    rendered = cut.turns;
    (fits(cut) ? high : low) = cut;
  }
  if (rendered != high.turns) fits(high);
}

Json or_null(const Json* value) { return value ? *value : Json(nullptr); }

// A number as the request has it, else the model's: 0.7, not the double nearest to 0.7f.
Json number_told(const Fields& fields, const char* name, float fallback) {
  const Json* given = fields.value(name);
  return given ? *given : parse_json(fmt::format("{}", fallback), "number");
}

Json text_told(const Fields& fields) {
  const JsonObject* given = fields.object("text");
  JsonObject text = given ? *given : JsonObject{};
  const Json* format = find(text, "format");
  if (!format || format->is_null()) {
    text["format"] = JsonObject{{"type", "text"}};
  } else if (!format->get_object().contains("name") && format->get_object().at("type") == "json_schema") {
    text["format"].get_object()["name"] = "response";
  }
  return text;
}

Json reasoning_told(const Fields& fields) {
  const JsonObject* given = fields.object("reasoning");
  JsonObject told{{"effort", nullptr}, {"summary", nullptr}};
  for (const char* name : {"effort", "summary"}) {
    const Json* value = given ? Fields(*given).value(name) : nullptr;
    if (value && *value != "none") told[name] = *value;
  }
  if (given && Fields(*given).string("effort") == "none") told["effort"] = "none";
  return told;
}

void check_metadata(const Fields& fields) {
  const JsonObject* metadata = fields.object("metadata");
  if (!metadata) return;
  for (const auto& member : *metadata) {
    const Json& value = member.value();
    if (value.is_string() && count_characters(value.get_string()) <= kMaxMetadataLength) continue;
    throw bad_field("metadata", fmt::format("metadata must have texts of at most {} characters", kMaxMetadataLength));
  }
}

// What every object of the answer says of the request.
std::string repeated(const Fields& fields, const Generation& generation, const ResponseTools& tools) {
  const Json* choice = fields.value("tool_choice");
  const Json* metadata = fields.value("metadata");
  const Json* truncation = fields.value("truncation");
  JsonObject told{{"instructions", or_null(fields.value("instructions"))},
                  {"max_output_tokens", or_null(fields.value("max_output_tokens"))},
                  {"max_tool_calls", or_null(fields.value("max_tool_calls"))},
                  {"metadata", metadata ? *metadata : Json(JsonObject{})},
                  {"parallel_tool_calls", fields.boolean("parallel_tool_calls").value_or(true)},
                  {"previous_response_id", or_null(fields.value("previous_response_id"))},
                  {"prompt_cache_key", or_null(fields.value("prompt_cache_key"))},
                  {"reasoning", reasoning_told(fields)},
                  {"safety_identifier", or_null(fields.value("safety_identifier"))},
                  {"service_tier", "default"},
                  {"temperature", number_told(fields, "temperature", generation.sampling.temperature)},
                  {"text", text_told(fields)},
                  {"tool_choice", choice ? *choice : Json("auto")},
                  {"tools", tools.told},
                  {"top_logprobs", std::max(0, generation.sampling.n_logprobs)},
                  {"top_p", number_told(fields, "top_p", generation.sampling.top_p)},
                  {"truncation", truncation ? *truncation : Json("disabled")},
                  {"user", or_null(fields.value("user"))}};
  if (!tools.left_out.empty()) {
    JsonArray names;
    for (const std::string& name : tools.left_out) names.push_back(Json(name));
    told["tools_left_out"] = std::move(names);
  }
  const std::string text = to_json(told);
  if (text.size() > kMaxRepeatedBytes) {
    throw bad_field({},
                    fmt::format("instructions, tools, text and what else the answer repeats have {} bytes, at most {} "
                                "are allowed",
                                text.size(), kMaxRepeatedBytes));
  }
  return text.substr(1, text.size() - 2);
}

}  // namespace

ResponseRequest read_response(const JsonObject& body, const ServedModel& model, int context, const KeptResponses& kept,
                              TokenWork* work) {
  const Fields fields(body);
  check_model(fields, model);
  ResponseRequest request;
  Generation& generation = request.generation;
  generation.param = "input";
  read_common(fields, model, generation);
  read_format(fields, model, generation);
  read_logprobs(fields, generation);
  check_metadata(fields);
  Conversation conversation;
  request.frame.summary = read_reasoning(fields, conversation.variables);
  ResponseInput input(model);
  if (const std::optional<std::string> text = fields.string("instructions")) input.add_instructions(*text);
  add_previous(fields, kept, input);
  input.add(*fields.value("input"), "input");
  input.finish();
  ResponseTools tools = read_response_tools(body, tool_form_of(model));
  conversation.tools = std::move(tools.offered);
  if (!conversation.tools.forced.empty()) {
    want(forced_call(conversation.tools, *tool_form_of(model).calls), model.end_tokens, generation);
  }
  render(fields, model, context, input, conversation, generation, work);
  bound_answer(generation, model);
  request.frame.id = unguessable_id("resp_");
  request.frame.store = kept.on && fields.boolean("store").value_or(true) && input.n_items() <= kMaxResponseItems;
  if (request.frame.store) request.frame.input = to_json(input.take_items());
  if (request.frame.input.size() > kMaxKeptBytes) {
    request.frame.store = false;
    request.frame.input = {};
  }
  request.frame.repeated = repeated(fields, generation, tools);
  generation.writer_bytes = 2 * request.frame.repeated.size();  // and in what is written
  return request;
}

}  // namespace ingot
