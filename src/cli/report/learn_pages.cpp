#include "cli/report/learn_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/bench/pages/svg_text.h"
#include "cli/report/ladder_figure.h"
#include "cli/report/report_file.h"

namespace ingot {
namespace {

constexpr std::string_view kBegin = "<!-- written by ingot report --docs: begin -->\n";
constexpr std::string_view kEnd = "<!-- written by ingot report --docs: end -->\n";

std::string title_of(std::string_view op) {
  std::string title(op);
  std::ranges::replace(title, '_', ' ');
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

// A cell of a table: no text ends it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string step_link(const ladder::StepInfo& step) {
  return fmt::format("{}. [{}](../../{})", step.order, cell(step.name), step.source);
}

// Bytes or operations with their unit, three digits.
std::string amount(double value, const char* unit) {
  constexpr std::pair<double, const char*> kPowers[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [power, letter] : kPowers) {
    if (value >= power) return fmt::format("{:.3g} {}{}", value / power, letter, unit);
  }
  return fmt::format("{:.3g} {}", value, unit);
}

// The measured step of this source, or null.
const JsonObject* step_of(const JsonObject& ladder, std::string_view source) {
  for (const Json& item : list_of(ladder, "steps")) {
    if (get_string(item.as_object(), "source") == source) return &item.as_object();
  }
  return nullptr;
}

using Steps = std::vector<const ladder::StepInfo*>;

// The measured ladder with exactly the steps of this build: stale ones are
// marked, and those without a figure are there.
JsonObject as_built(const JsonObject& measured, const Steps& steps) {
  JsonObject ladder = measured;
  JsonArray all;
  for (const ladder::StepInfo* info : steps) {
    const JsonObject* step = step_of(measured, info->source);
    JsonObject one = step ? *step : JsonObject{};
    if (step && get_string(*step, "hash") != info->hash) one["stale"] = true;
    one["order"] = info->order;
    one["name"] = info->name;
    all.push_back(std::move(one));
  }
  ladder["steps"] = std::move(all);
  return ladder;
}

// The limit by arithmetic.
std::string limit_line(const JsonObject& ladder) {
  const double seconds = get_float(ladder, "limit_seconds", 0), bytes = get_float(ladder, "bytes", 0);
  const double flops = get_float(ladder, "flops", 0);
  if (seconds <= 0) return "";
  const std::string limit = get_string(ladder, "limit");
  const bool memory = limit == "read" || limit == "copy";
  const double rate = (memory ? bytes : flops) / seconds;
  return fmt::format(
      "Limit: {} and {}. The nearer is *{}*: {} at the {} measured in the run "
      "take {} µs, {} {}.\n\n",
      amount(bytes, "B"), amount(flops, "FLOP"), limit, memory ? amount(bytes, "B") : amount(flops, "FLOP"),
      amount(rate, memory ? "B/s" : "FLOP/s"), svg_number(seconds * 1e6), svg_number(ladder_limit(ladder)),
      get_string(ladder, "unit"));
}

std::string rivals_line(const JsonObject& ladder) {
  std::vector<std::string> there, absent;
  for (const Json& item : list_of(ladder, "rivals")) {
    const JsonObject& rival = item.as_object();
    const std::string why = get_string(rival, "absent", "");
    if (why.empty()) {
      there.push_back(fmt::format("{} {} {}", get_string(rival, "name"), svg_number(get_float(rival, "figure", 0)),
                                  get_string(ladder, "unit")));
    } else {
      absent.push_back(fmt::format("{} ({})", get_string(rival, "name"), why));
    }
  }
  std::string text;
  if (!there.empty()) text += fmt::format("Rivals in the same run: {}.", fmt::join(there, ", "));
  if (const double ratio = get_float(ladder, "ratio_to_best_rival", 0); ratio > 0)
    text += fmt::format(" The last step beside the best of them: {:.2f} ×.", ratio);
  if (!absent.empty()) text += fmt::format("{}Not there: {}.", text.empty() ? "" : " ", fmt::join(absent, ", "));
  return text.empty() ? "" : text + "\n\n";
}

std::string measured_table(const JsonObject& ladder, const Steps& steps) {
  const std::string unit = get_string(ladder, "unit");
  std::string text = fmt::format(
      "| step | why | µs | {} | % of the limit | "
      "gain |\n|---|---|---|---|---|---|\n",
      unit);
  double before = 0;  // seconds of the row above, where they hold
  for (const ladder::StepInfo* info : steps) {
    text += fmt::format("| {} | {} | ", step_link(*info), cell(info->reason));
    const double above = std::exchange(before, 0);
    const JsonObject* step = step_of(ladder, info->source);
    if (!step || get_float(*step, "seconds", 0) <= 0) {
      text += "not measured | | | |\n";
    } else if (get_string(*step, "hash") != info->hash) {
      text += fmt::format("stale: {} | {} | | |\n", svg_number(1e6 * get_float(*step, "seconds")),
                          svg_number(get_float(*step, "figure")));
    } else {
      before = get_float(*step, "seconds");
      text += fmt::format("{} | {} | {:.0f} | {} |\n", svg_number(1e6 * get_float(*step, "seconds")),
                          svg_number(get_float(*step, "figure")), get_float(*step, "percent_of_limit", 0),
                          above > 0 ? fmt::format("{:.2f} ×", above / before) : "");
    }
  }
  return text + "\n";
}

std::string bare_table(const Steps& steps) {
  std::string text = "| step | why | figure |\n|---|---|---|\n";
  for (const ladder::StepInfo* info : steps)
    text += fmt::format("| {} | {} | not measured |\n", step_link(*info), cell(info->reason));
  return text + "\n";
}

// One operator's part that is written, and its figures.
std::string operator_part(const std::string& op, const std::map<bool, Steps>& devices, const JsonArray& ladders,
                          LearnFiles& files) {
  std::string text;
  int figures = 0;
  for (const bool cuda : {true, false}) {
    const auto found = devices.find(cuda);
    if (found == devices.end()) continue;
    text += fmt::format("## {}\n\n", cuda ? "On a GPU" : "On the CPU");
    bool any = false;
    for (const Json& item : ladders) {
      const JsonObject& ladder = item.as_object();
      if (get_string(ladder, "op") != op || (get_string(ladder, "device") == "cuda") != cuda) continue;
      any = true;
      const std::string file = fmt::format("figures/{}-{}.svg", op, ++figures), shape = get_string(ladder, "shape");
      files[file] = ladder_svg(as_built(ladder, found->second));
      text +=
          fmt::format("### {}, {}\n\n![{} by step]({})\n\n", shape, get_string(ladder, "machine"), title_of(op), file);
      text += limit_line(ladder) + measured_table(ladder, found->second) + rivals_line(ladder);
      text += fmt::format("Measured at commit {} on {}.\n\n", get_string(ladder, "commit"), get_string(ladder, "date"));
    }
    if (!any) text += bare_table(found->second);
  }
  return text;
}

std::string with_part(const std::string& name, const std::string& page, const std::string& part) {
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw Error("[report] {} lacks the marks between which its tables are written", name);
  return page.substr(0, begin + kBegin.size()) + "\n" + part + page.substr(end);
}

std::string new_page(const std::string& op) {
  return fmt::format(
      "# {}, step by step\n\nFor whoever wants to see how a "
      "plain kernel becomes a fast one. How to read the tables: "
      "[introduction](README.md).\n\n{}{}",
      title_of(op), kBegin, kEnd);
}

void check_figures(std::span<const ladder::StepInfo> steps, const JsonArray& ladders) {
  std::set<std::string_view> sources;
  for (const ladder::StepInfo& step : steps) sources.insert(step.source);
  for (const Json& item : ladders) {
    const JsonObject& ladder = as_object(item, "a ladder");
    for (const Json& step : list_of(ladder, "steps")) {
      const std::string source = get_string(as_object(step, "a step"), "source");
      if (!sources.contains(source)) throw Error("[report] there is a figure of '{}', but no such step", source);
    }
  }
}

// "NVIDIA H200" of "cuda:0 NVIDIA H200", or "Neoverse-V1, 2 threads".
std::string machine_of(const JsonObject& machine, bool cuda) {
  if (!cuda) return fmt::format("{}, {} threads", get_string(machine, "cpu"), get_int(machine, "threads", 0));
  const std::string gpu = get_string(machine, "gpu");
  return gpu.starts_with("cuda:") ? gpu.substr(std::min(gpu.size(), gpu.find(' ') + 1)) : gpu;
}

}  // namespace

LearnFiles write_learn_pages(std::span<const ladder::StepInfo> steps, const JsonObject& measured,
                             const LearnFiles& files) {
  const JsonArray& ladders = list_of(measured, "ladders");
  check_figures(steps, ladders);
  std::map<std::string, std::map<bool, Steps>> by_op;
  for (const ladder::StepInfo& step : steps) by_op[step.op][step.cuda].push_back(&step);

  LearnFiles written;
  std::string list = "| operator | steps on a GPU | steps on the CPU |\n|---|---|---|\n";
  for (const auto& [op, devices] : by_op) {
    const auto count = [&](bool cuda) { return devices.contains(cuda) ? devices.at(cuda).size() : 0; };
    list += fmt::format("| [{}]({}.md) | {} | {} |\n", title_of(op), op, count(true), count(false));
    const std::string name = op + ".md";
    const std::string page = files.contains(name) ? files.at(name) : new_page(op);
    written[name] = with_part(name, page, operator_part(op, devices, ladders, written));
  }
  const auto readme = files.find("README.md");
  if (readme == files.end()) throw Error("[report] there is no README.md in the folder of the pages");
  written["README.md"] = with_part("README.md", readme->second, list + "\n");
  return written;
}

void add_measured(JsonObject& measured, const JsonObject& more, const std::string& commit, const std::string& date) {
  const JsonObject* machine = find_object(more, "machine");
  if (!machine) throw Error("[report] the ladders are of no machine");
  if (!find_array(measured, "ladders")) measured["ladders"] = JsonArray{};
  JsonArray& all = measured["ladders"].as_array();
  const auto same = [](const JsonObject& a, const JsonObject& b) {
    return std::ranges::all_of(std::initializer_list<const char*>{"op", "shape", "device", "machine"},
                               [&](const char* key) { return get_string(a, key) == get_string(b, key); });
  };
  for (const Json& item : list_of(more, "ladders")) {
    JsonObject ladder = as_object(item, "a ladder");
    ladder["machine"] = machine_of(*machine, get_string(ladder, "device") == "cuda");
    ladder["commit"] = commit;
    ladder["date"] = date;
    const auto before = std::ranges::find_if(all, [&](const Json& old) { return same(old.as_object(), ladder); });
    if (before != all.end()) {
      *before = std::move(ladder);
    } else {
      all.push_back(std::move(ladder));
    }
  }
}

}  // namespace ingot
