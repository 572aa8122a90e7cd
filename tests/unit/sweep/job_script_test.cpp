#include "sweep/job_script.h"

#include <gtest/gtest.h>

#include <csignal>

#include "core/error.h"
#include "core/process.h"
#include "core/strings.h"
#include "sweep/run_outcome.h"
#include "unit/sweep/fake_slurm.h"

namespace lockstep::sweep {
namespace {
using namespace std::chrono_literals;

core::ProcessOptions script_process(const SweepFixture& sweep, const std::string& restart_count = "") {
  core::ProcessOptions options{.argv = {"/bin/bash", (sweep.folder / sweep.state.points[0].script).string()}};
  options.env_changes = {{"SLURM_JOB_ID", "41"},
                         {"SLURM_JOB_NODELIST", "node1"},
                         {"SLURM_RESTART_COUNT", restart_count},
                         {"SLURM_ARRAY_TASK_ID", std::nullopt}};
  return options;
}

/// Starts the point's script, waits until its step runs, sends a signal, and waits for its end.
core::ExitStatus run_with_signal(const SweepFixture& sweep, const FakePrograms& fake, int signal) {
  core::Process process = core::Process::spawn(script_process(sweep));
  for (int i = 0; i < 2000 && fake.read("running").empty(); ++i) ::usleep(5000);
  process.send_signal(signal);
  const auto status = process.wait_for(30s);
  EXPECT_TRUE(status) << "the script did not end";
  return status.value_or(core::ExitStatus{.code = -1});
}

/// srun whose step saves and ends with 75 some time after a signal, as the engine does.
void add_slow_srun(const FakePrograms& fake) {
  fake.add("srun", "trap 'sleep 0.3; echo USR1 >>" + fake.path("got") +
                       "; exit 75' USR1\ntrap 'sleep 0.3; echo TERM >>" + fake.path("got") +
                       "; exit 75' TERM\necho yes >'" + fake.path("running") + "'\nwhile :; do sleep 0.05; done\n");
  fake.add("scontrol",
           "echo \"$@\" >>'" + fake.path("scontrol.log") + "'\nexit 1\n");  // 1: the script does not wait for its end
}

TEST(JobScript, WordsReadBackInBash) {
  for (const std::string word :
       {"plain", "--x=1", "two words", "d/{000..009}.tar", "it's", "$HOME `x` \\ \"q\"", "", "a;b|c&d", "*?[x]", "~"}) {
    const auto result = core::run_command({.argv = {"/bin/bash", "-c", "printf %s " + shell_word(word)}}, 10s);
    EXPECT_EQ(result.out, word);
  }
}

// What a known fault of a system needs is set there and nowhere else, and never against the user.
TEST(JobScript, KnownFaultsAreHandledOnTheirSystem) {
  const FakePrograms fake;
  fake.add("srun", "printf '%s' \"${NCCL_PXN_DISABLE:-unset}\" >'" + fake.path("pxn") + "'\n");
  const SweepFixture sweep("", "/opt/lockstep");
  const auto seen = [&](const char* cluster, const std::optional<std::string>& own) {
    core::ProcessOptions options = script_process(sweep);
    options.env_changes.emplace_back("SLURM_CLUSTER_NAME", cluster);
    options.env_changes.emplace_back("NCCL_PXN_DISABLE", own);
    core::run_command(options, 30s);
    return fake.read("pxn");
  };
  EXPECT_EQ(seen("leonardo", std::nullopt), "1");
  EXPECT_EQ(seen("leonardo", "0"), "0");
  EXPECT_EQ(seen("jupiter", std::nullopt), "unset");
}

TEST(JobScript, RunsTheVeryCommandOfThePoint) {
  const FakePrograms fake;
  fake.add("srun", "printf '%s\\n' \"$@\" >'" + fake.path("args") + "'\nenv >'" + fake.path("env") + "'\n");
  const SweepFixture sweep(
      "aug-cfg = [\"scale=(0.4,1.0)\", \"ratio=(0.7,1.3)\"]\n[env]\nNCCL_ALGO = \"Tree,Ring\"\nTEXT = \"it's "
      "$HOME\"\n[slurm]\ncpus-per-task = 3\nsrun = "
      "[\"--mpi=none\"]\nsetup = [\"export FROM_SETUP=yes\"]\n",
      "/opt/lockstep");
  const auto result = core::run_command(script_process(sweep), 30s);
  EXPECT_EQ(result.status.code, 0) << result.err;
  std::vector<std::string> expected{"--kill-on-bad-exit=1", "--wait=60", "--mpi=none", "/opt/lockstep"};
  expected.insert(expected.end(), sweep.state.points[0].arguments.begin(), sweep.state.points[0].arguments.end());
  EXPECT_EQ(core::split(core::trim(fake.read("args")), "\n"), expected);
  const std::string env = fake.read("env");
  EXPECT_EQ(env.substr(env.find("\nLOCKSTEP_STORE_SECRET=") + 23).find('\n'), 32u);
  for (const char* line :
       {"\nNCCL_ALGO=Tree,Ring\n", "\nTEXT=it's $HOME\n", "\nFROM_SETUP=yes\n", "\nSRUN_CPUS_PER_TASK=3\n"})
    EXPECT_NE(env.find(line), std::string::npos) << line;
}

// sbatch --export=NONE leaves SLURM_EXPORT_ENV=NONE in the job, which srun would follow.
TEST(JobScript, RanksGetTheEnvironmentWhateverSbatchExports) {
  const FakePrograms fake;
  fake.add("srun", "echo \"${SLURM_EXPORT_ENV-all}\" >'" + fake.path("exported") + "'\necho \"$NCCL_ALGO\" >>'" +
                       fake.path("exported") + "'\n");
  const SweepFixture sweep("[env]\nNCCL_ALGO = \"Ring\"\n[slurm]\nsbatch = [\"--export=NONE\"]\n");
  core::ProcessOptions options = script_process(sweep);
  options.env_changes.emplace_back("SLURM_EXPORT_ENV", "NONE");
  EXPECT_EQ(core::run_command(options, 30s).status.code, 0);
  EXPECT_EQ(fake.read("exported"), "all\nRing\n");
}

TEST(JobScript, NoValueBecomesALineOfTheScript) {
  SweepFixture sweep;
  Point point = sweep.plan.points[0];
  point.axes.emplace_back("train-data", std::string("d.tar\ntouch /tmp/owned\n#"));
  EXPECT_THROW(job_script(sweep.state, sweep.state.points[0], point, sweep.folder), UsageError);
  EXPECT_THROW(job_script(sweep.state, sweep.state.points[0], sweep.plan.points[0], "a\n#SBATCH --uid=0"), UsageError);
  point = sweep.plan.points[0];
  point.slurm.sbatch = {"--comment=say \"hi\" \\ # it's", "--mail-type=END"};
  const std::string lines = request_lines(point);
  EXPECT_NE(lines.find("#SBATCH --comment=\"say \\\"hi\\\" \\\\ # it's\"\n#SBATCH --mail-type=END\n"),
            std::string::npos)
      << lines;
}

TEST(JobScript, KeepsTheExitCodeAndNotesStartAndEnd) {
  const FakePrograms fake;
  fake.add("srun", "exit 4\n");
  const SweepFixture sweep;
  EXPECT_EQ(core::run_command(script_process(sweep, "2"), 30s).status.code, 4);
  const auto spans = read_spans(sweep.folder / sweep.state.points[0].events);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].job, "41");
  EXPECT_EQ(spans[0].restart, 2);
  EXPECT_EQ(spans[0].nodes, "node1");
  EXPECT_EQ(spans[0].exit_code, 4);
  EXPECT_GE(*spans[0].end_s, spans[0].start_s);
}

TEST(JobScript, TheSignalBeforeTheLimitReachesTheRanksAndRequeues) {
  const FakePrograms fake;
  add_slow_srun(fake);
  const SweepFixture sweep;
  EXPECT_EQ(run_with_signal(sweep, fake, SIGUSR1).code, 75);
  EXPECT_EQ(fake.read("got"), "USR1\n");
  EXPECT_EQ(fake.read("scontrol.log"), "requeue 41\n");
  EXPECT_EQ(read_spans(sweep.folder / sweep.state.points[0].events).at(0).exit_code, 75);
}

TEST(JobScript, ACancelledJobStaysCancelled) {
  const FakePrograms fake;
  add_slow_srun(fake);
  const SweepFixture sweep;
  EXPECT_EQ(run_with_signal(sweep, fake, SIGTERM).code, 75);
  EXPECT_EQ(fake.read("got"), "TERM\n");
  EXPECT_EQ(fake.read("scontrol.log"), "");
}

TEST(JobScript, RequeuesOnlySoOften) {
  const FakePrograms fake;
  fake.add("srun", "exit 75\n");
  fake.add("scontrol", "echo \"$@\" >>'" + fake.path("scontrol.log") + "'\nexit 1\n");
  const SweepFixture sweep("[slurm]\nmax-requeues = 2\n");
  EXPECT_EQ(core::run_command(script_process(sweep, "1"), 30s).status.code, 75);
  EXPECT_EQ(fake.read("scontrol.log"), "requeue 41\n");
  EXPECT_EQ(core::run_command(script_process(sweep, "2"), 30s).status.code, 75);
  EXPECT_EQ(fake.read("scontrol.log"), "requeue 41\n");
  const SweepFixture never("[slurm]\nrequeue = false\n");
  EXPECT_EQ(core::run_command(script_process(never), 30s).status.code, 75);
  EXPECT_EQ(fake.read("scontrol.log"), "requeue 41\n");
}

}  // namespace
}  // namespace lockstep::sweep
