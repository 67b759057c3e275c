#include "cli/bench/links_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ingot {
namespace {

constexpr std::array<std::pair<const char*, LinkForm>, 3> kForms = {
    {{"ring", LinkForm::kRing}, {"direct", LinkForm::kDirect}, {"switch", LinkForm::kSwitch}}};

// Beyond these a bench would not end: a second for a step, a megabyte a second.
constexpr double kMostUs = 1e6, kLeastGbs = 1e-3, kMostGbs = 1e6;

double number(const JsonObject& object, std::string_view key, double low, double high) {
  const double value = get_float(object, key);
  if (value < low || value > high) throw Error("[links] '{}' is {}: it must be {} to {}", key, value, low, high);
  return value;
}

std::string text(const JsonObject& object, std::string_view key) {
  std::string value = get_string(object, key);
  if (value.empty()) throw Error("[links] '{}' is empty", key);
  // Each is shown in one line.
  std::ranges::replace_if(
      value, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return value;
}

LinkForm form_by_name(const std::string& name) {
  for (const auto& [known, form] : kForms)
    if (name == known) return form;
  throw Error("[links] 'collectives' is '{}': it must be ring, direct or switch", name);
}

void read_numbers_of(const JsonObject& links, LinkModel& model) {
  const Json* const call = find(links, "call_us");
  model.call_us = call == nullptr || call->is_null() ? 0 : number(links, "call_us", 0, kMostUs);
  model.latency_us = number(links, "latency_us", 0, kMostUs);
  model.gbs = number(links, "gbs", kLeastGbs, kMostGbs);
}

LinksFile read_members(const JsonObject& root) {
  LinksFile links;
  links.name = text(root, "name");
  links.source = text(root, "source");
  links.date = text(root, "date");
  const JsonObject* const ranks = find_object(root, "ranks");
  if (ranks == nullptr) throw Error("[links] 'ranks' is missing: the links between them");
  links.kind = links.stages_kind = text(*ranks, "kind");
  links.ranks.form = form_by_name(get_string(*ranks, "collectives"));
  read_numbers_of(*ranks, links.ranks);
  links.stages = links.ranks;
  if (const JsonObject* const stages = find_object(root, "stages"); stages != nullptr) {
    links.stages_kind = text(*stages, "kind");
    read_numbers_of(*stages, links.stages);
  }
  return links;
}

JsonObject numbers_json(const std::string& kind, const LinkModel& model) {
  return {{"kind", kind}, {"call_us", model.call_us}, {"latency_us", model.latency_us}, {"gbs", model.gbs}};
}

std::string numbers_text(const std::string& kind, const LinkModel& model) {
  return fmt::format("{}, {} us a call, {} us a step, {} GB/s", kind, model.call_us, model.latency_us, model.gbs);
}

const char* form_name(LinkForm form) {
  return std::ranges::find(kForms, form, &std::pair<const char*, LinkForm>::second)->first;
}

}  // namespace

LinksFile read_links_file(const std::string& path) {
  const Json root = read_json_file(path, {});
  try {
    LinksFile links = read_members(as_object(root, "[links] the file"));
    links.path = path;
    return links;
  } catch (const Error& error) {
    throw Error("{}, in '{}'", error.what(), path);
  }
}

JsonObject links_json(const LinksFile& links) {
  JsonObject ranks = numbers_json(links.kind, links.ranks);
  ranks["collectives"] = form_name(links.ranks.form);
  return {{"file", links.path}, {"name", links.name},        {"source", links.source},
          {"date", links.date}, {"ranks", std::move(ranks)}, {"stages", numbers_json(links.stages_kind, links.stages)}};
}

std::string links_text(const LinksFile& links, bool several_stages) {
  std::string text = fmt::format("{} ({}; {}): {}, {}", links.name, links.source, links.date,
                                 form_name(links.ranks.form), numbers_text(links.kind, links.ranks));
  if (several_stages) text += "; between stages " + numbers_text(links.stages_kind, links.stages);
  return text;
}

}  // namespace ingot
