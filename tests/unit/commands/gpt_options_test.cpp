#include "tasks/gpt/front/gpt_options.h"

#include <gtest/gtest.h>

#include "commands/commands.h"
#include "config/gpt_params.h"
#include "config/option_checks.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/error_text.h"

namespace lockstep::commands {
namespace {

using namespace config;  // NOLINT: tests of options of every module
using namespace tasks;

const GptOptions& gpt_options(const ParsedCommand& command) { return options_as<GptOptions>(*command.task); }

using tests::holds;

ParsedCommand parse_gpt(const std::string& flags) {
  std::vector<std::string> args = {"train", "gpt"};
  for (const std::string& word : core::split(flags, " "))
    if (!word.empty()) args.push_back(word);
  return parse_command(args);
}

std::string message_of(const std::string& flags) {
  return tests::message_of<UsageError>([&] { parse_gpt(flags); });
}

TEST(GptOptions, AScriptOfMegatronIsRead) {
  // The 175B example's flags, word for word.
  const ParsedCommand command = parse_gpt(
      "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 "
      "--attention-backend auto "
      "--micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 --weight-decay 0.1 --adam-beta1 0.9 "
      "--adam-beta2 0.95 "
      "--init-method-std 0.006 --clip-grad 1.0 --fp16 --lr 6.0e-5 --lr-decay-style cosine --min-lr 6.0e-6 "
      "--lr-warmup-fraction .001 "
      "--lr-decay-iters 430000 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --data-path "
      "/d/gpt_text_document --vocab-file v.json "
      "--merge-file m.txt --split 949,50,1 --log-interval 100 --save-interval 10000 --eval-interval 1000 --save /c "
      "--load /c --eval-iters 10");
  const GptOptions& o = gpt_options(command);
  EXPECT_EQ(o.precision, "fp16");
  EXPECT_EQ(o.log_every_n_steps, 100);
  EXPECT_EQ(o.save_every_n_steps, 10000);
  EXPECT_EQ(o.train_iters, 500000);
  EXPECT_EQ(o.seed, 1234);
  EXPECT_FALSE(o.accumulate_allreduce_grads_in_fp32);
  const GptShape shape = gpt_shape_of(o);
  EXPECT_EQ(gpt_cost(shape, 8).parameters, 174'615'846'912) << "50257 tokens on 8 tensor ranks make 51200 rows";
  EXPECT_EQ(command.run_options(), static_cast<const config::RunOptions*>(&o));
}

TEST(GptOptions, AModelThatNoFlagDescribesIsThatBesideTheWeightsOfLoad) {
  const core::TempDir folder;
  core::write_file_atomic(
      folder.path() / "config.json",
      R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 300})");
  const std::string load = "--dry-run --finetune --load " + folder.path().string();
  const ParsedCommand command = parse_gpt(load);
  EXPECT_EQ(gpt_shape_of(gpt_options(command)).hidden, 48);
  EXPECT_EQ(command.set->find("model")->origin.text(), "from config.json of --load");
  EXPECT_EQ(gpt_shape_of(gpt_options(parse_gpt(load + " --model gpt2"))).hidden, 768) << "what is said counts";
}

TEST(GptOptions, FlagsChangeANamedModel) {
  const auto shape = [](const std::string& flags) {
    return gpt_shape_of(gpt_options(parse_gpt("--dry-run " + flags)));
  };
  const GptShape nemotron = shape("--model nemotron4-15b --num-layers 4 --seq_length 512 --num-attention-heads 24");
  EXPECT_EQ(nemotron.layers, 4);
  EXPECT_EQ(nemotron.head_width, 256);
  EXPECT_EQ(nemotron.query_groups, 8) << "groups stay";
  EXPECT_EQ(nemotron.sequence, 512);
  EXPECT_EQ(nemotron.max_positions, 4096);
  EXPECT_EQ(nemotron.activation, GptActivation::kSquaredRelu);
  const GptShape own = shape(
      "--num-layers 2 --hidden-size 256 --num-attention-heads 8 --seq-length 64 --swiglu --group-query-attention "
      "--num-query-groups 2 --normalization RMSNorm "
      "--position-embedding-type rope --rotary-percent 0.5 --disable-bias-linear --untie-embeddings-and-output-weights "
      "--vocab-size 1000 --hidden-dropout 0");
  EXPECT_EQ(own.ffn, 640) << "8/3 x 256 down to a multiple of 64";
  EXPECT_EQ(own.query_groups, 2);
  EXPECT_EQ(own.rotary_width(), 16);
  EXPECT_EQ(own.norm, GptNorm::kRmsNorm);
  EXPECT_FALSE(own.has_bias || own.is_head_tied);
  EXPECT_EQ(own.padded_vocab(1), 1024);
  EXPECT_EQ(own.max_positions, 64);
  EXPECT_EQ(own.hidden_dropout, 0);
  EXPECT_EQ(own.attention_dropout, 0.1);
  for (const char* flags : {"--swiglu", "--group-query-attention", "--hidden-size 4096 --swiglu"}) {
    const GptShape llama = shape(std::string("--model llama3-8b ") + flags);
    EXPECT_EQ(llama.ffn, 14336) << flags << ": what the model has anyway stays";
    EXPECT_EQ(llama.query_groups, 8) << flags;
  }
  EXPECT_EQ(shape("--model llama3-8b --hidden-size 2048 --swiglu").ffn, 5440);
  EXPECT_EQ(shape("--model gpt2 --group-query-attention").query_groups, 1) << "as Megatron's default";
  EXPECT_EQ(shape("--model llama3-8b --group-query-attention --num-query-groups 4").query_groups, 4);
  const auto null_tokenizer = shape("--model gpt2 --tokenizer-type NullTokenizer --vocab-size 1024");
  EXPECT_EQ(null_tokenizer.vocab, 1025) << "Megatron's NullTokenizer adds the end of a document";
  EXPECT_EQ(null_tokenizer.padded_vocab(1), 1152);
  EXPECT_EQ(shape("--model gpt2 --padded-vocab-size 51200").padded_vocab(1), 51200);
  EXPECT_EQ(shape("--model 175b --make-vocab-size-divisible-by 64").padded_vocab(1), 50304) << "no longer fixed";
  EXPECT_EQ(shape("--model gpt2 --hidden-size 1024 --num-attention-heads 16").ffn, 4096);
}

TEST(GptOptions, PrecisionFollowsTheSwitches) {
  const auto options = [](const std::string& flags) {
    return GptOptions(gpt_options(parse_gpt("--dry-run --model gpt2 " + flags)));
  };
  EXPECT_EQ(options("").precision, "fp32");
  EXPECT_EQ(options("--bf16").precision, "bf16");
  EXPECT_TRUE(options("--bf16").accumulate_allreduce_grads_in_fp32);
  EXPECT_FALSE(options("--bf16 --grad-reduce-in-bf16").accumulate_allreduce_grads_in_fp32);
  EXPECT_TRUE(options("--precision fp16 --accumulate-allreduce-grads-in-fp32").accumulate_allreduce_grads_in_fp32);
  EXPECT_EQ(options("--recompute-activations").recompute_granularity, "selective");
}

TEST(GptOptions, ContradictionsAreRefused) {
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--bf16 --fp16", "--bf16 and --fp16"},
           {"--bf16 --precision fp32", "--bf16 contradicts --precision fp32"},
           {"--grad-reduce-in-bf16", "belongs to --bf16"},
           {"--loss-scale 128", "--loss-scale belongs to --fp16"},
           {"--fp8-margin 1", "belongs to --fp8-format"},
           {"--fp8-format hybrid", "needs --bf16"},
           {"--recompute-method uniform", "belong to --recompute-granularity full"},
           {"--recompute-granularity full", "--recompute-method uniform --recompute-num-layers 1"},
           {"--mock-data --data-path /d", "--mock-data and data paths"},
           {"--split 1,2,3,4 --data-path /d", "up to three numbers"},
           {"--split a,b --data-path /d", "up to three numbers"},
           {"--train-iters 1 --train-samples 1", "two ways"},
           {"--train-samples 9 --lr-decay-iters 4", "--lr-decay-samples"},
           {"--lr 1e-4 --min-lr 1e-3", "--min-lr 0.001 is above"},
           {"--lr-warmup-iters 30 --lr-decay-iters 30", "--lr-warmup-iters 30 is not below --lr-decay-iters 30"},
           {"--train-samples 90 --lr-warmup-samples 30 --lr-decay-samples 20", "--lr-warmup-samples 30 is not below"},
           {"--hidden-size 32 --num-attention-heads 3", "a hidden size of 32 is no multiple of 3 heads"},
           {"--num-attention-heads 5", "give the width of a head: --kv-channels"},
           {"--lr-decay-style WSD", "--lr-wsd-decay-iters"},
           {"--num-query-groups 2", "belongs to --group-query-attention"},
           {"--swiglu --squared-relu", "contradict"},
           {"--apply-layernorm-1p --normalization RMSNorm", "is not supported"},
           {"--rotary-seq-len-interpolation-factor 4", "--use-rope-scaling"},
           {"trainer.devices=2", "flags are written --trainer.devices VALUE"},
           {"--overlap-param-gather", "--use-distributed-optimizer"},
           {"--attention-backend flash --device cpu",
            "attention dropout of 0.1 has no kernel on the CPU, where probabilities are kept\n  hint: add "
            "--attention-dropout 0"},
           {"--attention-backend fused --attention-dropout 0.2 --device cpu", "attention dropout of 0.2"},
           {"--use-checkpoint-opt-param-scheduler", "give the flags of the schedule again"},
           {"--ckpt-step 4", "belongs to --load"},
           {"--no-load-optim --load /c/run --finetune", "contradict each other"},
           {"--no-save-optim", "`lockstep ckpt export` writes the weights alone"},
           {"--dataloader-type cyclic", "shuffled once for the whole run"},
           {"--exit-duration-in-mins 0", "--exit-duration-in-mins"},
           {"--seq-length 4096", "longer than its 1024 positions"},
           {"--model-parallel-size 8", "use --tensor-model-parallel-size"},
           {"--rampup-batch-size 16 16 100", "use --global-batch-size"},
           {"--num-layer 8", "--num-layers"}})
    EXPECT_TRUE(holds(message_of("--dry-run --model gpt2 " + flags), part))
        << flags << "\n"
        << message_of("--dry-run --model gpt2 " + flags);
  EXPECT_EQ(message_of("--dry-run --model gpt2 --num-attention-heads 5 --kv-channels 64"), "no error");
  EXPECT_EQ(message_of("--dry-run --model gpt2 --lr-warmup-iters 30 --lr-decay-iters 31"), "no error");
  const std::string at_once = message_of("--model gpt2 --device cpu --distributed-backend nccl");
  for (const char* part : {"--train-iters or --train-samples", "--lr is not given",
                           "--data-path PREFIX, or --mock-data", "--distributed-backend nccl needs --device cuda"})
    EXPECT_TRUE(holds(at_once, part)) << at_once;
  EXPECT_TRUE(holds(message_of("--model gpt2 --mock-data --lr 1e-4"), "--train-iters or --train-samples"));
  EXPECT_TRUE(holds(message_of("--model gpt2 --mock-data --train-iters 5"), "--lr is not given"));
  EXPECT_TRUE(holds(message_of("--model gpt2 --lr 1e-4 --train-iters 5"), "--data-path PREFIX, or --mock-data"));
  EXPECT_TRUE(holds(message_of("--model gpt2 --mock-data --lr 1e-4 --train-iters 5 --target-device H100"),
                    "--device-memory only asks --dry-run"));
  EXPECT_EQ(message_of("--model gpt2 --mock-data --lr 1e-4 --train-iters 5"), "no error");
  EXPECT_EQ(message_of("--dry-run --model gpt2 --attention-backend flash --attention-dropout 0"), "no error");
  EXPECT_EQ(message_of("--dry-run --model gpt2 --attention-backend flash --device cuda"), "no error");
  EXPECT_EQ(message_of("--dry-run --model nemotron4-15b --attention-backend flash --device cpu"), "no error")
      << "a model without dropout";
}

TEST(GptOptions, RecipesYieldToFlagsThatSayTheSameInAnotherWay) {
  const core::TempDir folder;
  const auto with = [&](const std::string& recipe, const std::string& flags) {
    const auto path = folder.path() / "r.toml";
    core::write_file_atomic(path, "model = \"gpt2\"\nlr = 1e-4\n" + recipe);
    return fmt::format("--config {} {}", path.string(), flags);
  };
  const auto options = [&](const std::string& recipe, const std::string& flags) {
    return GptOptions(gpt_options(parse_gpt("--dry-run " + with(recipe, flags))));
  };
  EXPECT_EQ(options("fp16 = true\n", "--bf16").precision, "bf16");
  EXPECT_EQ(options("fp16 = true\n", "--precision fp32").precision, "fp32");
  EXPECT_EQ(options("precision = \"fp16\"\n", "--bf16").precision, "bf16");
  EXPECT_EQ(options("fp16 = true\n", "--no-bf16").precision, "fp16") << "a flag that is off says nothing";
  const std::string schedule = "train-iters = 50\nlr-decay-iters = 40\nlr-warmup-iters = 4\n";
  const GptOptions samples = options(schedule, "--train-samples 1000");
  EXPECT_EQ(samples.train_samples, 1000);
  EXPECT_FALSE(samples.train_iters || samples.lr_decay_iters);
  EXPECT_EQ(samples.lr_warmup_iters, 0);
  EXPECT_EQ(options(schedule, "--lr-warmup-fraction 0.1").lr_decay_iters, 40);
  const GptOptions data = options("mock-data = true\n", "--data-path /d");
  EXPECT_FALSE(data.mock_data);
  EXPECT_TRUE(options("data-path = [\"/d\"]\nsplit = \"1,1,1\"\n", "--train-data-path /t").data_path.empty());
  const GptOptions full = options("recompute-activations = true\n",
                                  "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  EXPECT_FALSE(full.recompute_activations);
  EXPECT_EQ(full.recompute_granularity, "full");
  EXPECT_EQ(options("recompute-granularity = \"full\"\nrecompute-method = \"block\"\nrecompute-num-layers = 1\n",
                    "--recompute-activations")
                .recompute_granularity,
            "selective");
  EXPECT_FALSE(options("num-layers-per-virtual-pipeline-stage = 1\n", "--num-virtual-stages-per-pipeline-rank 6")
                   .num_layers_per_virtual_pipeline_stage);

  const ParsedCommand told = parse_gpt("--dry-run " + with("fp16 = true\n", "--bf16"));
  const std::vector<std::string> texts = yielding_texts(*told.set);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0],
            fmt::format("--fp16 False: from --bf16, which wins over {}:3", (folder.path() / "r.toml").string()));
  EXPECT_TRUE(yielding_texts(*parse_gpt("--dry-run --model gpt2 --bf16").set).empty());

  EXPECT_TRUE(holds(message_of("--dry-run " + with("fp16 = true\nbf16 = true\n", "")), "--bf16 and --fp16"))
      << "both in one place";
  EXPECT_TRUE(holds(message_of("--dry-run " + with("fp16 = true\n", "--bf16 --precision fp32")), "contradicts"));
}

TEST(GptOptions, APaddedVocabularyIsComparedWithTheTokenizers) {
  const std::string model = "--dry-run --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 ";
  const GptShape shape = gpt_shape_of(gpt_options(parse_gpt(model + "--padded-vocab-size 1024 --tokenizer-model t")));
  EXPECT_EQ(shape.padded_vocab(1), 1024);
  EXPECT_TRUE(holds(message_of(model + "--padded-vocab-size 1024 --vocab-size 1025"), "raise --padded-vocab-size"));
}

TEST(GptOptions, AVocabularyThatNobodySaysIsWarnedOf) {
  const auto warnings = [](const std::string& flags) {
    ParsedCommand command = parse_gpt(
        "--dry-run --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --data-path /none " + flags);
    read_files(command);
    return core::join(command.warnings, "; ");
  };
  EXPECT_TRUE(holds(warnings(""), "50257 tokens are assumed")) << warnings("");
  EXPECT_TRUE(holds(warnings("--tokenizer-type NullTokenizer"), "50257 tokens are assumed"));
  EXPECT_EQ(warnings("--vocab-size 1000"), "");
  EXPECT_EQ(warnings("--padded-vocab-size 1024"), "");
}

TEST(GptOptions, MissingFilesComeWithTheHintThatFits) {
  const auto error = [](const std::string& flags) {
    ParsedCommand command = parse_gpt("--model gpt2 --train-iters 1 --lr 1 " + flags);
    return tests::message_of<UsageError>([&] { read_files(command); });
  };
  EXPECT_TRUE(holds(error("--data-path 0.7 corpus val"), "weights and prefixes alternate"));
  EXPECT_TRUE(holds(error("--data-path corpus"), "`lockstep data tokenize` writes"));
  const std::string model = error("--mock-data --tokenizer-model /none/sp.model");
  EXPECT_TRUE(holds(model, "copy the SentencePiece model")) << model;
}

TEST(GptOptions, AMissingCheckpointMayEndWhatWouldBeginTheRun) {
  for (const char* flags : {"--resume latest", "--save /c/run --load /c/run"}) {
    const ParsedCommand command =
        parse_gpt(fmt::format("--dry-run --model gpt2 --exit-on-missing-checkpoint {}", flags));
    EXPECT_TRUE(gpt_options(command).exit_on_missing_checkpoint) << flags;
    EXPECT_EQ(gpt_options(command).resume, "latest") << flags;
  }
}

TEST(GptOptions, FlagsWithoutEffectAreNamedInOneWarning) {
  const auto warnings = parse_gpt(
                            "--dry-run --model gpt2 --num-workers 4 --no-load-rng --transformer-impl local "
                            "--override-opt_param-scheduler --ckpt-format torch_dist --timing-log-level 2 "
                            "--no-rope-fusion --use-flash-attn --attention-dropout 0")
                            .warnings;
  ASSERT_EQ(warnings.size(), 1u) << core::join(warnings, "\n");
  EXPECT_TRUE(holds(warnings[0],
                    "--no-load-rng, --transformer-impl, --override-opt-param-scheduler, --ckpt-format, "
                    "--timing-log-level, --no-rope-fusion change nothing here"))
      << warnings[0];
}

TEST(GptOptions, FlagsOfMegatronThatMeanOursAreTaken) {
  const ParsedCommand command = parse_gpt(
      "--dry-run --model gpt2 --distributed-timeout-minutes 60 --tensorboard-dir /logs/tb --lr 0 "
      "--context-parallel-size 1 --optimizer adam --expert-model-parallel-size 1 --attention-backend local");
  EXPECT_EQ(gpt_options(command).dist_timeout_s, 3600);
  EXPECT_EQ(gpt_options(command).report_to, "tensorboard");
  EXPECT_EQ(gpt_options(command).attention_backend, "unfused");
  ASSERT_EQ(command.warnings.size(), 1u);
  EXPECT_TRUE(holds(command.warnings[0], "event files go into the run's folder")) << command.warnings[0];
}

TEST(GptOptions, FlashAttentionBesideDropoutSaysWhatHappens) {
  const auto warnings = parse_gpt("--dry-run --model gpt2 --use-flash-attn --device cpu").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(holds(warnings[0],
                    "--use-flash-attn beside an attention dropout of 0.1 on the CPU: the probabilities are made and "
                    "kept"))
      << warnings[0];
}

TEST(GptOptions, ContradictionsAreToldAtOnce) {
  const std::string error = message_of("--model gpt2 --num-query-groups 2 --bf16 --loss-scale 8 --lr 1e-4");
  for (const char* part : {"--num-query-groups belongs to", "--loss-scale belongs to --fp16",
                           "how long to train is not given", "no data are given"})
    EXPECT_TRUE(holds(error, part)) << error;
}

TEST(GptOptions, OddWishesAreWarnedOf) {
  EXPECT_EQ(parse_gpt("--dry-run --model gpt2 --sequence-parallel").warnings.size(), 1u);
  EXPECT_TRUE(parse_gpt("--dry-run --model gpt2 --sequence-parallel --tp 2").warnings.empty());
  const auto idle = parse_gpt("--dry-run --model gpt2 --pp 4").warnings;
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_TRUE(holds(idle[0], "4 pipeline stages take turns and each waits 3/4 of the time")) << idle[0];
  EXPECT_TRUE(parse_gpt("--dry-run --model gpt2 --pp 4 --global-batch-size 8").warnings.empty());
  const auto never = parse_gpt("--dry-run --model gpt2 --eval-iters 5").warnings;
  ASSERT_EQ(never.size(), 1u);
  EXPECT_TRUE(holds(never[0], "--eval-iters 5 without --eval-interval: the model is never evaluated")) << never[0];
  EXPECT_TRUE(parse_gpt("--dry-run --model gpt2 --eval-iters 5 --eval-interval 9").warnings.empty());
}

TEST(GptOptions, EveryGroupedFlagHasHelp) {
  GptOptions options;
  const core::OptionSet set = declare_gpt_options(options);
  for (const core::Option& option : set.options()) EXPECT_FALSE(option.spec.help.empty()) << option.name;
  EXPECT_NE(set.find("no_load_optim"), nullptr);
}

}  // namespace
}  // namespace lockstep::commands
