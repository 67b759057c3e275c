// ingot devices: the GPUs and memory nodes of this machine.
#include "cli/devices/devices.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

namespace ingot {
namespace {

constexpr std::array kParts = {&kDevicesList, &kDevicesTopo, &kDevicesTest, &kDevicesRun, &kDevicesPlan};

CommandBody setup(CLI::App& app) { return add_subcommands(app, kParts); }

}  // namespace

void add_page_options(CLI::App& app, DevicesOptions& options) {
  app.add_option("--html", options.html, "Also write a page, matrices as pictures")->type_name("FILE");
  add_verbose_option(app, options.common);
  add_json_option(app, options.common);
}

void add_devices_option(CLI::App& app, DevicesOptions& options, const char* text) {
  app.add_option("--devices", options.devices, text)->type_name("LIST");
}

DevicesOutput::DevicesOutput(const DevicesOptions& options) : json_(options.common.json) {
  if (!options.html.empty()) page_.emplace(options.html);
}

void DevicesOutput::say(const std::string& line) {
  if (!json_) fmt::print("{}\n", line);
  notes_.push_back(Json(line));
}

void DevicesOutput::table(std::string_view title, const std::vector<std::string>& columns, JsonArray rows) {
  tables_.push_back(
      JsonObject{{"title", title}, {"columns", JsonArray(columns.begin(), columns.end())}, {"rows", std::move(rows)}});
}

void DevicesOutput::matrix(std::string_view title, std::string_view unit, const std::vector<std::string>& names,
                           JsonArray rows) {
  matrices_.push_back(JsonObject{
      {"title", title}, {"unit", unit}, {"names", JsonArray(names.begin(), names.end())}, {"rows", std::move(rows)}});
}

void DevicesOutput::curve(std::string_view title, std::string_view x, std::string_view y, JsonArray points) {
  curves_.push_back(JsonObject{{"title", title}, {"x", x}, {"y", y}, {"points", std::move(points)}});
}

void DevicesOutput::finish(std::string_view title, const JsonObject& document) {
  if (json_) fmt::print("{}\n", to_json(document));
  if (!page_) return;
  page_->write(devices_page(
      {{"title", title}, {"notes", notes_}, {"tables", tables_}, {"matrices", matrices_}, {"curves", curves_}}));
  page_->commit();
}

std::string gigabytes(int64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); }

std::string core_ranges(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last > i ? fmt::format("{}-{}", cores[i], cores[last]) : fmt::format("{}", cores[i]);
    i = last + 1;
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const Device& device : devices) names.push_back(device.name);
  return names;
}

const Command kDevicesCommand = {"devices", "The GPUs and memory nodes of this machine",
                                 "ingot devices list\n  ingot devices test --devices cuda:0,cuda:1 --html test.html\n"
                                 "  ingot devices plan --shape llama-3.1-70b --format bf16",
                                 setup};

}  // namespace ingot
