#include "text/chat_template.h"

#include <algorithm>

#include "text/jinja/parse/parser.h"
#include "text/jinja/run/interp.h"

namespace ingot {
namespace {

using jinja::Budget;
using jinja::Dict;
using jinja::Interp;
using jinja::Kind;
using jinja::Str;
using jinja::Text;
using jinja::Value;

// A render may use so much, and more in proportion to its input: a conversation of 1,000 messages in a template that
// looks at all of them for each takes about 5 million steps. 500,000 steps take 20 to 60 ms.
constexpr size_t kBaseBytes = size_t{24} << 20;
constexpr int64_t kBaseSteps = 500'000;
constexpr size_t kBytesPerInputByte = 8;
constexpr int64_t kStepsPerValue = 2'000;

struct InputSize {
  size_t values = 0;
  size_t bytes = 0;
};

void measure(const Json& json, InputSize& size) {
  ++size.values;
  if (json.is_string()) {
    size.bytes += json.get_string().size();
  } else if (json.is_array()) {
    for (const Json& item : json.get_array()) measure(item, size);
  } else if (json.is_object()) {
    for (const auto& member : json.get_object()) {
      size.bytes += member.key().size();
      measure(member.value(), size);
    }
  }
}

bool is_known_role(std::string_view role) {
  static constexpr std::string_view kRoles[] = {"system", "user",     "assistant", "tool",      "developer",
                                                "model",  "function", "ipython",   "tool_call", "tool_response"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

Value to_value(Interp& interp, const Json& json, bool trusted);

Value object_to_value(Interp& interp, const JsonObject& object) {
  Value out(interp.new_dict());
  for (const auto& member : object) {
    std::string_view key(member.key().data(), member.key().size());
    bool role = key == "role" && member.value().is_string() &&
                is_known_role({member.value().get_string().data(), member.value().get_string().size()});
    out.as<Dict>().set(interp.str(Text(std::string(key), false)), to_value(interp, member.value(), role));
  }
  return out;
}

Value wide_integer(Interp& interp, uint64_t value) {
  Str* digits = interp.make<Str>(Text(std::to_string(value), true));
  digits->kind = Kind::kBigInt;
  return Value(digits);
}

Value to_value(Interp& interp, const Json& json, bool trusted) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      if (json.get_uint64() > static_cast<uint64_t>(INT64_MAX)) return wide_integer(interp, json.get_uint64());
      return Value::integer(static_cast<int64_t>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string:
      return interp.str(Text(std::string(json.get_string().data(), json.get_string().size()), trusted));
    case boost::json::kind::array: {
      std::vector<Value> items;
      for (const Json& item : json.get_array()) items.push_back(to_value(interp, item, false));
      return interp.list(std::move(items));
    }
    case boost::json::kind::object:
      return object_to_value(interp, json.get_object());
  }
  return Value::none();
}

// Tells how many were done, however the render ends.
struct CountSteps {
  const Budget& budget;
  int64_t all;
  int64_t* to;
  ~CountSteps() {
    if (to != nullptr) *to = all - std::max<int64_t>(budget.steps_left(), 0);
  }
};

Text run(const jinja::Program& program, const Json& input, const RenderOptions& options) {
  const JsonObject& variables = as_object(input, "the input of a template");
  InputSize size;
  measure(input, size);
  const int64_t steps =
      kBaseSteps + kStepsPerValue * static_cast<int64_t>(size.values) + static_cast<int64_t>(size.bytes);
  Budget budget(kBaseBytes + kBytesPerInputByte * size.bytes + 256 * size.values, steps);
  budget.set_pause(options.pause);
  const CountSteps count{.budget = budget, .all = steps, .to = options.steps};
  Interp interp(program, budget, options.now);
  for (size_t i = 0; i < program.names.size(); ++i) {
    const Json* value = find(variables, program.names[i]);
    if (value != nullptr) interp.set_variable(i, to_value(interp, *value, program.names[i].ends_with("_token")));
  }
  return interp.run();
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source) {
  ChatTemplate out;
  out.program_ = jinja::parse_program(source);
  out.source_ = std::move(source);
  return out;
}

std::string ChatTemplate::render(const Json& input, const RenderOptions& options) const {
  return run(*program_, input, options).bytes();
}

std::vector<ChatTemplate::Piece> ChatTemplate::render_pieces(const Json& input, const RenderOptions& options) const {
  Text text = run(*program_, input, options);
  std::vector<Piece> pieces;
  text.each_run([&](size_t begin, size_t end, bool from_template) {
    pieces.push_back({text.bytes().substr(begin, end - begin), from_template});
  });
  return pieces;
}

}  // namespace ingot
