#include "cli/engine_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <variant>

#include "app/device.h"
#include "base/check.h"
#include "cli/sampling_options.h"
#include "ops/kv_cache.h"

namespace ingot {

namespace {

using Check = std::string (*)(const std::string& value);  // empty: it is good

std::string known_device(const std::string& device) {
  return device == "cpu" || parse_cuda(device) ? "" : "must be cpu, cuda, cuda:N, cuda:N,M or cuda:N/PARTS";
}

std::string known_kv(const std::string& name) {
  std::string known;
  for (const DType type : kv_types()) {
    if (name == dtype_name(type)) return "";
    known += fmt::format("{}{}", known.empty() ? "" : ",", dtype_name(type));
  }
  return fmt::format("{} not in {{{}}}", name, known);
}

std::string known_form(const std::string& form) {
  return form == "gather" || form == "reduce" ? "" : "must be gather or reduce";
}

std::string whole_key_groups(const std::string& rows) {
  int value = 0;
  std::from_chars(rows.data(), rows.data() + rows.size(), value);
  return value % kKeyGroup != 0 ? fmt::format("must be a multiple of {}", kKeyGroup) : "";
}

// One or several of OptionsOf.
struct Who {
  unsigned bits;
  constexpr Who(OptionsOf one) : bits(static_cast<unsigned>(one)) {}
  constexpr bool has(OptionsOf one) const { return (bits & Who(one).bits) != 0; }
};
constexpr Who operator|(OptionsOf a, OptionsOf b) {
  Who both = a;
  both.bits |= Who(b).bits;
  return both;
}

// One option: what it is called, what its value is called in the help (nothing: a flag), the help (nothing: it is not
// listed), who has it, and where it goes.
struct Row {
  const char* name;
  const char* type;
  const char* text;
  Who who;
  std::variant<int EngineConfig::*, double EngineConfig::*, int64_t EngineConfig::*, bool EngineDevice::*,
               int ModelOptions::*, std::set<std::string> ModelOptions::*, bool OpenOptions::*,
               std::string OpenOptions::*>
      member;
  double low = 0, high = 0;  // of a number; of an int64_t in bytes
  Check check = nullptr;     // more that is asked of the value
};

using enum OptionsOf;

constexpr Row kRows[] = {
    {"--threads", "N", "Threads (default: the cores it may use)", kEngine, &EngineConfig::threads, 1, 1024},
    {"--tp", "N", "Ranks that share each layer; --ep: each whole experts; --pp: stages; serve --dp: engines", kEngine,
     &ModelOptions::tp, 1, 64},
    {"--ep", "N", "", kEngine, &ModelOptions::ep, 1, 64},
    {"--tp-form", "FORM", "", kEngine, &OpenOptions::tp_form, 0, 0, known_form},
    {"--expert-use", "FILE", "", kEngine, &OpenOptions::expert_use},
    {"--pp", "N", "", kEngine, &ModelOptions::pp, 1, 64},       // named beside --tp: a help fits a screen
    {"--dp", "N", "", kEngine, &EngineConfig::engines, 1, 64},  // serve's alone: others say so
    {"--device", "DEVICE", "cpu, cuda, cuda:N; with --tp cuda:N,M or cuda:N/PARTS (default: the best)", kEngine,
     &OpenOptions::device, 0, 0, known_device},
    {"--batch-invariant", "", "On a GPU: answers never depend on the batch; slower", kEngine,
     &EngineDevice::batch_invariant},
    {"--fp8-rows", "", "", kEngine, &EngineDevice::f8_rows},  // what it does to answers is told in docs/gpu.md
    {"--ref", "", "Plain float32 reference kernels, no fusion", kEngine, &OpenOptions::ref},
    {"--verify", "FILE", "Check the model against this manifest first", kEngine, &OpenOptions::verify},

    {"--ctx", "N", "Context in tokens (default: the model's)", kSession, &ModelOptions::context, 1, 1 << 30},
    {"--kv", "TYPE", "KV cache in f32, f16, bf16, fp8, int8 or q8_0 (f16 or bf16; on a GPU by the weights)", kSession,
     &OpenOptions::kv, 0, 0, known_kv},
    {"--no-fuse", "RULES", "Fusion rules to switch off, by name, or all", kSession, &ModelOptions::fuse_off},

    {"--gap-ms", "MS", "Target between two tokens while prompts are read", kServerHidden | kTrace,
     &EngineConfig::gap_ms, 0, 1e6},
    {"--step-rows", "N", "Rows of a step", kServerHidden, &EngineConfig::step_rows, 1, 1 << 16},
    {"--parallel", "N", "Requests that run at once (16; on a GPU 256)", kServer, &EngineConfig::max_seqs, 1, 4096},
    {"--seqs", "N", "Requests that run at once (16)", kTrace, &EngineConfig::max_seqs, 1, 4096},
    {"--max-queue", "N", "Requests that may wait (256); more get 503", kServer, &EngineConfig::max_waiting, 0, 1 << 20},
    {"--max-waiting", "N", "Requests that may wait; more are busy", kTrace, &EngineConfig::max_waiting, 1, 1 << 30},
    {"--ttft-target", "MS", "For the first token: who would miss it is sent away at once (0: none)", kServer | kTrace,
     &EngineConfig::ttft_target_ms, 0, 1e9},
    {"--kv-memory", "BYTES", "Of the KV cache, such as 512M", kServer | kTrace, &EngineConfig::kv_bytes, 1, 0x1p50},
    {"--page-rows", "N", "Rows of a KV page (64)", kTrace, &EngineConfig::page_rows, 1, 4096, whole_key_groups},
};

// The member of the options that a row names.
template <class T>
T& at(OpenOptions& o, T EngineConfig::*member) {
  return o.engine.*member;
}
template <class T>
T& at(OpenOptions& o, T EngineDevice::*member) {
  return o.engine.device.*member;
}
template <class T>
T& at(OpenOptions& o, T ModelOptions::*member) {
  return o.model.*member;
}
template <class T>
T& at(OpenOptions& o, T OpenOptions::*member) {
  return o.*member;
}

CLI::Option* add(CLI::App& app, const Row& row, const char* text, int& value) {
  return app.add_option(row.name, value, text)
      ->check(integer_in(static_cast<int64_t>(row.low), static_cast<int64_t>(row.high)));
}

CLI::Option* add(CLI::App& app, const Row& row, const char* text, double& value) {
  return app.add_option(row.name, value, text)->check(number_in(row.low, row.high));
}

CLI::Option* add(CLI::App& app, const Row& row, const char* text, int64_t& value) {
  return app.add_option(row.name, value, text)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(static_cast<uint64_t>(row.low), static_cast<uint64_t>(row.high)).description(""));
}

CLI::Option* add(CLI::App& app, const Row& row, const char* text, bool& value) {
  return app.add_flag(row.name, value, text);
}

CLI::Option* add(CLI::App& app, const Row& row, const char* text, std::string& value) {
  return app.add_option(row.name, value, text);
}

// "a,b" as a set of two.
CLI::Option* add(CLI::App& app, const Row& row, const char* text, std::set<std::string>& names) {
  const auto split = [&names](const std::string& list) {
    names.clear();
    std::istringstream stream(list);
    for (std::string name; std::getline(stream, name, ',');) {
      if (!name.empty()) names.insert(name);
    }
  };
  return app.add_option_function<std::string>(row.name, split, text);
}

CLI::Option* add_row(CLI::App& app, const Row& row, OpenOptions& options, const char* text) {
  CLI::Option* option = std::visit([&](auto member) { return add(app, row, text, at(options, member)); }, row.member);
  if (*row.type != '\0') option->type_name(row.type);
  if (row.check != nullptr) option->check(row.check);
  if (*text == '\0') option->group("");
  return option;
}

}  // namespace

std::vector<CLI::Option*> add_engine_options(CLI::App& app, OptionsOf whose, OpenOptions& options) {
  std::vector<CLI::Option*> added;
  for (const Row& row : kRows) {
    if (row.who.has(whose)) added.push_back(add_row(app, row, options, row.text));
  }
  return added;
}

CLI::Option* add_engine_option(CLI::App& app, std::string_view name, OpenOptions& options, const char* text) {
  const Row* row = std::ranges::find_if(kRows, [name](const Row& r) { return name == r.name; });
  CHECK(row != std::end(kRows), "{} is no engine option", name);
  return add_row(app, *row, options, text != nullptr ? text : row->text);
}

}  // namespace ingot
