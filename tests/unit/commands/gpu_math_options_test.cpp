#include "config/gpu_math.h"

#include <gtest/gtest.h>

#include "commands/commands.h"
#include "core/strings.h"
#include "support/error_text.h"

namespace lockstep::commands {
namespace {

const char* const kClip = "train clip --dataset-type synthetic --train-num-samples 64";
const char* const kClap = "train clap --dataset-type synthetic --train-num-samples 64 --model HTSAT-tiny-Roberta-base";
const char* const kImagenet = "train imagenet --dummy";
const char* const kGpt =
    "train gpt --mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --vocab-size 64 --micro-batch-size 1 --train-iters 1 --lr 1e-3";

/// "+tf32 -cudnn-tf32 -cudnn-benchmark"
std::string math_of(const std::string& line) {
  const ParsedCommand command = parse_command(core::split(line, " "));
  std::string text;
  for (const char* flag : {"tf32", "cudnn-tf32", "cudnn-benchmark"})
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", command.set->find(flag)->value_text() == "True" ? "+" : "-",
                        flag);
  return text;
}

const char* const kAllOn = "+tf32 +cudnn-tf32 +cudnn-benchmark";
const char* const kOfTorch = "-tf32 +cudnn-tf32 -cudnn-benchmark";
const char* const kAllOff = "-tf32 -cudnn-tf32 -cudnn-benchmark";

TEST(GpuMathOptions, EachTaskHasThoseOfItsPeer) {
  EXPECT_EQ(math_of(kClip), kAllOn);
  EXPECT_EQ(math_of(kClap), kAllOn);
  EXPECT_EQ(math_of(kImagenet), kOfTorch);
  EXPECT_EQ(math_of(kGpt), kOfTorch);
}

TEST(GpuMathOptions, InferenceAsTorchAndStepsAsTraining) {
  EXPECT_EQ(math_of("infer embed --model ViT-B-32 --pretrained w.pt --images pictures -o out"), kOfTorch);
  EXPECT_EQ(math_of("infer classify --model resnet50 --pretrained w.pt --images pictures"), kOfTorch);
  EXPECT_EQ(math_of("infer classify --model resnet50 --pretrained w.pt --images pictures --tf32"),
            "+tf32 +cudnn-tf32 -cudnn-benchmark");
  EXPECT_EQ(math_of("infer generate --pretrained folder --prompt a"), kOfTorch);
  EXPECT_EQ(math_of("bench step --model ViT-B-32"), kAllOn);
  EXPECT_EQ(math_of("bench latency --model ViT-B-32"), kOfTorch);
  EXPECT_EQ(math_of("bench latency --model resnet50"), kOfTorch);
  EXPECT_EQ(math_of("bench latency --model gpt2"), kOfTorch);
  EXPECT_EQ(math_of("bench op"), kOfTorch);
}

TEST(GpuMathOptions, DeterministicRunsHaveWhatWasAskedForAlone) {
  for (const char* task : {kClip, kClap, kImagenet, kGpt}) {
    EXPECT_EQ(math_of(std::string(task) + " --deterministic"), kAllOff) << task;
    EXPECT_EQ(math_of(std::string(task) + " --deterministic --allow-tf32"), "+tf32 -cudnn-tf32 -cudnn-benchmark");
    const std::string error =
        tests::message_of([&] { math_of(std::string(task) + " --deterministic --cudnn-benchmark"); });
    EXPECT_TRUE(tests::holds(error, "--cudnn-benchmark and --deterministic at once")) << error;
  }
  EXPECT_EQ(math_of(std::string(kClip) + " --no-tf32"), "-tf32 +cudnn-tf32 +cudnn-benchmark");
}

}  // namespace
}  // namespace lockstep::commands
