#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "cli/common/version.h"
#include "cli/front/commands.h"
#include "cli/front/engine_exec.h"
#include "commands/commands.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/host_name.h"
#include "core/print.h"
#include "core/strings.h"
#include "data/shards/shard_list.h"
#include "doctor/nodes.h"
#include "doctor/print.h"
#include "hw/device.h"
#include "hw/device_specs.h"
#include "predict/machine_file.h"
#include "remote/address.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;

struct DoctorOptions {
  std::vector<std::string> train_data{};
  std::string logs = "./logs/", remote_sync, system;
  double timeout_s = 30;
  bool nodes = false, json = false, strict = false;
};

core::OptionSet declare_options(DoctorOptions& values) {
  core::OptionSet options(
      "doctor",
      "Checks what a run needs here: ranks, network, GPUs, limits, memory, storage, data; says what to change. A "
      "command of training may follow after --: its data, its memory and its options are then looked at, too.");
  options.group("What is looked at");
  options.add("train-data", &values.train_data,
              {.help = "Files, folders and lists of shards, here or behind s3:// and https://, that must be readable.",
               .metavar = "PATH"});
  options.add("logs", &values.logs, {.help = "Folder that runs write to.", .metavar = "DIR"});
  options.add("remote-sync", &values.remote_sync,
              {.help = "Storage that runs are copied to: s3://BUCKET/FOLDER, or a path. A small file is written there "
                       "and removed.",
               .metavar = "WHERE",
               .unset_text = "none"});
  options.add("system", &values.system,
              {.help = "System whose known faults are looked for, and whose rates of memory and network are compared "
                       "with what is measured; or a system file (docs/predict.md).",
               .metavar = "NAME|FILE.toml",
               .unset_text = "by the names of host and cluster"});
  options.add("nodes", &values.nodes,
              {.help = "Compares all ranks of a job, too: one doctor for each rank, started by launch, torchrun or "
                       "srun; rank 0 reports."});
  options.group("Report");
  options.add("json", &values.json, {.help = "Machine-readable output."});
  options.add("strict", &values.strict, {.help = "A warning, too, makes the exit code differ from 0."});
  options.add("timeout", &values.timeout_s,
              {.help = "For each wait for other machines.", .unit = "s", .min = 1, .max = 3600});
  return options;
}

std::string hash_of_programs() {
  core::Xxh3 hash;
  for (const fs::path& program : {own_program(), engine_path()})
    if (fs::exists(program)) hash.update(core::MappedFile(program).bytes());
  return hash.hex();
}

/// Adds what "::" joins: commands, addresses, of which the ends of a list are looked at, and paths, of long lists the
/// first, the last and some between.
void add_data(doctor::Question& question, const std::string& text) {
  constexpr size_t kMostPaths = 64, kMostAddresses = 2;
  for (const std::string& part : core::split(text, "::")) {
    if (part.empty()) continue;
    if (data::is_pipe(part)) {
      question.data_commands.push_back(part);
      continue;
    }
    const auto all = data::expand_braces(part);
    const bool is_elsewhere = remote::is_url(all.front());
    const size_t count = std::min(all.size(), is_elsewhere ? kMostAddresses : kMostPaths);
    auto& looked_at = is_elsewhere ? question.remote_data : question.data;
    for (size_t i = 0; i < count; ++i) looked_at.push_back(all[count == 1 ? 0 : i * (all.size() - 1) / (count - 1)]);
    (is_elsewhere ? question.num_remote_data_left_out : question.num_data_left_out) += all.size() - count;
  }
}

/// What a rank may have for itself: its place, its folders, its threads.
bool may_differ(const core::Option& option) {
  static const std::vector<std::string> own{"dist-rank", "dist-local-rank", "dist-url", "log-local",
                                            "debug",     "threads",         "workers",  "config"};
  return std::find(own.begin(), own.end(), option.name) != own.end();
}

/// One rank where the variables make no sense, of which a check tells.
hw::RankInfo place_of_ranks(const doctor::Question& question) {
  try {
    return hw::discover_ranks({}, question.env);
  } catch (const EnvironmentError&) {
    return {};
  }
}

/// Is the option `name` there, and does the command read what it names? Also where it follows from another one, as
/// `train imagenet DIR` has the folders of its two parts.
bool reads_data(const core::OptionSet& set, const std::string& name) {
  const core::Option* option = set.find(name);
  if (option == nullptr || option->value_json().is_null() || option->value_json() == "") return false;
  const core::Option* frequency = name == "val-data" ? set.find("val-frequency") : nullptr;
  return set.is_given(name) || frequency == nullptr || frequency->value_json() != 0;
}

/// Data, folder and options of a command of training.
void take_command(doctor::Question& question, const Args& words) {
  commands::ParsedCommand command = commands::parse_command(words);
  const config::RunOptions* run = command.run_options();
  if (run == nullptr)
    throw UsageError(fmt::format("doctor: `{}` behind -- is no command of training", command.info->name),
                     fmt::format("for example: lockstep doctor -- {} ...", commands::default_train_command()));
  question.command = command.info->name;
  question.device = run->device, question.backend = run->dist_backend;
  if (!run->logs.empty()) question.folder = run->logs;
  if (!run->remote_sync.empty()) question.remote_sync = remote::parse_address(run->remote_sync).child(run->name).text();
  question.options = core::Json::object();
  for (const core::Option& option : command.set->options())
    if (!may_differ(option)) question.options[option.name] = option.value_text();
  commands::read_files(command);
  const hw::RankInfo place = place_of_ranks(question);
  const tasks::DryRunPage page = command.task->dry_run(
      *command.set, {.num_ranks = place.world_size, .source = place.source, .num_local_ranks = place.local_world_size});
  question.memory_planned_bytes = page.memory_bytes;
  question.memory_here_bytes = page.device_bytes.value_or(0);
  for (const char* name : {"train-data", "val-data", "imagenet-val", "imagenet-v2", "zeroshot-data"})
    if (reads_data(*command.set, name)) add_data(question, command.set->find(name)->value_text());
}

/// Of a row of the table or a file. A rate of memory is compared where the file itself gives it, of processor cores:
/// the memory of GPUs is not measured here.
doctor::ExpectedRates expected_rates(const std::string& system) {
  const bool is_file = core::ends_with(system, ".toml");
  if (!is_file && hw::find_system(system) == nullptr) return {};  // of which a check tells
  const predict::Machine machine = predict::find_machine(system);
  doctor::ExpectedRates rates{.source = machine.node_gbytes_per_s.source,
                              .node_gbytes_per_s = machine.node_gbytes_per_s.value};
  if (is_file && machine.devices_at_a_time && machine.memory_tbytes_per_s.source == machine.node_gbytes_per_s.source) {
    rates.memory_gbytes_per_s = 1000 * machine.memory_tbytes_per_s.value;
    rates.threads_of_rank = static_cast<int>(std::max<int64_t>(1, hw::usable_cpu_cores() / *machine.devices_at_a_time));
  }
  return rates;
}

doctor::Question question_of(const DoctorOptions& values, const Args& command) {
  const VersionInfo version = version_info();
  doctor::Question question{
      .program = {.version = version.version, .commit = version.commit, .file_hash = hash_of_programs()},
      .folder = values.logs,
      .remote_sync = values.remote_sync,
      .system = core::ends_with(values.system, ".toml") ? "" : values.system,
      .expected = expected_rates(values.system),
      .timeout = std::chrono::milliseconds(static_cast<int64_t>(values.timeout_s * 1000))};
  question.needed_cuda = cuda_of_libtorch();
  if (!version.libtorch.empty()) question.find_libtorch = [] { return libtorch_of_engine().place; };
  for (const std::string& path : values.train_data) add_data(question, path);
  if (!command.empty()) take_command(question, command);
  return question;
}

}  // namespace

void visit_doctor_options(const OptionVisitor& visit) {
  DoctorOptions values;
  visit(declare_options(values));
}

int cmd_doctor(const commands::ParsedCommand& parsed_command) {
  const std::vector<std::string>& args = parsed_command.rest;
  const auto dashes = std::find(args.begin(), args.end(), "--");
  DoctorOptions values;
  core::OptionSet options = declare_options(values);
  options.parse(Args(args.begin(), dashes));
  if (options.wants_help()) {
    core::print("{}", options.help_text());
    return 0;
  }
  const doctor::Question question = question_of(values, dashes == args.end() ? Args{} : Args(dashes + 1, args.end()));
  const bool tells_of_ranks = values.nodes && place_of_ranks(question).rank == 0;
  // Launchers end the others when one rank has failed, which is when its report is needed; all its waits have an end.
  if (tells_of_ranks) std::signal(SIGTERM, SIG_IGN);
  const auto findings = values.nodes ? doctor::run_checks_of_all_ranks(question) : doctor::run_checks(question);
  if (findings.empty()) return 0;  // rank 0 tells them
  const ExitCode code = doctor::exit_code_of(findings, values.strict);
  const std::string report =
      values.json ? doctor::report_json(findings, question, code).dump(2) + "\n"
                  : doctor::report_text(findings, fmt::format("lockstep doctor on {}", core::host_name()));
  if (values.nodes && !tells_of_ranks)
    core::print_error_text(report);  // launchers join the outputs of ranks: two reports there are no JSON
  else
    core::print_text(report);
  return static_cast<int>(code);
}

}  // namespace lockstep::cli
