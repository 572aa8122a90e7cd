// What goes wrong around a training run: each fault has its message, hint and exit code, and nothing is lost.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "commands/faulty_files.h"
#include "commands/train_fixture.h"
#include "core/strings.h"
#include "unit/data/tar_bytes.h"

namespace lockstep::tests {
namespace {

class TrainFaults : public TrainFixture {
 protected:
  static void expect_error(const ProgramResult& result, int exit_code, const std::vector<std::string>& texts) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const auto& text : texts)
      EXPECT_NE(result.err.find(text), std::string::npos) << "'" << text << "' in: " << result.err;
  }

  /// An evaluation without training; what is evaluated comes on top.
  std::vector<std::string> evaluation_args(const std::string& name) const {
    return {"train",        "clip", "--model",   (shared_->path() / "tiny.json").string(),
            "--device",     "cpu",  "--threads", "1",
            "--batch-size", "8",    "--logs",    logs_.path().string(),
            "--name",       name};
  }
  /// One shard of eight samples, of which one is replaced.
  std::string shard_with(const std::string& name, const std::string& key, const std::string& picture,
                         const std::string& caption) const {
    const fs::path folder = fs::path(shapes("heldout"));
    const std::string good = core::read_file(
        fs::recursive_directory_iterator(folder / fs::directory_iterator(folder)->path().filename())->path());
    std::string bytes;
    for (int i = 0; i < 8; ++i) {
      const std::string own = fmt::format("{:03}", i);
      bytes += TarBytes::member(own + ".jpg", own == key && !picture.empty() ? picture : good);
      bytes += TarBytes::member(own + ".txt", own == key && !caption.empty() ? caption : "a shape");
    }
    return write_file(logs_.path() / name, bytes + TarBytes::end());
  }
};

/// A PNG that is nothing but its header and the beginning of its data.
std::string png_header(uint32_t width, uint32_t height) {
  const auto big_endian = [](uint32_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
                       static_cast<char>(value)};
  };
  const std::string chunk = "IHDR" + big_endian(width) + big_endian(height) + std::string("\x08\x02\x00\x00\x00", 5);
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : chunk) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1u)));
  }
  return "\x89PNG\r\n\x1a\n" + big_endian(13) + chunk + big_endian(~crc) + big_endian(1000) + "IDAT" +
         std::string(16, '\0');
}

/// Where a signal interrupts a product of oneDNN for processors without AVX-512, the stack is a buffer on the heap: a
/// handler's frame there would overwrite what others hold.
TEST_F(TrainFaults, SignalsInTheMidstOfProductsHarmNothing) {
  const std::vector<std::string> more{"--model",      std::string(LOCKSTEP_SOURCE_DIR) + "/examples/demo/model.json",
                                      "--batch-size", "16",
                                      "--max-steps",  "6"};
  const EnvChanges without_avx512{{"ONEDNN_MAX_CPU_ISA", "AVX2"}};
  ASSERT_EQ(train("quiet", more, without_avx512).exit_code, 0);
  auto args = train_args("signals", more);
  args.insert(args.begin(), {"/bin/sh", "-c",
                             "\"$0\" \"$@\" & pid=$!; "
                             "until [ -s \"$LOG\" ]; do kill -0 $pid || break; sleep 0.02; done; "
                             "while kill -USR2 $pid 2>/dev/null; do sleep 0.003; done; wait $pid",
                             lockstep_program()});
  EnvChanges changes = without_avx512;
  changes["LOG"] = (logs_.path() / "signals/out.log").string();
  const auto done = run_program(args, changes);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.err.find("saved checkpoint step-0000000"), done.err.rfind("saved checkpoint step-0000000"))
      << "no signal came, only the end was saved: " << done.err;
  EXPECT_EQ(losses("signals"), losses("quiet"));
}

/// A small run says how much address space the program takes here; a large one gets a quarter of a GiB beyond that, and
/// runs out of it in the model or in the data loader, whichever asks first.
TEST_F(TrainFaults, MemoryThatRunsOutIsToldBesideThePlan) {
  const auto made_up = [&](const std::string& name, const std::string& num_samples) {
    return train_args(name, {"--train-data=", "--dataset-type", "synthetic", "--train-num-samples", num_samples,
                             "--batch-size", num_samples, "--epochs", "1"});
  };
  const auto run_in = [&](const std::string& script, std::vector<std::string> args) {
    args.insert(args.begin(), {"/bin/sh", "-c", script, lockstep_program()});
    return run_program(args);
  };
  const auto small = run_in(
      "\"$0\" \"$@\" & pid=$!; "
      "while kib=$(sed -n 's/^VmPeak:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/$pid/status) && [ -n \"$kib\" ]; "
      "do peak=$kib; sleep 0.02; done; wait $pid && echo peak=$peak",
      made_up("small", "64"));
  ASSERT_EQ(small.exit_code, 0) << small.err;
  const size_t at = small.out.rfind("peak=");
  ASSERT_NE(at, std::string::npos) << small.out;
  const int64_t limit_kib = std::stoll(small.out.substr(at + 5)) + (256 << 10);
  const auto large = run_in(fmt::format("ulimit -v {} && exec \"$0\" \"$@\"", limit_kib), made_up("large", "8192"));
  expect_error(large, 6, {"train: out of memory: ", "; planned: memory of a rank: ", "--batch-size"});
  EXPECT_EQ(large.err.find("frame #"), std::string::npos) << "LibTorch's stack: " << large.err;
}

/// A socket with a port that was free.
struct BoundSocket {
  core::Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string port{};

  explicit BoundSocket(in_addr_t to) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(to);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = std::to_string(ntohs(address.sin_port));
  }
};

/// Ranks without a launcher, as srun starts them; exit code 0 where each, by rank, ends with the code that is expected.
ProgramResult start_ranks(int num_ranks, std::vector<std::string> args, const std::string& fault,
                          const std::vector<int>& exit_codes) {
  const std::string port = BoundSocket(INADDR_LOOPBACK).port;  // free again
  args.insert(args.begin(),
              {"/bin/sh", "-c",
               "ranks=$1; codes=$2; shift 2; pids=; rank=0; "
               "while [ $rank -lt $ranks ]; do RANK=$rank LOCAL_RANK=$rank \"$0\" \"$@\" & "
               "pids=\"$pids $!\"; rank=$((rank + 1)); done; "
               "found=; for pid in $pids; do wait $pid; found=\"$found $?\"; done; "
               "[ \"$found\" = \"$codes\" ] || { echo \"exit codes:$found\" >&2; exit 1; }",
               lockstep_program(), std::to_string(num_ranks), fmt::format(" {}", fmt::join(exit_codes, " "))});
  return run_program(args, {{"LOCKSTEP_FAULT", fault},
                            {"WORLD_SIZE", std::to_string(num_ranks)},
                            {"LOCAL_WORLD_SIZE", std::to_string(num_ranks)},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", port},
                            {"LOCKSTEP_RUN_FOLDER_FILE", {}}});
}

/// Nobody but the other ranks is left to say it.
TEST_F(TrainFaults, TheOtherRanksSayInTheRecordThatRankZeroWasKilled) {
  const auto ended = start_ranks(2, train_args("killed"), "die rank=0 from=2", {137, 3});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto status = record::read_status(logs_.path() / "killed");
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.first_failing_rank, 0);
  EXPECT_NE(status.message.find("is gone without a word; rank 1: comm: "), std::string::npos) << status.message;
}

/// Not the rank that only noticed it, whichever of the two was told first.
TEST_F(TrainFaults, RankZeroSaysInTheRecordWhichRankFailedFirst) {
  for (const auto& [fault, code] : {std::pair("die", 137), {"throw", 1}}) {
    SCOPED_TRACE(fault);
    const auto ended = start_ranks(3, train_args(fault), fmt::format("{} rank=1 from=2", fault), {3, code, 3});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    const auto status = record::read_status(logs_.path() / fault);
    EXPECT_EQ(status.state, "failed");
    EXPECT_EQ(status.exit_code, 3);
    EXPECT_EQ(status.first_failing_rank, 1) << status.message;
    EXPECT_NE(status.message.find("rank 1 (pid "), std::string::npos) << status.message;
  }
}

TEST_F(TrainFaults, StorageThatFailsIsNoNewBeginning) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  ASSERT_EQ(train("run", {"--max-steps", "2", "--save-every-n-steps", "1"}).exit_code, 0);
  const FaultyFiles faulty;
  const fs::path run = logs_.path() / "run";
  const std::vector<std::string> more = {"--resume", "latest", "--max-steps", "3", "--keep", "1"};
  for (const int error : {EIO, ESTALE})
    for (const char* below : {"checkpoints", "checkpoints/step-00000002.a1/manifest.json",
                              "checkpoints/step-00000002.a1/model.safetensors", "run.json"}) {
      const auto ended = train("run", more, faulty.environment(run / below, fmt::format("noread {}", error)));
      expect_error(ended, 5, {(run / below).string() + "'", std::strerror(error), "hint: "});
      EXPECT_EQ(losses("run").size(), 2u) << "no step was done: " << ended.err;
      if (std::string(below) == "run.json" || std::string(below) == "checkpoints") continue;
      const auto named = train("named", {"--resume", (run / "checkpoints/step-00000002.a1").string()},
                               faulty.environment(run / below, fmt::format("noread {}", error)));
      expect_error(named, 5, {(run / below).string() + "'", std::strerror(error), "hint: "});
    }
  EXPECT_FALSE(fs::exists(run / "run.json.damaged")) << "it is not known to be damaged";
  std::vector<std::string> usable;
  for (const auto& entry : checkpoint::list_checkpoints(run))
    if (entry.state == checkpoint::CheckpointState::kUsable) usable.push_back(entry.folder.filename().string());
  EXPECT_EQ(usable, (std::vector<std::string>{"step-00000002.a1", "step-00000001.a1"})) << "none is rejected for ever";
  const auto done = train("run", more);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.err.find("continuing after step 2 from"), std::string::npos) << done.err;
}

/// Two ranks whose collectives wait for three seconds. Writing a checkpoint takes longer, and opening a file of
/// weights. The second save of the first run waits for the first one's files, on rank 0 alone, which writes all.
TEST_F(TrainFaults, FilesMayTakeLongerThanCollectivesWait) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  const auto on_two_ranks = [&](const std::string& name, std::vector<std::string> more, const EnvChanges& changes) {
    more.insert(more.end(), {"--dist-timeout", "3"});
    auto args = train_args(name, more);
    args.insert(args.begin(), {"launch", "--nproc-per-node", "2", "--"});
    const auto ended = run_lockstep(args, changes);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return losses(name).size();
  };
  const auto slow_to_open = [&](const char* file) {
    return faulty.environment(newest_checkpoint("run") / file, "slowread 4000");
  };
  EXPECT_EQ(on_two_ranks("run", {"--max-steps", "3", "--save-every-n-steps", "1", "--grad-sync", "ddp"},
                         faulty.environment(logs_.path() / "run" / "checkpoints", "slow 20")),
            3u);
  EXPECT_EQ(
      on_two_ranks("run", {"--max-steps", "4", "--resume", "latest", "--grad-sync", "zero1"}, slow_to_open("model")),
      4u);
  EXPECT_EQ(on_two_ranks("other", {"--max-steps", "1", "--pretrained", newest_checkpoint("run").string()},
                         slow_to_open("model")),
            1u);
}

/// With one thread more each time, until the run has all that it starts.
TEST_F(TrainFaults, AThreadThatCannotBeStartedIsAnError) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  constexpr int kMostThreads = 40;
  int num_allowed = 0;
  for (; num_allowed < kMostThreads; ++num_allowed) {
    SCOPED_TRACE(num_allowed);
    const auto ended = train(fmt::format("threads{}", num_allowed), {"--max-steps", "1"},
                             faulty.environment(logs_.path(), fmt::format("nothread {}", num_allowed)));
    if (ended.exit_code == 0) break;
    expect_error(ended, 6, {"the system starts no more threads", "hint: ", "ulimit -u"});
  }
  EXPECT_GT(num_allowed, 2);
  EXPECT_LT(num_allowed, kMostThreads);
}

TEST_F(TrainFaults, APoolOfThreadsIsSmallerWhereTheSystemStartsNoMore) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  const auto made = run_lockstep({"data", "make-shapes", (logs_.path() / "set").string(), "--samples", "8",
                                  "--val-samples", "28", "--samples-per-shard", "2", "--workers", "4"},
                                 faulty.environment(logs_.path(), "nothread 1"));
  expect_error(made, 0, {"2 of 4 threads cannot be started, the work takes longer"});
  EXPECT_TRUE(fs::exists(logs_.path() / "set/train-000003.tar"));
}

TEST_F(TrainFaults, AFullDiskKeepsTheLastGoodCheckpoint) {
  ASSERT_EQ(train("full", {"--max-steps", "2"}).exit_code, 0);
  // Files may grow to 8 MiB: the model (6.5 MB) fits, the optimiser's moments (13 MB) do not.
  auto args = train_args("full", {"--resume", "latest", "--max-steps", "6", "--save-every-n-steps", "2"});
  args.insert(args.begin(), {"/bin/sh", "-c", "ulimit -f 16384; exec \"$0\" \"$@\"", lockstep_program()});
  expect_error(run_program(args, {}), 5,
               {"checkpoint of step 4 was not saved, the one before stays and training goes on",
                "optimizer.safetensors", "File too large", "ulimit -f", "the last checkpoint could not be written",
                "hint: the older checkpoints are whole"});
  EXPECT_EQ(losses("full").size(), 6u);
  const auto status = record::read_status(logs_.path() / "full");
  EXPECT_EQ(status.state, "failed");
  EXPECT_NE(status.message.find("could not be written"), std::string::npos) << status.message;
  EXPECT_EQ(checkpoint::list_checkpoints(logs_.path() / "full").size(), 1u);
  EXPECT_EQ(run_lockstep({"ckpt", "verify", (logs_.path() / "full").string()}).exit_code, 0);
  const auto resumed = train("full", {"--resume", "latest", "--max-steps", "3"});
  expect_error(resumed, 0, {"continuing after step 2"});
  EXPECT_EQ(checkpoint::read_manifest(newest_checkpoint("full")).step, 3);
}

TEST_F(TrainFaults, APortInUseNamesItsOwner) {
  const BoundSocket socket(INADDR_ANY);
  ASSERT_EQ(::listen(socket.fd.get(), 1), 0);
  expect_error(
      train("port", {"--dist-rank", "0", "--dist-world-size", "2", "--dist-url", "tcp://127.0.0.1:" + socket.port}), 6,
      {"rank 0 cannot open port " + socket.port, fmt::format("in use by pid {}", ::getpid()), "hint: ", "MASTER_PORT"});
  EXPECT_FALSE(fs::exists(logs_.path() / "port"));
}

TEST_F(TrainFaults, RanksThatDoNotComeAreNamedAfterTheTimeToJoin) {
  const std::string port = BoundSocket(INADDR_LOOPBACK).port;  // free again
  expect_error(train("alone", {"--dist-rank", "0", "--dist-world-size", "3", "--join-timeout", "2", "--dist-url",
                               "tcp://127.0.0.1:" + port}),
               3, {"not all 3 ranks came within 2 s: missing rank 1,2", "hint: "});
  EXPECT_FALSE(fs::exists(logs_.path() / "alone"));
}

TEST_F(TrainFaults, APictureOfAbsurdSizeIsRefusedByItsHeader) {
  const std::string shard = shard_with("bomb.tar", "005", png_header(100000, 100000), "");
  expect_error(train("bomb", {"--train-data", shard}), 4,
               {"bomb.tar", "key='005'", "100000 x 100000", "hint: ", "--max-image-pixels"});
  EXPECT_FALSE(fs::exists(logs_.path() / "bomb")) << "a start that is refused leaves no folder";
}

TEST_F(TrainFaults, AFolderOfEventFilesThatCannotBeWrittenIsRefusedAtTheStart) {
  ASSERT_EQ(train("events", {"--max-steps", "2"}).exit_code, 0);
  core::write_file_atomic(logs_.path() / "events/tensorboard", "a file where the folder would be");
  const auto record = core::read_file(logs_.path() / "events/steps.jsonl");
  const std::vector<std::string> more = {"--max-steps", "4", "--resume", "latest"};
  auto with_events = more;
  with_events.insert(with_events.end(), {"--report-to", "tensorboard"});
  expect_error(train("events", with_events), 6, {"cannot create", "events/tensorboard", "Not a directory"});
  EXPECT_EQ(core::read_file(logs_.path() / "events/steps.jsonl"), record);
  expect_error(train("events", more), 0, {"continuing after step 2"});
  EXPECT_EQ(losses("events").size(), 4u);
}

TEST_F(TrainFaults, AResumeFromWhatIsNoCheckpointLeavesNoFolder) {
  const auto file = logs_.path() / "foreign.pt";
  core::write_file_atomic(file, "no checkpoint at all");
  expect_error(train("none", {"--resume", file.string()}), 4, {"foreign.pt", "is no weight file"});
  EXPECT_FALSE(fs::exists(logs_.path() / "none"));
  expect_error(train("none", {"--resume", (logs_.path() / "nowhere.pt").string()}), 5, {"nowhere.pt", "hint: "});
  EXPECT_FALSE(fs::exists(logs_.path() / "none"));
}

/// What torch.load without weights_only would run.
TEST_F(TrainFaults, FilesThatWouldRunCodeAreRefusedAndRunNone) {
  constexpr const char* kWriter = R"(
import os, pickle, sys, zipfile
class Evil:
    def __reduce__(self):
        return (os.system, ("touch " + sys.argv[3],))
checkpoint = {"epoch": 1, "name": "x", "state_dict": {"visual.proj": Evil()}, "optimizer": {"state": {}}}
for path, root in ((sys.argv[1], Evil()), (sys.argv[2], checkpoint)):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (("data.pkl", pickle.dumps(root, 2)), ("version", "3"), ("byteorder", "little")):
            file.writestr("archive/" + name, content)
)";
  const fs::path whole = logs_.path() / "whole.pt", one = logs_.path() / "one.pt", called = logs_.path() / "called";
  const auto written = run_program({"/usr/bin/env", "python3", "-c", kWriter, whole, one, called});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  for (const fs::path& file : {whole, one})
    for (const char* flag : {"--pretrained", "--resume"}) {
      expect_error(train("evil", {flag, file.string()}), 4, {file.filename(), "is no weight file that can be read"});
      EXPECT_FALSE(fs::exists(called)) << flag << " " << file;
      EXPECT_FALSE(fs::exists(logs_.path() / "evil")) << flag << " " << file;
    }
}

TEST_F(TrainFaults, AnUndecodableTextIsRefusedOrSkippedAndCounted) {
  const std::string shard = shard_with("text.tar", "003", "", "caf\xE9 \xFF\xFE");
  expect_error(train("text", {"--train-data", shard}), 4, {"text.tar", "key='003'", "UTF-8", "hint: "});
  const auto skipped = train("skip", {"--train-data", shard, "--on-bad-sample", "skip", "--epochs", "3"});
  expect_error(skipped, 0,
               {"rank 0 replaced 3 bad samples, listed in ",
                "bad_samples.rank0.jsonl; the first: data: shard '" + shard, "key='003'", "UTF-8"});
  EXPECT_EQ(losses("skip").size(), 3u);
  const auto listed = record::read_json_lines(logs_.path() / "skip" / "bad_samples.rank0.jsonl").lines;
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[2].at("key"), "003");
  expect_error(
      train("limit", {"--train-data", shard, "--on-bad-sample", "skip", "--max-bad-samples", "1", "--epochs", "3"}), 4,
      {"2 bad samples are more than the 1 allowed", "key='003'", "hint: ", "--max-bad-samples"});
}

/// What is measured is what the data without that sample give, on any number of ranks.
TEST_F(TrainFaults, ABadSampleOfEvaluationEndsTheRunOrIsLeftOutAndCounted) {
  std::string whole, damaged;
  int number = 0;
  for (const auto& entry : fs::recursive_directory_iterator(shapes("heldout"))) {
    if (!entry.is_regular_file() || number == 11) continue;
    const std::string name = fmt::format("{:03}", number++), picture = core::read_file(entry.path());
    const bool is_bad = number % 5 == 3;
    const auto pair = [&](const std::string& bytes) {
      return TarBytes::member(name + ".jpg", bytes) + TarBytes::member(name + ".txt", "shape " + name);
    };
    damaged += pair(is_bad ? picture.substr(0, 40) : picture);
    if (!is_bad) whole += pair(picture);
  }
  ASSERT_EQ(number, 11);
  const std::string good = write_file(logs_.path() / "good.tar", whole + TarBytes::end()),
                    bad = write_file(logs_.path() / "bad.tar", damaged + TarBytes::end());
  const auto metrics = [&](const std::string& name, int ranks, const std::vector<std::string>& more) {
    auto args = evaluation_args(name);
    args.insert(args.end(), more.begin(), more.end());
    if (ranks > 1) args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(ranks), "--"});
    const auto done = run_lockstep(args);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    const auto lines = record::read_json_lines(logs_.path() / name / "results.jsonl").lines;
    return lines.empty() ? core::Json() : lines.back().at("metrics");
  };
  auto refused = evaluation_args("stop");
  refused.insert(refused.end(), {"--val-data", bad});
  expect_error(run_lockstep(refused), 4, {"bad.tar", "key='002'", "--on-bad-sample skip"});
  const core::Json want = metrics("good", 1, {"--val-data", good});
  EXPECT_EQ(want.at("num_samples"), 9);
  EXPECT_FALSE(want.contains("num_failed"));
  for (const int ranks : {1, 3}) {
    core::Json got = metrics(fmt::format("skip{}", ranks), ranks, {"--val-data", bad, "--on-bad-sample", "skip"});
    EXPECT_EQ(got.at("num_failed"), 2);
    got.erase("num_failed");
    ASSERT_EQ(got.size(), want.size()) << got.dump();
    for (const auto& [name, value] : want.items())
      EXPECT_NEAR(got.at(name).get<double>(), value.get<double>(), 1e-5) << name << " of " << ranks;
  }
}

TEST_F(TrainFaults, ACutShardStopsTheRunOrItsLostSamplesAreReplaced) {
  const fs::path folder = logs_.path() / "data";
  fs::copy(fs::path(shapes("train_shards")).parent_path(), folder);
  const std::string shards = (folder / fs::path(shapes("train_shards")).filename()).string();
  ASSERT_EQ(run_lockstep({"data", "index", shards}).exit_code, 0);
  const fs::path cut = folder / "train-000001.tar";
  fs::resize_file(cut, fs::file_size(cut) / 2);
  expect_error(train("stop", {"--train-data", shards}), 4, {"train-000001.tar' is damaged at offset", "hint: "});
  const std::vector<std::string> flags = {"--train-data",      shards, "--on-bad-sample", "skip",
                                          "--train-transform", "eval"};
  const auto lost = [&](const std::string& name, int ranks) {
    std::vector<std::string> places;
    for (int rank = 0; rank < ranks; ++rank) {
      const fs::path list = logs_.path() / name / fmt::format("bad_samples.rank{}.jsonl", rank);
      if (!fs::exists(list)) continue;
      for (const core::Json& line : record::read_json_lines(list).lines) {
        EXPECT_EQ(line.at("shard"), cut.string());
        places.push_back(line.at("offset").dump());
      }
    }
    std::sort(places.begin(), places.end());
    return places;
  };
  const auto one = train("one", flags);
  expect_error(one, 0,
               {"1 of 4 shards are damaged", "bad sample replaced (1 so far): ", "it was cut", "rank 0 replaced "});
  EXPECT_EQ(losses("one").size(), 24u) << "the epoch is as long as before";
  const auto of_one = lost("one", 1);
  EXPECT_GE(of_one.size(), 2 * 11u) << "half of 24 samples in each of two epochs";
  EXPECT_LE(of_one.size(), 2 * 14u);
  auto halves = flags;
  halves.insert(halves.end(), {"--batch-size", "4"});
  const auto two = train_on(2, "two", halves);
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(lost("two", 2), of_one);
  for (size_t i = 0; i < 24; ++i) EXPECT_NEAR(losses("two")[i], losses("one")[i], 1e-4) << "step " << i;
}

TEST_F(TrainFaults, ClassFoldersThatDoNotMatchTheNamesAreRefusedBeforeTheModelIsBuilt) {
  const auto refused = run_lockstep({"train", "clip", "--model", (shared_->path() / "tiny.json").string(), "--device",
                                     "cpu", "--threads", "1", "--batch-size", "8", "--imagenet-val", shapes("heldout"),
                                     "--logs", logs_.path().string(), "--name", "classes"});
  const auto num_folders = std::distance(fs::directory_iterator(shapes("heldout")), fs::directory_iterator());
  expect_error(
      refused, 2,
      {fmt::format("has {} class folders, but there are 1000 class names", num_folders), "hint: ", "--classnames"});
  EXPECT_FALSE(fs::exists(logs_.path() / "classes"));
}

TEST_F(TrainFaults, MissingShardsAreNamed) {
  const std::string shards = (fs::path(shapes("heldout")).parent_path() / "train-{000000..000005}.tar").string();
  const auto missing = train("missing", {"--train-data", shards});
  expect_error(missing, 4,
               {"cannot open shard '", "train-000004.tar': No such file", "2 of 6 shards cannot be read",
                "hint: it is missing: check the range in the braces"});
  EXPECT_FALSE(fs::exists(logs_.path() / "missing"));
  expect_error(train("val", {"--val-data", shards}), 4,
               {"2 of 6 shards do not exist; the first: '", "train-000004.tar", "hint: check the range"});
  const auto dry = train("dry", {"--train-data", shards, "--dry-run"});
  EXPECT_EQ(dry.exit_code, 2) << dry.err;
  EXPECT_NE(dry.out.find("2 of 6 shards are not here"), std::string::npos) << dry.out;
  EXPECT_EQ(train("dry", {"--train-data", shards, "--dry-run", "--world-size", "4"}).exit_code, 0);
  const auto nowhere = train("nowhere", {"--train-data", "/nonexistent/{0..1}.tar"});
  expect_error(nowhere, 4, {"cannot open shard '/nonexistent/0.tar'"});
  EXPECT_EQ(nowhere.err.find("no index"), std::string::npos) << nowhere.err;
  expect_error(train("nodir", {"--train-data", "/nonexistent/dir"}), 4,
               {"data: '/nonexistent/dir' does not exist", "hint: "});
  expect_error(train("folder", {"--train-data", shapes("heldout")}), 2,
               {"is a folder; its pictures have no captions", "hint: name the shards"});
}

/// Each command that computes; on a machine that shows a GPU of NVIDIA, with and without a driver.
TEST_F(TrainFaults, AGpuThatCannotBeUsedIsNeverReplacedByTheCpu) {
  const fs::path root = logs_.path() / "root", gpu = root / "sys/bus/pci/devices/0000:0a:00.0";
  fs::create_directories(gpu);
  write_file(gpu / "vendor", "0x10de\n"), write_file(gpu / "class", "0x030200\n");
  const EnvChanges machine{{"LOCKSTEP_SYSTEM_ROOT", root.string()}, {"CUDA_VISIBLE_DEVICES", std::nullopt}};
  const std::vector<std::string> without = {"1 GPU is here", "no driver of NVIDIA is loaded", "expected 580 or newer",
                                            "hint: ", "--device cpu"};
  expect_error(train("gpu", {"--device", "auto"}, machine), 6, without);
  expect_error(train("gpu", {"--device", "cuda"}, machine), 6, without);
  EXPECT_FALSE(fs::exists(logs_.path() / "gpu"));
  expect_error(train("cpu", {"--max-steps", "1"}, machine), 0, {});
  const std::string run = (logs_.path() / "cpu").string(), texts = run + "/params.txt";
  expect_error(run_lockstep({"bench", "op"}, machine), 6, without);
  expect_error(run_lockstep({"infer", "embed", "--pretrained", run, "--texts", texts, "--output",
                             (logs_.path() / "x.safetensors").string()},
                            machine),
               6, without);
  fs::create_directories(root / "proc/driver/nvidia/gpus/0000:0a:00.0");
  write_file(root / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat\n");
  expect_error(train("gpu", {"--device", "auto"}, machine), 6,
               {"too old: driver 535.104.05", "CUDA 13.0", "driver 580 or newer"});
  auto absent = machine;
  absent["CUDA_VISIBLE_DEVICES"] = "0,3";
  expect_error(train("gpu", {"--device", "auto"}, absent), 6,
               {"CUDA_VISIBLE_DEVICES=0,3 names device '3', which is not here", "driver 535.104.05"});
  auto hidden = machine;
  hidden["CUDA_VISIBLE_DEVICES"] = "";
  expect_error(train("hidden", {"--device", "auto", "--max-steps", "1"}, hidden), 0,
               {"computing on the CPU: CUDA_VISIBLE_DEVICES hides the GPUs that are here"});
}

TEST_F(TrainFaults, AGpuThatIsNotHereIsOneErrorInEveryCommand) {
  const EnvChanges machine{{"LOCKSTEP_SYSTEM_ROOT", logs_.path().string()}, {"CUDA_VISIBLE_DEVICES", std::nullopt}};
  const std::vector<std::string> refusal = {"hw: --device cuda was asked for, and this machine shows no GPU",
                                            "hint: use --device cpu"};
  expect_error(train("none", {"--device", "cuda"}, machine), 6, refusal);
  EXPECT_FALSE(fs::exists(logs_.path() / "none"));
  expect_error(run_lockstep({"bench", "op", "--device", "cuda"}, machine), 6, refusal);
  expect_error(run_lockstep({"infer", "embed", "--pretrained", "x.pt", "--texts", "x.txt", "--output", "x.safetensors",
                             "--device", "cuda"},
                            machine),
               6, refusal);
  expect_error(
      train("none", {"--device", "auto", "--dist-backend", "nccl"}, machine), 6,
      {"hw: --dist-backend nccl was asked for, and this machine shows no GPU", "hint: use --dist-backend gloo"});
}

TEST_F(TrainFaults, NamedFilesThatAreNotThereAreUsageErrors) {
  const std::string none = "/nonexistent/file.json",
                    text = write_file(logs_.path() / "notes.txt", "these are no weights\n");
  expect_error(train("a", {"--model", none}), 2, {"model configuration '" + none + "' does not exist", "hint: "});
  expect_error(train("b", {"--tokenizer-vocab", none}), 2, {"vocabulary '" + none + "' does not exist", "hint: "});
  expect_error(train("c", {"--pretrained", none}), 2, {"--pretrained '" + none + "' does not exist", "hint: "});
  expect_error(train("d", {"--pretrained", text}), 4,
               {"notes.txt' is no file of weights", "hint: expected a .safetensors file"});
  expect_error(run_lockstep({"ckpt", "export", none, "/tmp/out.pt"}), 5, {"'" + none + "' does not exist", "hint: "});
}

TEST_F(TrainFaults, AWrongCommandLineIsRefusedOnceBeforeThereAreRanks) {
  const auto refused = train_on(2, "wrong", {"--btach-size", "8"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(core::split(refused.err, "--btach-size is unknown").size(), 2u) << refused.err;
  EXPECT_EQ(refused.err.find("rank"), std::string::npos) << refused.err;
  const auto dry = train_on(3, "dry", {"--dry-run", "--train-num-samples", "96"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(core::split(dry.out, "3 (from launch)").size(), 2u) << dry.out;
}

TEST_F(TrainFaults, EvaluationCountsAndUsesBothZeroShotSets) {
  const std::string templates = write_file(logs_.path() / "templates.txt", "a photo of a {}.\n");
  const fs::path imagenet = logs_.path() / "imagenet";  // a thousand folders with the same picture
  const fs::path second = logs_.path() / "v2/ImageNetV2-matched-frequency";
  const fs::path first_class = fs::directory_iterator(shapes("heldout"))->path();
  const fs::path picture = fs::directory_iterator(first_class)->path();
  for (int i = 0; i < 1000; ++i) {
    fs::create_directories(imagenet / fmt::format("n{:04}", i));
    fs::create_symlink(picture, imagenet / fmt::format("n{:04}", i) / "one.jpg");
    fs::create_directories(second / fmt::to_string(i));
    fs::create_symlink(picture, second / fmt::to_string(i) / "one.jpg");
  }
  auto args = evaluation_args("both");
  args.insert(args.end(), {"--val-data", shapes("val_shards"), "--val-num-samples", "50", "--imagenet-val",
                           imagenet.string(), "--imagenet-v2", second.parent_path().string(), "--zeroshot-data",
                           shapes("heldout"), "--classnames", shapes("class_names"), "--templates", templates});
  const auto done = run_lockstep(args);
  expect_error(done, 0, {"--val-data holds 48 samples, --val-num-samples says 50"});
  const auto results = core::read_file(logs_.path() / "both/results.jsonl");
  for (const char* metric :
       {"imagenet-zeroshot-val-top1", "imagenetv2-zeroshot-val-top1", "\"zeroshot-top1\"", "clip_val_loss"})
    EXPECT_NE(results.find(metric), std::string::npos) << results;
}

}  // namespace
}  // namespace lockstep::tests
