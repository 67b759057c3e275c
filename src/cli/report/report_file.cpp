#include "cli/report/report_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace ingot {
namespace {

// That each of `keys` is a text, or a number or null.
void check_texts(const JsonObject& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) get_string(object, key);
}
void check_numbers(const JsonObject& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) get_float(object, key, 0);
}

void check_ladder(const JsonObject& ladder) {
  check_texts(ladder, {"op", "device", "shape", "unit", "limit"});
  check_numbers(ladder, {"bytes", "flops", "limit_seconds", "ratio_to_best_rival"});
  for (const Json& item : list_of(ladder, "steps")) {
    const JsonObject& step = as_object(item, "a step");
    check_texts(step, {"name", "reason", "source", "hash"});
    check_numbers(step, {"order", "seconds", "figure", "percent_of_limit", "gain"});
  }
  for (const Json& item : list_of(ladder, "rivals")) {
    const JsonObject& rival = as_object(item, "a rival");
    check_texts(rival, {"name"});
    check_numbers(rival, {"seconds", "figure"});
    get_string(rival, "absent", "");
  }
}

void check_profile(const JsonObject& profile) {
  check_numbers(profile, {"rows", "seconds"});
  for (const Json& item : list_of(profile, "nodes")) {
    check_texts(as_object(item, "a node"), {"node"});
    check_numbers(item.as_object(), {"nodes", "seconds", "bytes", "flops"});
  }
  for (const Json& item : list_of(profile, "timeline")) {
    const JsonArray& node = as_array(item, "a node of the timeline");
    if (node.size() != 3) throw Error("[report] a node of the timeline has {} parts", node.size());
    as_int(node[0], "its line", 0);
    as_float(node[1], "its seconds");
    as_string(node[2], "its label");
  }
}

void check_model(const JsonObject& model) {
  check_texts(model, {"name", "architecture", "format"});
  if (const JsonObject* limits = find_object(model, "limits"))
    check_numbers(*limits, {"measured_read_gbs", "product_gflops"});
  for (const Json& item : list_of(model, "profiles")) {
    const JsonObject& one = as_object(item, "a profile");
    check_texts(one, {"title"});
    if (const JsonObject* profile = find_object(one, "profile")) {
      check_profile(*profile);
    } else {
      throw Error("[report] a profile without its figures");
    }
  }
  for (const Json& item : list_of(model, "steps")) {
    check_texts(as_object(item, "a step of the model"), {"name", "what"});
    check_numbers(item.as_object(), {"prompt", "gen", "batch", "prefill_tps", "decode_tps"});
  }
}

void check_report(const JsonObject& report) {
  if (get_int(report, "ingot_report") != kReportVersion) {
    throw Error("[report] it is of version {}, not {}", get_int(report, "ingot_report"), kReportVersion);
  }
  check_texts(report, {"version", "date"});
  const JsonObject* machine = find_object(report, "machine");
  if (!machine) throw Error("[report] it has no machine");
  check_texts(*machine, {"cpu"});
  check_numbers(*machine, {"measured_read_gbs", "measured_copy_gbs", "measured_int8_gops", "measured_f32_gflops",
                           "measured_bf16_gflops", "memory_bytes", "cores", "threads"});
  for (const Json& item : list_of(report, "ops")) {
    check_texts(as_object(item, "a result"), {"op", "shape", "limit"});
    check_numbers(item.as_object(), {"seconds", "gbs", "gops", "percent_of_ceiling"});
  }
  for (const Json& item : list_of(report, "ladders")) check_ladder(as_object(item, "a ladder"));
  if (const JsonObject* model = find_object(report, "model")) check_model(*model);
  for (const Json& item : list_of(report, "not_measured")) as_string(item, "what was not measured");
}

struct Figure {
  std::string kind, name, unit;
  double value = 0;
  bool less_is_faster = false;
};

std::vector<Figure> figures_of(const JsonObject& report) {
  std::vector<Figure> all;
  const auto add = [&](Figure figure) {
    if (figure.value > 0) all.push_back(std::move(figure));
  };
  const JsonObject& machine = report.at("machine").as_object();
  constexpr std::pair<const char*, const char*> kLimits[] = {
      {"read", "GB/s"}, {"copy", "GB/s"}, {"int8", "GOP/s"}, {"f32", "GFLOP/s"}, {"bf16", "GFLOP/s"}};
  for (const auto& [name, unit] : kLimits) {
    const char* suffix = unit[1] == 'B' ? "gbs" : unit[1] == 'O' ? "gops" : "gflops";
    add({"limit", name, unit, get_float(machine, fmt::format("measured_{}_{}", name, suffix), 0)});
  }
  for (const Json& item : list_of(report, "ops")) {
    const JsonObject& r = item.as_object();
    add({"operator", get_string(r, "op") + " " + get_string(r, "shape"), "µs", 1e6 * get_float(r, "seconds", 0), true});
  }
  for (const Json& item : list_of(report, "ladders")) {
    const JsonObject& ladder = item.as_object();
    for (const Json& step : list_of(ladder, "steps")) {
      add({"ladder",
           fmt::format("{} {} on {}: {}", get_string(ladder, "op"), get_string(ladder, "shape"),
                       get_string(ladder, "device"), get_string(step.as_object(), "name")),
           "µs", 1e6 * get_float(step.as_object(), "seconds", 0), true});
    }
  }
  if (const JsonObject* model = find_object(report, "model")) {
    for (const Json& item : list_of(*model, "steps")) {
      const JsonObject& step = item.as_object();
      const std::string name = fmt::format("{}, {}, batch {}", get_string(*model, "name"), get_string(step, "name"),
                                           get_float(step, "batch", 0));
      add({"prefill", name, "tok/s", get_float(step, "prefill_tps", 0)});
      add({"decode", name, "tok/s", get_float(step, "decode_tps", 0)});
    }
  }
  return all;
}

std::string machine_name(const JsonObject& report) {
  const JsonObject& machine = report.at("machine").as_object();
  const std::string gpu = get_string(machine, "gpu", ""), cpu = get_string(machine, "cpu");
  return gpu.empty() ? fmt::format("{}, {} threads", cpu, get_float(machine, "threads", 0)) : cpu + ", " + gpu;
}

}  // namespace

const JsonArray& list_of(const JsonObject& object, std::string_view key) {
  static const JsonArray none;
  const JsonArray* list = find_array(object, key);
  return list ? *list : none;
}

JsonObject read_report(const std::string& path) {
  const Json json = read_json_file(path);
  try {
    const JsonObject& report = as_object(json, "it");
    check_report(report);
    return report;
  } catch (const Error& e) {
    throw Error("[report] '{}' is no report of 'ingot report --json': {}", path, e.what());
  }
}

JsonObject read_ladders(const std::string& path) {
  const Json json = read_json_file(path);
  try {
    const JsonObject& document = as_object(json, "it");
    if (list_of(document, "ladders").empty()) throw Error("[report] there are no ladders in it");
    for (const Json& item : list_of(document, "ladders")) check_ladder(as_object(item, "a ladder"));
    return document;
  } catch (const Error& e) {
    throw Error("[report] '{}' is not of 'ingot bench ladder --json': {}", path, e.what());
  }
}

JsonObject compare_reports(const JsonObject& before, const JsonObject& after) {
  std::map<std::pair<std::string, std::string>, Figure> old;
  for (Figure& figure : figures_of(before)) old[{figure.kind, figure.name}] = std::move(figure);
  struct Row {
    double change;
    JsonObject json;
  };
  std::vector<Row> rows;
  int only_after = 0;
  for (const Figure& now : figures_of(after)) {
    const auto then = old.find({now.kind, now.name});
    if (then == old.end()) {
      ++only_after;
      continue;
    }
    const double gain = now.less_is_faster ? then->second.value / now.value : now.value / then->second.value;
    rows.push_back({std::abs(std::log(gain)),
                    {{"kind", now.kind},
                     {"name", now.name},
                     {"unit", now.unit},
                     {"before", then->second.value},
                     {"after", now.value},
                     {"gain", gain}}});
    old.erase(then);
  }
  std::ranges::stable_sort(rows, std::greater{}, &Row::change);
  JsonArray sorted;
  for (Row& row : rows) sorted.push_back(std::move(row.json));
  return {{"date", get_string(before, "date")},
          {"version", get_string(before, "version")},
          {"machine", machine_name(before)},
          {"same_machine", machine_name(before) == machine_name(after)},
          {"rows", std::move(sorted)},
          {"only_before", static_cast<int64_t>(old.size())},
          {"only_after", only_after}};
}

}  // namespace ingot
