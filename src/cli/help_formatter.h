// How every command's help is written.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace ingot {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() = default;
  explicit HelpFormatter(const CLI::Formatter& other) : CLI::Formatter(other) {}

  // The library lists what an option excludes by addresses, so that two processes may print two texts.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    const std::string title = " " + get_label("Excludes") + ":";
    const size_t list = text.find(title);
    if (list == std::string::npos) return text;
    std::vector<std::string> names;
    for (const CLI::Option* other : option->get_excludes()) names.push_back(other->get_name());
    std::ranges::sort(names);
    std::string sorted = text.substr(0, list) + title;
    for (const std::string& name : names) sorted += " " + name;
    return sorted;
  }
};

}  // namespace ingot
