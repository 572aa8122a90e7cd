#include "config/run_options.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "config/option_checks.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::config {
using core::OptionRole;
namespace {

void declare_dry_run_flags(core::OptionSet& set, RunOptions& o) {
  set.add("dry-run", &o.dry_run, {.role = OptionRole::kIdentity, .help = "Print what would be run, and exit."});
  set.add("world-size", &o.world_size,
          {.role = OptionRole::kIdentity,
           .help = "With --dry-run: ask about this many ranks.",
           .unit = "ranks",
           .unset_text = "as found",
           .min = 1,
           .max = 1 << 24});
  set.add("json", &o.json, {.role = OptionRole::kIdentity, .help = "With --dry-run: machine-readable output."});
}

void declare_rank_flags(core::OptionSet& set, RunOptions& o) {
  set.add("device", &o.device,
          {.role = OptionRole::kSetup,
           .help = "auto: CUDA where a GPU is visible, else the CPU.",
           .choices = {"auto", "cuda", "cpu"},
           .choice_aliases = {{"gpu", "cuda"}}});
  set.add("dist-backend", &o.dist_backend,
          {.role = OptionRole::kConfiguration,
           .help = "auto: NCCL on CUDA, Gloo on the CPU.",
           .choices = {"auto", "nccl", "gloo"},
           .refused_choices = {{"hccl", "use nccl or gloo: Ascend devices are not supported"},
                               {"ccl", "use nccl or gloo: Intel XPU devices are not supported"}}});
  set.add("dist-url", &o.dist_url,
          {.role = OptionRole::kIdentity,
           .help = "Where ranks meet: tcp://HOST:PORT, or env:// for MASTER_ADDR and MASTER_PORT.",
           .metavar = "URL",
           .unset_text = "from torchrun, SLURM or MPI"});
  set.add("dist-rank", &o.dist_rank,
          {.role = OptionRole::kIdentity,
           .help = "Rank of this process, with --dist-world-size; where no launcher tells.",
           .unset_text = "discovered",
           .min = 0,
           .max = 1 << 24});
  set.add("dist-world-size", &o.dist_world_size,
          {.role = OptionRole::kIdentity,
           .help = "Number of ranks, with --dist-rank.",
           .unit = "ranks",
           .unset_text = "discovered",
           .min = 1,
           .max = 1 << 24});
  set.add("dist-local-rank", &o.dist_local_rank,
          {.role = OptionRole::kIdentity,
           .help = "Rank within this machine; picks the GPU.",
           .unset_text = "discovered",
           .min = 0,
           .max = 4096});
  set.add("dist-timeout", &o.dist_timeout_s,
          {.role = OptionRole::kIdentity,
           .help = "A collective that takes longer ends the run and names the missing ranks.",
           .unit = "seconds",
           .min = 0,
           .max = 1e6,
           .is_min_excluded = true});
  set.add("join-timeout", &o.join_timeout_s,
          {.role = OptionRole::kIdentity,
           .help = "Ranks that have not come after this long are named, and the run ends. Hundreds of nodes that load "
                   "the program from one file system need minutes.",
           .unit = "seconds",
           .min = 0,
           .max = 1e6,
           .is_min_excluded = true});
}

void declare_compute_flags(core::OptionSet& set, RunOptions& o) {
  set.add(
      "threads", &o.threads,
      {.role = OptionRole::kConfiguration,
       .help = "Compute threads of each rank; 0: OMP_NUM_THREADS, else the cores of the process shared out among the "
               "ranks of the machine that have the same ones.",
       .unit = "threads per rank",
       .min = 0,
       .max = 4096});
  set.add("deterministic", &o.deterministic,
          {.role = OptionRole::kConfiguration,
           .help = "Only kernels that give the same bits in every run; may be slower. On GPUs also without TF32, "
                   "unless it is asked for."});
  declare_gpu_math_options(set, o.gpu_math);
  set.add("cuda-graphs", &o.cuda_graphs,
          {.role = OptionRole::kConfiguration,
           .help = "auto: on one GPU forward and backward of steps are recorded and launched as CUDA graphs, with the "
                   "numbers of plain steps, where memory for two steps is free: of batches of several sizes the first "
                   "four. Steps that draw random numbers (dropout) or pack texts go on kernel by kernel, and so do "
                   "runs of several ranks. off: always kernel by kernel.",
           .choices = {"auto", "off"}});
  set.add("check-replicas", &o.check_replicas_steps,
          {.role = OptionRole::kConfiguration,
           .help = "Compare a hash of the parameters across ranks every N steps; a difference stops the run. 0: never.",
           .unit = "steps",
           .min = 0});
  set.add("seed", &o.seed,
          {.role = OptionRole::kIdentity, .help = "Seed of parameters, data order, crops and dropout.", .min = 0});
}

void declare_logging_flags(core::OptionSet& set, RunOptions& o) {
  set.add("logs", &o.logs,
          {.role = OptionRole::kIdentity,
           .help = "Folder of runs; this one lands in LOGS/NAME.",
           .metavar = "DIR",
           .refused_choices = {{"none", "a run always leaves its record; name a folder"},
                               {"None", "a run always leaves its record; name a folder"},
                               {"", "a run always leaves its record; name a folder"}}});
  set.add("name", &o.name,
          {.role = OptionRole::kIdentity,
           .help = "Name of the run. An existing one is refused without --resume.",
           .metavar = "NAME",
           .unset_text = "time and main options"});
  set.add(
      "log-local", &o.log_local,
      {.role = OptionRole::kNoInfluence,
       .help = "The first rank of each node writes a log of its own, LOGS/NAME/out-RANK, not rank 0 alone; LOGS may "
               "lie on disks of the nodes."});
  set.add("log-every-n-steps", &o.log_every_n_steps,
          {.role = OptionRole::kNoInfluence, .help = "Distance of log lines.", .unit = "steps", .min = 1});
  set.add(
      "report-to", &o.report_to,
      {.role = OptionRole::kNoInfluence,
       .help = "tensorboard: also write TensorBoard event files. wandb: also write an offline run of Weights & Biases, "
               "which `wandb sync` uploads; nothing is sent. all: both.",
       .choices = {"none", "tensorboard", "wandb", "all"},
       .choice_aliases = {{"", "none"},
                          {"tensorboard,", "tensorboard"},
                          {",tensorboard", "tensorboard"},
                          {"wandb,tensorboard", "all"},
                          {"tensorboard,wandb", "all"},
                          {"wandb, tensorboard", "all"},
                          {"tensorboard, wandb", "all"}},
       .refused_choices = {{"trackio", "use --report-to tensorboard or wandb"}}});
  set.add("wandb-project-name", &o.wandb_project,
          {.role = OptionRole::kNoInfluence,
           .help = "With --report-to wandb: the project.",
           .metavar = "NAME",
           .aliases = {"wandb-project"}});
  set.add("wandb-notes", &o.wandb_notes,
          {.role = OptionRole::kNoInfluence, .help = "With --report-to wandb: notes on the run.", .metavar = "TEXT"});
  set.add("debug", &o.debug, {.role = OptionRole::kNoInfluence, .help = "Log more."});
}

void declare_profile_flags(core::OptionSet& set, RunOptions& o) {
  set.add("profile", &o.profile,
          {.role = OptionRole::kIdentity,
           .help = "Trace some steps; the run is marked as no measurement. `lockstep profile train ...` sets it."});
  set.add("profile-step-start", &o.profile_step_start,
          {.role = OptionRole::kIdentity, .help = "First step that is traced.", .unit = "step from 0", .min = 0});
  set.add("profile-step-end", &o.profile_step_end,
          {.role = OptionRole::kIdentity,
           .help = "Step before which the trace ends. Without --max-steps the run ends there, too.",
           .unit = "step from 0",
           .min = 1});
  set.add(
      "profile-ranks", &o.profile_ranks,
      {.role = OptionRole::kIdentity, .help = "Ranks that are traced, such as 0,1,4-7, or all.", .metavar = "RANKS"});
  set.add("profile-tool", &o.profile_tool,
          {.role = OptionRole::kIdentity,
           .help = "kineto: Chrome traces in the run's folder profile/. nsys: ranges and capture range for Nsight "
                   "Systems, under which the ranks then run.",
           .choices = {"kineto", "nsys"}});
}

void declare_remote_flags(core::OptionSet& set, RunOptions& o) {
  set.add(
      "remote-sync", &o.remote_sync,
      {.role = OptionRole::kNoInfluence,
       .help = "Copy the run's finished files to WHERE/NAME in the background: s3://BUCKET/FOLDER, or a path. Keys, "
               "region and endpoint are found as AWS's own tools find them.",
       .metavar = "WHERE",
       .unset_text = "nowhere",
       .choice_aliases = {{"none", ""}, {"None", ""}}});
  set.add("remote-sync-frequency", &o.remote_sync_frequency_s,
          {.role = OptionRole::kNoInfluence,
           .help = "Time between two copies by --remote-sync.",
           .unit = "seconds",
           .min = 0,
           .max = 1e6,
           .is_min_excluded = true});
  set.add("remote-sync-deadline", &o.remote_sync_deadline_s,
          {.role = OptionRole::kNoInfluence,
           .help = "How long the end of a run waits for --remote-sync; what did not arrive is told.",
           .unit = "seconds",
           .min = 0,
           .max = 1e6});
}

void declare_checkpoint_flags(core::OptionSet& set, RunOptions& o) {
  set.add("save-every-n-steps", &o.save_every_n_steps,
          {.role = OptionRole::kNoInfluence,
           .help = "Also save every N optimiser steps; 0: do not.",
           .unit = "steps",
           .min = 0});
  set.add("keep", &o.keep,
          {.role = OptionRole::kNoInfluence,
           .help = "Keep the newest N checkpoints; with --remote-sync at least 2, as one may be on its way.",
           .unit = "checkpoints",
           .unset_text = "all",
           .min = 1});
  declare_best_checkpoints(set, o.best);
  set.add("resume", &o.resume,
          {.role = OptionRole::kIdentity,
           .help = "Go on from a checkpoint: a path, s3://BUCKET/.../checkpoints/STEP, or latest, which starts afresh "
                   "where there is none yet. With --remote-sync, latest also looks there.",
           .metavar = "latest|PATH"});
  declare_remote_flags(set, o);
}

/// --dist-backend by the name that users of this command know.
std::string backend_flag(const core::OptionSet& set) {
  const core::Option* option = set.find("distributed-backend");
  return option == nullptr ? "--dist-backend" : "--distributed-backend";
}

void check_backend(const RunOptions& o, const core::OptionSet& set) {
  const std::string flag = backend_flag(set);
  refuse_if(o.device == "cpu" && o.dist_backend == "nccl", fmt::format("{} nccl needs --device cuda", flag),
            fmt::format("use {} gloo", flag));
}

void check_ranks(const RunOptions& o) {
  refuse_if(o.dist_rank.has_value() != o.dist_world_size.has_value(),
            "--dist-rank and --dist-world-size belong together", "give both or none");
  refuse_if(o.dist_rank && *o.dist_rank >= *o.dist_world_size,
            fmt::format("--dist-rank {} is out of range, expected 0 to {}", o.dist_rank.value_or(0),
                        o.dist_world_size.value_or(0) - 1),
            "ranks count from 0");
  refuse_if(
      o.world_size && !o.dry_run, "--world-size only asks --dry-run about a size that is not here",
      fmt::format("start ranks with `lockstep launch --nproc-per-node N -- train {} ...`, or add --dry-run", o.task));
  refuse_if(o.json && !o.dry_run, "--json belongs to --dry-run",
            "a run writes steps.jsonl and results.jsonl into its folder");
  const bool is_url = o.dist_url.empty() || o.dist_url == "env://" || core::starts_with(o.dist_url, "tcp://");
  refuse_if(!is_url, fmt::format("--dist-url got '{}', expected tcp://HOST:PORT or env://", o.dist_url),
            "for example tcp://node01:29500");
}

/// A file of weights has neither optimiser nor position, from which a run could go on; a checkpoint of OpenCLIP has.
void check_resume(const RunOptions& o) {
  const std::string path = o.resume.value_or("");
  std::error_code ignored;
  bool is_weights = std::filesystem::is_regular_file(path, ignored);
  for (const char* ending : {".pt", ".pth", ".bin", ".safetensors"})
    is_weights = is_weights || core::ends_with(path, ending);
  refuse_if(is_weights && !(o.takes_openclip_checkpoints && core::ends_with(path, ".pt")),
            fmt::format("--resume '{}' is a file of weights, expected latest or a checkpoint's folder", path),
            "begin a run with these weights: --pretrained FILE (`train gpt`: --load FILE --finetune)");
}

/// As the file system sees it, also where it is not there yet.
std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code failure;
  const auto resolved = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failure), failure);
  return failure ? std::filesystem::absolute(path, failure).lexically_normal() : resolved;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// A copy that replaces the files it is made of destroys them, and one inside the run's folder copies itself.
void check_copy_lies_apart(const RunOptions& o) {
  constexpr std::string_view kScheme = "file://";
  const std::string where =
      core::starts_with(o.remote_sync, kScheme) ? o.remote_sync.substr(kScheme.size()) : o.remote_sync;
  if (where.empty() || where.find("://") != std::string::npos) return;
  const std::string name = o.name.empty() ? "NAME" : o.name;  // of a time yet unknown
  const auto run = resolved(std::filesystem::path(o.logs) / name), copy = resolved(std::filesystem::path(where) / name);
  refuse_if(lies_in(copy, run) || lies_in(run, copy),
            fmt::format("--remote-sync '{}' puts the copy of the run into '{}', the run itself lies in '{}'",
                        o.remote_sync, copy.string(), run.string()),
            "name a folder apart from --logs, on another file system");
}

void check_remote(const RunOptions& o, const core::OptionSet& set) {
  check_copy_lies_apart(o);
  for (const char* flag : {"remote-sync-frequency", "remote-sync-deadline"})  // a run that is copied nowhere
    refuse_if(o.remote_sync.empty() && set.find(flag) != nullptr && set.is_given(flag),
              fmt::format("--{} belongs to --remote-sync", flag),
              "add --remote-sync with the place of the copy, or drop it");
  const auto is_of = [](const std::string& text, const char* scheme) { return core::starts_with(text, scheme); };
  const bool is_known = is_of(o.remote_sync, "s3://") || is_of(o.remote_sync, "file:///") ||
                        (core::scheme_of(o.remote_sync).empty() && o.remote_sync.find("://") == std::string::npos);
  refuse_if(!core::scheme_of(o.logs).empty(), fmt::format("--logs got '{}', expected a folder of this machine", o.logs),
            "--remote-sync s3://BUCKET/FOLDER copies the run there while it goes on");
  refuse_if(!is_known, fmt::format("--remote-sync got '{}', expected s3://BUCKET/FOLDER or a path", o.remote_sync),
            "storage of other makers often speaks S3 as well: s3:// with AWS_ENDPOINT_URL set to its address");
  const std::string from = o.resume.value_or("");
  refuse_if(from.find("://") != std::string::npos && !is_of(from, "s3://"),
            fmt::format("--resume got '{}', expected latest, a path or s3://BUCKET/.../checkpoints/STEP", from),
            "copy the checkpoint here first");
}

void check_profile(const RunOptions& o, const StepLimit& limit, const core::OptionSet& set) {
  for (const char* flag : {"profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"})
    refuse_if(!o.profile && set.is_given(flag), fmt::format("--{} belongs to a profile", flag),
              "start the run with `lockstep profile train ...`");
  refuse_if(o.profile_step_end <= o.profile_step_start,
            fmt::format("--profile-step-end {} is not behind --profile-step-start {}", o.profile_step_end,
                        o.profile_step_start),
            "the end is the first step that is not traced any more");
  refuse_if(o.profile && limit.steps.value_or(o.profile_step_end) <= o.profile_step_start,
            fmt::format("{} {} ends the run before --profile-step-start {}", limit.flag, limit.steps.value_or(0),
                        o.profile_step_start),
            "profile earlier steps");
  parse_profile_ranks(o.profile_ranks);
}

using Group = void (*)(core::OptionSet&, RunOptions&);

/// The group that declares a flag. Tasks take over a few flags at a time, and each of them is only in one.
const std::map<std::string, Group, std::less<>>& group_by_flag() {
  static const std::map<std::string, Group, std::less<>> groups = [] {
    std::map<std::string, Group, std::less<>> by_flag;
    RunOptions options;
    for (const Group group : {declare_dry_run_flags, declare_rank_flags, declare_compute_flags, declare_logging_flags,
                              declare_profile_flags, declare_checkpoint_flags}) {
      core::OptionSet set("train", "What every run has.");
      group(set, options);
      for (const core::Option& option : set.options()) by_flag.emplace(option.name, group);
    }
    return by_flag;
  }();
  return groups;
}

}  // namespace

void declare_run_flags(core::OptionSet& set, RunOptions& options, std::initializer_list<BorrowedFlag> flags) {
  std::set<Group> groups;
  for (const BorrowedFlag& flag : flags) {
    const auto found = group_by_flag().find(flag.name);
    LOCKSTEP_CHECK(found != group_by_flag().end(), "no run has --{}", flag.name);
    groups.insert(found->second);
  }
  core::OptionSet wanted("train", "What every run has.");
  wanted.require_roles();
  for (const Group group : groups) group(wanted, options);
  borrow_flags(set, wanted, flags);
}

void refuse_guessed_flags(core::OptionSet& set) {
  for (const char* name : {"outdir", "out-dir", "output-dir"})
    set.refuse(name, "runs lie side by side in one folder", "use --logs DIR --name NAME: the run lands in DIR/NAME");
  for (const char* name : {"gpus-per-node", "devices-per-node"})
    set.refuse(name, "ranks are started from outside",
               "start them with `lockstep launch --nproc-per-node N -- train ...`, torchrun or srun");
}

void check_run_options(const RunOptions& options, const StepLimit& limit, const core::OptionSet& set) {
  check_backend(options, set);
  check_gpu_math(options.gpu_math, options.deterministic);
  check_ranks(options);
  refuse_if(options.name.find('/') != std::string::npos, fmt::format("--name '{}' contains '/'", options.name),
            "put folders into --logs");
  check_profile(options, limit, set);
  check_resume(options);
  check_remote(options, set);
}

std::vector<int64_t> parse_profile_ranks(const std::string& text) {
  std::vector<int64_t> ranks;
  if (text == "all") return ranks;
  for (const std::string& part : core::split(text, ",")) {
    const auto ends = core::split(part, "-");
    const auto first = core::parse_int(core::trim(ends.front())), last = core::parse_int(core::trim(ends.back()));
    refuse_if(!first || !last || ends.size() > 2 || *first < 0 || *last < *first || *last > 1 << 24,
              fmt::format("--profile-ranks got '{}', expected ranks such as 0,1,4-7, or all", text),
              "ranks count from 0");
    for (int64_t rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

int64_t num_newest_checkpoints(const RunOptions& options) { return options.remote_sync.empty() ? 1 : 2; }

int64_t num_kept_checkpoints(const RunOptions& options, int64_t by_default) {
  const int64_t kept = options.keep.value_or(by_default);
  return kept == 0 ? 0 : std::max(kept, num_newest_checkpoints(options));
}

std::string flags_to_resume(const std::string& given_name, const std::string& given_save, const std::string& run_name) {
  if (!given_save.empty()) return fmt::format("--load '{}'", given_save);
  return (given_name.empty() ? fmt::format("--name {} ", run_name) : "") + "--resume latest";
}

std::string flags_to_resume(const RunOptions& options, const std::string& run_name) {
  return flags_to_resume(options.name, options.save, run_name);
}

std::string auto_run_name(const RunFacts& facts, const std::string& time_text) {
  return fmt::format("{}-model_{}-lr_{}-b_{}-j_{}-p_{}", time_text,
                     core::replace_all(core::replace_all(facts.model, "/", "-"), " ", "-"),
                     core::format_double(facts.lr.value_or(0)), facts.micro_batch_size, facts.workers, facts.precision);
}

}  // namespace lockstep::config
