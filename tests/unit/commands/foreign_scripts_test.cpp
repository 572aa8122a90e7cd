// Command lines of scripts for other programs, word for word behind the program's name: how often must a user change
// them until they run?
#include <gtest/gtest.h>

#include <algorithm>

#include "commands/commands.h"
#include "core/error.h"
#include "core/strings.h"
#include "support/error_text.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::commands {
namespace {

using tests::holds;
using Args = std::vector<std::string>;

Args words_of(const std::string& line) {
  Args words;
  for (std::string& word : core::split(line, " "))
    if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// Text of the UsageError that the line gives; "" where it runs. Its warnings land in `warnings`.
std::string answer(const std::string& line, Args& warnings) {
  try {
    warnings = parse_command(words_of(line)).warnings;
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

/// Writes `to` for `from`, which the line must have.
std::string changed(std::string line, const std::string& from, const std::string& to) {
  const size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) line.replace(at, from.size(), to);
  return line;
}

// OpenCLIP's guide to training on several nodes.
const std::string kCc12m =
    "train clip --train-data /data/cc12m/cc12m-train-{0000..2175}.tar --train-num-samples 10968539 --dataset-type "
    "webdataset --batch-size 320 --precision amp --workers 4 --imagenet-val /data/imagenet/validation/ --model "
    "ViT-B-32 --epochs 32";
const std::string kVanilla =
    "train clip --save-frequency 1 --report-to tensorboard --train-data /data/LAION-400M/{00000..41455}.tar --warmup "
    "2000 --batch-size 256 --epochs 32 --workers 8 --model ViT-B-32 --name ViT-B-32-Vanilla --seed 0 --local-loss "
    "--gather-with-grad";
const std::string kProduction =
    "train clip --save-frequency 1 --zeroshot-frequency 2 --report-to wandb --wandb-project-name clip-laion400m "
    "--train-data /data/LAION-400M/{00000..41455}.tar --train-num-samples 400000000 --dataset-type webdataset "
    "--dataset-resampled --warmup 10000 --batch-size 128 --epochs 32 --workers 8 --model ViT-L-14 --precision amp "
    "--grad-checkpointing --lr 5e-4 --wd 0.2 --name vit-l14-laion400m --seed 42 --local-loss --gather-with-grad "
    "--imagenet-val /data/imagenet/validation/";
const std::string kLargeScale =
    "train clip --train-data /data/LAION-2B/{00000..100000}.tar --train-num-samples 2000000000 --dataset-type "
    "webdataset --dataset-resampled --batch-size 256 --precision amp --grad-checkpointing --workers 12 --warmup 10000 "
    "--lr 5e-4 --wd 0.2 --epochs 32 --model ViT-H-14 --save-frequency 1 --zeroshot-frequency 2 --local-loss "
    "--gather-with-grad --report-to wandb --remote-sync s3://my-bucket/clip-checkpoints --remote-sync-frequency 600 "
    "--delete-previous-checkpoint";

TEST(ForeignScripts, TwoOfOpenClipsGuideRunAsTheyAre) {
  Args warnings;
  EXPECT_EQ(answer(kCc12m, warnings), "");
  EXPECT_EQ(answer(kVanilla, warnings), "");
  EXPECT_TRUE(warnings.empty()) << core::join(warnings, "\n");
}

TEST(ForeignScripts, OpenClipsProductionScriptRunsAsItIs) {
  Args warnings;
  EXPECT_EQ(answer(kProduction, warnings), "");
  EXPECT_TRUE(warnings.empty()) << core::join(warnings, "\n");
}

TEST(ForeignScripts, WhatIsNotSupportedIsToldAtOnce) {
  Args warnings;
  const std::string message = answer(kLargeScale + " --horovod --use-bnb-linear SwitchBackLinearGlobal", warnings);
  EXPECT_TRUE(holds(message, "2 things are wrong")) << message;
  EXPECT_TRUE(holds(message, "--use-bnb-linear is not supported")) << message;
  EXPECT_TRUE(holds(message, "--horovod is not supported")) << message;
  EXPECT_EQ(answer(kLargeScale, warnings), "");
  EXPECT_TRUE(holds(answer(changed(kLargeScale, "s3://my-bucket", "gs://my-bucket"), warnings),
                    "--remote-sync got 'gs://my-bucket/clip-checkpoints', expected s3://BUCKET/FOLDER or a path"));
}

// Megatron-LM's examples/llama/train_llama3_8b_h100_fp8.sh with its made-up data, and flags that scripts of other
// people have beside these.
const std::string kLlama =
    "train gpt --use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192 "
    "--position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 --attention-dropout 0.0 "
    "--hidden-dropout 0.0 --swiglu --normalization RMSNorm --init-method-std 0.0134 --attention-backend fused "
    "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 --global-batch-size 128 "
    "--train-samples 1953125000 --lr-decay-samples 1949218748 --lr-warmup-samples 3906252 --lr 0.00015 --min-lr "
    "0.00001 --lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 "
    "--grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc "
    "--empty-unused-memory-level 1 --exit-duration-in-mins 235 --use-distributed-optimizer --overlap-grad-reduce "
    "--overlap-param-gather --fp8-format hybrid --fp8-amax-history-len 1024 --fp8-amax-compute-algo max "
    "--fp8-param-gather --tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel --mock-data "
    "--tokenizer-type NullTokenizer --vocab-size 128256 --data-cache-path /cache --tiktoken-pattern v2 --split 99,1,0 "
    "--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 --log-interval 1 --eval-iters 32 "
    "--eval-interval 100 --save-interval 1000 --log-throughput --ckpt-format torch_dist --distributed-timeout-minutes "
    "60 --save /ckpt/llama --load /ckpt/llama --tensorboard-dir /tb --transformer-impl transformer_engine "
    "--no-rope-fusion --no-masked-softmax-fusion --no-gradient-accumulation-fusion --timing-log-level 1 "
    "--tp-comm-overlap --use-flash-attn --optimizer adam --expert-model-parallel-size 1 --wandb-project= "
    "--exit-signal-handler --no-load-rng --distributed-backend nccl --tensorboard-queue-size 5 --local-rank 0";

TEST(ForeignScripts, ALlamaScriptOfMegatronRunsAsItIs) {
  ASSERT_GE(std::count_if(kLlama.begin(), kLlama.end(), [](char c) { return c == ' '; }), 100);
  Args warnings;
  EXPECT_EQ(answer(kLlama, warnings), "");
  ASSERT_EQ(warnings.size(), 3u) << core::join(warnings, "\n");
  EXPECT_TRUE(holds(warnings[0], "--transformer-impl, --no-rope-fusion")) << warnings[0];
  EXPECT_TRUE(holds(warnings[1], "--tensorboard-dir '/tb' stays as it is")) << warnings[1];
  EXPECT_TRUE(holds(warnings[2], "--sequence-parallel changes nothing")) << warnings[2];
  const ParsedCommand command = parse_command(words_of(kLlama));
  const auto& options = tasks::options_as<tasks::GptOptions>(*command.task);
  EXPECT_EQ(tasks::gpt_shape_of(options).vocab, 128257);
  EXPECT_EQ(options.dist_timeout_s, 3600);
}

TEST(ForeignScripts, Megatrons175bScriptNeedsOneChange) {
  const std::string script =
      "train gpt --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
      "--max-position-embeddings 2048 --attention-backend auto --micro-batch-size 1 --global-batch-size 1536 "
      "--step-batch-size-schedule 0:16_2.4B:320 --train-iters 500000 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 "
      "0.95 --init-method-std 0.006 --clip-grad 1.0 --fp16 --lr 6.0e-5 --lr-decay-style cosine --min-lr 6.0e-6 "
      "--lr-warmup-fraction .001 --lr-decay-iters 430000 --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 16 --data-path /d/text_document --vocab-file v.json --merge-file m.txt --split "
      "949,50,1 --log-interval 100 --save-interval 10000 --eval-interval 1000 --save /ckpt/gpt --load /ckpt/gpt "
      "--eval-iters 10 --tensorboard-dir /tb";
  Args warnings;
  const std::string message = answer(script, warnings);
  EXPECT_TRUE(holds(message, "options: --step-batch-size-schedule is not supported")) << message;
  EXPECT_EQ(answer(changed(script, "--step-batch-size-schedule 0:16_2.4B:320", ""), warnings), "");
}

// What job scripts of a computing centre add to Megatron-LM's own: a resubmitted job, wandb, timers, profiling.
TEST(ForeignScripts, AResubmittedJobOfMegatronRunsAsItIs) {
  const std::string script =
      "train gpt --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 --train-iters 500000 "
      "--lr-decay-iters 320000 --lr 0.00015 --min-lr 1.0e-5 --lr-decay-style cosine --lr-warmup-fraction .01 "
      "--weight-decay 1e-2 --clip-grad 1.0 --fp16 --loss-scale-window 500 --initial-loss-scale 65536 "
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
      "--recompute-activations --distributed-backend nccl --distributed-timeout-minutes 30 "
      "--data-path 0.7 /d/one_text_document 0.3 /d/two_text_document --vocab-file v.json --merge-file m.txt "
      "--split 949,50,1 --num-workers 8 --log-interval 10 --log-throughput --log-params-norm "
      "--timing-log-level 1 --save-interval 1000 --eval-interval 1000 --eval-iters 10 --save /ckpt/run --load "
      "/ckpt/run "
      "--no-load-optim --no-load-rng --ckpt-format torch_dist --async-save --wandb-project gpt --wandb-exp-name run "
      "--wandb-save-dir /wandb --tensorboard-dir /tb --tensorboard-queue-size 5 --log-timers-to-tensorboard "
      "--seed 1234 --use-flash-attn --attention-dropout 0 --no-gradient-accumulation-fusion --exit-signal-handler";
  Args warnings;
  EXPECT_EQ(answer(script, warnings), "");
  EXPECT_TRUE(holds(core::join(warnings, "\n"), "--no-load-optim changes nothing without --load of another run"))
      << core::join(warnings, "\n");
}

TEST(ForeignScripts, AMixtureOfExpertsIsRefusedInOneRound) {
  Args warnings;
  const std::string script =
      changed(kLlama, "--expert-model-parallel-size 1",
              "--num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2 "
              "--moe-grouped-gemm --moe-aux-loss-coeff 1e-2 --context-parallel-size 2 --qk-layernorm");
  const std::string message = answer(script, warnings);
  for (const char* flag :
       {"--num-experts", "--expert-model-parallel-size", "--context-parallel-size", "--qk-layernorm"})
    EXPECT_TRUE(holds(message, std::string(flag) + " is not supported")) << message;
  EXPECT_TRUE(holds(message, "4 things are wrong")) << message;
}

}  // namespace
}  // namespace lockstep::commands
