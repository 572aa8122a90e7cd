#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/process.h"
#include "core/strings.h"
#include "hw/device.h"
#include "hw/signs_of_life.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using core::CommandResult;
using core::ProcessOptions;
using Args = std::vector<std::string>;

const std::string kProgram = std::string(LOCKSTEP_BUILD_DIR) + "/lockstep";
constexpr auto kLimit = 120s;  // never reached unless something hangs

/// Variables of a surrounding job or launcher must not leak into the tests.
ProcessOptions lockstep(const Args& args) {
  ProcessOptions options{.argv = {kProgram}};
  options.argv.insert(options.argv.end(), args.begin(), args.end());
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "OMP_NUM_THREADS",
        "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_NTASKS", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT",
        "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT"})
    options.env_changes.emplace_back(name, std::nullopt);
  return options;
}

/// `lockstep launch <flags> --program /bin/sh -- -c <script>`
ProcessOptions launch(const Args& flags, const std::string& script) {
  Args args{"launch"};
  args.insert(args.end(), flags.begin(), flags.end());
  for (const std::string& word :
       {std::string("--program"), std::string("/bin/sh"), std::string("--"), std::string("-c"), script})
    args.push_back(word);
  return lockstep(args);
}

CommandResult run(const ProcessOptions& options) { return core::run_command(options, kLimit); }

std::multiset<std::string> lines(const std::string& text) {
  std::vector<std::string> parts = core::split(text, "\n");
  parts.pop_back();
  return {parts.begin(), parts.end()};
}

bool is_alive(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  if (!std::getline(file, stat)) return false;
  const size_t after_name = stat.rfind(") ");
  return after_name != std::string::npos && stat[after_name + 2] != 'Z';
}

bool ends(int64_t pid) {
  for (int round = 0; round < 6000; ++round) {
    if (!is_alive(pid)) return true;
    ::usleep(10'000);
  }
  return false;
}

/// Reads until `word` was seen so often, or the stream ends.
std::string read_until(core::Fd& stream, const std::string& word, int times) {
  std::string text;
  char buffer[4096];
  while (true) {
    int seen = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++seen;
    if (seen >= times) return text;
    const ssize_t count = ::read(stream.get(), buffer, sizeof buffer);
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

/// A listening socket on a port the system chose.
struct Listener {
  core::Fd fd{::socket(AF_INET, SOCK_STREAM, 0)};
  int port = 0;
  Listener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
};

const std::string kShowRanks =
    "echo $RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $GROUP_RANK at $MASTER_ADDR";

TEST(Launch, RanksKnowWhoTheyAre) {
  const CommandResult result = run(launch({"--nproc-per-node", "3"}, kShowRanks));
  EXPECT_EQ(result.status.shell_code(), 0) << result.err;
  EXPECT_EQ(lines(result.out), (std::multiset<std::string>{"0/3 local 0/3 node 0 at 127.0.0.1",
                                                           "[rank 1] 1/3 local 1/3 node 0 at 127.0.0.1",
                                                           "[rank 2] 2/3 local 2/3 node 0 at 127.0.0.1"}));
}

TEST(Launch, RanksAreCountedByCoresOrGpusAsTorchrunDoes) {
  const CommandResult cores = run(launch({"--nproc_per_node=cpu"}, "echo $LOCAL_WORLD_SIZE"));
  EXPECT_EQ(cores.status.shell_code(), 0) << cores.err;
  const auto num_cores = static_cast<size_t>(hw::usable_cpu_cores());
  EXPECT_EQ(lines(cores.out).size(), num_cores) << cores.out;
  ProcessOptions by_variable = launch({}, "echo $LOCAL_WORLD_SIZE");
  by_variable.env_changes.emplace_back("PET_NPROC_PER_NODE", "cpu");
  EXPECT_EQ(lines(run(by_variable).out).size(), num_cores);
  ProcessOptions hidden = launch({"--nproc-per-node", "gpu"}, "echo started");
  hidden.env_changes.emplace_back("CUDA_VISIBLE_DEVICES", "");
  const CommandResult without = run(hidden);
  EXPECT_EQ(without.status.shell_code(), 6) << without.err;
  EXPECT_NE(without.err.find("--nproc-per-node gpu was asked for, and this machine shows no GPU"), std::string::npos)
      << without.err;
  EXPECT_EQ(without.out, "");
  const CommandResult automatic = run(launch({"--nproc-per-node", "auto"}, "echo started"));
  EXPECT_EQ(automatic.status.shell_code(), 2) << automatic.err;
  EXPECT_NE(automatic.err.find("hint: write gpu for one rank on each GPU"), std::string::npos) << automatic.err;
}

TEST(Launch, OneNodeOfSeveral) {
  const Args flags{"--nproc_per_node=2", "--nnodes", "3", "--node-rank", "2", "--rdzv-endpoint", "192.0.2.1:29500"};
  const CommandResult result = run(launch(flags, kShowRanks + ":$MASTER_PORT"));
  EXPECT_EQ(lines(result.out), (std::multiset<std::string>{"[rank 4] 4/6 local 0/2 node 2 at 192.0.2.1:29500",
                                                           "[rank 5] 5/6 local 1/2 node 2 at 192.0.2.1:29500"}))
      << result.err;
}

TEST(Launch, AnAddressThatLeadsNowhereIsToldBeforeThereAreRanks) {
  const auto at = [](const std::string& node, const std::string& host) {
    return run(launch({"--nnodes", "2", "--node-rank", node, "--rdzv-endpoint", host + ":29513"}, "echo started"));
  };
  for (const std::string node : {"0", "1"}) {
    const CommandResult unknown = at(node, "no-such-host.invalid");
    EXPECT_EQ(unknown.status.shell_code(), 3) << unknown.err;
    EXPECT_NE(unknown.err.find("'no-such-host.invalid', where the ranks are to meet, cannot be resolved"),
              std::string::npos)
        << unknown.err;
    EXPECT_EQ(unknown.out, "");
  }
  const std::string warning = "'192.0.2.1' (192.0.2.1) is no address of this machine";  // of no machine (RFC 5737)
  const CommandResult elsewhere = at("0", "192.0.2.1");
  EXPECT_EQ(elsewhere.status.shell_code(), 0) << elsewhere.err;
  EXPECT_NE(elsewhere.err.find(warning), std::string::npos) << elsewhere.err;
  EXPECT_NE(elsewhere.out.find("started"), std::string::npos) << "an address may be translated";
  EXPECT_EQ(at("0", "127.0.0.1").err.find("is no address"), std::string::npos);
  EXPECT_EQ(at("1", "192.0.2.1").err.find("is no address"), std::string::npos) << "of another node";
}

using Variables = decltype(ProcessOptions::env_changes);

/// Output of a launch with these variables.
std::multiset<std::string> lines_with(const Args& flags, const Variables& variables) {
  ProcessOptions options = launch(flags, kShowRanks + ":$MASTER_PORT");
  options.env_changes.insert(options.env_changes.end(), variables.begin(), variables.end());
  const CommandResult result = run(options);
  EXPECT_EQ(result.status.shell_code(), 0) << result.err;
  return lines(result.out);
}

TEST(Launch, RanksOfOneNodeShareASecretThatNobodyGave) {
  const auto secrets = [](const Args& flags, const std::optional<std::string>& given) {
    ProcessOptions options = launch(flags, "echo =$LOCKSTEP_STORE_SECRET");
    options.env_changes.emplace_back("LOCKSTEP_STORE_SECRET", given);
    return lines(run(options).out);
  };
  const Args two{"--nproc-per-node", "2", "--no-prefix"};
  const auto first = secrets(two, std::nullopt), second = secrets(two, std::nullopt);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first.begin()->size(), 33u) << *first.begin();
  EXPECT_EQ(first.count(*first.begin()), 2u);
  EXPECT_NE(*first.begin(), *second.begin());
  EXPECT_EQ(secrets(two, "swordfish"), (std::multiset<std::string>{"=swordfish", "=swordfish"}));
  const Args nodes{"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "127.0.0.1:29511", "--no-prefix"};
  EXPECT_EQ(secrets(nodes, std::nullopt), (std::multiset<std::string>{"="})) << "the other launcher knows no other";
  EXPECT_EQ(secrets(nodes, "swordfish"), (std::multiset<std::string>{"=swordfish"}));
}

TEST(Launch, AnEndpointOnThisMachineServesSeveralNodes) {
  EXPECT_EQ(lines_with({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "127.0.0.1:29511"}, {}),
            (std::multiset<std::string>{"[rank 1] 1/2 local 0/1 node 1 at 127.0.0.1:29511"}));
}

TEST(Launch, VariablesStandInForMissingFlagsOfSeveralNodes) {
  const Variables variables{{"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29512"}, {"NODE_RANK", "1"}};
  EXPECT_EQ(lines_with({"--nnodes=2"}, variables),
            (std::multiset<std::string>{"[rank 1] 1/2 local 0/1 node 1 at 192.0.2.1:29512"}));
  EXPECT_EQ(lines_with({"--nnodes=3", "--node_rank=2", "--rdzv_endpoint=192.0.2.2:1234"}, variables),
            (std::multiset<std::string>{"[rank 2] 2/3 local 0/1 node 2 at 192.0.2.2:1234"}))
      << "flags win";
  EXPECT_EQ(lines_with({"--nnodes=2"}, {{"MASTER_ADDR", "192.0.2.1"}, {"NODE_RANK", "1"}}),
            (std::multiset<std::string>{"[rank 1] 1/2 local 0/1 node 1 at 192.0.2.1:29500"}))
      << "torchrun's port";
  EXPECT_EQ(lines_with({}, {{"PET_NNODES", "2"},
                            {"PET_NPROC_PER_NODE", "2"},
                            {"PET_NODE_RANK", "1"},
                            {"PET_RDZV_ENDPOINT", "192.0.2.1:7"}}),
            (std::multiset<std::string>{"[rank 2] 2/4 local 0/2 node 1 at 192.0.2.1:7",
                                        "[rank 3] 3/4 local 1/2 node 1 at 192.0.2.1:7"}));
  ProcessOptions alone = launch({}, "echo $MASTER_ADDR");
  alone.env_changes.insert(alone.env_changes.end(), variables.begin(), variables.end());
  EXPECT_EQ(run(alone).out, "127.0.0.1\n") << "on one node they may be left over";
  ProcessOptions bad = launch({"--nnodes=2"}, "true");
  bad.env_changes.emplace_back("NODE_RANK", "first");
  const CommandResult result = run(bad);
  EXPECT_EQ(result.status.shell_code(), 6);
  EXPECT_NE(result.err.find("NODE_RANK='first' is no integer in [0, 99999]"), std::string::npos) << result.err;
}

TEST(Launch, FlagsOfTorchrunThatMeanNothingHereAreNamedInOneLine) {
  const Args flags{"--standalone", "--rdzv_backend",   "c10d", "--rdzv-id=7", "--max-restarts", "0",
                   "--no-python",  "--nproc_per_node", "2"};
  const CommandResult result = run(launch(flags, "echo $RANK"));
  EXPECT_EQ(lines(result.out), (std::multiset<std::string>{"0", "[rank 1] 1"})) << result.err;
  EXPECT_NE(result.err.find("--standalone, --rdzv-backend, --rdzv-id, --no-python change nothing here"),
            std::string::npos)
      << result.err;
}

TEST(Launch, TakesNodesFromASlurmStepOfLaunchers) {
  ProcessOptions options = launch({"--nproc-per-node", "2"}, kShowRanks);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"SLURM_JOB_ID", "9"},
                                                        {"SLURM_STEP_ID", "0"},
                                                        {"SLURM_PROCID", "1"},
                                                        {"SLURM_NODEID", "1"},
                                                        {"SLURM_LOCALID", "0"},
                                                        {"SLURM_STEP_NUM_TASKS", "2"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                                        {"SLURM_STEP_NODELIST", "localhost,node09"}})
    options.env_changes.emplace_back(name, value);
  EXPECT_EQ(lines(run(options).out), (std::multiset<std::string>{"[rank 2] 2/4 local 0/2 node 1 at localhost",
                                                                 "[rank 3] 3/4 local 1/2 node 1 at localhost"}));
  ProcessOptions with_nodes = launch({"--nnodes", "2", "--rdzv-endpoint", "192.0.2.1:7"}, kShowRanks);
  with_nodes.env_changes = options.env_changes;
  EXPECT_EQ(lines(run(with_nodes).out), (std::multiset<std::string>{"[rank 1] 1/2 local 0/1 node 1 at 192.0.2.1"}))
      << "scripts for torchrun name nodes and endpoint, and leave the index of the node to SLURM";
  options.env_changes.emplace_back("SLURM_STEP_TASKS_PER_NODE", "2");
  options.env_changes.emplace_back("SLURM_NODEID", "0");
  const CommandResult crowded = run(options);
  EXPECT_EQ(crowded.status.code, 2);
  EXPECT_NE(crowded.err.find("--ntasks-per-node=1"), std::string::npos) << crowded.err;
}

TEST(Launch, HelpStartsNothing) {
  const CommandResult result = run(launch({"--help"}, "echo started"));
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_NE(result.out.find("--nproc-per-node"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("started"), std::string::npos);
}

TEST(Launch, OnATerminalTheFirstRanksProgressStaysAtTheBottom) {
  const core::TempDir folder;
  const std::string shown = (folder.path() / "shown").string(), seen = (folder.path() / "seen").string();
  const auto wait_for = [](const std::string& file) { return "while [ ! -e " + file + " ]; do sleep 0.01; done"; };
  ProcessOptions options =
      launch({"--nproc-per-node", "2"}, "if [ $RANK = 0 ]; then test -t 2 && printf '\\r\\033[K10%%' >&2; : > " +
                                            shown + "; " + wait_for(seen) + "; else " + wait_for(shown) +
                                            "; test -t 2 || echo plain >&2; fi");
  options.err = ProcessOptions::Stream::kPty;
  core::Process process = core::Process::spawn(options);
  std::string text = read_until(process.err(), "10%", 2);
  core::write_file_atomic(seen, "");
  EXPECT_EQ(process.wait().code, 0);
  text += read_until(process.err(), "nothing more", 1);
  EXPECT_EQ(text, "\r\033[K10%\r\033[K[rank 1] plain\n\r\033[K10%\r\033[K");
}

TEST(Launch, ThreadsAreSharedOutUnlessTheUserSaysOtherwise) {
  const CommandResult two = run(launch({"--nproc-per-node", "2"}, "test $OMP_NUM_THREADS -ge 1 && echo set"));
  EXPECT_EQ(lines(two.out), (std::multiset<std::string>{"set", "[rank 1] set"}));
  ProcessOptions options = launch({}, "echo $OMP_NUM_THREADS");
  options.env_changes.emplace_back("OMP_NUM_THREADS", "7");
  EXPECT_EQ(run(options).out, "7\n");
}

TEST(Launch, OneRankHasNoPrefixAndBytesPassUnchanged) {
  EXPECT_EQ(run(launch({}, "printf 'a\\r\\nb\\0c\\n'; printf end")).out, std::string("a\r\nb\0c\nend", 10));
  EXPECT_EQ(run(launch({"--nproc-per-node", "2", "--no-prefix"}, "echo x")).out, "x\nx\n");
}

TEST(Launch, WhatTheFirstRankPrintsCanGoIntoAPipe) {
  const CommandResult result =
      run(launch({"--nproc-per-node", "2"}, "if [ $RANK = 0 ]; then printf '{\n  \"a\": 1\n}\n'; fi; echo told >&2"));
  EXPECT_EQ(result.out, "{\n  \"a\": 1\n}\n");
  EXPECT_EQ(lines(result.err), (std::multiset<std::string>{"[rank 0] told", "[rank 1] told"}));
}

TEST(Launch, LinesOfRanksNeverMix) {
  const std::string line(200, 'x');
  const CommandResult result =
      run(launch({"--nproc-per-node", "4"}, "i=0; while [ $i -lt 300 ]; do printf '" + line.substr(0, 100) +
                                                "'; printf '" + line.substr(100) + "\\n'; i=$((i+1)); done"));
  std::multiset<std::string> expected;
  for (int rank = 0; rank < 4; ++rank) {
    for (int count = 0; count < 300; ++count)
      expected.insert(rank == 0 ? line : fmt::format("[rank {}] {}", rank, line));
  }
  EXPECT_EQ(lines(result.out), expected);
}

TEST(Launch, AnUnfinishedLastLineIsNotLost) {
  EXPECT_EQ(lines(run(launch({"--nproc-per-node", "2"}, "printf tail")).out),
            (std::multiset<std::string>{"tail", "[rank 1] tail"}));
}

TEST(Launch, WhatProgressOverwroteIsLeftOutOfAFile) {
  const CommandResult result =
      run(launch({"--nproc-per-node", "2"},
                 "printf '\\r\\033[K10%%' >&2; sleep 0.2; printf '\\r\\033[K20%%\\r\\033[Kdone\\n' >&2"));
  EXPECT_EQ(lines(result.err), (std::multiset<std::string>{"[rank 0] done", "[rank 1] done"}));
}

TEST(Launch, TheFirstFailingRankIsNamedAndTheOthersEnd) {
  const CommandResult result =
      run(launch({"--nproc-per-node", "3"},
                 "echo pid $$; if [ $RANK = 1 ]; then echo 'error: data: shard x.tar is short' >&2; "
                 "echo '  hint: copy it again' >&2; exit 4; fi; exec sleep 1000"));
  EXPECT_EQ(result.status.code, 4);
  EXPECT_NE(result.err.find("rank 1 on "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("failed first: exit code 4, data error\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("its last message: error: data: shard x.tar is short\n    hint: copy it again\n"),
            std::string::npos)
      << result.err;
  for (const std::string& line : lines(result.out))
    EXPECT_TRUE(ends(*core::parse_int(line.substr(line.rfind(' ') + 1)))) << line;
}

TEST(Launch, ACauseRanksAboveALostPeerWhateverCameFirst) {
  const std::string script =
      "if [ $RANK = 0 ]; then exit 3; fi; if [ $RANK = 2 ]; then exec sleep 1000; fi; "
      "trap 'exit 5' TERM; sleep 0.5; echo 'error: bad checkpoint' >&2; exit 5";
  const CommandResult result = run(launch({"--nproc-per-node", "3"}, script));
  EXPECT_EQ(result.status.code, 5) << result.err;
  EXPECT_NE(result.err.find("rank 1 on "), std::string::npos) << result.err;
}

TEST(Launch, ALostPeerAloneIsReportedToo) {
  const CommandResult result =
      run(launch({"--nproc-per-node", "2"}, "if [ $RANK = 1 ]; then exit 3; fi; exec sleep 1000"));
  EXPECT_EQ(result.status.code, 3) << result.err;
  EXPECT_NE(result.err.find("launch: rank 1 on "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("was the first here to lose another rank: exit code 3"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("launch: then rank 0: signal 15 (Terminated)"), std::string::npos) << result.err;
}

/// Rank 1 answers nobody, which rank 0 finds out and says in the words of comm.
TEST(Launch, TheRankThatOthersNameIsTheOneThatFailed) {
  const core::TempDir folder;
  const std::string pid_file = (folder.path() / "pid").string();
  const std::string script = "trap '' TERM; if [ $RANK = 1 ]; then echo $$ > " + pid_file + ".part; mv " + pid_file +
                             ".part " + pid_file + "; while :; do sleep 0.1; done; fi; until [ -e " + pid_file +
                             " ]; do sleep 0.02; done; [ $RANK = 2 ] && exec sleep 1; "
                             "echo \"error: comm: rank 0 waited: rank 1 (pid $(cat " +
                             pid_file + ") on here) does not answer any more\" >&2; exit 3";
  const CommandResult result = run(launch({"--nproc-per-node", "3", "--kill-grace", "0.5"}, script));
  EXPECT_EQ(result.status.code, 3) << result.err;
  const size_t first = result.err.find("launch: ");
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("launch: rank 1 on "), first) << result.err;
  EXPECT_NE(result.err.find("failed first: it answered the other ranks no more\n  rank 0 says: error: comm: "),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("launch: then rank 2: exit code 0; rank 0: exit code 3, communication error"),
            std::string::npos)
      << result.err;
}

TEST(Launch, DeathBySignalIsToldAs128PlusSignal) {
  const CommandResult result =
      run(launch({"--nproc-per-node", "2"}, "if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 1000"));
  EXPECT_EQ(result.status.code, 137);
  EXPECT_NE(result.err.find("rank 1 on "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("signal 9 (Killed)"), std::string::npos) << result.err;
}

TEST(Launch, WhoFailedFirstIsToldWhileTheOthersStillEnd) {
  const core::TempDir folder;
  const std::string err_file = (folder.path() / "err").string();
  // Rank 0 ends when it reads of the failure; told at the end only, it would be killed before.
  // Rank 1 fails when rank 0 no longer ends at SIGTERM.
  const std::string is_ready = (folder.path() / "is_ready").string();
  const std::string script = "if [ $RANK = 1 ]; then until [ -e " + is_ready +
                             " ]; do sleep 0.02; done; kill -9 $$; fi; trap '' TERM; : > " + is_ready +
                             "; until grep -q 'rank 1 on .* failed first: signal 9' " + err_file +
                             "; do sleep 0.05; done; echo 'rank 0 has read it' >&2; exit 3";
  std::vector<std::string> args = launch({"--nproc-per-node", "2"}, script).argv;
  args.insert(args.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2> " + err_file});
  const CommandResult result = run({.argv = args});
  const std::string err = core::read_file(err_file);
  EXPECT_EQ(result.status.code, 137) << err;
  EXPECT_NE(err.find("rank 0 has read it"), std::string::npos) << err;
  EXPECT_EQ(err.find("failed first"), err.rfind("failed first")) << "told once: " << err;
  EXPECT_NE(err.find("launch: then rank 0: exit code 3, communication error"), std::string::npos) << err;
  EXPECT_NE(err.find("launch: 1 other rank is being ended, for which it has 5 s"), std::string::npos) << err;
}

/// Rank 0 is stopped, so that the other one loses its peer: nobody but launch can end the record and the log.
TEST(Launch, ARecordWhoseWriterIsStoppedIsEnded) {
  const core::TempDir folder;
  const std::string run_folder = folder.path().string(), status = run_folder + "/status.json";
  const std::string script =
      "if [ $RANK = 1 ]; then until [ -e " + status + " ]; do sleep 0.02; done; exit 3; fi; printf %s " + run_folder +
      " > $LOCKSTEP_RUN_FOLDER_FILE; echo '{\"state\": \"running\"}' > " + run_folder + "/part; echo begun > " +
      run_folder + "/out.log; mv " + run_folder + "/part " + status + "; kill -STOP $$";
  const CommandResult result = run(launch({"--nproc-per-node", "2", "--kill-grace", "0.5"}, script));
  EXPECT_EQ(result.status.code, 3) << result.err;
  const core::Json found = core::parse_json(core::read_file(status), status);
  EXPECT_EQ(found.at("state"), "failed") << found.dump();
  EXPECT_EQ(found.at("first_failing_rank"), 0) << found.dump();
  const std::string why = "it was stopped, as by SIGSTOP, and answered nobody";
  EXPECT_NE(found.at("message").get<std::string>().find(why), std::string::npos) << found.dump();
  EXPECT_NE(result.err.find("failed first: " + why), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("launch: then rank 1: exit code 3, communication error"), std::string::npos) << result.err;
  const std::string log = core::read_file(run_folder + "/out.log");
  EXPECT_NE(log.find(" | ERROR | launch: rank 0 on "), std::string::npos) << log;
  EXPECT_NE(log.find(why), std::string::npos) << log;
}

/// The other launcher is gone with its node: only what rank 0 says tells which rank was lost.
TEST(Launch, ARankLostOnAnotherNodeIsNotedWithWhatToDo) {
  const core::TempDir folder;
  const std::string run_folder = folder.path().string(), status = run_folder + "/status.json";
  const std::string script = "printf %s " + run_folder +
                             " > $LOCKSTEP_RUN_FOLDER_FILE; echo '{\"state\": \"failed\", \"exit_code\": 3, " +
                             "\"message\": \"lost\"}' > " + status +
                             "; echo 'error: comm: all_reduce #4 failed after 3.0 s; rank 1 (pid 7 on n9) does not "
                             "answer any more' >&2; exit 3";
  const CommandResult result =
      run(launch({"--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:29514"}, script));
  EXPECT_EQ(result.status.code, 3) << result.err;
  EXPECT_NE(result.err.find("was the first here to lose another rank"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("\n  hint: "), std::string::npos) << result.err;
  const core::Json found = core::parse_json(core::read_file(status), status);
  EXPECT_EQ(found.at("first_failing_rank"), 1) << found.dump();
  EXPECT_EQ(found.at("message"), "lost") << found.dump();
  EXPECT_EQ(found.at("exit_code"), 3) << found.dump();
}

TEST(Launch, ARankThatIgnoresSigtermIsKilledWithItsChildren) {
  const core::TempDir folder;
  const std::string ready = (folder.path() / "ready").string();
  const std::string script = "if [ $RANK = 1 ]; then while [ ! -e " + ready +
                             " ]; do sleep 0.01; done; exit 6; fi; "
                             "trap '' TERM; sleep 1000 & echo pid $!; echo pid $$; : > " +
                             ready + "; while :; do sleep 0.1; done";
  const CommandResult result = run(launch({"--nproc-per-node", "2", "--kill-grace", "0.5"}, script));
  EXPECT_EQ(result.status.code, 6) << result.err;
  EXPECT_NE(result.err.find("launch: then rank 0: still there 0.5 s after SIGTERM, killed"), std::string::npos)
      << result.err;
  ASSERT_EQ(lines(result.out).size(), 2u) << result.out;
  for (const std::string& line : lines(result.out))
    EXPECT_TRUE(ends(*core::parse_int(line.substr(line.rfind(' ') + 1)))) << line;
}

TEST(Launch, ARankThatWaitsForALostOneIsKilledSoon) {
  const std::string script =
      "if [ $RANK = 1 ]; then sleep 0.3; kill -9 $$; fi; trap '' TERM; while :; do sleep 0.1; done";
  const auto began = std::chrono::steady_clock::now();
  const CommandResult result = run(launch({"--nproc-per-node", "2"}, script));
  EXPECT_EQ(result.status.code, 137) << result.err;
  EXPECT_NE(result.err.find("launch: then rank 0: still there 5.0 s after SIGTERM, killed"), std::string::npos)
      << result.err;
  EXPECT_LT(std::chrono::steady_clock::now() - began, 8s);  // 5 s, where a failed rank leaves the others 10
}

/// comm finds out which rank was lost before the grace is over, whatever the number of ranks.
TEST(Launch, RanksThatLostAnotherHaveTimeToFindOutWhichAndToTell) {
  for (const int num_ranks : {2, 1000, 4000, 100000})
    EXPECT_GT(hw::time_to_tell_of_lost_rank(num_ranks), hw::time_to_name_lost_rank(num_ranks)) << num_ranks;
  const auto to_name = std::chrono::duration<double>(hw::time_to_name_lost_rank(2)).count();
  const core::TempDir folder;
  const std::string ready = (folder.path() / "ready").string();
  const std::string script = "if [ $RANK = 1 ]; then until [ -e " + ready +
                             " ]; do sleep 0.02; done; kill -9 $$; fi; trap '' TERM; : > " + ready +
                             fmt::format("; sleep {}; echo 'rank 0 has told it' >&2; exit 3", to_name);
  const CommandResult result = run(launch({"--nproc-per-node", "2"}, script));
  EXPECT_NE(result.err.find("rank 0 has told it"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("launch: then rank 0: exit code 3, communication error"), std::string::npos) << result.err;
}

TEST(Launch, AGivenGraceHoldsForALostRankToo) {
  const core::TempDir folder;
  const std::string ready = (folder.path() / "ready").string();
  const std::string script = "if [ $RANK = 1 ]; then while [ ! -e " + ready +
                             " ]; do sleep 0.02; done; kill -9 $$; fi; trap '' TERM; : > " + ready +
                             "; sleep 3; exit 3";
  const CommandResult result = run(launch({"--nproc-per-node", "2", "--kill-grace", "60"}, script));
  EXPECT_NE(result.err.find("for which it has 60 s"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("SIGTERM, killed"), std::string::npos) << result.err;
}

TEST(Launch, PlainLinesOfALogAreNoLastMessage) {
  const std::string info = "echo '2026-01-31,12:00:00 | INFO | Loss: 3.5, 0 errors' >&2; ";
  const std::string die = "sleep 0.2; kill -9 $$";
  const CommandResult plain = run(launch({"--nproc-per-node", "2"}, "[ $RANK = 0 ] && exec sleep 1000; " + info + die));
  EXPECT_NE(plain.err.find("rank 1 on "), std::string::npos) << plain.err;
  EXPECT_EQ(plain.err.find("its last message"), std::string::npos) << plain.err;
  const std::string warning = "echo '2026-01-31,12:00:00 | WARNING | disk is slow' >&2; ";
  const CommandResult warned =
      run(launch({"--nproc-per-node", "2"}, "[ $RANK = 0 ] && exec sleep 1000; " + warning + info + die));
  EXPECT_NE(warned.err.find("its last message: 2026-01-31,12:00:00 | WARNING | disk is slow\n"), std::string::npos)
      << warned.err;
}

TEST(Launch, TheMessageOfAnErrorFileGoesBeforeTheLog) {
  const CommandResult result = run(
      launch({"--nproc-per-node", "2"},
             "[ $RANK = 0 ] && exec sleep 1000; echo 'error: of the log' >&2; "
             "echo '{\"message\":{\"message\":\"of the file\",\"extraInfo\":{}}}' > $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_EQ(result.status.code, 1);
  EXPECT_NE(result.err.find("its last message: of the file\n"), std::string::npos) << result.err;
}

TEST(Launch, AMessageSteersNoTerminalAndBeginsNoLine) {
  const CommandResult result = run(
      launch({"--nproc-per-node", "2"},
             "[ $RANK = 0 ] && exec sleep 1000; printf %s '{\"message\":{\"message\":\"a\\u001b[2J\\nlaunch: all is "
             "well\",\"extraInfo\":{}}}' > $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_NE(result.err.find("its last message: a\\u001b[2J\n  launch: all is well\n"), std::string::npos) << result.err;
}

TEST(Launch, StoppedOnRequestPassesThrough) {
  const CommandResult all = run(launch({"--nproc-per-node", "2"}, "exit 75"));
  EXPECT_EQ(all.status.code, 75);
  EXPECT_EQ(all.err, "");
  EXPECT_EQ(run(launch({"--nproc-per-node", "2"}, "[ $RANK = 0 ] && exit 75; sleep 0.3; exit 0")).status.code, 75);
}

TEST(Launch, SignalsReachEveryRank) {
  const std::vector<std::pair<int, std::string>> cases{
      {SIGTERM, "TERM"}, {SIGINT, "INT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGHUP, "TERM"}};
  for (const auto& [signal, name] : cases) {
    ProcessOptions options = launch({"--nproc-per-node", "2"}, "trap 'echo got " + name + "; exit 75' " + name +
                                                                   "; echo ready; while :; do sleep 0.02; done");
    options.out = ProcessOptions::Stream::kPipe;
    core::Process process = core::Process::spawn(options);
    read_until(process.out(), "ready", 2);
    process.send_signal(signal);
    const std::string text = read_until(process.out(), "got", 2);
    EXPECT_NE(("\n" + text).find("\ngot " + name), std::string::npos) << text;
    EXPECT_NE(text.find("[rank 1] got " + name), std::string::npos) << text;
    EXPECT_EQ(process.wait().code, 75) << name;
  }
}

TEST(Launch, ASecondInterruptKills) {
  ProcessOptions options =
      launch({"--nproc-per-node", "2"}, "trap 'echo got' INT; echo ready $$; while :; do sleep 0.02; done");
  options.out = ProcessOptions::Stream::kPipe;
  core::Process process = core::Process::spawn(options);
  const std::string pids = read_until(process.out(), "ready", 2);
  process.send_signal(SIGINT);
  read_until(process.out(), "got", 2);
  EXPECT_FALSE(process.poll());
  process.send_signal(SIGINT);
  EXPECT_EQ(process.wait().shell_code(), 130);
  for (const std::string& line : lines(pids + "\n")) {
    if (line.find("ready") == std::string::npos) continue;
    EXPECT_TRUE(ends(*core::parse_int(line.substr(line.rfind(' ') + 1)))) << line;
  }
}

TEST(Launch, NoOrphansWhenTheLauncherIsKilled) {
  ProcessOptions options = launch({"--nproc-per-node", "2"}, "echo ready $$; exec sleep 1000");
  options.out = ProcessOptions::Stream::kPipe;
  core::Process process = core::Process::spawn(options);
  const std::string text = read_until(process.out(), "\n", 2);
  process.send_signal(SIGKILL);
  process.wait();
  int checked = 0;
  for (const std::string& line : lines(text)) {
    EXPECT_TRUE(ends(*core::parse_int(line.substr(line.rfind(' ') + 1)))) << line;
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

TEST(Launch, RunsLockstepItself) {
  const CommandResult result = run(lockstep({"launch", "--nproc-per-node", "2", "--", "--version"}));
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_EQ(result.out.find("[rank 0] "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("[rank 1] "), std::string::npos) << result.out;
  const CommandResult bare = run(lockstep({"launch", "--nproc-per-node", "2", "train", "clip", "--no-such-flag"}));
  EXPECT_EQ(bare.status.code, 2) << bare.err;
  EXPECT_EQ(bare.err.rfind("lockstep: error: options: --no-such-flag is unknown", 0), 0u)
      << bare.err;  // once, before there are ranks
}

TEST(Launch, ProgramsOfOtherProjectsAreToldTheirCommand) {
  const auto err_of = [](Args args) {
    args.insert(args.begin(), "launch");
    args.insert(args.end(), {"--lr", "1e-3"});
    const CommandResult result = run(lockstep(args));
    EXPECT_EQ(result.status.code, 2) << result.err;
    return result.err;
  };
  EXPECT_NE(err_of({"--nproc_per_node=4", "-m", "open_clip_train.main"})
                .find("replace `-m open_clip_train.main` by `-- train clip`"),
            std::string::npos);
  EXPECT_NE(err_of({"--nproc_per_node", "8", "megatron/pretrain_gpt.py"})
                .find("replace `megatron/pretrain_gpt.py` by `-- train gpt`"),
            std::string::npos);
  EXPECT_NE(err_of({"--", "python3", "laion_clap/training/main.py"})
                .find("replace `-- python3 laion_clap/training/main.py` by `-- train clap`"),
            std::string::npos);
  const CommandResult named = run(lockstep({"launch", "--", "train", "gpt", "pretrain_gpt.py", "--no-such-flag"}));
  EXPECT_EQ(named.status.code, 2);
  EXPECT_NE(named.err.find("leave 'pretrain_gpt.py' out: flags follow `lockstep train gpt` directly"),
            std::string::npos)
      << named.err;
  EXPECT_NE(named.err.find("--no-such-flag is unknown"), std::string::npos) << named.err;  // both at once
}

TEST(Launch, RefusalsAreClear) {
  const Listener listener;
  const std::string taken = std::to_string(listener.port);
  const std::vector<std::tuple<Args, int, std::string>> cases{
      {{"launch"}, 2, "nothing to start"},
      {{"launch", "--nproc-per-node", "2", "--"}, 2, "nothing to start"},
      {{"launch", "--nproc-per-node", "0", "--", "train"}, 2, "nproc-per-node"},
      {{"launch", "--nproc-per-node", "x", "--", "train"}, 2, "nproc-per-node"},
      {{"launch", "--nprocs-per-node", "2", "--", "train"}, 2, "nproc-per-node"},
      {{"launch", "--nnodes", "2", "--", "train"}, 2, "--node-rank"},
      {{"launch", "--nnodes", "2", "--node-rank", "0", "--", "train"}, 2, "--rdzv-endpoint"},
      {{"launch", "--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "h:1", "--", "train"}, 2, "[0, 2)"},
      {{"launch", "--rdzv-endpoint", "head", "--", "train"}, 2, "HOST:PORT"},
      {{"launch", "--rdzv-endpoint", "head:99999", "--", "train"}, 2, "HOST:PORT"},
      {{"launch", "--max-restarts", "3", "--", "train"}, 2, "--resume latest"},
      {{"launch", "--", "launch", "--", "train"}, 2, "cannot launch itself"},
      {{"launch", "--program", "/no/such/program", "--"}, 6, "/no/such/program"},
      {{"launch", "--master-port", taken, "--program", "/bin/true"}, 6, "port " + taken},
  };
  for (const auto& [args, code, text] : cases) {
    const CommandResult result = run(lockstep(args));
    EXPECT_EQ(result.status.shell_code(), code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << "expected '" << text << "' in: " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Launch, PortsAreChosenBelowTheEphemeralOnes) {
  std::set<std::string> ports;
  for (int index = 0; index < 3; ++index) {
    const std::string port(core::trim(run(launch({}, "echo $MASTER_PORT")).out));
    const auto number = core::parse_int(port);
    ASSERT_TRUE(number) << port;
    EXPECT_TRUE(*number >= 20000 && *number < 32000) << port;
    ports.insert(port);
  }
  EXPECT_GE(ports.size(), 2u);
}

}  // namespace
}  // namespace lockstep
