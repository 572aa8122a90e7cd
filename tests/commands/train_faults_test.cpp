// What goes wrong around a training run: each fault has its message, hint and exit code, and nothing is lost.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

TEST_F(TrainFaults, AFullDiskKeepsTheLastGoodCheckpoint) {
  ASSERT_EQ(train("full", {"--max-steps", "2"}).exit_code, 0);
  // Files may grow to 8 MiB: the model (6.5 MB) fits, the optimiser's moments (13 MB) do not.
  auto args = train_args("full", {"--resume", "latest", "--max-steps", "6", "--save-every-n-steps", "2"});
  args.insert(args.begin(), {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 16384; exec \"$0\" \"$@\"", lockstep_program()});
  expect_error(run_program(args, {}, std::chrono::seconds(120)), 5,
               {"checkpoint of step 4 was not saved, the one before stays and training goes on",
                "optimizer.safetensors", "File too large", "ulimit -f", "the last checkpoint could not be written",
                "hint: the older checkpoints are whole"});
  EXPECT_EQ(losses("full").size(), 6u);
  EXPECT_EQ(checkpoint::list_checkpoints(logs_.path() / "full").size(), 1u);
  EXPECT_EQ(run_lockstep({"ckpt", "verify", (logs_.path() / "full").string()}).exit_code, 0);
  const auto resumed = train("full", {"--resume", "latest", "--max-steps", "3"});
  expect_error(resumed, 0, {"continuing after step 2"});
  EXPECT_EQ(checkpoint::read_manifest(newest_checkpoint("full")).step, 3);
}

TEST_F(TrainFaults, APortInUseNamesItsOwner) {
  const core::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  expect_error(
      train("port", {"--dist-rank", "0", "--dist-world-size", "2", "--dist-url", "tcp://127.0.0.1:" + port}), 6,
      {"rank 0 cannot open port " + port, fmt::format("in use by pid {}", ::getpid()), "hint: ", "MASTER_PORT"});
  EXPECT_FALSE(fs::exists(logs_.path() / "port"));
}

TEST_F(TrainFaults, APictureOfAbsurdSizeIsRefusedByItsHeader) {
  const std::string shard = shard_with("bomb.tar", "005", png_header(100000, 100000), "");
  expect_error(train("bomb", {"--train-data", shard}), 4,
               {"bomb.tar", "key='005'", "100000 x 100000", "hint: ", "--max-image-pixels"});
  EXPECT_EQ(record::read_status(logs_.path() / "bomb").state, "failed");
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

TEST_F(TrainFaults, MissingShardsAreNamed) {
  const std::string shards = (fs::path(shapes("heldout")).parent_path() / "train-{000000..000005}.tar").string();
  const auto missing = train("missing", {"--train-data", shards});
  expect_error(missing, 4,
               {"cannot open shard '", "train-000004.tar': No such file", "2 of 6 shards cannot be read",
                "hint: it is missing: check the range in the braces"});
  const auto nowhere = train("nowhere", {"--train-data", "/nonexistent/{0..1}.tar"});
  expect_error(nowhere, 4, {"cannot open shard '/nonexistent/0.tar'"});
  EXPECT_EQ(nowhere.err.find("no index"), std::string::npos) << nowhere.err;
  expect_error(train("nodir", {"--train-data", "/nonexistent/dir"}), 4,
               {"data: '/nonexistent/dir' does not exist", "hint: "});
  expect_error(train("folder", {"--train-data", shapes("heldout")}), 2,
               {"is a folder; its pictures have no captions", "hint: name the shards"});
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
  const auto done = run_lockstep({"train",
                                  "clip",
                                  "--model",
                                  (shared_->path() / "tiny.json").string(),
                                  "--device",
                                  "cpu",
                                  "--threads",
                                  "1",
                                  "--batch-size",
                                  "8",
                                  "--val-data",
                                  shapes("val_shards"),
                                  "--val-num-samples",
                                  "50",
                                  "--imagenet-val",
                                  shapes("heldout"),
                                  "--zeroshot-data",
                                  shapes("heldout"),
                                  "--classnames",
                                  shapes("class_names"),
                                  "--templates",
                                  templates,
                                  "--logs",
                                  logs_.path().string(),
                                  "--name",
                                  "both"});
  expect_error(done, 0, {"--val-data holds 48 samples, --val-num-samples says 50"});
  const auto results = core::read_file(logs_.path() / "both/results.jsonl");
  for (const char* metric : {"imagenet-zeroshot-val-top1", "\"zeroshot-top1\"", "clip_val_loss"})
    EXPECT_NE(results.find(metric), std::string::npos) << results;
}

}  // namespace
}  // namespace lockstep::tests
