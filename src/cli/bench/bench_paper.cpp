#include "cli/bench/bench_paper.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "app/device.h"
#include "base/error.h"
#include "bench/machine.h"
#include "cli/bench/bench_limits.h"
#include "cli/bench/links_file.h"
#include "cli/bench/paper_rank.h"
#include "cli/interrupt.h"
#include "comm/comm_paper.h"
#include "comm/world.h"

namespace ingot {
namespace {

// One part of a run: until all have their first token, or from then on.
struct Part {
  double seconds = 0, steps = 0, collectives = 0;
  double collective_seconds = 0, message_seconds = 0, stage_seconds = 0;  // modelled
  double message_bytes = 0;

  double modelled() const { return collective_seconds + message_seconds + stage_seconds; }
};

// Takes the counts of each run apart.
class PaperMeter {
 public:
  explicit PaperMeter(const PaperComm& comm) : comm_(comm) {}

  void at(BenchMoment moment) {
    Part now;
    now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    const PaperCounts paper = comm_.counts();
    const RankCounts rank = comm_.meter.counts();
    now.steps = static_cast<double>(rank.steps);
    now.collectives = static_cast<double>(paper.collectives);
    now.collective_seconds = paper.collective_seconds;
    now.message_seconds = paper.message_seconds;
    now.stage_seconds = paper.stage_seconds;
    now.message_bytes = static_cast<double>(rank.bytes[static_cast<size_t>(CommKind::kMessage)]);
    if (moment == BenchMoment::kAllFirst) reading_.push_back(between(last_, now));
    if (moment == BenchMoment::kEnd) making_.push_back(between(last_, now));
    last_ = now;
  }

  // Of the runs but the first, the one whose time is in the middle.
  Part reading() const { return middle(reading_); }
  Part making() const { return middle(making_); }

 private:
  static Part between(const Part& from, const Part& to) {
    return {.seconds = to.seconds - from.seconds,
            .steps = to.steps - from.steps,
            .collectives = to.collectives - from.collectives,
            .collective_seconds = to.collective_seconds - from.collective_seconds,
            .message_seconds = to.message_seconds - from.message_seconds,
            .stage_seconds = to.stage_seconds - from.stage_seconds,
            .message_bytes = to.message_bytes - from.message_bytes};
  }
  static Part middle(const std::vector<Part>& all) {
    std::vector<Part> runs(all.begin() + 1, all.end());
    std::ranges::sort(runs, {}, &Part::seconds);
    return runs[(runs.size() - 1) / 2];
  }

  const PaperComm& comm_;
  Part last_;
  std::vector<Part> reading_, making_;
};

int ranks_of_stage(const BenchModelOptions& model) { return model.open.model.ranks(); }
int ranks_of(const BenchModelOptions& model) { return ranks_of_stage(model) * model.open.model.pp; }

double share(const Part& part) { return part.seconds > 0 ? std::min(1.0, part.modelled() / part.seconds) : 0; }

// What is modelled is named so, and what is measured.
JsonObject part_json(const Part& part, int ranks_of_stage) {
  const double steps = std::max(1.0, part.steps), others = std::max(1, ranks_of_stage - 1);
  return {{"modelled_share", share(part)},
          {"measured_share", 1 - share(part)},
          {"steps", part.steps},
          {"collectives_of_step", part.collectives / steps},
          {"message_bytes_of_step", part.message_bytes / steps / others},
          {"modelled_collective_us_of_step", 1e6 * part.collective_seconds / steps},
          {"modelled_message_us_of_step", 1e6 * part.message_seconds / steps},
          {"modelled_stages_us_of_step", 1e6 * part.stage_seconds / steps},
          {"measured_us_of_step", 1e6 * std::max(0.0, part.seconds - part.modelled()) / steps}};
}

JsonObject paper_result_json(const BenchSpeed& speed, const BenchWork& work, const PaperMeter& meter,
                             int ranks_of_stage) {
  return {{"on_paper", true},
          {"batch", speed.batch},
          {"prompt", work.prompt},
          {"gen", work.gen},
          {"prefill_tps", speed.prefill_tps(work)},
          {"decode_tps", speed.decode_tps(work)},
          {"ttft_ms", speed.first * 1e3},
          {"prefill", part_json(meter.reading(), ranks_of_stage)},
          {"decode", part_json(meter.making(), ranks_of_stage)}};
}

// All that is known before the first run.
struct PaperFacts {
  int rank = 0;
  LinksFile links;
  double sync_us = 0;
  BenchLimits limits;
  CutBytes own;
  int64_t model_bytes = 0, kv_bytes = 0;
};

void print_head(const PaperFacts& facts, const BenchModelOptions& model) {
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  fmt::print("on paper: rank {} of {} of {} runs here; the others do not exist, and its tokens mean nothing\n",
             facts.rank, ranks_of(model), bench_model_name(model));
  fmt::print("on paper, published: {}\n", links_text(facts.links, model.open.model.pp > 1));
  fmt::print("on paper, measured: {}, {} threads, {}; a meeting of two threads, in each collective: {:.2f} us\n",
             cpu_name(), facts.limits.threads, reads_text(facts.limits.reads), facts.sync_us);
  fmt::print("on paper, the rank's: {:.1f} of {:.1f} MB of weights, {:.1f} of them cut; KV cache {:.1f} MB\n",
             mb(facts.own.all()), mb(facts.model_bytes), mb(facts.own.cut), mb(facts.kv_bytes));
  fmt::print("on paper {:>6} {:>7} {:>5} {:>14} {:>13} {:>10}   waits: {:>9} {:>8}\n", "batch", "prompt", "gen",
             "prefill tok/s", "decode tok/s", "first ms", "prefill %", "decode %");
}

void print_result(const BenchSpeed& speed, const BenchWork& work, const PaperMeter& meter) {
  fmt::print("on paper {:6} {:7} {:5} {:14.1f} {:13.1f} {:10.1f} {:19.1f} {:8.1f}\n", speed.batch, work.prompt,
             work.gen, speed.prefill_tps(work), speed.decode_tps(work), speed.first * 1e3, 100 * share(meter.reading()),
             100 * share(meter.making()));
}

JsonObject facts_json(const PaperFacts& facts, const BenchModelOptions& model) {
  return {{"on_paper", true},
          {"rank", facts.rank},
          {"ranks", ranks_of(model)},
          {"tp", model.open.model.tp},
          {"ep", model.open.model.ep},
          {"pp", model.open.model.pp},
          {"tp_form", model.open.tp_form},
          {"published", JsonObject{{"links", links_json(facts.links)}}},
          {"measured", JsonObject{{"sync_us", facts.sync_us}, {"machine", machine_json(facts.limits)}}},
          {"rank_bytes", JsonObject{{"weights", facts.own.all()},
                                    {"cut_weights", facts.own.cut},
                                    {"whole_weights", facts.own.whole},
                                    {"model_weights", facts.model_bytes},
                                    {"kv", facts.kv_bytes}}}};
}

}  // namespace

void add_paper_options(CLI::App& app, PaperOptions& options) {
  app.add_option("--as-rank", options.as_rank,
                 "On paper: run this rank of --tp × --pp alone, and wait as --links FILE says")
      ->check(CLI::Range(0, 4095).description(""))
      ->type_name("R");
  app.add_option("--links", options.links, "")->type_name("FILE")->group("");  // named beside --as-rank
}

bool check_paper(const PaperOptions& options, const BenchModelOptions& model) {
  if (options.as_rank < 0 && options.links.empty()) return false;
  if (options.as_rank < 0) throw CLI::ValidationError("--links needs --as-rank: which rank runs here");
  if (options.links.empty()) throw CLI::ValidationError("--as-rank needs --links FILE: how the ranks reach each other");
  if (ranks_of(model) == 1)
    throw CLI::ValidationError("--as-rank needs --tp, --ep or --pp: it is one of several ranks");
  if (options.as_rank >= ranks_of(model))
    throw CLI::ValidationError(
        fmt::format("--as-rank {}: {} ranks are 0 to {}", options.as_rank, ranks_of(model), ranks_of(model) - 1));
  if (!model.save.empty()) throw CLI::ValidationError("--save writes a whole model, and --as-rank makes one rank's");
  if (options.as_rank >= ranks_of_stage(model))
    throw Error("[paper] rank {} is of a stage before the last: without the head none is told on paper; {} are",
                options.as_rank, ranks_of_stage(model) == 1 ? "0" : fmt::format("0 to {}", ranks_of_stage(model) - 1));
  if (choose_device(model.open.device, model.open.ref) >= 0)
    throw Error("[paper] a rank is told on paper by the CPU alone so far: --device cpu");
  if (World::joined() != nullptr) throw Error("[paper] the other ranks do not exist: without mpirun");
  return true;
}

int run_paper(const PaperOptions& options, const BenchModelOptions& asked, const BenchWork& asked_work,
              const std::vector<int>& batches) {
  PaperFacts facts{.rank = options.as_rank, .links = read_links_file(options.links), .sync_us = measure_sync_us()};
  const int ranks = ranks_of_stage(asked);
  const auto comm = std::make_shared<PaperComm>(facts.rank, ranks, facts.links.ranks, facts.sync_us,
                                                asked.open.model.pp, facts.links.stages);
  BenchModelOptions model = asked;
  model.open.model.own_rank = facts.rank;
  model.open.model.on_paper = true;
  model.open.engine.on_paper = comm;
  BenchWork work = asked_work;
  const int seqs = *std::ranges::max_element(batches);
  const OpenEngine opened = open_bench_model(model, work.prompt + work.gen, seqs, work.prompt);
  facts.limits = measure_limits(*opened.engine);
  opened.engine->call([&](LocalEngine& local) { facts.kv_bytes = local.device().kv_bytes(); });
  facts.own = rank_bytes(*opened.model, facts.rank);
  facts.model_bytes = model_bytes(*opened.model);
  const InterruptGuard guard;
  if (!model.common.json) print_head(facts, model);
  JsonArray results;
  for (const int batch : batches) {
    PaperMeter meter(*comm);
    work.at = [&](BenchMoment moment) { meter.at(moment); };
    const BenchSpeed speed = measure_speed(*opened.engine, batch, work);
    results.push_back(paper_result_json(speed, work, meter, ranks));
    if (!model.common.json) print_result(speed, work, meter);
  }
  if (!model.common.json) return 0;
  JsonObject report = facts_json(facts, model);
  report["results"] = results;
  report["model"] = bench_model_json(model, *opened.model);
  fmt::print("{}\n", to_json(report));
  return 0;
}

}  // namespace ingot
