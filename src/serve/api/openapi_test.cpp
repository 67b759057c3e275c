#include "serve/api/openapi.h"

#include <gtest/gtest.h>

#include <limits>

#include "serve/api/fields.h"

namespace ingot {
namespace {

// Every reference leads somewhere.
void check_references(const Json& value, const JsonObject& schemas) {
  if (value.is_array()) {
    for (const Json& item : value.get_array()) check_references(item, schemas);
  }
  if (!value.is_object()) return;
  for (const auto& member : value.get_object()) {
    if (member.key() == "$ref") {
      const std::string path(member.value().get_string().c_str());
      const std::string start = "#/components/schemas/";
      ASSERT_TRUE(path.starts_with(start));
      EXPECT_TRUE(schemas.contains(path.substr(start.size()))) << path;
    }
    check_references(member.value(), schemas);
  }
}

TEST(OpenApi, TellsEveryFieldOfEveryEndpoint) {
  const Json document = openapi_document("1.2.3");
  EXPECT_EQ(document.at("openapi").as_string(), "3.1.0");
  const JsonObject& schemas = document.at("components").at("schemas").as_object();
  check_references(document, schemas);
  for (const Endpoint& endpoint : endpoints()) {
    EXPECT_TRUE(document.at("paths").as_object().contains(endpoint.path));
    const JsonObject& properties = schemas.at(endpoint.body->name).at("properties").as_object();
    EXPECT_EQ(properties.size(), endpoint.body->fields.size());
  }
  const Json& temperature = schemas.at("ChatRequest").at("properties").at("temperature");
  EXPECT_EQ(temperature.at("maximum").to_number<double>(), 2);
  EXPECT_EQ(schemas.at("ChatRequest").at("properties").at("seed").at("maximum"),
            Json(std::numeric_limits<int64_t>::max()));
  const Json& bias = schemas.at("ChatRequest").at("properties").at("logit_bias");
  EXPECT_EQ(bias.at("additionalProperties").at("minimum").to_number<double>(), -100);
  // Text, ids, a list of texts and a list of lists; of ids there may be more than of prompts.
  const JsonArray& prompt = schemas.at("CompletionRequest").at("properties").at("prompt").at("anyOf").as_array();
  ASSERT_EQ(prompt.size(), 4u);
  EXPECT_FALSE(prompt[1].as_object().contains("maxItems"));
  for (const size_t list : {2u, 3u}) EXPECT_EQ(prompt[list].at("maxItems").to_number<int>(), 64);
  EXPECT_EQ(document.at("paths").at("/v1/models/{id}").at("get").at("parameters").as_array().size(), 1u);
  // It survives being written and read.
  EXPECT_EQ(parse_json(to_json(document), "document").at("info").at("version").as_string(), "1.2.3");
}

}  // namespace
}  // namespace ingot
