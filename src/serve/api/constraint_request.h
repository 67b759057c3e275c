// What a request wants its answer's text to be held to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/constraints.h"
#include "serve/api/fields.h"

namespace ingot {

struct Generation;

struct ConstraintRequest {
  std::string param;  // the field that asks: "response_format.json_schema.schema"
  grammar::Source source;
  enum class Calls : uint8_t { kNone, kForced, kOffered, kEither };
  Calls calls = Calls::kNone;   // of tools, as forced_call(), offered_calls() and calls_or() make them
  std::string text_param = {};  // kEither: the field that asks for the text
};

// None where the answer is free. Throws ApiError 400 where two fields ask, or one of them not wholly.
// REQUIRES: `fields` passed a table that has kConstraintFields.
std::optional<ConstraintRequest> read_constraint(const Fields& fields);

// Whatever the request's end tokens are, each of the model's may come, and ends the answer. Throws ApiError 400 where
// something is wanted already; but forced calls take the place of a text, which cannot come beside them.
void want(ConstraintRequest request, const std::vector<int32_t>& end_tokens, Generation& generation);

// Makes generation.constraint of generation.wanted. Throws ApiError 400 that tells the place in the schema or grammar,
// 503 where there is no room for one more, and what the call's meter throws. generation.relaxed has the tools whose
// calls could not be held to their schemas, which under tool_choice auto is no error. REQUIRES: something is wanted.
void compile_constraint(Constraints& constraints, const std::string& tenant, Generation& generation,
                        const CompileCall& call = {});

// For /v1/limits.
JsonObject constraint_limits(const ConstraintOptions& options);

}  // namespace ingot
