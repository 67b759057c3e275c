#include "cli/help_formatter.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(HelpFormatter, WhatAnOptionExcludesIsInOneOrder) {
  CLI::App app("tries", "app");
  app.formatter(std::make_shared<HelpFormatter>());
  CLI::Option* const last = app.add_option("--z");
  CLI::Option* const middle = app.add_option("--m");
  CLI::Option* const first = app.add_option("--a");
  CLI::Option* const option = app.add_option("--given");
  option->excludes(last)->excludes(first)->excludes(middle);
  const std::string help = app.help();
  EXPECT_NE(help.find("--given Excludes: --a --m --z"), std::string::npos) << help;
}

}  // namespace
}  // namespace ingot
