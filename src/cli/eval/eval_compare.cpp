// ingot eval compare: models beside the one they were made of, over a text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/engine_options.h"
#include "cli/eval/compare_page.h"
#include "cli/eval/compare_run.h"
#include "cli/eval/eval.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "compress/calibration_text.h"
#include "compress/compare.h"
#include "compress/worst_tensors.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "text/tokenizer.h"
#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {
namespace {

// One of the models, and what is known of it before it runs.
struct Subject {
  std::string path, name;
  OpenEngine open;
  std::string format;
  int64_t bytes = 0;  // of the stored tensors
  double bits = 0;    // of these for each of the model's values
  Speed speed;
  std::vector<TaskScore> tasks;
  WorstTensors worst;  // not of the teacher
};

Subject open_subject(const std::string& path, const OpenOptions& options) {
  Subject s;
  s.path = path;
  s.name = std::filesystem::path(path).filename().string();
  s.open = open_engine(path, options);
  if (s.name.empty()) s.name = std::filesystem::path(path).parent_path().filename().string();
  const ModelFiles& files = *s.open.model->files;
  s.format = format_text(bytes_of_formats(files));
  int64_t parameters = 0;
  for (const StoredTensor& t : stored_tensors(files)) {
    s.bytes += t.bytes;
    parameters += t.parameters;
  }
  s.bits = parameters > 0 ? 8.0 * static_cast<double>(s.bytes) / static_cast<double>(parameters) : 0;
  return s;
}

// The context that chunks and tasks need. Throws Error where the model at `path` has less for a task.
int needed_context(int chunk_tokens, const std::vector<Task>& tasks, const std::string& path) {
  int context = chunk_tokens;
  for (const Task& task : tasks) {
    const int longest = task.longest(), most = Model::read_numbers(ModelFiles::open(path)).context;
    if (longest > most)
      throw Error("[eval] a question of task '{}' has {} tokens with its answer, the context of '{}' is {}", task.name,
                  longest, path, most);
    context = std::max(context, longest);
  }
  return context;
}

// The teacher first. All are opened before anything runs: what cannot be compared is known at once.
std::vector<Subject> open_all(const CompareOptions& options, const Tokenizer& tokenizer, const std::string& teacher,
                              const std::vector<Task>& tasks) {
  OpenOptions setup = options.open;
  setup.model.context = needed_context(options.chunk_tokens, tasks, teacher);
  std::vector<std::string> paths;
  for (const std::string& model : options.models) {
    paths.push_back(resolve_model(model));
    check_other_text(paths.back(), options.text);
    check_same_vocabulary(tokenizer, *Tokenizer::load(paths.back()), paths.back());
    needed_context(options.chunk_tokens, tasks, paths.back());
  }
  std::vector<Subject> subjects;
  OpenOptions plain = setup;
  if (setup.kv == "fp8" || setup.kv == "int8" || setup.kv == "q8_0") plain.kv = "f32";  // what it costs is judged, too
  subjects.push_back(open_subject(teacher, plain));
  const int vocab = subjects[0].open.model->hp.vocab;
  for (const std::string& path : paths) {
    subjects.push_back(open_subject(path, setup));
    const int other = subjects.back().open.model->hp.vocab;
    if (other != vocab) throw Error("[eval] '{}' has {} logits, the teacher {}", path, other, vocab);
  }
  return subjects;
}

// Of the first chunk: a quarter of it, at most 32 tokens, is made after the rest was read.
void measure_speeds(std::vector<Subject>& subjects, const std::vector<int32_t>& chunk) {
  const int gen = std::clamp(static_cast<int>(chunk.size()) / 4, 2, 32);
  const std::vector<int32_t> prompt(chunk.begin(), chunk.end() - gen);
  for (Subject& s : subjects) s.speed = measure_speed(*s.open.engine, prompt, gen);
}

// All read the tokens of the teacher's tokenizer, whose vocabulary is theirs.
void score_tasks(std::vector<Subject>& subjects, const std::vector<Task>& tasks, bool verbose) {
  for (const Task& task : tasks) {
    for (Subject& s : subjects) {
      s.tasks.push_back(score_task(*s.open.engine, task, [](size_t) { throw_if_interrupted(); }));
      if (verbose) fmt::print(stderr, "{} of {}\n", task.name, s.name);
    }
  }
}

// With weights loaded once more, as files hold them: engines keep them packed and give the rest back.
void find_worst_tensors(std::vector<Subject>& subjects, int threads) {
  ThreadPool pool(threads > 0 ? threads : available_cores());
  const Model teacher = Model::load(subjects[0].path, tensor_error_options());
  for (size_t i = 1; i < subjects.size(); ++i) {
    throw_if_interrupted();
    subjects[i].worst = worst_tensors(teacher, Model::load(subjects[i].path, tensor_error_options()), pool);
  }
}

JsonObject worst_json(const WorstTensors& worst) {
  JsonArray tensors;
  for (const TensorError& t : worst.tensors)
    tensors.push_back(
        JsonObject{{"name", t.name}, {"format", format_name(t.format)}, {"bits", t.bits}, {"error", t.error}});
  JsonObject json{{"compared", worst.compared}, {"alone", worst.alone}, {"tensors", tensors}};
  if (!worst.skipped.empty()) json["skipped"] = worst.skipped;
  return json;
}

JsonObject subject_json(const Subject& s, const std::vector<Task>& tasks, bool speed, double perplexity) {
  JsonObject json{{"name", s.name},   {"path", s.path}, {"format", s.format},
                  {"bytes", s.bytes}, {"bits", s.bits}, {"perplexity", perplexity}};
  if (speed) {
    json["prefill_tps"] = s.speed.prefill_tps;
    json["decode_tps"] = s.speed.decode_tps;
  }
  if (!tasks.empty()) {
    JsonArray scores;
    for (size_t t = 0; t < tasks.size(); ++t) scores.push_back(task_json(tasks[t].name, s.tasks[t]));
    json["tasks"] = scores;
  }
  return json;
}

JsonObject report_json(const CompareOptions& options, const std::vector<Subject>& subjects, const Compared& compared,
                       const std::vector<Task>& tasks, const ScoredText& text, double seconds) {
  JsonArray models;
  for (size_t m = 0; m < compared.models.size(); ++m) {
    const Divergence& d = compared.models[m];
    JsonObject json = subject_json(subjects[m + 1], tasks, options.speed, d.perplexity);
    json["kld"] = d.kld;
    json["kld_error"] = d.kld_error;
    json["kld_median"] = d.kld_median;
    json["kld_p99"] = d.kld_p99;
    json["kld_max"] = d.kld_max;
    json["top1"] = d.top1;
    json["chunk_kld"] = JsonArray(d.chunk_kld.begin(), d.chunk_kld.end());
    // No other is at least as small and as near, and better in one of the two.
    bool front = true;
    for (size_t o = 0; o < compared.models.size(); ++o) {
      const int64_t bytes = subjects[o + 1].bytes, own = subjects[m + 1].bytes;
      const double kld = compared.models[o].kld;
      if (bytes <= own && kld <= d.kld && (bytes < own || kld < d.kld)) front = false;
    }
    json["on_front"] = front;
    if (m > 0) {
      const PairedRatio paired = paired_ratio(compared.models[0], d);
      json["ratio_to_first"] = paired.ratio;
      json["ratio_error"] = paired.error;
    }
    json["worst_tensors"] = worst_json(subjects[m + 1].worst);
    models.emplace_back(std::move(json));
  }
  return {{"teacher", subject_json(subjects[0], tasks, options.speed, compared.teacher_perplexity)},
          {"models", models},
          {"text", std::filesystem::path(options.text).filename().string()},
          {"chunks", static_cast<int64_t>(text.chunks.size())},
          {"chunk_tokens", options.chunk_tokens},
          {"tokens", text.scored()},
          {"seconds", seconds}};
}

void print_table(const std::vector<Subject>& subjects, const Compared& compared, const std::vector<Task>& tasks,
                 bool speed) {
  size_t width = 5;
  for (const Subject& s : subjects) width = std::max(width, s.name.size());
  fmt::print("{:<{}} {:>9} {:>6} {:>11} {:>19} {:>8} {:>8} {:>7}", "", width, "MB", "bits", "perplexity", "KLD", "p99",
             "max", "top-1");
  for (const Task& task : tasks) fmt::print(" {:>16}", task.name);
  if (speed) fmt::print(" {:>14} {:>13}", "prefill tok/s", "decode tok/s");
  fmt::print("\n");
  for (size_t i = 0; i < subjects.size(); ++i) {
    const Subject& s = subjects[i];
    const double perplexity = i == 0 ? compared.teacher_perplexity : compared.models[i - 1].perplexity;
    fmt::print("{:<{}} {:>9.2f} {:>6.2f} {:>11.4f}", s.name, width, static_cast<double>(s.bytes) / 1e6, s.bits,
               perplexity);
    if (i == 0) {
      fmt::print(" {:>19} {:>8} {:>8} {:>7}", "-", "-", "-", "-");
    } else {
      const Divergence& d = compared.models[i - 1];
      fmt::print(" {:>9.5f} ± {:.5f} {:>8.4f} {:>8.3f} {:>6.2f}%", d.kld, d.kld_error, d.kld_p99, d.kld_max,
                 100 * d.top1);
    }
    for (const TaskScore& score : s.tasks)
      fmt::print(" {:>7.2f} ± {:>5.2f}%", 100 * score.accuracy(), 100 * score.error_of(score.accuracy()));
    if (speed) fmt::print(" {:>14.1f} {:>13.1f}", s.speed.prefill_tps, s.speed.decode_tps);
    fmt::print("\n");
  }
}

void print_worst_tensors(const Subject& s) {
  const WorstTensors& worst = s.worst;
  if (!worst.skipped.empty()) {
    fmt::print("worst tensors of {}: not told: {}\n", s.name, worst.skipped);
    return;
  }
  if (worst.tensors.empty()) {
    fmt::print("worst tensors of {}: none of {} differs from the teacher's\n", s.name, worst.compared);
    return;
  }
  fmt::print("worst tensors of {}, of {}{}: squared error as a share of the teacher's squares\n", s.name,
             worst.compared, worst.alone > 0 ? fmt::format(" ({} others have no counterpart)", worst.alone) : "");
  size_t width = 0;
  for (const TensorError& t : worst.tensors) width = std::max(width, t.name.size());
  for (const TensorError& t : worst.tensors)
    fmt::print("  {:<{}} {:>9} {:>6.2f} {:>11.3g}\n", t.name, width, format_name(t.format), t.bits, t.error);
}

}  // namespace

JsonObject run_compare(const CompareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::vector<TaskItem>> items;
  for (const auto& [name, file] : options.tasks) items.push_back(read_questions(name, file, options.limit));
  const std::string teacher = resolve_model(options.teacher);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(teacher);
  const ScoredText text = scored_text(*tokenizer, read_text_file(options.text), options.chunk_tokens, options.chunks);
  std::optional<AtomicFile> page;  // whether it can be written is known before the work
  if (!options.html.empty()) page.emplace(options.html);
  std::vector<Task> tasks;
  for (size_t t = 0; t < items.size(); ++t)
    tasks.push_back(tokenized_task(options.tasks[t].first, items[t], *tokenizer));
  std::vector<Subject> subjects = open_all(options, *tokenizer, teacher, tasks);
  std::vector<Engine*> engines;
  for (size_t i = 1; i < subjects.size(); ++i) engines.push_back(subjects[i].open.engine);
  const InterruptGuard guard;
  const Compared compared = compare(*subjects[0].open.engine, engines, text, [&](size_t done) {
    if (interrupted()) throw Interrupted();
    if (options.verbose) fmt::print(stderr, "chunk {} of {}\n", done, text.chunks.size());
  });
  if (options.speed) measure_speeds(subjects, text.chunks[0]);
  score_tasks(subjects, tasks, options.verbose);
  find_worst_tensors(subjects, options.open.engine.threads);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  JsonObject report = report_json(options, subjects, compared, tasks, text, seconds);
  if (!options.search.empty()) report["search"] = options.search;
  if (page) {
    page->write(compare_page(report));
    page->commit();
  }
  if (options.table) {
    print_table(subjects, compared, tasks, options.speed);
    for (size_t i = 1; i < subjects.size(); ++i) print_worst_tensors(subjects[i]);
    fmt::print("{} tokens of {} chunks, {:.1f} s\n", text.scored(), text.chunks.size(), seconds);
  }
  return report;
}

namespace {

struct Options {
  CompareOptions compare;
  std::vector<std::string> tasks;
  CommonOptions common;
};

std::pair<std::string, std::string> task_option(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw CLI::ValidationError("--task", "'" + text + "' is not NAME=FILE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

int run(Options& options) {
  for (const std::string& text : options.tasks) {
    const auto [name, file] = task_option(text);
    for (const auto& [other, path] : options.compare.tasks)
      if (other == name) throw CLI::ValidationError("--task", "'" + name + "' is named twice");
    options.compare.tasks.emplace_back(name, file);
  }
  options.compare.table = !options.common.json;
  options.compare.verbose = options.common.verbose;
  const JsonObject report = run_compare(options.compare);
  if (options.common.json) fmt::print("{}\n", to_json(report));
  return 0;
}

}  // namespace

CommandBody setup_eval_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CompareOptions& compared = options->compare;
  app.add_option("TEACHER", compared.teacher, "The model that the others were made of")->required();
  app.add_option("MODEL", compared.models, "Models of the same vocabulary")->required();
  app.add_option("--text", compared.text, "A text file, other than what the models were calibrated with")->required();
  app.add_option("--chunks", compared.chunks, "At most this many chunks (0: all)")->check(CLI::Range(0, 1 << 30));
  app.add_option("--chunk-tokens", compared.chunk_tokens, "Tokens of a chunk")->check(CLI::Range(4, 1 << 20));
  CLI::Option* tasks = app.add_option("--task", options->tasks,
                                      "Accuracy on a task, too (several): a name and a file as `eval task` takes them");
  tasks->type_name("NAME=FILE")->allow_extra_args(false);
  app.add_option("--limit", compared.limit, "Only the first N questions of each task (0: all)")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->needs(tasks);
  app.add_option("--html", compared.html, "Also write a page with a chart")->type_name("FILE");
  app.add_flag("!--no-speed", compared.speed, "Without prefill and decode");
  add_engine_option(app, "--kv", compared.open,
                    "KV cache: f32, f16, bf16, fp8, int8 or q8_0 (the teacher's f32 with the last three)")
      ->type_name("TEXT");
  add_engine_options(app, OptionsOf::kEngine, compared.open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace ingot
