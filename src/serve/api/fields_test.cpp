// Every field of the table, inside its range, at its limits and beyond them.
#include "serve/api/fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>

#include "serve/api/limits.h"
#include "serve/api/shared_fields.h"
#include "serve/ui_files.h"

namespace ingot {
namespace {

// A value that the field takes.
Json valid_value(const Field& field);

JsonObject valid_object(const FieldTable& table) {
  JsonObject object;
  for (const Field& field : table.fields) {
    if (field.required) object[field.name] = valid_value(field);
  }
  return object;
}

Json valid_value(const Field& field) {
  if (field.values) return Json(std::string_view(field.values).substr(0, std::string_view(field.values).find('|')));
  if ((field.kinds & kString) != 0) return Json(std::string(std::max<size_t>(field.min_length, 1), 'x'));
  if ((field.kinds & kBool) != 0) return true;
  if ((field.kinds & kInteger) != 0) return static_cast<int64_t>(std::max(field.low, -1e18));
  if ((field.kinds & kNumber) != 0) return field.low;
  if ((field.kinds & kArray) != 0) {
    JsonArray items;
    for (size_t i = 0; i < field.min_items; ++i) {
      items.push_back(field.items == kObject && field.members ? Json(valid_object(*field.members)) : Json("x"));
    }
    return items;
  }
  return field.members ? Json(valid_object(*field.members)) : Json(JsonObject{});
}

// The path of the field that is refused; "" where none is.
std::string refused(const JsonObject& object, const FieldTable& table) {
  try {
    const Json body = read_body(to_json(object), table);
    return "";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.message.find("xxxxxxxx"), std::string::npos) << "an error quotes the request: " << error.message;
    EXPECT_TRUE(error.message.starts_with(error.param)) << error.message;
    return error.param.empty() ? "?" : error.param;
  }
}

JsonObject with(const FieldTable& table, const Field& field, Json value) {
  JsonObject object = valid_object(table);
  object[field.name] = std::move(value);
  return object;
}

// Every table, those within others too; each once.
void each_table(const FieldTable& table, const std::function<void(const FieldTable&)>& visit) {
  visit(table);
  for (const Field& field : table.fields) {
    if (field.members) each_table(*field.members, visit);
  }
}

void each_field(const std::function<void(const FieldTable&, const Field&)>& visit) {
  for (const Endpoint& endpoint : endpoints()) {
    each_table(*endpoint.body, [&](const FieldTable& table) {
      for (const Field& field : table.fields) visit(table, field);
    });
  }
}

TEST(Fields, EveryNumberHasARange) {
  int numbers = 0;
  each_field([&](const FieldTable& table, const Field& field) {
    SCOPED_TRACE(std::string(table.name) + "." + field.name);
    if (field.effect == FieldEffect::kRefused || (field.kinds & (kInteger | kNumber)) == 0) return;
    ++numbers;
    EXPECT_LT(field.low, field.high);
    EXPECT_TRUE(std::isfinite(field.low) && std::isfinite(field.high));
    const bool whole = (field.kinds & kNumber) == 0;
    const double step = whole ? 1 : 0.001;
    const auto value = [&](double number) {
      return whole && std::abs(number) < 1e15 ? Json(static_cast<int64_t>(number)) : Json(number);
    };
    if (field.high < 1e15) {
      EXPECT_EQ(refused(with(table, field, value(field.low)), table), "");
      EXPECT_EQ(refused(with(table, field, value(field.high)), table), "");
      EXPECT_EQ(refused(with(table, field, value(field.low - step)), table), field.name);
      EXPECT_EQ(refused(with(table, field, value(field.high + step)), table), field.name);
    } else {
      EXPECT_EQ(refused(with(table, field, std::numeric_limits<int64_t>::max()), table), "");
      EXPECT_EQ(refused(with(table, field, std::numeric_limits<int64_t>::min()), table), "");
      EXPECT_EQ(refused(with(table, field, uint64_t{1} << 63), table), field.name);
      EXPECT_EQ(refused(with(table, field, std::numeric_limits<uint64_t>::max()), table), field.name);
    }
    EXPECT_EQ(refused(with(table, field, 1e308), table), field.name);
    const std::string half = refused(with(table, field, field.low + 0.5), table);
    EXPECT_EQ(half, whole ? field.name : "");
  });
  EXPECT_GT(numbers, 50);
}

TEST(Fields, OtherTypesAreRefusedByName) {
  each_field([&](const FieldTable& table, const Field& field) {
    SCOPED_TRACE(std::string(table.name) + "." + field.name);
    EXPECT_EQ(refused(with(table, field, nullptr), table), field.required ? field.name : "");
    if (field.effect == FieldEffect::kRefused) {
      EXPECT_EQ(refused(with(table, field, "x"), table), field.name);
      EXPECT_EQ(refused(with(table, field, JsonArray{1}), table), field.name);
      EXPECT_EQ(refused(with(table, field, JsonArray{}), table), "");
      EXPECT_EQ(refused(with(table, field, false), table), "");
      return;
    }
    EXPECT_EQ(refused(with(table, field, valid_value(field)), table), "");
    const std::pair<unsigned, Json> values[] = {{kBool, true},  {kInteger | kNumber, 1}, {kNumber, 1.5},
                                                {kString, "x"}, {kArray, JsonArray{}},   {kObject, JsonObject{}}};
    for (const auto& [kinds, value] : values) {
      if ((kinds & field.kinds) != 0) continue;
      EXPECT_EQ(refused(with(table, field, value), table), field.name) << value;
    }
    if (!field.values) return;
    EXPECT_EQ(refused(with(table, field, "no such word"), table), field.name);
  });
}

TEST(Fields, LimitsOfLengths) {
  int limits = 0;
  each_field([&](const FieldTable& table, const Field& field) {
    SCOPED_TRACE(std::string(table.name) + "." + field.name);
    if (field.max_length != 0 && !field.values) {
      ++limits;
      EXPECT_EQ(refused(with(table, field, Json(std::string(field.max_length, 'x'))), table), "");
      EXPECT_EQ(refused(with(table, field, Json(std::string(field.max_length + 1, 'x'))), table), field.name);
    }
    if (field.max_items == 0) return;
    ++limits;
    JsonArray items;
    JsonObject members;
    const Json item = field.items == kInteger                   ? Json(1)
                      : field.items == kObject && field.members ? Json(valid_object(*field.members))
                                                                : Json("x");
    for (size_t i = 0; i < field.max_items; ++i) {
      items.push_back(item);
      members[std::to_string(i)] = 1;
    }
    const bool list = (field.kinds & kArray) != 0;
    EXPECT_EQ(refused(with(table, field, list ? Json(items) : Json(members)), table), "");
    items.push_back(item);
    members["one more"] = 1;
    EXPECT_EQ(refused(with(table, field, list ? Json(items) : Json(members)), table), field.name);
  });
  EXPECT_GT(limits, 15);
}

TEST(Fields, PathsNameTheMember) {
  const auto path = [](std::string_view body) {
    try {
      read_body(body, kChatFields);
      return std::string();
    } catch (const ApiError& error) {
      return error.param;
    }
  };
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":"a"}]})"), "");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":"a"},{"role":"king","content":"a"}]})"), "messages[1].role");
  EXPECT_EQ(path(R"({"messages":[{"content":"a"}]})"), "messages[0].role");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":[7]}]})"), "messages[0].content[0]");
  EXPECT_EQ(path(R"({"messages":[]})"), "messages");
  EXPECT_EQ(path(R"({})"), "messages");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":"a"}],"frobnicate":1})"), "frobnicate");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"tokenize":true}})"),
            "chat_template_kwargs.tokenize");
  EXPECT_EQ(path(R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"eos_token":"x"}})"),
            "chat_template_kwargs.eos_token");
}

TEST(Fields, BodiesThatAreNoJson) {
  const auto refuse = [](std::string body) {
    EXPECT_THROW(read_body(body, kChatFields), ApiError) << body.substr(0, 60);
  };
  for (const char* body :
       {"", "{", "[]", "null", "7", "{: \"model\"}", "{\"n\":NaN}", "{\"n\":1}{}", "{\"n\":1,\"n\":1}",
        "{\"temperature\":Infinity}", "{\"n\":1e999}", "\xff\xfe", "{\"user\":\"\xc3\"}"}) {
    refuse(body);
  }
  refuse("{\"tools\":" + std::string(10000, '[') + std::string(10000, ']') + "}");
  std::string many = "{\"prompt\":[";
  for (size_t i = 0; i <= kMaxBodyValues; ++i) many += "1,";
  many.back() = ']';
  refuse(many + "}");
}

TEST(Fields, LimitsTellEveryField) {
  const JsonObject limits = field_limits();
  for (const Endpoint& endpoint : endpoints()) {
    const JsonObject& fields = limits.at(endpoint.path).as_object();
    EXPECT_EQ(fields.size(), endpoint.body->fields.size());
    for (const Field& field : endpoint.body->fields) EXPECT_TRUE(fields.contains(field.name)) << field.name;
  }
}

TEST(Fields, LimitsTellWhatIsTaken) {
  const JsonObject limits = field_limits();
  const Json& chat = limits.at("/v1/chat/completions");
  EXPECT_EQ(chat.at("seed").at("maximum"), Json(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(chat.at("seed").at("minimum"), Json(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(chat.at("logit_bias").at("item_maximum").to_number<int>(), 100);
  EXPECT_EQ(chat.at("stop").at("items"), Json(JsonArray{"string"}));
  EXPECT_EQ(chat.at("tool_choice").at("values").as_string(), "none|auto|required");
  EXPECT_EQ(limits.at("/v1/embeddings").at("input").at("max_prompts").to_number<size_t>(), kMaxPrompts);
}

// The page offers what is useful of each range, and nothing that would be refused.
TEST(Fields, SlidersOfThePageStayInTheRange) {
  const auto page = std::ranges::find_if(ui_files(), [](const UiFile& file) { return file.name == "settings.js"; });
  ASSERT_NE(page, ui_files().end());
  std::istringstream lines{std::string(page->bytes)};
  int sliders = 0;
  for (std::string line; std::getline(lines, line);) {
    char name[64];
    double low = 0, high = 0;
    if (std::sscanf(line.c_str(), "  [\"%63[a-z_]\", \"%*[^\"]\", %lf, %lf,", name, &low, &high) != 3) continue;
    ++sliders;
    const auto n = std::ranges::find_if(kSamplingNumbers,
                                        [&](const auto& number) { return number.name == std::string_view(name); });
    ASSERT_NE(n, kSamplingNumbers.end()) << name;
    EXPECT_TRUE(n->in_range(low) && n->in_range(high)) << name;
  }
  EXPECT_EQ(sliders, 6);
}

TEST(Fields, WordsThatAreRefusedAreToldWhy) {
  const auto message = [](const std::string& more) {
    try {
      read_body(R"({"messages":[{"role":"user","content":"a"}],)" + more + "}", kChatFields);
    } catch (const ApiError& error) {
      return error.message;
    }
    return std::string();
  };
  EXPECT_EQ(message(R"("tool_choice":3)"), "tool_choice must be a string or an object");
  EXPECT_EQ(message(R"("tool_choice":{"type":"allowed_tools","mode":"auto"})"),
            "tool_choice.mode is not a field of this request");
  EXPECT_EQ(message(R"("response_format":{"type":"json_object"})"), "");
  EXPECT_EQ(message(R"("response_format":{"type":"xml"})"),
            "response_format.type must be one of text|json_object|json_schema|structural_tag");
  EXPECT_EQ(message(R"("reasoning_effort":"max")"), "");
}

TEST(Fields, ABodyHasSoManyMembers) {
  const auto message = [](size_t members) {
    // In objects of a thousand, beside five of the request's own.
    std::string body = R"({"messages":[{"role":"user","content":"a"}],"metadata":{"a":[{)";
    for (size_t i = 5; i < members; ++i) body += fmt::format("{}\"{}\":0", i % 1000 == 0 ? "},{" : i > 5 ? "," : "", i);
    try {
      read_body(body + "}]}}", kChatFields);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      return error.message;
    }
    return std::string();
  };
  EXPECT_EQ(message(kMaxBodyMembers), "");
  EXPECT_NE(message(kMaxBodyMembers + 1).find("more than 65536 members"), std::string::npos);
}

TEST(Fields, IntegersHoweverTheyAreWritten) {
  EXPECT_EQ(exact_integer(Json(4)), 4);
  EXPECT_EQ(exact_integer(Json(4.0)), 4);
  EXPECT_EQ(exact_integer(Json(4.5)), std::nullopt);
  EXPECT_EQ(exact_integer(Json(1e300)), std::nullopt);
  EXPECT_EQ(exact_integer(Json(std::numeric_limits<uint64_t>::max())), std::nullopt);
  EXPECT_EQ(exact_integer(Json("4")), std::nullopt);
}

}  // namespace
}  // namespace ingot
