// ingot report: one page about the machine, the operators and a model on it.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/hub/cache.h"
#include "cli/report/child.h"
#include "cli/report/learn_pages.h"
#include "cli/report/report_file.h"
#include "cli/report/report_measure.h"
#include "cli/report/report_page.h"
#include "cli/session.h"
#include "cli/strings.h"
#include "files/atomic_file.h"

namespace ingot {
namespace {

struct Options {
  ReportRun run;
  std::string out = "ingot-report.html";
  std::string json, against, from;
  std::string docs, commit;
  bool pdf = false;
};

std::string now(const char* form) { return fmt::format(fmt::runtime(form), fmt::gmtime(std::time(nullptr))); }

// The model to measure: a path, or empty where none was named and the default one is not there.
std::string model_path(const BenchModelOptions& options) {
  if (!options.shape.empty()) return "";
  if (!options.model.empty()) return resolve_model(options.model);
  return find_cached("default").value_or("");
}

JsonObject measure(const Options& options) {
  ReportRun run = options.run;
  run.model.model = model_path(run.model);
  JsonObject report{
      {"ingot_report", kReportVersion}, {"version", INGOT_VERSION}, {"date", now("{:%Y-%m-%dT%H:%M:%SZ}")}};
  const JsonObject measured = measure_report(run, [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  });
  for (const auto& [key, value] : measured) report[key] = value;
  return report;
}

// Prints the page as FILE.pdf beside it; a line says so where it cannot be.
void print_pdf(const std::string& page) {
  std::optional<std::string> browser;
  if (const std::string set = environment("INGOT_CHROMIUM"); !set.empty()) browser = set;
  if (!browser) browser = find_program({"chromium", "chromium-browser", "google-chrome", "chrome"});
  if (!browser) {
    fmt::print("no PDF: there is no Chromium on this machine\n");
    return;
  }
  const std::filesystem::path file = std::filesystem::absolute(page);
  const std::string pdf = std::filesystem::path(file).replace_extension(".pdf").string();
  std::filesystem::remove(pdf);
  Child child({*browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--no-pdf-header-footer", "--print-to-pdf=" + pdf, "file://" + file.string()});
  child.wait(120);
  if (child.status() == 0 && std::filesystem::exists(pdf)) {
    fmt::print("{}\n", pdf);
  } else {
    fmt::print("no PDF: {} did not print the page\n", *browser);
  }
}

void write_file(AtomicFile& file, const std::string& text) {
  file.write(text);
  file.commit();
}

// Takes the ladders of --from into the pages' figures, and writes the pages.
int write_docs(const Options& options) {
  if (ladder::steps().empty()) throw Error("[report] this build has no ladders");
  const std::string file = (std::filesystem::path(options.docs) / "measured.json").string();
  const LearnFiles there = read_learn_files(options.docs);
  JsonObject measured = std::filesystem::exists(file) ? read_ladders(file) : JsonObject{};
  if (!options.from.empty()) {
    if (options.commit.empty()) throw CLI::ValidationError("--docs with --from needs --commit");
    add_measured(measured, read_ladders(options.from), options.commit, now("{:%Y-%m-%d}"));
  }
  const LearnFiles written = write_learn_pages(ladder::steps(), measured, there);  // or throws, and nothing is written
  if (!options.from.empty()) {
    AtomicFile figures(file);
    write_file(figures, to_json_pretty(measured) + "\n");
  }
  save_learn_files(options.docs, written);
  fmt::print("{} files of {}\n", written.size(), options.docs);
  return 0;
}

int run_report(const Options& options) {
  if (!options.docs.empty()) return write_docs(options);
  const BenchModelOptions& model = options.run.model;
  if (!model.shape.empty() && !model.model.empty()) throw CLI::ValidationError("give MODEL or --shape, not both");
  const JsonObject before = options.against.empty() ? JsonObject{} : read_report(options.against);
  if (options.pdf && options.out.ends_with(".pdf"))
    throw CLI::ValidationError("--out is the page; --pdf prints it beside that, with the ending .pdf");
  // Whether they can be written is known before the work.
  AtomicFile page(options.out);
  std::optional<AtomicFile> json;
  if (!options.json.empty()) json.emplace(options.json);
  const JsonObject report = options.from.empty() ? measure(options) : read_report(options.from);
  if (json) write_file(*json, to_json_pretty(report) + "\n");
  write_file(page, report_page(report, before.empty() ? JsonObject{} : compare_reports(before, report)));
  fmt::print("{}\n", options.out);
  if (options.pdf) print_pdf(options.out);
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  BenchModelOptions& model = options->run.model;
  app.add_option("MODEL", model.model, "A GGUF file, a Hugging Face directory or a cached name")->type_name("");
  app.add_option("--shape", model.shape, "Random weights of a published shape, such as llama-3.2-1b");
  app.add_option("--format", model.format, "With --shape: bf16, q8_0, q4_0, q4_k_m, fp8 …");
  app.add_option("--out", options->out, "The page (ingot-report.html)")->type_name("FILE");
  app.add_option("--json", options->json, "Also write the figures, for --against and --from")->type_name("FILE");
  app.add_flag("--pdf", options->pdf, "Also print the page as PDF, by Chromium");
  app.add_flag("--quick", options->run.quick, "Few cases and few runs: at most a minute");
  app.add_option("--against", options->against, "Compare with the figures of an older report")->type_name("FILE");
  app.add_option("--from", options->from, "Show these figures instead of measuring")->type_name("FILE");
  app.add_option("--docs", options->docs, "Write the pages of this folder (docs/learn) instead of a report")
      ->type_name("DIR");
  app.add_option("--commit", options->commit, "With --docs and --from: of the ladders that --from takes in");
  for (const char* name : {"--threads", "--device"}) add_engine_option(app, name, model.open);
  return [options] { return run_report(*options); };
}

}  // namespace

const Command kReportCommand = {"report", "Write one page about this machine, the operators and a model",
                                "ingot report --quick --json today.json\n"
                                "  ingot report MODEL --against today.json --out after.html --pdf",
                                setup};

}  // namespace ingot
