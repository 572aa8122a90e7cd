#include "bench/run_bench.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "bench/bench_case.h"
#include "bench/machine_facts.h"
#include "bench/registry.h"
#include "bench/result_printer.h"
#include "comm/world.h"
#include "core/log.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/system_failure.h"
#include "hw/device.h"
#include "hw/ranks.h"
#include "train/attempt_facts.h"
#include "train/device.h"

namespace lockstep::bench {
namespace {

/// Only the parameters of the points.
void print_list(BenchCase& bench_case, bool as_json) {
  const auto points = bench_case.points();
  if (as_json) return core::print("{}\n", core::Json(points).dump(2));
  for (const auto& point : points) {
    std::vector<std::string> words;
    for (const auto& [key, value] : point.items())
      words.push_back(fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
    core::print("{}\n", core::join(words, " "));
  }
}

ExitCode run_case(const BenchContext& context, const BenchFacts& facts) {
  const auto& options = context.options;
  const bool is_first = context.world.rank() == 0;
  const auto bench_case = make_case(context);
  if (options.mode == "list") {
    if (is_first) print_list(*bench_case, options.json);
    return ExitCode::kOk;
  }
  const bool is_checked = options.which != commands::BenchCaseName::kCollective || options.num_checks > 0;
  core::Json document = {{"format", "lockstep-bench-1"}, {"case", case_name(options.which)},
                         {"mode", options.mode},         {"command", train::command_line()},
                         {"versions", facts.versions},   {"machine", machine_facts(context)}};
  ResultPrinter printer(options, is_first, bench_case->columns(), std::move(document));
  int64_t num_wrong = 0;
  for (core::Json row : bench_case->points()) {
    if (is_checked) num_wrong += bench_case->verify(row);
    printer.begin(bench_case->preamble());  // behind the check, which opens files: their errors need no table
    if (options.mode == "time") bench_case->time(row);
    printer.add(std::move(row));
  }
  printer.begin(bench_case->preamble());
  auto summary = bench_case->summary(printer.rows());
  if (is_checked)
    summary.insert(summary.begin(), {.key = "num_wrong",
                                     .label = "Wrong values",
                                     .value = num_wrong,
                                     .text = fmt::format("{} {}", num_wrong, num_wrong == 0 ? "OK" : "FAILED")});
  printer.end(summary);
  if (num_wrong == 0) return ExitCode::kOk;
  return options.which == commands::BenchCaseName::kCollective ? ExitCode::kCommunication : ExitCode::kInternal;
}

}  // namespace

ExitCode run_bench(const commands::BenchOptions& options, const BenchFacts& facts) {
  const hw::RankInfo ranks = hw::discover_ranks({}, hw::process_env());
  core::configure_log({.level = core::LogLevel::kWarning, .host = "", .rank = ranks.rank});  // no lines in the table
  for (const auto& warning : ranks.warnings) core::log_warning("{}", warning);
  const at::Device device =
      train::pick_device(options.train.device, options.train.gpu_math, ranks, options.train.dist_backend);
  const std::string backend = train::choose_backend(options.train.dist_backend, device, ranks.world_size);
  const auto ms = [](double seconds) { return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)); };
  auto world = comm::World::join(ranks, {.backend = backend,
                                         .device = device,
                                         .device_key = train::gpu_key(device),
                                         .timeout = ms(options.train.dist_timeout_s),
                                         .join_timeout = ms(options.train.join_timeout_s)});
  try {
    // No kept memory: --find-batch watches what a process holds.
    train::set_compute_threads(world.comm(), options.train.threads, ranks.local_world_size);
    return run_case(
        {.options = options, .world = world.comm(), .device = device, .processes = &world, .command = facts.command},
        facts);
  } catch (const std::exception& error) {
    world.report_failure(error.what(), core::exit_code_of(error));
    throw;
  }
}

}  // namespace lockstep::bench
