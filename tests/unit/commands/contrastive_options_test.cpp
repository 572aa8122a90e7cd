#include "tasks/contrastive/front/contrastive_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "commands/commands.h"
#include "config/contrastive_shape.h"
#include "config/hub_cache.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/error_text.h"
#include "tasks/contrastive/front/aug_cfg.h"
#include "tasks/contrastive/front/text_ids.h"

namespace lockstep::commands {
namespace {

using namespace config;  // NOLINT: tests of options of every module
using namespace tasks;

using tests::holds;
using Args = std::vector<std::string>;

const ContrastiveOptions& clip_options(const ParsedCommand& command) {
  return options_as<ContrastiveOptions>(*command.task);
}

/// A command line that is complete, and then these flags.
ParsedCommand parse_clip(const Args& flags) {
  Args args = {"train", "clip", "--train-data", "shards-{000..003}.tar"};
  args.insert(args.end(), flags.begin(), flags.end());
  return parse_command(args);
}

/// Text of the UsageError; "" if there is none.
std::string clip_error(const Args& flags) {
  try {
    parse_clip(flags);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

/// Flags of `train clip` that users type: none may vanish unnoticed. New ones show in docs/options/train_clip.md.
const char* const kFlags =
    "accum-freq accumulate-allreduce-grads-in-fp32 aug-cfg batch-size beta1 beta2 bucket-mb check-replicas classnames "
    "config csv-caption-key csv-img-key "
    "csv-separator data-lanes data-order "
    "dataset-resampled dataset-type debug delete-previous-checkpoint deterministic device device-memory dist-backend "
    "dist-local-rank dist-rank "
    "dist-timeout dist-url join-timeout "
    "dist-world-size dry-run epochs epochs-cooldown eps force-context-length force-image-size force-patch-dropout "
    "force-quick-gelu gather-with-grad "
    "global-batch-size grad-checkpointing grad-clip-norm grad-sync image-interpolation image-key image-mean "
    "image-resize-mode "
    "image-std imagenet-val "
    "index-dir json keep local-loss log-every-n-steps log-local logs lr lr-cooldown-end lr-cooldown-power lr-scheduler "
    "max-bad-samples max-image-pixels "
    "max-steps model name on-bad-sample opt precision pretrained profile profile-ranks profile-step-end "
    "profile-step-start profile-tool report-to resize-order resume save-every-n-steps save-frequency "
    "save-most-recent seed "
    "shuffle skip-scheduler templates text-key threads tokenizer-vocab train-data train-data-upsampling-factors "
    "train-num-samples train-transform "
    "use-bn-sync use-distributed-optimizer val-data val-frequency val-num-samples warmup wd workers world-size "
    "zeroshot-data zeroshot-frequency";

/// Every flag of OpenCLIP's trainer, release 3.3.0 (open_clip_train/params.py).
const char* const kOpenClipFlags =
    "train-data train-data-upsampling-factors val-data train-num-samples val-num-samples dataset-type "
    "dataset-resampled "
    "csv-separator csv-img-key "
    "csv-caption-key imagenet-val imagenet-v2 cache-dir logs log-local name workers batch-size epochs epochs-cooldown "
    "lr beta1 "
    "beta2 eps wd momentum "
    "warmup opt use-bn-sync skip-scheduler lr-scheduler lr-cooldown-end lr-cooldown-power save-frequency "
    "save-most-recent "
    "zeroshot-frequency "
    "val-frequency resume precision model pretrained pretrained-image lock-image lock-image-unlocked-groups "
    "lock-image-freeze-bn-stats image-mean "
    "image-std image-interpolation image-resize-mode aug-cfg grad-checkpointing local-loss gather-with-grad "
    "force-context-length "
    "force-image-size "
    "force-quick-gelu force-patch-dropout force-custom-text torchscript torchcompile trace accum-freq device dist-url "
    "dist-backend report-to wandb-notes "
    "wandb-project-name debug copy-codebase horovod ddp-static-graph no-set-device-rank seed grad-clip-norm lock-text "
    "lock-text-unlocked-layers "
    "lock-text-freeze-layer-norm log-every-n-steps coca-caption-loss-weight coca-contrastive-loss-weight remote-sync "
    "remote-sync-frequency "
    "remote-sync-protocol delete-previous-checkpoint distill-model distill-pretrained use-bnb-linear siglip "
    "loss-dist-impl";

TEST(ContrastiveOptions, NoFlagThatUsersTypeHasVanished) {
  ContrastiveOptions options;
  const core::OptionSet set = declare_contrastive_options(options);
  for (const std::string& flag : core::split(kFlags, " ")) EXPECT_NE(set.find(flag), nullptr) << "--" << flag;
}

TEST(ContrastiveOptions, EveryOpenClipFlagIsTakenOrRefusedByName) {
  ContrastiveOptions options;
  const core::OptionSet set = declare_contrastive_options(options);
  const auto flags = core::split(kOpenClipFlags, " ");
  ASSERT_EQ(flags.size(), 90u);
  size_t num_refused = 0, num_ignored = 0;
  for (const std::string& flag : flags) {
    if (set.find(flag) != nullptr) continue;
    ContrastiveOptions other;
    core::OptionSet parser = declare_contrastive_options(other);
    Args args = {"--" + flag};
    if (parser.takes_value(flag)) args.emplace_back("1");
    const std::string error = clip_error(args);
    if (!holds(error, "--" + flag)) {
      parser.parse(args);
      EXPECT_TRUE(holds(parser.ignored_warning(), "--" + flag + " changes nothing here")) << flag;
      ++num_ignored;
      continue;
    }
    ++num_refused;
    EXPECT_TRUE(holds(error, "--" + flag + " is not supported: ")) << error;
    EXPECT_TRUE(holds(error, "\n  hint: ")) << error;
  }
  EXPECT_EQ(num_refused, 2u);
  EXPECT_EQ(num_ignored, 8u);
}

/// What OpenCLIP's trainer takes for its flags, one name for those of timm's optimisers that are not here. With the
/// refused flags of the test above these are what its users cannot have.
TEST(ContrastiveOptions, FewValuesOfOpenClipsFlagsAreRefused) {
  const std::vector<Args> command_lines = {{"--precision", "amp"},
                                           {"--precision", "amp_bf16"},
                                           {"--precision", "amp_bfloat16"},
                                           {"--precision", "bf16"},
                                           {"--precision", "fp16"},
                                           {"--precision", "pure_bf16"},
                                           {"--precision", "pure_fp16"},
                                           {"--precision", "fp32"},
                                           {"--dataset-type", "webdataset"},
                                           {"--dataset-type", "csv"},
                                           {"--dataset-type", "auto"},
                                           {"--dataset-type", "synthetic", "--train-num-samples", "8"},
                                           {"--image-interpolation", "bicubic"},
                                           {"--image-interpolation", "bilinear"},
                                           {"--image-interpolation", "random"},
                                           {"--image-resize-mode", "shortest"},
                                           {"--image-resize-mode", "longest"},
                                           {"--image-resize-mode", "squash"},
                                           {"--lr-scheduler", "cosine"},
                                           {"--lr-scheduler", "const"},
                                           {"--lr-scheduler", "const-cooldown", "--epochs-cooldown", "1"},
                                           {"--dist-backend", "nccl"},
                                           {"--dist-backend", "gloo"},
                                           {"--dist-backend", "hccl"},
                                           {"--report-to", "tensorboard"},
                                           {"--report-to", "wandb"},
                                           {"--report-to", "all"},
                                           {"--remote-sync-protocol", "s3"},
                                           {"--remote-sync-protocol", "fsspec"},
                                           {"--siglip", "--loss-dist-impl", "bidir"},
                                           {"--siglip", "--loss-dist-impl", "shift"},
                                           {"--siglip", "--loss-dist-impl", "reduce"},
                                           {"--siglip", "--loss-dist-impl", "gather"},
                                           {"--opt", "adamw"},
                                           {"--opt", "timm/adamw"},
                                           {"--opt", "timm/lion"},
                                           {"--opt", "timm/lamb"},
                                           {"--opt", "timm/adafactor"},
                                           {"--aug-cfg", "scale=(0.4,1.0)"},
                                           {"--aug-cfg", "ratio=(0.75,1.33)"},
                                           {"--aug-cfg", "color_jitter=(0.3,0.3,0.3,0.1)", "color_jitter_prob=0.8"},
                                           {"--aug-cfg", "gray_scale_prob=0.2"},
                                           {"--aug-cfg", "re_prob=0.1"},
                                           {"--aug-cfg", "re_count=1"},
                                           {"--aug-cfg", "use_timm=True"},
                                           {"--aug-cfg", "interpolation=bicubic"}};
  std::vector<std::string> refused;
  for (const Args& args : command_lines) {
    const std::string error = clip_error(args);
    if (error.empty()) continue;
    refused.push_back(core::join(args, " "));
    EXPECT_TRUE(holds(error, args.front() + " ")) << error;
    EXPECT_TRUE(holds(error, "\n  hint: ")) << error;
  }
  const std::vector<std::string> known = {"--precision fp16",
                                          "--precision pure_fp16",
                                          "--image-interpolation random",
                                          "--dist-backend hccl",
                                          "--opt timm/adamw",
                                          "--opt timm/adafactor",
                                          "--aug-cfg re_prob=0.1",
                                          "--aug-cfg re_count=1",
                                          "--aug-cfg use_timm=True",
                                          "--aug-cfg interpolation=bicubic"};
  EXPECT_EQ(refused, known);
  EXPECT_LE(refused.size() + 2, 15u) << "with the refused flags";
}

/// Every flag of LAION-CLAP's trainer (laion_clap/training/params.py, 2025).
const char* const kLaionFlags =
    "amodel batch-size beta1 beta1-new beta1-pretrained beta2 beta2-new beta2-pretrained clap-mlploss "
    "class-label-path copy-codebase csv-caption-key csv-img-key csv-separator data-filling data-truncating "
    "dataset-proportion dataset-type datasetinfos datasetnames datasetpath ddp-static-graph debug dist-backend "
    "dist-url enable-fusion epochs eps eps-new eps-pretrained exclude-eval-dataset force-quick-gelu freeze-text "
    "freeze-text-after full-train-dataset fusion-type gather-with-grad horovod imagenet-v2 imagenet-val kappa "
    "local-loss lock-image lock-image-freeze-bn-stats lock-image-unlocked-groups log-local logs lp-act lp-freeze "
    "lp-loss lp-lr lp-metrics lp-mlp lr lr-new lr-pretrained mixup momentum momentum-new momentum-pretrained "
    "name no-eval no-set-device-rank openai-model-cache-dir optimizer parallel-eval precision prefetch-factor "
    "pretrained pretrained-audio pretrained-image pretrained-text remotedata report-to resume save-frequency "
    "save-most-recent save-top-performance seed skip-scheduler sleep split-opt text-augment-selection tmodel "
    "top-k-checkpoint-select-dataset top-k-checkpoint-select-metric torchscript trace train-data train-ipc "
    "train-num-samples use-bn-sync val-data val-frequency val-ipc val-num-samples wandb-id wandb-notes warmup wd "
    "wd-new wd-pretrained workers zeroshot-frequency";

TEST(ContrastiveOptions, EveryFlagOfLaionClapIsKnown) {
  const auto flags = core::split(kLaionFlags, " ");
  ASSERT_EQ(flags.size(), 104u);
  for (const std::string& flag : flags) {
    ContrastiveOptions options;
    options.task = "clap";
    core::OptionSet set = declare_contrastive_options(options);
    Args args = {"--" + flag};
    if (set.takes_value(flag)) args.emplace_back("1");
    const std::string error = tests::message_of([&] { set.parse(args); });
    EXPECT_FALSE(holds(error, "unknown")) << error;
  }
}

TEST(ContrastiveOptions, TheCheckpointOnItsWayToACopyIsKept) {
  const auto num_kept = [](Args args) {
    ContrastiveOptions options;
    declare_contrastive_options(options).parse(args);
    return contrastive_run_facts(options).num_kept_checkpoints;
  };
  EXPECT_EQ(num_kept({}), 0) << "all";
  EXPECT_EQ(num_kept({"--keep", "1"}), 1);
  EXPECT_EQ(num_kept({"--delete-previous-checkpoint"}), 1);
  EXPECT_EQ(num_kept({"--save-most-recent"}), 0);
  EXPECT_EQ(num_kept({"--save-most-recent", "--save-frequency", "0"}), 1) << "as OpenCLIP's epoch_latest.pt";
  EXPECT_EQ(num_kept({"--delete-previous-checkpoint", "--remote-sync", "/copy"}), 2);
  EXPECT_EQ(num_kept({"--keep", "5", "--remote-sync", "/copy"}), 5);
  EXPECT_EQ(num_kept({"--remote-sync", "/copy"}), 0) << "all";
  ContrastiveOptions options;
  EXPECT_EQ(config::num_newest_checkpoints(options), 1);
  options.remote_sync = "/copy";
  EXPECT_EQ(config::num_newest_checkpoints(options), 2) << "also of those that were saved for their rank alone";
}

TEST(ContrastiveOptions, TheMostRecentCheckpointRollsBesideThoseOfSaveFrequency) {
  const auto facts = [](Args args) {
    ContrastiveOptions options;
    declare_contrastive_options(options).parse(args);
    return contrastive_run_facts(options);
  };
  const config::RunFacts rolling = facts({"--save-most-recent", "--save-frequency", "5"});
  EXPECT_EQ(rolling.save_frequency_epochs, 1);
  EXPECT_EQ(rolling.kept_epochs, 5);
  EXPECT_EQ(rolling.num_kept_checkpoints, 0) << "all of those five";
  EXPECT_EQ(facts({"--save-frequency", "5"}).kept_epochs, 0);
  EXPECT_EQ(facts({"--save-frequency", "5"}).save_frequency_epochs, 5);
}

TEST(ContrastiveOptions, CustomTextCanBeForced) {
  ContrastiveOptions options;
  EXPECT_EQ(contrastive_shape_of(options).clip()->text_prefix(), "");
  declare_contrastive_options(options).parse(Args{"--force-custom-text"});
  EXPECT_EQ(contrastive_shape_of(options).clip()->text_prefix(), "text.");
}

TEST(ContrastiveOptions, AModelWithFewerIdsThanItsTokenizerIsRefused) {
  config::ClipShape shape = config::resolve_clip_shape("ViT-B-32");
  check_text_ids(shape);
  shape.text.vocab_size = 64;
  EXPECT_TRUE(
      holds(tests::message_of([&] { check_text_ids(shape); }), "vocab_size=64, CLIP's tokenizer has 49408 tokens"));
  shape.text.tokens = config::TextTokens::kSentencePiece;
  check_text_ids(shape);
}

TEST(ContrastiveOptions, ReportToTakesListsAsOpenClipDoes) {
  for (const char* list : {"all", "wandb,tensorboard", "wandb, tensorboard", "tensorboard, wandb"})
    EXPECT_EQ(clip_options(parse_clip({"--report-to", list})).report_to, "all") << list;
}

TEST(ContrastiveOptions, EvaluationsNameWhatRanksCheckpoints) {
  const auto ranked = [](Args args, const std::string& task) {
    ContrastiveOptions options;
    options.task = task;
    args.insert(args.end(), {"--save-top-performance", "2"});
    declare_contrastive_options(options).parse(args);
    return contrastive_run_facts(options).best_checkpoints;
  };
  using Names = std::vector<std::string>;
  const auto clip = ranked({"--val-data", "v.tar"}, "clip");
  EXPECT_EQ(clip.num_best, 2);
  EXPECT_EQ(clip.metrics, (Names{"image_to_text_R@10", "text_to_image_R@10"}));
  EXPECT_EQ(ranked({"--val-data", "v.tar", "--top-k-checkpoint-select-metric", "mAP@10"}, "clap").metrics,
            (Names{"audio_to_text_mAP@10", "text_to_audio_mAP@10"}));
  EXPECT_EQ(ranked({"--val-data", "v.tar", "--imagenet-val", "i", "--top-k-checkpoint-select-metric", "top1",
                    "--top-k-checkpoint-select-dataset", "imagenet"},
                   "clip")
                .metrics,
            Names{"imagenet-zeroshot-val-top1"});
  EXPECT_TRUE(holds(clip_error({"--save-top-performance", "1"}), "compares evaluations, this run has none"));
  EXPECT_TRUE(holds(clip_error({"--save-top-performance", "1", "--val-data", "v.tar", "--val-frequency", "0"}),
                    "this run has none"));
}

TEST(ContrastiveOptions, NumbersOfPretrainedParametersFallBackToThoseOfAll) {
  const auto parsed = parse_clip({"--split-opt", "--lr", "1e-3", "--wd", "0.1", "--lr-pretrained", "1e-5",
                                  "--beta2-pretrained", "0.9", "--eps-new", "1e-4", "--wd-new", "0"});
  const UpdateNumbers pretrained = update_numbers(clip_options(parsed), true),
                      others = update_numbers(clip_options(parsed), false);
  EXPECT_EQ(pretrained.lr, 1e-5);
  EXPECT_EQ(pretrained.beta1, 0.9);
  EXPECT_EQ(pretrained.beta2, 0.9);
  EXPECT_EQ(pretrained.eps, 1e-8);
  EXPECT_EQ(pretrained.wd, 0.1);
  EXPECT_EQ(others.lr, 1e-3);
  EXPECT_EQ(others.beta2, 0.999);
  EXPECT_EQ(others.eps, 1e-4);
  EXPECT_EQ(others.wd, 0);
  EXPECT_EQ(*contrastive_run_facts(clip_options(parsed)).lr, 1e-3);
}

TEST(ContrastiveOptions, SplittingTheUpdatesIsRefusedWhereItMeansNothing) {
  for (const auto& [flags, said] :
       {std::pair(Args{"--lr-pretrained", "1e-5"}, "--lr-pretrained belongs to --split-opt"),
        {{"--wd-new", "0"}, "--wd-new belongs to --split-opt"},
        {{"--split-opt", "--pretrained", "all.pt"}, "all parameters are pretrained"},
        {{"--split-opt", "--opt", "lamb"}, "--opt lamb reads the norm of all gradients"},
        {{"--split-opt", "--lr-new", "0"}, "the learning rate of new parameters is 0"},
        {{"--split-opt", "--save-format", "openclip"}, "--save-format openclip"}})
    EXPECT_TRUE(holds(clip_error(flags), said)) << clip_error(flags);
}

TEST(ContrastiveOptions, ACacheOfFeaturesServesLockedTowers) {
  EXPECT_TRUE(holds(clip_error({"--cache-locked-features", "1G"}), "belongs to locked towers"));
  EXPECT_TRUE(holds(clip_error({"--cache-locked-features", "much", "--lock-text"}), "--cache-locked-features"));
  const auto warnings = [](const Args& flags) {
    const auto parsed = parse_clip(flags);
    const auto& options = clip_options(parsed);
    return shape_warnings(options, contrastive_shape_of(options));
  };
  const Args both = {
      "--model", "ViT-B-32", "--pretrained", "w.pt", "--lock-image", "--lock-text", "--cache-locked-features", "1G"};
  ASSERT_EQ(warnings(both).size(), 1u);
  EXPECT_TRUE(holds(warnings(both)[0], "pictures are cropped at random")) << warnings(both)[0];
  Args fixed = both;
  fixed.insert(fixed.end(), {"--train-transform", "eval"});
  EXPECT_TRUE(warnings(fixed).empty());
  const auto said = tests::message_of([&] {
    warnings({"--model", "ViT-B-32", "--lock-image", "--cache-locked-features", "1G"});
  });
  EXPECT_TRUE(holds(said, "serves no tower: pictures are cropped at random")) << said;
}

TEST(ContrastiveOptions, ACopyAmongTheFilesOfTheRunIsRefused) {
  const core::TempDir folder;
  const std::string here = folder.path().string();
  std::filesystem::create_directory(folder.path() / "logs");
  std::filesystem::create_directory_symlink(folder.path() / "logs", folder.path() / "link");
  const auto error_of = [&](const std::string& where, const std::string& name) {
    return clip_error({"--logs", here + "/logs", "--name", name, "--remote-sync", where});
  };
  for (const std::string& where : {here + "/logs", "file://" + here + "/logs/", here + "/link", here + "/x/../logs",
                                   here + "/logs/run", here + "/logs/run/copies"})
    EXPECT_TRUE(holds(error_of(where, "run"), "puts the copy of the run into")) << where;
  EXPECT_TRUE(holds(error_of(here, "logs"), "puts the copy of the run into")) << "the copy would hold the run";
  EXPECT_TRUE(holds(clip_error({"--logs", here + "/logs", "--remote-sync", here + "/logs"}), "puts the copy"));
  for (const std::string& where : {here, here + "/copies", here + "/logs/runs", std::string("s3://b/logs")})
    EXPECT_EQ(error_of(where, "run"), "") << where;
}

TEST(ContrastiveOptions, ResumingFromAFileOfWeightsPointsToPretrained) {
  for (const char* file : {"logs/exp/checkpoints/epoch_10.pth", "openclip.safetensors"}) {
    const std::string error = clip_error({"--resume", file});
    EXPECT_TRUE(holds(error, "is a file of weights, expected latest or a checkpoint's folder")) << error;
    EXPECT_TRUE(holds(error, "--pretrained FILE")) << error;
  }
  EXPECT_EQ(clip_error({"--resume", "logs/exp/checkpoints/step-00000002"}), "");
  EXPECT_EQ(clip_error({"--resume", "logs/exp/checkpoints/epoch_10.pt"}), "");  // of OpenCLIP, it may be a checkpoint
  EXPECT_EQ(clip_error({"--resume", "latest", "--lr", "0"}), "");
}

TEST(ContrastiveOptions, NamesThatOtherProgramsHaveAreAnsweredWithOurs) {
  for (const auto& [flag, hint] : {std::pair{"--mock-data", "--dataset-type synthetic --train-num-samples N"},
                                   {"--outdir", "--logs DIR --name NAME"},
                                   {"--out-dir", "--logs DIR --name NAME"},
                                   {"--output_dir", "--logs DIR --name NAME"},
                                   {"--gpus-per-node", "lockstep launch --nproc-per-node N"}})
    EXPECT_TRUE(holds(clip_error({flag, "1"}), hint)) << clip_error({flag, "1"});
}

TEST(ContrastiveOptions, DefaultsAreOpenClips) {
  ContrastiveOptions options;
  const core::OptionSet set = declare_contrastive_options(options);
  // As params.py of 3.3.0 states them; device and image keys are ours.
  const std::map<std::string, std::string> expected = {{"dataset-type", "auto"},
                                                       {"csv-separator", "\t"},
                                                       {"csv-img-key", "filepath"},
                                                       {"csv-caption-key", "title"},
                                                       {"logs", "./logs/"},
                                                       {"workers", "4"},
                                                       {"batch-size", "64"},
                                                       {"epochs", "32"},
                                                       {"wd", "0.2"},
                                                       {"warmup", "10000"},
                                                       {"opt", "adamw"},
                                                       {"lr-scheduler", "cosine"},
                                                       {"lr-cooldown-end", "0.0"},
                                                       {"lr-cooldown-power", "1.0"},
                                                       {"save-frequency", "1"},
                                                       {"zeroshot-frequency", "2"},
                                                       {"val-frequency", "1"},
                                                       {"precision", "amp"},
                                                       {"model", "RN50"},
                                                       {"accum-freq", "1"},
                                                       {"seed", "0"},
                                                       {"log-every-n-steps", "100"},
                                                       {"report-to", "none"},
                                                       {"train-num-samples", "None"},
                                                       {"epochs-cooldown", "None"},
                                                       {"lr", "None"},
                                                       {"grad-clip-norm", "None"},
                                                       {"resume", "None"},
                                                       {"force-patch-dropout", "None"},
                                                       {"local-loss", "False"},
                                                       {"gather-with-grad", "False"},
                                                       {"grad-checkpointing", "False"},
                                                       {"dataset-resampled", "False"},
                                                       {"save-most-recent", "False"},
                                                       {"delete-previous-checkpoint", "False"},
                                                       {"use-bn-sync", "False"}};
  for (const auto& [flag, value] : expected) {
    ASSERT_NE(set.find(flag), nullptr) << flag;
    EXPECT_EQ(set.find(flag)->value_text(), value) << flag;
  }
}

TEST(ContrastiveOptions, OptimizerDefaultsGoByTheModelsName) {
  const auto values = [](const ParsedCommand& command) {
    return std::vector<double>{*clip_options(command).lr, *clip_options(command).beta1, *clip_options(command).beta2,
                               *clip_options(command).eps};
  };
  for (const char* model : {"ViT-B-32", "coca_vit", "my/ViTamin.json"})
    EXPECT_EQ(values(parse_clip({"--model", model})), (std::vector<double>{5e-4, 0.9, 0.98, 1e-6})) << model;
  EXPECT_EQ(values(parse_clip({"--model", "RN50"})), (std::vector<double>{5e-4, 0.9, 0.999, 1e-8}));
  const ParsedCommand given = parse_clip({"--model", "ViT-B-32", "--lr", "1e-5", "--eps", "1e-7"});
  EXPECT_EQ(values(given), (std::vector<double>{1e-5, 0.9, 0.98, 1e-7}));
  EXPECT_EQ(given.set->find("beta2")->origin.text(), "from the model name");
  EXPECT_EQ(given.set->find("lr")->origin.text(), "command line");
}

TEST(ContrastiveOptions, AnOpenClipCommandLineIsTakenWordForWord) {
  const ParsedCommand command = parse_clip({"--dataset-resampled",
                                            "--train-num-samples",
                                            "407332084",
                                            "--batch-size",
                                            "256",
                                            "--workers",
                                            "6",
                                            "--precision",
                                            "amp_bfloat16",
                                            "--model",
                                            "ViT-B-32",
                                            "--local-loss",
                                            "--gather-with-grad",
                                            "--warmup",
                                            "2000",
                                            "--lr",
                                            "5e-4",
                                            "--beta2=0.95",
                                            "--epochs",
                                            "32",
                                            "--report-to",
                                            "tensorboard",
                                            "--save-most-recent",
                                            "--resume",
                                            "latest",
                                            "--imagenet-val",
                                            "/d/val",
                                            "--aug-cfg",
                                            "scale=(0.4, 1.0)",
                                            "--seed",
                                            "3",
                                            "--grad-clip-norm",
                                            "1.0",
                                            "--dist_backend",
                                            "nccl",
                                            "--force-patch-dropout",
                                            "0.5",
                                            "--lr-scheduler",
                                            "const-cooldown",
                                            "--epochs-cooldown",
                                            "4",
                                            "--csv-separator",
                                            ","});
  EXPECT_EQ(clip_options(command).precision, "amp_bf16");
  EXPECT_EQ(clip_options(command).train_num_samples, 407332084);
  EXPECT_EQ(clip_options(command).resume, "latest");
  EXPECT_TRUE(command.warnings.empty());
  EXPECT_EQ(parse_aug_cfg(clip_options(command).aug_cfg).scale_min, 0.4);
}

TEST(ContrastiveOptions, ContradictionsAreRefused) {
  const std::vector<std::pair<Args, std::string>> cases = {
      {{"--train-data-upsampling-factors", "1::2"}, "needs --dataset-resampled"},
      {{"--train-data-upsampling-factors", "1::2", "--dataset-resampled"}, "has 2 factors, expected 1"},
      {{"--train-data", "a::b", "--train-data-upsampling-factors", "1::x", "--dataset-resampled"},
       "got 'x', expected a number > 0"},
      {{"--train-data", "a::b", "--train-data-upsampling-factors", "1::0", "--dataset-resampled"},
       "got '0', expected a number > 0"},
      {{"--dataset-resampled", "--shuffle", "off"}, "--shuffle off keeps their order"},
      {{"--train-data="}, "there is nothing to do"},
      {{"--dataset-type", "synthetic"}, "needs --train-num-samples"},
      {{"--csv-separator", ",,"}, "expected one character"},
      {{"--max-bad-samples", "3"}, "--on-bad-sample stop skips none"},
      {{"--data-order", "openclip", "--data-lanes", "8"}, "--data-lanes belongs to"},
      {{"--classnames", "f"}, "for which no data are given"},
      {{"--templates", "f"}, "for which no data are given"},
      {{"--dataset-type", "imagefolder"}, "--dataset-type 'imagefolder' is not supported"},
      {{"--train-data", "/"}, "--train-data '/' is a folder; its pictures have no captions"},
      {{"--val-data", "/"}, "--val-data '/' is a folder"},
      {{"--report-to", "x"}, "--report-to got 'x', expected none, tensorboard, wandb or all"},
      {{"--zeroshot-data", "d"}, "needs --classnames"},
      {{"--image-mean", "1", "2"}, "--image-mean has 2 values"},
      {{"--image-std", "1", "2", "3", "4"}, "--image-std has 4 values"},
      {{"--force-image-size", "224", "336"}, "is not square"},
      {{"--aug-cfg", "scale"}, "expected KEY=VALUE"},
      {{"--aug-cfg", "use_timm=True"}, "use_timm is not supported"},
      {{"--aug-cfg", "color_jitter=(1,1,1,0.6)"}, "the hue at most 0.5"},
      {{"--aug-cfg", "color_jitter=(0.1,0.1,0.1)"}, "BRIGHTNESS"},
      {{"--aug-cfg", "color_jitter_prob=0.8"}, "belong together"},
      {{"--aug-cfg", "gray_scale_prob=2"}, "a probability from 0 to 1"},
      {{"--aug-cfg", "zoom=2"}, "key 'zoom' is unknown"},
      {{"--aug-cfg", "scale=(0.5,2)"}, "0 < MIN <= MAX <= 1"},
      {{"--aug-cfg", "ratio=(2,1)"}, "0 < MIN <= MAX"},
      {{"--aug-cfg", "scale=0.5"}, "expected (MIN,MAX)"},
      {{"--aug-cfg", "scale=(0.5,1)", "--train-transform", "eval"}, "--train-transform eval does not use it"},
      {{"--lr-scheduler", "const-cooldown"}, "needs --epochs-cooldown"},
      {{"--epochs-cooldown", "3"}, "has no meaning with --lr-scheduler cosine"},
      {{"--lr-scheduler", "const-cooldown", "--epochs", "2", "--epochs-cooldown", "3"}, "is longer than --epochs 2"},
      {{"--dist-rank", "0"}, "belong together"},
      {{"--dist-rank", "2", "--dist-world-size", "2"}, "expected 0 to 1"},
      {{"--world-size", "8"}, "only asks --dry-run"},
      {{"--json"}, "belongs to --dry-run"},
      {{"--device", "cpu", "--dist-backend", "nccl"}, "--dist-backend nccl needs --device cuda"},
      {{"--dist-url", "http://x"}, "expected tcp://HOST:PORT"},
      {{"--name", "a/b"}, "contains '/'"},
      {{"--delete-previous-checkpoint", "--keep", "3"}, "--keep asks for 3"},
      {{"--logs", "none"}, "always leaves its record"},
      {{"--precision", "fp16"}, "use fp16_master"},
      {{"--precision", "pure_fp16"}, "use fp16_master"},
      {{"--use-distributed-optimizer", "--grad-sync", "ddp"}, "means --grad-sync zero1, not ddp"},
      {{"--accumulate-allreduce-grads-in-fp32"}, "--precision is amp"},
      {{"--report-to", "trackio"}, "use --report-to tensorboard or wandb"},
      {{"--opt", "timm/adafactor"}, "expected adamw"},
      {{"--opt", "timm/adamw"}, "use --opt adamw"},
      {{"--pretrained-audio", "htsat.ckpt"}, "`train clip` reads pictures, no sounds"},
      {{"--lock-image-unlocked-groups=2"}, "--lock-image-unlocked-groups belongs to --lock-image"},
      {{"--lock-text-freeze-layer-norm"}, "--lock-text-freeze-layer-norm belongs to --lock-text"},
      {{"--loss-dist-impl=shift"}, "--loss-dist-impl belongs to --siglip"},
      {{"--distill-model=ViT-B-32"}, "--distill-model and --distill-pretrained belong together"},
      {{"--opt=lamb", "--grad-sync=zero1"}, "--opt lamb needs the norms of whole weights"},
      {{"--fsdp"}, "parameter sharding is not in this version"},
  };
  for (const auto& [flags, expected] : cases) {
    const std::string error = clip_error(flags);
    EXPECT_TRUE(holds(error, expected)) << core::join(flags, " ") << "\n" << error;
    EXPECT_TRUE(holds(error, "\n  hint: ")) << core::join(flags, " ") << "\n" << error;
  }
  EXPECT_EQ(clip_error({}), "");
}

TEST(ContrastiveOptions, ClapHasFlagsForSoundsAndNoneForPictures) {
  const auto clap = [](Args args) {
    args.insert(args.begin(), {"train", "clap"});
    return parse_command(args);
  };
  const auto command =
      clap({"--train-data", "d-{0..3}.tar", "--tokenizer-vocab", "d", "--data-filling", "pad", "--audio-trunc", "trunc",
            "--dataset-type", "webdataset-audio", "--no-audio-int16-normalize"});
  const ContrastiveOptions& o = clip_options(command);
  EXPECT_EQ(o.task + " " + o.model + " " + o.audio_fill + " " + o.audio_trunc + " " + o.dataset_type,
            "clap HTSAT-tiny-Roberta-base pad trunc webdataset");
  EXPECT_FALSE(o.audio_int16_normalize);
  EXPECT_EQ(*o.beta2, 0.999);  // no "vit" in the name
  const auto clap_error = [&](const Args& args) {
    try {
      clap(args);
    } catch (const UsageError& error) {
      return error.text();
    }
    return std::string();
  };
  EXPECT_NE(clap_error({"--train-data", "d-{0..3}.tar"}).find("--tokenizer-vocab is needed"), std::string::npos);
  EXPECT_EQ(clap_error({"--dataset-type", "synthetic-audio", "--train-num-samples", "64"}), "");
  EXPECT_NE(clap_error({"--image-mean", "0.5"}).find("`train clap` reads sounds, no pictures"), std::string::npos);
  EXPECT_NE(clap_error({"--audio-trunc", "fusion"}).find("rand_trunc"), std::string::npos);
  EXPECT_NE(clip_error({"--audio-fill", "pad"}).find("drop it; sounds are trained on by `lockstep train clap`"),
            std::string::npos);
}

TEST(ContrastiveOptions, LegalCombinationsPass) {
  for (const Args& flags :
       {Args{"--train-data", "a::b", "--train-data-upsampling-factors", "1::0.5", "--dataset-resampled"},
        Args{"--train-data=", "--val-data", "v.tar"},
        Args{"--train-data=", "--dataset-type", "synthetic", "--train-num-samples", "9"},
        Args{"--dry-run", "--world-size", "4096", "--json"}, Args{"--on-bad-sample", "skip", "--max-bad-samples", "0"},
        Args{"--zeroshot-data", "d", "--classnames", "c", "--templates", "t"},
        Args{"--imagenet-val", "d", "--classnames", "c"}, Args{"--delete-previous-checkpoint", "--keep", "1"},
        Args{"--device", "cuda", "--dist-backend", "gloo"}, Args{"--force-image-size", "224", "224"},
        Args{"--report-to", "none"}, Args{"--report-to", ""}, Args{"--report-to", "tensorboard,"},
        Args{"--imagenet-val", "d", "--zeroshot-data", "d", "--classnames", "f"}})
    EXPECT_EQ(clip_error(flags), "") << core::join(flags, " ");
}

TEST(ContrastiveOptions, FlagsThatOnlyCountBesideAnotherAreToldOrRefused) {
  EXPECT_TRUE(holds(clip_error({"--remote-sync-frequency", "60"}), "--remote-sync-frequency belongs to --remote-sync"));
  EXPECT_TRUE(holds(clip_error({"--remote-sync-deadline", "60"}), "--remote-sync-deadline belongs to --remote-sync"));
  EXPECT_EQ(clip_error({"--remote-sync", "/copy", "--remote-sync-deadline", "60"}), "");
  for (const char* slip : {"s3:/bucket/x", "gs:/bucket/x", "file://copy"})
    EXPECT_TRUE(holds(clip_error({"--remote-sync", slip}), "expected s3://BUCKET/FOLDER or a path")) << slip;
  for (const char* address : {"s3://bucket/x", "gs:/bucket/x"})
    EXPECT_TRUE(holds(clip_error({"--logs", address}), "expected a folder of this machine")) << address;
  const Args idle = {"--lr-cooldown-end",    "1e-5", "--lr-cooldown-power", "2", "--val-num-samples",    "9",
                     "--zeroshot-frequency", "1",    "--wandb-notes",       "n", "--wandb-project-name", "p"};
  const auto command = parse_clip(idle);
  ASSERT_EQ(command.warnings.size(), 1u);
  for (const char* told : {"--lr-cooldown-end without --lr-scheduler const-cooldown",
                           "--lr-cooldown-power without --lr-scheduler const-cooldown",
                           "--val-num-samples without --val-data", "--zeroshot-frequency without --imagenet-val",
                           "--wandb-notes without --report-to wandb", "--wandb-project-name without --report-to wandb"})
    EXPECT_TRUE(holds(command.warnings[0], told)) << command.warnings[0];
  Args used = idle;
  used.insert(used.end(), {"--lr-scheduler", "const-cooldown", "--epochs-cooldown", "1", "--val-data", "v.tar",
                           "--imagenet-val", "d", "--report-to", "wandb"});
  EXPECT_TRUE(parse_clip(used).warnings.empty());
}

TEST(ContrastiveOptions, AnEvaluationOfDrawnWeightsIsWarnedOf) {
  const Args evaluate = {"train", "clip", "--val-data", "v.tar"};
  const auto with = [&](const Args& more) {
    Args args = evaluate;
    args.insert(args.end(), more.begin(), more.end());
    return parse_command(args);
  };
  ASSERT_EQ(with({}).warnings.size(), 1u);
  EXPECT_TRUE(holds(with({}).warnings[0], "was never trained"));
  EXPECT_TRUE(with({"--resume", "latest"}).warnings.empty());
  EXPECT_TRUE(with({"--model", "RN50", "--pretrained", "w.pt"}).warnings.empty());
  EXPECT_TRUE(parse_clip({}).warnings.empty());
  EXPECT_TRUE(contrastive_run_facts(clip_options(with({"--resume", "latest"}))).needs_checkpoint);
  EXPECT_FALSE(contrastive_run_facts(clip_options(with({}))).needs_checkpoint) << "a requeued job begins as it began";
  EXPECT_FALSE(contrastive_run_facts(clip_options(parse_clip({"--resume", "latest"}))).needs_checkpoint);
}

TEST(ContrastiveOptions, ATowerLockedAsItWasDrawnIsWarnedOf) {
  const auto warnings = [](const Args& flags) {
    const auto parsed = parse_clip(flags);
    return shape_warnings(clip_options(parsed), contrastive_shape_of(clip_options(parsed)));
  };
  const Args locked = {"--model", "ViT-B-32", "--lock-image", "--lock-text", "--lock-image-freeze-bn-stats"};
  ASSERT_EQ(warnings(locked).size(), 3u);
  EXPECT_TRUE(holds(warnings(locked)[0], "--lock-image-freeze-bn-stats changes nothing"));
  EXPECT_TRUE(holds(warnings(locked)[1], "--lock-image without weights")) << warnings(locked)[1];
  EXPECT_TRUE(holds(warnings(locked)[2], "--lock-text without weights")) << warnings(locked)[2];
  EXPECT_TRUE(warnings({"--model", "ViT-B-32", "--lock-image", "--resume", "latest"}).empty());
  EXPECT_TRUE(warnings({"--model", "roberta-ViT-B-32", "--lock-text"}).empty()) << "it begins with RoBERTa's weights";
  EXPECT_EQ(warnings({"--model", "roberta-ViT-B-32", "--lock-text", "--pretrained-text", "none"}).size(), 1u);
  EXPECT_EQ(warnings({"--model", "convnext_base", "--lock-image", "--pretrained-image"}).size(), 0u);
}

TEST(ContrastiveOptions, TheBiasedLossWarns) {
  ASSERT_EQ(parse_clip({"--local-loss"}).warnings.size(), 1u);
  EXPECT_TRUE(holds(parse_clip({"--local-loss"}).warnings[0], "biased gradient"));
  EXPECT_TRUE(parse_clip({"--local-loss", "--gather-with-grad"}).warnings.empty());
}

TEST(ContrastiveOptions, TheNamedCacheIsLookedAtBeforeTheUsualOnes) {
  parse_clip({"--cache-dir", "/my/cache"});
  const std::string places = config::hub_cache_places();
  parse_clip({});
  EXPECT_EQ(places, "/my/cache, " + config::hub_cache_places());
}

TEST(ContrastiveOptions, ADecoderThatCannotSayAllTokensIsWarnedOf) {
  const auto warnings = [](const char* model) {
    return shape_warnings(clip_options(parse_clip({"--model", model})), {resolve_clip_shape(model)});
  };
  ASSERT_EQ(warnings("coca_roberta-ViT-B-32").size(), 1u);
  EXPECT_TRUE(holds(warnings("coca_roberta-ViT-B-32")[0], "knows 49408 of the 50265 tokens"));
  EXPECT_TRUE(warnings("coca_ViT-B-32").empty());
}

TEST(ContrastiveOptions, BatchNormGivesReasonForWarnings) {
  const auto warnings = [](const Args& flags) {
    const ParsedCommand command = parse_clip(flags);
    return shape_warnings(clip_options(command), {resolve_clip_shape(clip_options(command).model)});
  };
  EXPECT_TRUE(warnings({"--model", "ViT-B-32", "--accum-freq", "2"}).empty());
  EXPECT_TRUE(warnings({"--model", "RN50", "--use-bn-sync"}).empty());
  ASSERT_EQ(warnings({"--model", "ViT-B-32", "--use-bn-sync"}).size(), 1u);
  EXPECT_TRUE(holds(warnings({"--model", "ViT-B-32", "--use-bn-sync"})[0], "--use-bn-sync changes nothing"));
  ASSERT_EQ(warnings({"--model", "RN50", "--use-bn-sync", "--accum-freq", "2"}).size(), 1u);
  EXPECT_TRUE(
      holds(warnings({"--model", "RN50", "--use-bn-sync", "--accum-freq", "2"})[0], "one micro-batch over all ranks"));
}

TEST(ContrastiveOptions, RunsWithoutANameAreNamedAsOpenClipDoes) {
  const ParsedCommand command =
      parse_clip({"--model", "hf/ViT-B-32", "--lr", "5e-5", "--batch-size", "8", "--workers", "2"});
  EXPECT_EQ(auto_run_name(contrastive_run_facts(clip_options(command)), "2026_01_31-12_00_00"),
            "2026_01_31-12_00_00-model_hf-ViT-B-32-lr_5e-05-b_8-j_2-p_amp");
}

TEST(ContrastiveOptions, AugCfgTakesTuplesAndLists) {
  const AugConfig config = parse_aug_cfg({"scale=(0.25,1)", "ratio=[ 0.5 , 2.0 ]"});
  EXPECT_EQ(config.scale_min, 0.25);
  EXPECT_EQ(config.scale_max, 1.0);
  EXPECT_EQ(config.ratio_min, 0.5);
  EXPECT_EQ(config.ratio_max, 2.0);
  EXPECT_EQ(parse_aug_cfg({}).scale_min, 0.9);
  const AugConfig colours =
      parse_aug_cfg({"color_jitter=(0.32, 0.32, 0.3, 0.08)", "color_jitter_prob=0.8", "gray_scale_prob=0.2"});
  EXPECT_EQ(colours.color_jitter, (std::array{0.32, 0.32, 0.3, 0.08}));
  EXPECT_EQ(colours.color_jitter_prob, 0.8);
  EXPECT_EQ(colours.gray_scale_prob, 0.2);
}

TEST(ContrastiveOptions, BucketsAreForSeveralRanksAndForFp32Copies) {
  const auto kind = [](const Args& flags, int64_t num_ranks) {
    return grad_sync_kind(clip_options(parse_clip(flags)), num_ranks);
  };
  EXPECT_EQ(kind({}, 1), GradSyncKind::kNone);
  EXPECT_EQ(kind({}, 2), GradSyncKind::kDdp);
  EXPECT_EQ(kind({"--grad-sync", "none"}, 1), GradSyncKind::kNone);
  EXPECT_EQ(kind({"--grad-sync", "ddp"}, 1), GradSyncKind::kDdp);
  for (const int64_t num_ranks : {1, 4}) {
    EXPECT_EQ(kind({"--use-distributed-optimizer"}, num_ranks), GradSyncKind::kZero1);
    EXPECT_EQ(kind({"--precision", "bf16_master"}, num_ranks), GradSyncKind::kDdp);
    EXPECT_EQ(kind({"--precision", "bf16_master", "--grad-sync", "zero1"}, num_ranks), GradSyncKind::kZero1);
  }
}

}  // namespace
}  // namespace lockstep::commands
