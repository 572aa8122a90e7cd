// Parsers of what describes machines, commands and their surroundings: tables, sweeps, command lines, answers of S3.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "doctor/meeting.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "hw/hostlist.h"
#include "predict/describe_machine.h"
#include "predict/machine_file.h"
#include "predict/plan_step.h"
#include "predict/table_curves.h"
#include "predict/validation.h"
#include "published/recompute.h"
#include "remote/account.h"
#include "remote/s3_xml.h"
#include "remote/sync_state.h"
#include "sweep/expression.h"
#include "sweep/points.h"
#include "sweep/run_outcome.h"
#include "sweep/slurm.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_state.h"

namespace lockstep::fuzz {
namespace {

void read_csv(Bytes bytes) {
  static const MemoryFolder folder;
  published::check_published(folder.write("table.csv", bytes));
}

constexpr predict::Sampling kFewDraws{.num_burn_in = 20, .num_draws = 50};

/// Every number of a prediction is finite, no time is negative, and quantiles are in their order.
void check_forecast(const predict::Forecast& forecast) {
  for (const predict::PredictedStep& step : forecast.steps) {
    for (const predict::Interval& one : {step.step_s, step.over_first})
      LOCKSTEP_CHECK(one.p5 > 0 && one.p5 <= one.p25 && one.p25 <= one.p50 && one.p50 <= one.p75 &&
                         one.p75 <= one.p95 && std::isfinite(one.p95),
                     "quantiles at {} nodes: {} {} {} {} {}", step.size.nodes, one.p5, one.p25, one.p50, one.p75,
                     one.p95);
    for (size_t part = 0; part < predict::kNumParts; ++part)
      LOCKSTEP_CHECK(std::isfinite(step.parts_s[part]) && step.parts_s[part] >= 0, "{} at {} nodes: {}",
                     predict::part_name(static_cast<predict::Part>(part)), step.size.nodes, step.parts_s[part]);
  }
}

/// A step of a model of a billion parameters in a precision that the machine has.
predict::PlannedStep planned_step(const predict::Machine& machine, int64_t nodes, int64_t tp, int64_t pp) {
  predict::PlannedStep step{.nodes = nodes,
                            .num_ranks = nodes * machine.devices_per_node,
                            .task = "gpt",
                            .model = "gpt3-1.3b",
                            .precision = "fp32",
                            .allows_tf32 = true,
                            .flops_per_rank = 1e14,
                            .moved_bytes = 1e11,
                            .repeated_bytes = 1e9,
                            .global_batch = 4 * nodes * machine.devices_per_node,
                            .num_micro = 4,
                            .tp = tp,
                            .pp = pp,
                            .dp = std::max<int64_t>(1, nodes * machine.devices_per_node / (tp * pp)),
                            .bubble = pp > 1 ? 0.1 : 0,
                            .parameters_per_rank = 1.3e9 / static_cast<double>(tp * pp),
                            .gradient_bucket_bytes = std::vector<double>(50, 1e8),
                            .tensor_bytes = tp > 1 ? 1e9 : 0,
                            .num_tensor_calls = tp > 1 ? 96 : 0,
                            .pipe_message_bytes = pp > 1 ? 1e7 : 0};
  for (const char* precision : {"bf16", "fp16"})
    if (const auto type = hw::compute_type_of_precision(precision); type && machine.peak_tflops(*type))
      step.precision = precision;
  return step;
}

void read_machine(Bytes bytes) {
  const predict::Machine machine = predict::parse_machine(text_of(bytes), "machine.toml");
  for (const int64_t tp : {1, 2}) {
    std::vector<predict::PlannedStep> steps;
    for (const int64_t nodes : {2, 64}) steps.push_back(planned_step(machine, nodes, tp, tp));
    check_forecast(predict::predict_steps(predict::model_of(steps, machine), steps, {}, kFewDraws).forecast);
  }
}

void read_scaling(Bytes bytes) {
  static const MemoryFolder folder;
  constexpr size_t kMostCurves = 3;
  std::vector<predict::MeasuredCurve> curves = predict::read_table_curves(folder.write("table.csv", bytes));
  if (curves.size() > kMostCurves) curves.resize(kMostCurves);
  for (const predict::MeasuredCurve& curve : curves) {
    std::vector<predict::Target> targets;
    for (const double size : {curve.points.front().size, 2 * curve.points.back().size, 64 * curve.points.back().size})
      targets.push_back({size, predict::size_of(curve, size)});
    check_forecast(predict::predict_curve(curve, {}, targets, kFewDraws).forecast);
  }
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

/// The options are declared once, which takes longer than any recipe: one recipe does not look at what another one set.
void read_recipe(Bytes bytes) {
  static auto command = commands::parse_flags(
      std::vector<std::string>{"train", "clip", "--model", "ViT-B-32", "--dataset-type", "synthetic"});
  command.set->apply_recipe(text_of(bytes), "recipe.toml");
}

/// Answers of S3: whatever a server sends.
void read_s3_answer(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  remote::parse_fault(text);
  for (const auto& parse : {std::function<void()>([&] { remote::parse_object_page(text); }),
                            std::function<void()>([&] { remote::parse_part_page(text); }),
                            std::function<void()>([&] { remote::parse_upload_page(text); })}) {
    try {
      parse();
    } catch (const DataError&) {
    }
  }
}

/// Whatever a rank of a doctor may say to rank 0, which passes over these two kinds of errors.
void read_doctor_report(Bytes bytes) {
  try {
    const auto report = doctor::rank_report_from_json(core::parse_json(text_of(bytes), "report"));
    doctor::rank_report_from_json(doctor::to_json(report));
  } catch (const core::Json::exception&) {
  }
}

void read_aws_profiles(Bytes bytes) {
  static const MemoryFolder folder;
  const std::string config = folder.write("config", bytes).string();
  remote::find_account(
      [&](const char* name) {
        const std::string_view wanted = name;
        return wanted == "AWS_CONFIG_FILE" || wanted == "AWS_SHARED_CREDENTIALS_FILE" ? std::optional(config)
                                                                                      : std::nullopt;
      },
      folder.path());
}

/// What an earlier process noted of the copy of a run.
void read_sync_state(Bytes bytes) {
  core::parse_json(text_of(bytes), "remote_sync.json");  // else a warning is all that comes of it
  static const MemoryFolder folder;
  folder.write(remote::kSyncStateName, bytes);
  const remote::RunFile file{.name = "checkpoints/step-00000010.a1/model.safetensors", .bytes = 10, .mtime_ns = 5};
  remote::SyncState state(folder.path(), "there");
  state.has_arrived(file);
  const core::Json parts = state.unfinished(file);
  LOCKSTEP_CHECK(parts.is_object(), "{}", parts.dump());
  state.note_unfinished(file, parts);
  state.save();
  remote::SyncState again(folder.path(), "there");
  LOCKSTEP_CHECK(again.unfinished(file) == parts && again.begun_checkpoints() == state.begun_checkpoints(),
                 "it is read as another one");
  state.note_arrived(file);
  LOCKSTEP_CHECK(state.has_arrived(file) && state.unfinished(file).empty(), "it has not arrived");
  for (const std::string& begun : state.begun_checkpoints()) state.forget(begun);
  LOCKSTEP_CHECK(state.begun_checkpoints().empty(), "something is not forgotten");
  state.keep_only({});
  LOCKSTEP_CHECK(state.is_empty(), "something is kept");
}

}  // namespace

std::vector<Target> targets_of_programs() {
  return {{"csv", {"/published/", "steps.csv"}, read_csv},
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
          {"recipe", {"/recipes/clip_"}, read_recipe},
          {"s3_answer", {}, read_s3_answer},
          {"doctor_report", {}, read_doctor_report},
          {"aws_profiles", {}, read_aws_profiles},
          {"sync_state", {}, read_sync_state}};
}

}  // namespace lockstep::fuzz
