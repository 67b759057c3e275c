// ingot devices run: a queue of equal products over all devices; bits and speed are compared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/devices/devices.h"
#include "cli/interrupt.h"
#include "devices/gpu_work.h"
#include "devices/product_queue.h"

namespace ingot {
namespace {

struct Options : DevicesOptions {
  int products = 64;
  int size = 0;  // 0: by the device
};

QueueWorker worker_of(const Device& device, const Machine& machine, const MatmulSize& size) {
  if (device.gpu < 0) return cpu_worker(device.name, device.cores, size);
  const Gpu& gpu = machine.gpus[static_cast<size_t>(device.gpu)];
  return {.name = device.name, .kind = gpu.name, .make = [index = gpu.cuda, size] {
            return make_gpu_product(index, size);
          }};
}

int run(const Options& options) {
  DevicesOutput out(options);
  const Machine machine = read_machine();
  const std::vector<Device> devices = list_devices(machine, options.devices);
  const bool gpus = devices[0].gpu >= 0;
  for (const Device& device : devices) {
    if ((device.gpu >= 0) != gpus)
      throw Error("[devices] {} and {} cannot share a queue", devices[0].name, device.name);
  }
  const int64_t side = options.size > 0 ? options.size : gpus ? 8192 : 1024;
  const MatmulSize size{.m = side, .n = side, .k = side};
  std::vector<QueueWorker> workers;
  for (const Device& device : devices) workers.push_back(worker_of(device, machine, size));
  const InterruptGuard guard;
  const std::vector<QueueResult> results = run_queue(workers, options.products, throw_if_interrupted);
  out.say(fmt::format("{} products of {} x {} x {} in bf16", options.products, side, side, side));
  out.say(fmt::format("{:<12} {:>9} {:>10} {:>10} {:>10} {:>7}", "device", "products", "median ms", "best ms",
                      "GFLOP/s", "wrong"));
  JsonArray list, rows;
  for (const QueueResult& r : results) {
    const double gflops = r.median_s > 0 ? size.flops() / r.median_s / 1e9 : 0;
    out.say(fmt::format("{:<12} {:9} {:10.3f} {:10.3f} {:10.0f} {:7}", r.name, r.products, r.median_s * 1e3,
                        r.best_s * 1e3, gflops, r.wrong));
    list.push_back(JsonObject{{"device", r.name},
                              {"kind", r.kind},
                              {"products", r.products},
                              {"median_s", r.median_s},
                              {"best_s", r.best_s},
                              {"gflops", gflops},
                              {"wrong", r.wrong},
                              {"slow", r.slow},
                              {"failed", r.failed}});
    rows.push_back(JsonArray{r.name, r.products, r.median_s * 1e3, r.best_s * 1e3, gflops, r.wrong});
  }
  out.table("Products", {"device", "products", "median ms", "best ms", "GFLOP/s", "wrong"}, std::move(rows));
  const std::vector<std::string> verdicts = queue_verdicts(results);
  for (const std::string& line : verdicts) out.say(line);
  if (devices.size() == 1) {
    out.say(fmt::format("{} is the only device: its products were compared with each other alone", devices[0].name));
  } else if (verdicts.empty()) {
    out.say("all devices give the same bits, at about the same speed");
  }
  out.finish("Equal products on all devices",
             {{"size", side}, {"results", std::move(list)}, {"verdicts", JsonArray(verdicts.begin(), verdicts.end())}});
  for (const QueueResult& r : results) {
    if (r.wrong > 0 || !r.failed.empty()) throw Error("[devices] {}", queue_verdicts({r}).front());
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_devices_option(app, *options, "Such as cuda:0,cuda:1 or cpu:0/2 (default: all GPUs, else all nodes)");
  app.add_option("--products", options->products, "In the queue (64)")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  app.add_option("--size", options->size, "Rows, outputs and inputs of a product (1024; on a GPU 8192)")
      ->check(CLI::Range(64, 1 << 15).description(""))
      ->check([](const std::string& n) { return std::stoi(n) % 64 != 0 ? "must be a multiple of 64" : ""; })
      ->type_name("N");
  add_page_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kDevicesRun = {"run", "A queue of equal products over all devices: names the slow or faulty one",
                             "ingot devices run --products 200\n  ingot devices run --devices cpu:0/2", setup};

}  // namespace ingot
