// Fuzz target: JSON in all its modes, the typed getters and the writer, as a config.json meets them. What was parsed
// and written must parse again to the same text.
// coverage: src/files/json.cpp src/files/json_write.cpp src/base/utf8.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "files/json.h"

namespace {

using ingot::Error;
using ingot::Json;

template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

void get_all(const ingot::JsonObject& object) {
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    attempt([&] { ingot::get_int(object, key); });
    attempt([&] { ingot::get_int(object, key, 1, 0, 1 << 20); });
    attempt([&] { ingot::get_float(object, key); });
    attempt([&] { ingot::get_float(object, key, 0.5); });
    attempt([&] { ingot::get_bool(object, key); });
    attempt([&] { ingot::get_bool(object, key, true); });
    attempt([&] { ingot::get_string(object, key); });
    attempt([&] { ingot::get_string(object, key, "x"); });
    attempt([&] { ingot::find_array(object, key); });
    attempt([&] {
      if (const ingot::JsonObject* inner = ingot::find_object(object, key)) get_all(*inner);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!ingot::utf8_valid(ingot::utf8_replace_invalid(text))) std::abort();
  if (!ingot::utf8_valid(ingot::utf8_printable(text))) std::abort();
  bool strict = false;
  attempt([&] {
    ingot::parse_json(text, "fuzz", {.reject_duplicate_keys = true, .max_values = 1000});
    strict = true;
  });
  bool plain = false;
  attempt([&] {
    const Json value = ingot::parse_json(text, "fuzz");
    plain = true;
    if (value.is_object()) get_all(value.get_object());
    const std::string once = ingot::to_json(value);
    if (ingot::to_json(ingot::parse_json(once, "again")) != once) std::abort();
    if (ingot::to_json(ingot::parse_json(ingot::to_json_pretty(value), "again")) != once) std::abort();
  });
  if (strict && !plain) std::abort();
  attempt([&] { ingot::parse_json(text, "fuzz", {.max_depth = 8, .allow_nonfinite = true}); });
  return 0;
}
