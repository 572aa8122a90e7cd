#include "sweep/job_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "hw/device_specs.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
/// After the last checkpoint ranks may need this long to end; then srun ends what is left.
constexpr int kSrunWaitSeconds = 60;

/// What follows a line break would be a line of the script.
void require_one_line(const std::string& text, const std::string& what) {
  if (core::has_control_character(text))
    throw UsageError(fmt::format("sweep: {} '{}' has a line break or another control character", what, text),
                     "a job script holds it on one line");
}

}  // namespace

// sbatch takes a backslash and quotes as bash does, and '#' as the begin of a comment.
std::string sbatch_line(const std::string& option) {
  require_one_line(option, "the option of sbatch");
  const size_t equals = option.find('=');
  const bool needs_quotes = equals != std::string::npos && option.find_first_of(" #\"'\\", equals) != std::string::npos;
  if (!needs_quotes) return fmt::format("#SBATCH {}\n", option);
  const std::string value = core::replace_all(option.substr(equals + 1), "\\", "\\\\");
  return fmt::format("#SBATCH {}=\"{}\"\n", option.substr(0, equals), core::replace_all(value, "\"", "\\\""));
}

namespace {

/// The command with each flag on its own line.
std::string srun_command(const SweepState& state, const PointRecord& record, const Point& point) {
  std::string text = fmt::format("srun --kill-on-bad-exit=1 --wait={}", kSrunWaitSeconds);
  for (const std::string& option : point.slurm.srun) text += " " + shell_word(option);
  text += " \\\n  " + shell_word(state.program);
  for (const std::string& word : record.arguments)
    text += (core::starts_with(word, "--") ? " \\\n    " : " ") + shell_word(word);
  return text;
}

/// All ranks of a step get it from the job's environment, which other users cannot read.
constexpr const char* kSecret =
    "export LOCKSTEP_STORE_SECRET=$(od -An -N16 -tx8 /dev/urandom | tr -d ' \\n')  # of the place where ranks meet\n";

/// `sbatch --export=NONE` (also where a site sets SBATCH_EXPORT) tells srun by this variable to pass on nothing of what
/// the script exports.
constexpr const char* kExportAll =
    "unset SLURM_EXPORT_ENV  # sbatch --export=NONE sets it, and srun would keep the lines below from the ranks\n";

/// Starts the ranks, passes signals on to them, notes start and end, requeues.
constexpr const char* kBody = R"sh(
# One line for each start and end of a job, from which `lockstep sweep status` and `collect` take waits and node-hours.
job=${SLURM_JOB_ID:-none}
[ -n "${SLURM_ARRAY_TASK_ID:-}" ] && job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
note() {
  printf '{"event":"%s","job":"%s","restart":%d,"time_s":%d,"nodes":"%s","exit_code":%s}\n' \
    "$1" "$job" "${SLURM_RESTART_COUNT:-0}" "$(date +%s)" "${SLURM_JOB_NODELIST:-}" "${2:-null}" >>"$events"
}
note start

# Ranks that train save a checkpoint on USR1 (it comes before the time limit) and on TERM (someone cancels the job), and end with 75.
asked_by= step=
pass_on() {
  asked_by=${asked_by:-$1}
  [ -z "$step" ] || kill -$2 $step 2>/dev/null
}
trap 'pass_on limit USR1' USR1
trap 'pass_on cancel TERM' TERM
$COMMAND &
step=$!
[ -z "$asked_by" ] || kill -TERM $step 2>/dev/null  # asked before there was a step
wait $step
code=$?
while kill -0 $step 2>/dev/null; do  # a signal ends `wait` before the step has ended
  wait $step
  code=$?
done
wait $step 2>/dev/null
again=$?
[ $again != 127 ] && code=$again
trap - USR1 TERM
note end $code
)sh";

constexpr const char* kRequeue = R"sh(
# Stopped with a checkpoint: back into the queue; the next start goes on from it.
if [ $code = 75 ] && [ "$asked_by" != cancel ] && [ "${SLURM_RESTART_COUNT:-0}" -lt $MAX ]; then
  scontrol requeue "$job" && sleep 120  # SLURM ends this shell
fi
)sh";
}  // namespace

std::string shell_word(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_=./:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  return "'" + core::replace_all(text, "'", "'\\''") + "'";
}

std::string request_lines(const Point& point) {
  const SlurmRequest& request = point.slurm;
  std::string text = sbatch_line(fmt::format("--nodes={}", point.nodes)) +
                     sbatch_line(fmt::format("--ntasks-per-node={}", point.ranks_per_node));
  if (request.cpus_per_task) text += sbatch_line(fmt::format("--cpus-per-task={}", *request.cpus_per_task));
  if (request.time_limit_s > 0) text += sbatch_line("--time=" + time_limit_text(request.time_limit_s));
  for (const std::string& option : request.sbatch) text += sbatch_line(option);
  if (request.time_limit_s > 0 && request.stop_before_end_s > 0)
    text += sbatch_line(fmt::format("--signal=B:USR1@{}", request.stop_before_end_s));
  text += sbatch_line(request.can_requeue ? "--requeue" : "--no-requeue");
  return text + sbatch_line("--open-mode=append");
}

namespace {
/// What known faults of systems need, where the job finds itself on one of them; what is set already wins.
std::string fault_lines() {
  std::string text;
  for (const hw::SystemSpec& system : hw::system_specs()) {
    if (system.environment.empty()) continue;
    const size_t equals = system.environment.find('=');
    const std::string name(system.environment.substr(0, equals)), value(system.environment.substr(equals + 1));
    LOCKSTEP_CHECK(!system.aliases.empty(), "system {} has a known fault but no name to know it by", system.name);
    const std::string patterns = "*" + core::replace_all(std::string(system.aliases), " ", "*|*") + "*";
    text += fmt::format(
        "case \"${{SLURM_CLUSTER_NAME:-}} $(hostname -f 2>/dev/null)\" in\n"
        "  {0}) export {1}=\"${{{1}:-{2}}}\"; echo \"{3}: {1}=${1}\" ;;  # {4}\n"
        "esac\n",
        patterns, name, value, system.name, system.remark);
  }
  return text;
}
}  // namespace

std::string job_script(const SweepState& state, const PointRecord& record, const Point& point, const fs::path& folder) {
  std::string text = "#!/bin/bash\n";
  text +=
      sbatch_line("--job-name=" +
                  (state.how == SubmitHow::kSingleton ? state.name : fmt::format("{}-{:04}", state.name, point.index)));
  text += request_lines(point);
  text += sbatch_line("--output=" + (folder / fmt::format("logs/{:04}-%j.out", point.index)).string());
  require_one_line(point.axes_text(), "the point");
  text += fmt::format("\n# Point {} of {} of the sweep '{}': {}\n# Written by `lockstep sweep`.\n\n", point.index,
                      state.points.size(), state.name, point.axes_text());
  text += fmt::format("cd {} || exit 6\n", shell_word(state.working_folder));
  if (point.slurm.cpus_per_task)
    text +=
        fmt::format("export SRUN_CPUS_PER_TASK={}  # srun does not take it from the job\n", *point.slurm.cpus_per_task);
  text += kExportAll;
  text += kSecret;
  for (const auto& [name, value] : point.env) text += fmt::format("export {}={}\n", name, shell_word(value));
  text += fault_lines();
  for (const std::string& line : point.slurm.setup) text += line + "\n";
  text += fmt::format("events={}\n", shell_word((folder / record.events).string()));
  text += core::replace_all(kBody, "$COMMAND", srun_command(state, record, point));
  if (point.slurm.can_requeue) text += core::replace_all(kRequeue, "$MAX", fmt::format("{}", point.slurm.max_requeues));
  return text + "exit $code\n";
}

}  // namespace lockstep::sweep
