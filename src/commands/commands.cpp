#include "commands/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "tasks/contrastive/front/recorded_model.h"
#include "tasks/front/device_here.h"
#include "tasks/front/recorded_run.h"

namespace lockstep::commands {
namespace {
std::vector<CommandInfo> make_table() {
  const auto later = [](const char* name, const char* summary, Half half) {
    return CommandInfo{.name = name, .summary = summary, .half = half, .is_implemented = false};
  };
  std::vector<CommandInfo> table;
  for (const tasks::FrontTaskRow& task : tasks::front_tasks())
    table.push_back({.name = "train " + task.name, .summary = task.summary, .half = Half::kEngine});
  const std::vector<CommandInfo> others = {
      {.name = "profile train", .summary = "trace a few training steps", .half = Half::kEngine},
      {.name = "launch", .summary = "start ranks on this machine, or on one node of several"},
      {.name = "doctor", .summary = "check ranks, network, devices, limits, storage and data"},
      {.name = "infer embed", .summary = "embed pictures, sounds and texts", .half = Half::kEngine},
      {.name = "infer classify",
       .summary = "classify pictures or sounds, by names or a trained model",
       .half = Half::kEngine},
      {.name = "infer caption", .summary = "describe pictures with a CoCa model", .half = Half::kEngine},
      {.name = "infer retrieve", .summary = "find the nearest embeddings of queries", .half = Half::kEngine},
      {.name = "infer generate", .summary = "continue texts with a GPT model", .half = Half::kEngine},
      {.name = "ckpt list", .summary = "list the checkpoints of a run"},
      {.name = "ckpt verify", .summary = "check every checksum of checkpoints"},
      {.name = "ckpt convert", .summary = "rewrite a file of weights in another format", .half = Half::kEngine},
      {.name = "ckpt export", .summary = "write a checkpoint's weights for other programs", .half = Half::kEngine},
      {.name = "bench collective", .summary = "check and time all-reduce and other collectives", .half = Half::kEngine},
      {.name = "bench loader", .summary = "time the data path by itself", .half = Half::kEngine},
      {.name = "bench op", .summary = "check and time matrix products and other operators", .half = Half::kEngine},
      {.name = "bench step", .summary = "time training steps, find the largest batch", .half = Half::kEngine},
      {.name = "bench latency", .summary = "time single calls of a model, stage by stage", .half = Half::kEngine},
      {.name = "bench checkpoint", .summary = "time saving and loading of checkpoints", .half = Half::kEngine},
      {.name = "data", .summary = "make, index, inspect and verify data sets"},
      {.name = "report", .summary = "tables and plots from records and logs"},
      {.name = "report compare", .summary = "compare two runs with an interval"},
      {.name = "sweep", .summary = "write, submit, follow and collect a matrix of SLURM jobs"},
      {.name = "predict", .summary = "step time and efficiency at sizes that were not measured"},
      {.name = "config show", .summary = "show the options of a command line or a run as a recipe"},
      {.name = "config compare", .summary = "compare two recipes"},
      {.name = "config reference", .summary = "print the reference of all options"},
      later("ckpt reshard", "rewrite a checkpoint for another layout", Half::kEngine),
  };
  table.insert(table.end(), others.begin(), others.end());
  return table;
}

/// Distinct first or second words of the commands in this version, given the words before.
std::vector<std::string> next_words(const std::string& before) {
  std::vector<std::string> words;
  for (const CommandInfo& info : command_table()) {
    if (!info.is_implemented || !core::starts_with(info.name, before)) continue;
    const std::string word = core::split(info.name.substr(before.size()), " ")[0];
    if (std::count(words.begin(), words.end(), word) == 0) words.push_back(word);
  }
  return words;
}

bool is_first_word(const std::string& word) {
  const auto table = command_table();
  return std::any_of(table.begin(), table.end(),
                     [&](const CommandInfo& info) { return core::starts_with(info.name, word + " "); });
}

/// The commands whose second word is `word`: "`lockstep infer embed`".
std::string commands_ending_in(const std::string& word) {
  std::vector<std::string> found;
  for (const CommandInfo& info : command_table())
    if (info.is_implemented && core::ends_with(info.name, " " + word))
      found.push_back(fmt::format("`lockstep {}`", info.name));
  return core::join_or(found);
}

std::string hint_of_no_command(std::span<const std::string> args, const std::string& typed) {
  for (const char* main : {"open_clip_train.main", "training.main"})
    if (std::count(args.begin(), args.end(), main) > 0)
      return fmt::format("`lockstep train clip` takes the flags that follow {}", main);
  const std::string found = commands_ending_in(typed);
  return found.empty() ? "`lockstep --help` lists all commands" : fmt::format("did you mean {}?", found);
}

[[noreturn]] void throw_no_command(std::span<const std::string> args) {
  const bool has_task = is_first_word(args[0]);
  const std::string before = has_task ? args[0] + " " : "";
  const std::vector<std::string> words = next_words(before);
  const bool is_word_missing = has_task && (args.size() == 1 || core::starts_with(args[1], "-"));
  const std::string typed = has_task && !is_word_missing ? args[1] : args[0];
  const auto nearest = is_word_missing ? std::nullopt : core::nearest_name(typed, words);
  const std::string list =
      fmt::format("`lockstep {}` followed by {}", has_task ? args[0] : "COMMAND", core::join_or(words));
  if (is_word_missing) throw UsageError(fmt::format("options: '{}' needs another word", args[0]), "write " + list);
  throw UsageError(fmt::format("options: '{}{}' is no command", before, typed),
                   nearest ? fmt::format("did you mean `lockstep {}{}`? `lockstep --help` lists all", before, *nearest)
                           : hint_of_no_command(args, typed));
}

/// The command that `args` begin with, and the number of its words.
std::pair<const CommandInfo*, size_t> match_command(std::span<const std::string> args) {
  if (args.empty()) throw UsageError("options: no command given", "`lockstep --help` lists all commands");
  for (const size_t num_words : {size_t{2}, size_t{1}}) {
    if (args.size() < num_words) continue;
    const CommandInfo* info = find_command(core::join(args.first(num_words), " "));
    if (info != nullptr) return {info, num_words};
  }
  throw_no_command(args);
}

BenchCaseName bench_case_of(const std::string& command) {
  if (command == "bench loader") return BenchCaseName::kLoader;
  if (command == "bench op") return BenchCaseName::kOp;
  if (command == "bench step") return BenchCaseName::kStep;
  if (command == "bench checkpoint") return BenchCaseName::kCheckpoint;
  if (command == "bench latency") return BenchCaseName::kLatency;
  if (command == "bench collective") return BenchCaseName::kCollective;
  throw UsageError(fmt::format("options: '{}' is no bench case", command), "`lockstep bench --help` lists them");
}

/// The task that `train NAME` trains, or nullptr.
const tasks::FrontTaskRow* find_task(const std::string& command) {
  for (const tasks::FrontTaskRow& row : tasks::front_tasks())
    if (command == "train " + row.name) return &row;
  return nullptr;
}

void declare(ParsedCommand& parsed) {
  const std::string& name = parsed.info->name;
  if (const tasks::FrontTaskRow* row = find_task(name)) {
    parsed.task = row->make(row->name);
    parsed.set = parsed.task->declare();
  } else if (name == "infer generate") {
    parsed.generate = std::make_unique<config::GenerateOptions>();
    parsed.set = config::declare_generate_options(*parsed.generate);
  } else if (name == "infer retrieve") {
    parsed.retrieve = std::make_unique<config::RetrieveOptions>();
    parsed.set = config::declare_retrieve_options(*parsed.retrieve);
  } else if (core::starts_with(name, "infer ")) {
    parsed.infer = std::make_unique<config::InferOptions>();
    parsed.infer->job = name == "infer embed"     ? config::InferJob::kEmbed
                        : name == "infer caption" ? config::InferJob::kCaption
                                                  : config::InferJob::kClassify;
    parsed.set = config::declare_infer_options(*parsed.infer);
  } else if (core::starts_with(name, "ckpt ")) {
    parsed.ckpt = std::make_unique<config::CkptOptions>();
    parsed.ckpt->job = name == "ckpt list"     ? config::CkptJob::kList
                       : name == "ckpt verify" ? config::CkptJob::kVerify
                       : name == "ckpt export" ? config::CkptJob::kExport
                                               : config::CkptJob::kConvert;
    parsed.set = config::declare_ckpt_options(*parsed.ckpt);
  } else if (name == "report" || name == "report compare") {
    parsed.report = std::make_unique<config::ReportOptions>();
    parsed.report->is_compare = name == "report compare";
    parsed.set = config::declare_report_options(*parsed.report);
  } else if (core::starts_with(name, "bench ")) {
    parsed.bench = std::make_unique<BenchOptions>();
    parsed.bench->which = bench_case_of(name);
    parsed.set = declare_bench_options(*parsed.bench);
  }
}

bool take_recorded_classifier(core::OptionSet& set, const std::string& weights) {
  const auto rows = tasks::front_tasks();
  return std::any_of(rows.begin(), rows.end(), [&](const tasks::FrontTaskRow& task) {
    return task.take_recorded_classifier != nullptr && task.take_recorded_classifier(set, weights);
  });
}

/// transformers has names of its own for OpenAI's CLIP, which nothing here writes.
void refuse_clip_for_transformers(const config::CkptOptions& options) {
  const auto attempt = tasks::recorded_attempt(options.path);
  if (!attempt || attempt->task != "clip") return;
  throw UsageError(
      fmt::format("options: '{}' is of a run of `train clip`, and --names huggingface is of CLAP and GPT",
                  options.path),
      "leave --names out and name a .pt or .safetensors file: its names are OpenCLIP's, which also reads it");
}

/// Weights of a run name their model themselves.
void take_models_of_runs(ParsedCommand& parsed) {
  const bool classifies = parsed.infer && parsed.infer->job == config::InferJob::kClassify;
  if (classifies && parsed.set->is_given("model"))  // then the weights tell only how pictures are prepared
    take_recorded_classifier(*parsed.set, parsed.infer->pretrained);
  if (parsed.infer && !parsed.set->is_given("model")) {
    const std::string& weights = parsed.infer->pretrained;
    std::error_code ignored;
    const bool is_known = tasks::take_recorded_model(*parsed.set, weights) ||
                          (classifies && take_recorded_classifier(*parsed.set, weights));
    if (!is_known && std::filesystem::is_directory(weights, ignored))
      throw UsageError(fmt::format("options: the model of '{}' is not known: no run.json of a run of {} is "
                                   "there or above it",
                                   weights, classifies ? "CLIP, CLAP or imagenet" : "CLIP or CLAP"),
                       "give it with --model NAME or --model FILE.json");
  }
  if (parsed.ckpt && parsed.ckpt->names == "huggingface") refuse_clip_for_transformers(*parsed.ckpt);
  if (parsed.ckpt && parsed.ckpt->names != "as-is" && parsed.ckpt->model.empty())
    tasks::take_recorded_model(*parsed.set, parsed.ckpt->path);
}

void check(ParsedCommand& parsed) {
  take_models_of_runs(parsed);
  if (parsed.task) parsed.warnings = parsed.task->check(*parsed.set);
  if (parsed.infer) config::fill_infer_defaults(*parsed.infer, *parsed.set);
  if (parsed.infer) config::check_infer_options(*parsed.infer, *parsed.set);
  if (parsed.infer && !parsed.infer->asks_weights && !parsed.set->is_given("model"))
    parsed.warnings.push_back(fmt::format("no --model given: {} is assumed for the weights '{}'", parsed.infer->model,
                                          parsed.infer->pretrained));
  if (parsed.generate) config::check_generate_options(*parsed.generate, *parsed.set);
  if (parsed.retrieve) config::check_retrieve_options(*parsed.retrieve, *parsed.set);
  if (parsed.ckpt) config::check_ckpt_options(*parsed.ckpt, *parsed.set);
  if (parsed.report) config::check_report_options(*parsed.report);
  if (parsed.bench) check_bench_options(*parsed.bench, *parsed.set);
  if (!parsed.set) return;
  if (std::string ignored = parsed.set->ignored_warning(); !ignored.empty())
    parsed.warnings.insert(parsed.warnings.begin(), std::move(ignored));
}
}  // namespace

std::span<const CommandInfo> command_table() {
  static const std::vector<CommandInfo> table = make_table();
  return table;
}

const CommandInfo* find_command(const std::string& name) {
  for (const CommandInfo& info : command_table())
    if (info.name == name) return &info;
  return nullptr;
}

ParsedCommand declare_command(const CommandInfo& info) {
  ParsedCommand parsed;
  parsed.info = &info;
  if (!info.is_implemented)
    throw UsageError(fmt::format("options: `lockstep {}` is not in this version yet", info.name),
                     "`lockstep --help` lists what is");
  declare(parsed);
  return parsed;
}

/// `profile train TASK ...` is `train TASK --profile ...`.
static std::vector<std::string> profiled(std::span<const std::string> args) {
  std::vector<std::string> out(args.begin() + 1, args.end());
  const bool has_task = out.size() > 1 && !core::starts_with(out[1], "-");
  const bool asks_for_help = out.size() > 1 && (out[1] == "--help" || out[1] == "-h");
  if (asks_for_help) out.insert(out.begin() + 1, tasks::front_tasks().front().name);
  if (!has_task && !asks_for_help)
    throw UsageError("options: `profile train` needs a task",
                     fmt::format("write `lockstep profile {0}` and the flags of `{0}`", default_train_command()));
  out.insert(out.begin() + 2, "--profile");
  return out;
}

/// Pictures and sounds are given by a flag.
static void refuse_bare_files(const core::OptionSet& set, std::span<const std::string> words) {
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string before = at == 0 ? "" : words[at - 1];
    const bool is_value = core::starts_with(before, "-") && before.find('=') == std::string::npos;
    const std::string ending = core::to_lower_ascii(std::filesystem::path(words[at]).extension().string());
    const bool is_sound = ending == ".wav" || ending == ".flac" || ending == ".ogg" || ending == ".mp3";
    const bool is_picture = ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp";
    if (core::starts_with(words[at], "-") || is_value || (!is_sound && !is_picture)) continue;
    throw UsageError(fmt::format("options: '{}' does not take the argument '{}'", set.command(), words[at]),
                     fmt::format("give it with --{0} '{1}'; of several the folder that holds them: --{0} '{2}'",
                                 is_sound ? "sounds" : "images", words[at],
                                 std::filesystem::absolute(words[at]).parent_path().string()));
  }
}

ParsedCommand parse_flags(std::span<const std::string> args) {
  const auto [info, num_words] = match_command(args);
  if (info->name == "profile train") return parse_flags(profiled(args));
  ParsedCommand parsed = declare_command(*info);
  const auto rest = args.subspan(num_words);
  parsed.rest.assign(rest.begin(), rest.end());
  if (!parsed.set) return parsed;
  if (parsed.infer) refuse_bare_files(*parsed.set, rest);
  parsed.set->parse(rest);
  parsed.wants_help = parsed.set->wants_help();
  if (parsed.task && !parsed.wants_help) parsed.task->fill_defaults(*parsed.set);
  if (parsed.bench && !parsed.wants_help) fill_bench_defaults(*parsed.bench, *parsed.set);
  return parsed;
}

ParsedCommand parse_command(std::span<const std::string> args) {
  ParsedCommand parsed = parse_flags(args);
  if (!parsed.wants_help) check(parsed);
  return parsed;
}

ParsedCommand parse_command_here(std::span<const std::string> args) {
  ParsedCommand parsed = parse_flags(args);
  if (parsed.wants_help) return parsed;
  UsageProblems problems;
  bool is_well_formed = false;
  problems.collect([&] {
    check(parsed);
    is_well_formed = true;
  });
  if (parsed.task)
    for (const EnvironmentError& missing : tasks::missing_devices(parsed.task->options(), *parsed.set)) {
      if (is_well_formed) throw missing;
      problems.collect([&] { throw UsageError(missing.what(), missing.hint()); });  // told with all else
    }
  problems.raise();
  return parsed;
}

void read_files(ParsedCommand& command) {
  if (!command.task || command.wants_help) return;
  for (std::string& warning : command.task->read_files(*command.set)) command.warnings.push_back(std::move(warning));
}

std::string default_train_command() { return "train " + tasks::front_tasks().front().name; }

}  // namespace lockstep::commands
