#include <gtest/gtest.h>

#include "commands/commands.h"
#include "config/option_checks.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/error_text.h"

namespace lockstep::commands {
namespace {

using namespace config;  // NOLINT: tests of options of every module
using namespace tasks;

using tests::holds;

ParsedCommand parse_bench(const std::string& line) { return parse_command(core::split("bench " + line, " ")); }

std::string bench_error(const std::string& line) {
  try {
    parse_bench(line);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST(BenchOptions, FlagsOfNcclTestsAreUnderstood) {
  const auto command = parse_bench("collective -b 8 -e 128M -f 4 -w 2 -n 7 -a 3 -d half -o max -r 1 -c 0");
  const BenchOptions& options = *command.bench;
  EXPECT_EQ(options.which, BenchCaseName::kCollective);
  EXPECT_EQ(options.min_bytes, "8");
  EXPECT_EQ(options.max_bytes, "128M");
  EXPECT_EQ(options.step_factor, 4);
  EXPECT_EQ(options.num_warmup, 2);
  EXPECT_EQ(options.num_iterations, 7);
  EXPECT_EQ(options.average, "max");
  EXPECT_EQ(options.data_type, "half");
  EXPECT_EQ(options.reduce_op, "max");
  EXPECT_EQ(options.root, 1);
  EXPECT_EQ(options.num_checks, 0);
  EXPECT_EQ(options.collectives, std::vector<std::string>{"all-reduce"});
}

TEST(BenchOptions, CollectivesAreNamedInEitherSpellingAndOnce) {
  const auto some = parse_bench("collective --collectives all_gather all-reduce all-gather");
  EXPECT_EQ(some.bench->collectives, (std::vector<std::string>{"all-gather", "all-reduce"}));
  const auto all = parse_bench("collective --collectives all");
  EXPECT_EQ(all.bench->collectives.size(), 6u);
  EXPECT_TRUE(holds(bench_error("collective --collectives all-gathr"), "did you mean all-gather?"));
}

TEST(BenchOptions, SizesInAllSpellings) {
  EXPECT_EQ(parse_bytes("8", "-b"), 8);
  EXPECT_EQ(parse_bytes("32K", "-b"), 32 * 1024);
  EXPECT_EQ(parse_bytes("128m", "-b"), 128 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("1.5GiB", "-b"), 1536LL * 1024 * 1024);
  EXPECT_EQ(parse_bytes("2TB", "-b"), 2LL << 40);
  EXPECT_EQ(parse_bytes("16B", "-b"), 16);
  for (const char* bad : {"", "B", "K", "0", "-1", "1X", "1 K", "0.5", "1e30", "nan", "inf"}) {
    try {
      parse_bytes(bad, "--minbytes");
      FAIL() << bad;
    } catch (const UsageError& error) {
      EXPECT_TRUE(holds(error.text(), fmt::format("--minbytes '{}' is no size", bad)));
    }
  }
}

TEST(BenchOptions, HelpOfTheLoaderTellsTheDataOfClassifiers) {
  BenchOptions options;
  options.which = BenchCaseName::kLoader;
  const std::string help = declare_bench_options(options).help_text();
  EXPECT_TRUE(holds(help, "LMDB")) << help;
  EXPECT_TRUE(holds(help, "class folders")) << help;
  EXPECT_TRUE(holds(help, "--csv-label-key COLUMN")) << help;
  EXPECT_TRUE(holds(help, "of a classifier bilinear")) << help;
  EXPECT_FALSE(holds(help, "evaluate only")) << help;
}

TEST(BenchOptions, ColumnsOfTablesBelongToWhatTheModelReads) {
  EXPECT_EQ(bench_error("loader --train-data t.csv --model resnet50 --csv-label-key class"), "");
  EXPECT_TRUE(holds(bench_error("loader --train-data t.csv --csv-label-key class"), "which reads captions"));
  EXPECT_TRUE(holds(bench_error("loader --train-data t.csv --model resnet50 --csv-caption-key c"), "--csv-label-key"));
  EXPECT_EQ(bench_error("loader --train-data /d --dataset-type lmdb --model resnet50"), "");
  EXPECT_TRUE(holds(bench_error("loader --train-data /d --dataset-type lmdb"), "no captions, which it reads"));
}

TEST(BenchOptions, AFolderOfClassesIsNotReadForCaptions) {
  const std::string refused = bench_error("loader --train-data /");
  EXPECT_TRUE(holds(refused, "'/' is a folder") && holds(refused, "no captions, which 'RN50' reads")) << refused;
  EXPECT_TRUE(holds(refused, "--model resnet50")) << refused;
  EXPECT_EQ(bench_error("loader --train-data / --model resnet50"), "");
}

TEST(BenchOptions, LatencyRefusesFlagsThatItsModelHasNoUseFor) {
  for (const char* flag : {"--texts t.txt", "--images .", "--force-image-size 32", "--force-context-length 16",
                           "--force-quick-gelu", "--tokenizer-vocab v"})
    EXPECT_TRUE(holds(bench_error("latency --model gpt2 " + std::string(flag)), "with --model gpt2, a GPT")) << flag;
  for (const char* flag : {"--images .", "--force-image-size 32", "--force-quick-gelu"})
    EXPECT_TRUE(holds(bench_error("latency --model HTSAT-tiny-Roberta-base " + std::string(flag)),
                      "a CLAP model, which sees no pictures"))
        << flag;
  for (const char* flag : {"--texts t.txt", "--force-quick-gelu"})
    EXPECT_TRUE(holds(bench_error("latency --model resnet18 " + std::string(flag)), "which reads no texts")) << flag;
  EXPECT_EQ(bench_error("latency --model gpt2 --text-length 16 --new-tokens 4"), "");
  EXPECT_EQ(bench_error("latency --model HTSAT-tiny-Roberta-base --text-length 16"), "");
  EXPECT_EQ(bench_error("latency --model ViT-B-32 --force-image-size 32 --force-quick-gelu"), "");
}

TEST(BenchOptions, TextsAndTheLengthOfMadeUpOnesAreOneTooMany) {
  const std::string refused = bench_error("latency --texts t.txt --text-length 16");
  EXPECT_TRUE(holds(refused, "--text-length 16 with --texts 't.txt': the texts have their own lengths")) << refused;
  EXPECT_EQ(bench_error("latency --texts t.txt"), "");
}

TEST(BenchOptions, AFileIsReadOnceForTheKindOfModel) {
  const core::TempDir folder;
  const auto file = folder.path() / "config.json";
  core::write_file_atomic(file, R"({"model_type": "gpt2", "n_embd": 32})");
  BenchOptions options;
  options.which = BenchCaseName::kLatency;
  core::OptionSet set = declare_bench_options(options);
  set.parse(std::vector<std::string>{"--model", file.string(), "--text-length", "16", "--new-tokens", "4"});
  fill_bench_defaults(options, set);
  std::filesystem::remove(file);
  check_bench_options(options, set);
  EXPECT_EQ(options.model_kind, BenchModel::kGpt);
}

TEST(BenchOptions, ContradictionsAreRefused) {
  EXPECT_TRUE(holds(bench_error("collective --json --csv"), "JSON and CSV"));
  EXPECT_TRUE(holds(bench_error("collective -b 1M -e 1K"), "--minbytes 1M is above --maxbytes 1K"));
  EXPECT_TRUE(holds(bench_error("collective -f 1"), "--stepfactor"));
  EXPECT_TRUE(holds(bench_error("collective -o avg -d int32"), "--redop avg of int32"));
  EXPECT_TRUE(holds(bench_error("collective --mode verify --check 0"), "does nothing"));
  EXPECT_TRUE(holds(bench_error("collective --mode run"), "list, verify or time"));
  EXPECT_TRUE(holds(bench_error("collective --ngpus 4"), "one rank per device"));
  EXPECT_TRUE(holds(bench_error("collective -n 0"), "--iters"));
}

}  // namespace
}  // namespace lockstep::commands
