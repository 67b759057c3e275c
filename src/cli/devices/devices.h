// The parts of `ingot devices`: each is a file with its options and its body, written as command.h says; and what they
// share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "devices/device_list.h"
#include "files/atomic_file.h"
#include "files/json.h"

namespace ingot {

extern const Command kDevicesList, kDevicesTopo, kDevicesTest, kDevicesRun, kDevicesPlan;

struct DevicesOptions {
  std::string devices;  // as list_devices() takes them
  std::string html;
  CommonOptions common;
};

// --html, --verbose and --json; add_devices_option(): --devices.
void add_page_options(CLI::App& app, DevicesOptions& options);
void add_devices_option(CLI::App& app, DevicesOptions& options, const char* text);

// Where results go: the document on stdout and the page, which is opened before the work.
class DevicesOutput {
 public:
  explicit DevicesOutput(const DevicesOptions& options);

  bool json() const { return json_; }
  // A line for readers; none where a document is wanted. Kept for the page as well.
  void say(const std::string& line);
  // For the page: a table, and a matrix as a picture. A cell of a matrix is a number, a text or null.
  void table(std::string_view title, const std::vector<std::string>& columns, JsonArray rows);
  void matrix(std::string_view title, std::string_view unit, const std::vector<std::string>& names, JsonArray rows);
  // A curve of [x, y] over a logarithmic x.
  void curve(std::string_view title, std::string_view x, std::string_view y, JsonArray points);
  // Last: prints the document, writes the page.
  void finish(std::string_view title, const JsonObject& document);

 private:
  const bool json_;
  std::optional<AtomicFile> page_;
  JsonArray notes_, tables_, matrices_, curves_;
};

// The page: {title, notes, tables, matrices, curves} of the above.
std::string devices_page(const JsonObject& data);

// "143.8 GB".
std::string gigabytes(int64_t bytes);
// "0-3,8".
std::string core_ranges(const std::vector<int>& cores);
std::vector<std::string> names_of(const std::vector<Device>& devices);

}  // namespace ingot
