// Options that other programs print.
#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"
#include "logs/logs.h"
#include "logs/option_dumps.h"

namespace lockstep::logs {
namespace {

namespace fs = std::filesystem;
using Options = std::map<std::string, std::string>;

std::string clip_option(const std::string& text) { return "2026-09-01,10:00:03 | INFO |   " + text + "\n"; }
std::string clip_lines(int first, int last) {
  std::string lines;
  for (int step = first; step <= last; ++step)
    lines += "2026-09-01,10:01:00 | INFO | Train Epoch: 0 [" + std::to_string(step * 1024) +
             "/1024000 (1%)] Data (t): 0.01 Batch (t): 1.0, 1024.0/s, 128.0/s/gpu LR: 0.1 Logit Scale: 14.3 Loss: 8.3 "
             "(8.4)\n";
  return lines;
}

/// One log in a folder of its own.
class LogFolder {
 public:
  LogFolder& file(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return *this;
  }
  record::RunData read(const std::string& name = "out.log") const { return read_log(folder_.path() / name).at(0); }

 private:
  core::TempDir folder_{};
};

TEST(LoggedOptions, OpenClipPrintsAllOfThem) {
  const std::string heading = "2026-09-01,10:00:03 | INFO | Params:\n";
  const record::RunData run =
      LogFolder()
          .file("out.log", clip_option("chatter: before the list") + heading +
                               clip_option("grad_checkpointing: False") + clip_option("train_data: s3://a/{0..9}.tar") +
                               clip_option("beta1: None") + clip_option("world_size: 8") +
                               clip_option("batch_size: 128") + "2026-09-01,10:00:04 | INFO | Start epoch 0\n" +
                               clip_lines(1, 3) + clip_option("chatter: behind the list"))
          .file("params.txt", "grad_checkpointing: True\n")
          .read();
  EXPECT_EQ(run.options, (Options{{"grad_checkpointing", "False"},
                                  {"train_data", "s3://a/{0..9}.tar"},
                                  {"beta1", "None"},
                                  {"world_size", "8"},
                                  {"batch_size", "128"}}));
}

TEST(LoggedOptions, TheFileBesideOutLogTellsThemWhereTheLogDoesNot) {
  const record::RunData run = LogFolder()
                                  .file("out.log", clip_lines(1, 3))
                                  .file("params.txt", "grad_checkpointing: True\nlocal_loss: False\nno option\n")
                                  .read();
  EXPECT_EQ(run.options, (Options{{"grad_checkpointing", "True"}, {"local_loss", "False"}}));
  EXPECT_TRUE(LogFolder().file("out.log", clip_lines(1, 3)).read().options.empty());
}

TEST(LoggedOptions, OfARestartedRunThoseOfTheLongestStartCount) {
  const auto start = [](const std::string& value) {
    return "x | INFO | Params:\n" + clip_option("grad_checkpointing: " + value) +
           (value == "True" ? clip_option("only_first: 1") : "");
  };
  EXPECT_EQ(
      LogFolder().file("out.log", start("True") + clip_lines(1, 2) + start("False") + clip_lines(1, 9)).read().options,
      (Options{{"grad_checkpointing", "False"}}));
  EXPECT_EQ(
      LogFolder().file("out.log", start("True") + clip_lines(1, 9) + start("False") + clip_lines(1, 2)).read().options,
      (Options{{"grad_checkpointing", "True"}, {"only_first", "1"}}));
}

TEST(LoggedOptions, MegatronPrintsADottedList) {
  const std::string line =
      " [2026-09-01 11:00:10] iteration       10/     500 | consumed samples:         1280 | elapsed time per "
      "iteration (ms): 8400.5 | throughput per GPU (TFLOP/s/GPU): 172.6 | global batch size:   "
      "128 | lm loss: 9.9E+00 | number of nan iterations:   0 |\n";
  const std::string list =
      "------------------------ arguments ------------------------\n  seq_length "
      "...................................... 4096\n  data_path ....................................... ['./a', "
      "'./b']\n"
      "  recompute_granularity ........................... \n  x ............................................... .5\n  "
      "a_name_so_long_that_dots_are_few_for_its_value . 1\n";
  const Options expected{{"seq_length", "4096"},
                         {"data_path", "['./a', './b']"},
                         {"recompute_granularity", ""},
                         {"x", ".5"},
                         {"a_name_so_long_that_dots_are_few_for_its_value", "1"}};
  const record::RunData ended =
      LogFolder()
          .file("slurm-1.out", "  world_size ...... 8\n" + list +
                                   "-------------------- end of arguments ---------------------\n  later ...... 1\n" +
                                   line)
          .read("slurm-1.out");
  EXPECT_EQ(ended.options, expected);
  EXPECT_EQ(LogFolder()
                .file("slurm-1.out", "0: " + list + line + "  later ...... 1\n")
                .read("slurm-1.out")
                .options.count("later"),
            0u);
  EXPECT_TRUE(LogFolder().file("slurm-1.out", line).read("slurm-1.out").options.empty());
}

TEST(LoggedOptions, LinesThatAreNoOptionsAreNone) {
  for (const char* line : {"", ":", "(visual): Transformer(", "two words: 1", "12:30:00", "name:1", "3d: x"})
    EXPECT_FALSE(read_colon_option(line)) << line;
  for (const char* line : {"", " .", "waiting ...done", "3 ... 4", "no dots"})
    EXPECT_FALSE(read_dotted_option(line)) << line;
  ASSERT_TRUE(read_colon_option("  log_path: /a:b "));
  EXPECT_EQ(read_colon_option("  log_path: /a:b ")->value, "/a:b");
}

}  // namespace
}  // namespace lockstep::logs
