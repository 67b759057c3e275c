#include "serve/responses/stored_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "files/json.h"
#include "serve/answer/long_work.h"
#include "serve/responses/response_store.h"
#include "serve/serve_context.h"

namespace ingot {
namespace {

constexpr std::string_view kRoot = "/v1/responses/";
constexpr std::string_view kItems = "/input_items";

ApiError no_response() {
  return {.status = 404,
          .message = "there is no answer of this id that is kept for this key",
          .param = "response_id",
          .code = "response_not_found"};
}

// Of "a=1&b=2"; empty where it is absent.
std::string_view query_value(std::string_view query, std::string_view name) {
  for (size_t begin = 0; begin < query.size();) {
    size_t end = query.find('&', begin);
    if (end == std::string_view::npos) end = query.size();
    const std::string_view pair = query.substr(begin, end - begin);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    begin = end + 1;
  }
  return {};
}

size_t limit_of(std::string_view query) {
  constexpr size_t kMost = 100, kUsual = 20;
  const std::string_view text = query_value(query, "limit");
  if (text.empty()) return kUsual;
  size_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error == std::errc() && end == text.data() + text.size() && limit >= 1 && limit <= kMost) return limit;
  throw bad_field("limit", fmt::format("limit must be an integer from 1 to {}", kMost));
}

std::string_view id_of(const Json& item) { return item.get_object().at("id").get_string(); }

// The newest first, unless `order` is asc; a page after the item `after`.
JsonObject page_of(JsonArray items, std::string_view query) {
  const std::string_view order = query_value(query, "order"), after = query_value(query, "after");
  if (!order.empty() && order != "asc" && order != "desc") throw bad_field("order", "order must be asc or desc");
  if (order != "asc") std::reverse(items.begin(), items.end());
  size_t first = 0;
  if (!after.empty()) {
    const auto found = std::ranges::find_if(items, [after](const Json& item) { return id_of(item) == after; });
    if (found == items.end()) throw bad_field("after", "after names none of the items");
    first = static_cast<size_t>(found - items.begin()) + 1;
  }
  const size_t end = std::min(items.size(), first + limit_of(query));
  JsonArray page(items.begin() + first, items.begin() + end);
  const Json head = page.empty() ? Json(nullptr) : Json(id_of(page.front()));
  const Json tail = page.empty() ? Json(nullptr) : Json(id_of(page.back()));
  return {{"object", "list"},
          {"data", std::move(page)},
          {"first_id", head},
          {"last_id", tail},
          {"has_more", end < items.size()}};
}

}  // namespace

size_t charge_reading(Caller& caller, const KeptResponse& kept) {
  const size_t bytes = kept.input.size() + kept.output.size();
  caller.take_tokenized(static_cast<int64_t>(bytes / kKeptBytesPerToken));
  return bytes;
}

void handle_stored_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const std::shared_ptr<Caller> caller = caller_of(request.head);
  std::string_view id = std::string_view(request.head.path).substr(kRoot.size());
  const bool items = id.ends_with(kItems);
  if (items) id.remove_suffix(kItems.size());
  const auto kept = context.responses.get(caller->tenant(), std::string(id));
  if (!kept) throw no_response();
  const ApiStyle style = style_of(request.head.path);
  if (items) {
    const size_t bytes = charge_reading(*caller, *kept);
    auto list = [caller, kept, responder, style, query = request.head.query] {
      const Json input = parse_json(kept->input, "items");
      send_complete(*caller, responder, style, {.body = to_json(page_of(input.get_array(), query))});
    };
    if (bytes <= Workers::kLargeBytes) return list();
    return run_as_large(context, request.head, responder, {.bytes = bytes, .run = std::move(list)});
  }
  if (const std::string_view stream = query_value(request.head.query, "stream"); !stream.empty() && stream != "false") {
    throw bad_field("stream", "stream is not supported for an answer that has ended");
  }
  send_complete(*caller, std::move(responder), style, {.body = kept->response});
}

void handle_delete_response(ServeContext& context, HttpRequest request, std::shared_ptr<Responder> responder) {
  const std::string id = request.head.path.substr(kRoot.size());
  if (!context.responses.erase(caller_of(request.head)->tenant(), id)) throw no_response();
  responder->send({.body = to_json(JsonObject{{"id", id}, {"object", "response"}, {"deleted", true}})});
}

}  // namespace ingot
