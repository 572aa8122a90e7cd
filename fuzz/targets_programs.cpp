// Parsers of what describes runs, machines and commands: records, logs, tables, sweeps, command lines.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "commands/commands.h"
#include "core/error.h"
#include "core/strings.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "hw/hostlist.h"
#include "logs/formats.h"
#include "logs/logs.h"
#include "predict/describe_machine.h"
#include "predict/machine_file.h"
#include "predict/table_curves.h"
#include "published/recompute.h"
#include "record/run_data.h"
#include "sweep/expression.h"
#include "sweep/points.h"
#include "sweep/run_outcome.h"
#include "sweep/slurm.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_state.h"

namespace lockstep::fuzz {
namespace {

/// All files of a record: a line of each is one JSON object, as run.json and status.json are.
void read_run(Bytes bytes) {
  static const MemoryFolder folder;
  for (const char* name : {"run.json", "status.json", "steps.jsonl", "comm.jsonl", "ranks.jsonl", "results.jsonl",
                           "system.jsonl", "startup.jsonl"})
    folder.write(name, bytes);
  record::load_run(folder.path());
}

void read_csv(Bytes bytes) {
  static const MemoryFolder folder;
  published::check_published(folder.write("table.csv", bytes));
}

void read_machine(Bytes bytes) { predict::parse_machine(text_of(bytes), "machine.toml"); }

void read_scaling(Bytes bytes) {
  static const MemoryFolder folder;
  predict::read_table_curves(folder.write("table.csv", bytes));
}

void read_bench_document(Bytes bytes) {
  static const MemoryFolder folder;
  predict::describe_machine({folder.write("bench.json", bytes).string()});
}

void read_sweep(Bytes bytes) {
  const auto file = sweep::parse_sweep_file(text_of(bytes), "sweep.toml");
  sweep::make_plan(file, [](const std::string&) { return std::nullopt; });
}

void read_sweep_state(Bytes bytes) {
  static const MemoryFolder folder;
  folder.write("sweep.json", bytes);
  const sweep::SweepState state = sweep::read_state(folder.path());
  sweep::write_state(folder.path(), state);  // what was read can be written and read again
  const sweep::SweepState again = sweep::read_state(folder.path());
  LOCKSTEP_CHECK(again.points.size() == state.points.size(), "{} points of {}", again.points.size(),
                 state.points.size());
}

/// The times at which a point's jobs began and ended.
void read_sweep_events(Bytes bytes) {
  static const MemoryFolder folder;
  for (const sweep::JobSpan& span : sweep::read_spans(folder.write("0001.events.jsonl", bytes)))
    LOCKSTEP_CHECK(span.end_s.has_value() || !span.exit_code, "job '{}' has not ended, with a code", span.job);
}

/// What squeue, sacct and scontrol say, each reader reading all of it.
void read_slurm_answers(Bytes bytes) {
  const std::string text(text_of(bytes));
  for (const auto& [id, entry] : sweep::parse_squeue(text))
    LOCKSTEP_CHECK(!entry.is_waiting() || !entry.is_running(), "job '{}': {}", id, entry.state);
  for (const auto& [id, starts] : sweep::parse_sacct(text))
    LOCKSTEP_CHECK(!starts.empty(), "job '{}' has no start", id);
  sweep::parse_scontrol(text);
}

/// The hosts of a job, and behind the first line's end the tasks of each node.
void read_host_list(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t end = std::min(text.find('\n'), text.size());
  const auto check = [](size_t count) { LOCKSTEP_CHECK(count <= hw::kMaxHosts, "{} hosts", count); };
  try {
    check(hw::parse_task_counts(text.substr(std::min(end + 1, text.size()))).size());
  } catch (const EnvironmentError&) {
  }
  check(hw::expand_hostlist(text.substr(0, end)).size());
}

void read_formula(Bytes bytes) {
  const auto formula = sweep::Expression::parse(std::string(text_of(bytes)), "fuzz");
  formula.evaluate(
      [](const std::string& name) { return std::optional<sweep::Scalar>(static_cast<double>(name.size())); });
}

/// A command line, one argument a line.
void read_arguments(Bytes bytes) {
  const std::vector<std::string> args = core::split(text_of(bytes), "\n");
  for (const auto& arg : args)  // these open files of the machine
    if (arg.find('/') != std::string::npos || core::ends_with(arg, ".toml")) return;
  commands::parse_command(args);
}

void read_recipe(Bytes bytes) {
  const std::vector<std::string> args = {"train", "clip", "--model", "ViT-B-32", "--dataset-type", "synthetic"};
  auto command = commands::parse_flags(args);
  command.set->apply_recipe(text_of(bytes), "recipe.toml");
}

}  // namespace

std::vector<Target> targets_of_programs() {
  std::vector<Target> list = {{"run", {"/record/"}, read_run},
                              {"csv", {"/published/", "steps.csv"}, read_csv},
                              {"machine", {}, read_machine},
                              {"scaling", {"/published/"}, read_scaling},
                              {"bench_document", {}, read_bench_document},
                              {"sweep", {"/recipes/sweeps/"}, read_sweep},
                              {"sweep_state", {}, read_sweep_state},
                              {"sweep_events", {}, read_sweep_events},
                              {"slurm_answers", {}, read_slurm_answers},
                              {"host_list", {}, read_host_list, 1 << 10},
                              {"formula", {}, read_formula},
                              {"arguments", {}, read_arguments},
                              {"recipe", {"/recipes/clip_"}, read_recipe}};
  for (const logs::LogFormatInfo& info : logs::kLogFormats) {
    if (info.reader == nullptr) continue;
    const bool is_csv = info.format == logs::LogFormat::kCsv;
    list.push_back({fmt::format("log_{}", info.name), {"/logs/"}, [format = info.format, is_csv](Bytes bytes) {
                      static const MemoryFolder folder;
                      logs::read_log(folder.write(is_csv ? "steps.csv" : "out.log", bytes), format);
                    }});
  }
  return list;
}

}  // namespace lockstep::fuzz
