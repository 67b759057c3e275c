#include <gtest/gtest.h>

#include "cli/report/child.h"
#include "cli/report/report_file.h"
#include "cli/report/report_machine.h"

namespace ingot {
namespace {

TEST(ReportMachine, TheHighestOfWhatTheGpuSays) {
  JsonObject facts;
  Gpu gpu;
  gpu.clock_mhz = 345;
  gpu.power_w = 80.5;
  gpu.celsius = 30;
  add_gpu_facts(gpu, facts);
  gpu.clock_mhz = 1980;
  gpu.power_w = 611.2;
  gpu.celsius = 0;
  add_gpu_facts(gpu, facts);
  EXPECT_EQ(get_float(facts, "gpu_clock_mhz"), 1980);
  EXPECT_EQ(get_float(facts, "gpu_power_w"), 611.2);
  EXPECT_EQ(get_float(facts, "gpu_celsius"), 30);
  EXPECT_EQ(find(facts, "gpu_memory_clock_mhz"), nullptr);  // not told
}

TEST(ReportMachine, Memory) {
  EXPECT_EQ(memory_bytes_of("Foo: 1 kB\nMemTotal:       24576 kB\nMemFree: 2 kB\n"), 24576 * 1024);
  EXPECT_EQ(memory_bytes_of(""), 0);
  EXPECT_GT(get_int(machine_facts(), "memory_bytes"), 0);
}

JsonObject report_with(double seconds, double decode, const char* op = "add") {
  return {
      {"date", "then"},
      {"version", "1"},
      {"machine", JsonObject{{"cpu", "a CPU"}, {"threads", 2}, {"measured_read_gbs", 50.0}}},
      {"ops", JsonArray{JsonObject{{"op", op}, {"shape", "1"}, {"seconds", seconds}}}},
      {"model", JsonObject{{"name", "m"},
                           {"steps", JsonArray{JsonObject{{"name", "all"}, {"batch", 1}, {"decode_tps", decode}}}}}}};
}

TEST(ReportFile, GainsAreOfSpeed) {
  const JsonObject both = compare_reports(report_with(4e-6, 10), report_with(1e-6, 20));
  const JsonArray& rows = both.at("rows").as_array();
  ASSERT_EQ(rows.size(), 3u);  // the largest change first
  EXPECT_EQ(get_string(rows[0].as_object(), "name"), "add 1");
  EXPECT_DOUBLE_EQ(get_float(rows[0].as_object(), "gain"), 4);
  EXPECT_EQ(get_string(rows[1].as_object(), "kind"), "decode");
  EXPECT_DOUBLE_EQ(get_float(rows[1].as_object(), "gain"), 2);
  EXPECT_DOUBLE_EQ(get_float(rows[2].as_object(), "gain"), 1);
  EXPECT_TRUE(get_bool(both, "same_machine"));
}

TEST(ReportFile, WhatOnlyOneHasIsCounted) {
  const JsonObject both = compare_reports(report_with(1, 0, "old"), report_with(1, 0, "new"));
  EXPECT_EQ(get_int(both, "only_before"), 1);
  EXPECT_EQ(get_int(both, "only_after"), 1);
}

TEST(ReportChild, WhatItPrintsAndHowItEnds) {
  Child good({"/bin/sh", "-c", "echo one; exit 3"});
  EXPECT_EQ(good.wait(30), "one\n");
  EXPECT_EQ(good.status(), 3);
  Child slow({"/bin/sh", "-c", "echo begun; exec sleep 100"});
  EXPECT_EQ(slow.wait(0.5), "begun\n");
  EXPECT_EQ(slow.status(), -1);
  EXPECT_THROW(Child({"/nowhere/program"}), Error);
  EXPECT_TRUE(find_program({"no-such-program", "sh"}).has_value());
  EXPECT_FALSE(find_program({"no-such-program"}).has_value());
}

}  // namespace
}  // namespace ingot
