#include <gtest/gtest.h>

#include <filesystem>

#include "commands/commands.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "record/reader.h"
#include "support/error_text.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::commands {
namespace {

using namespace config;  // NOLINT: tests of options of every module
using namespace tasks;

using tests::holds;
using Args = std::vector<std::string>;

std::string line_error(const std::string& line) {
  try {
    parse_command(core::split(line, " "));
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST(Commands, HelpOfClassifyTellsTheDefaultsOfClassifiersToo) {
  InferOptions classify, embed;
  classify.job = InferJob::kClassify;
  embed.job = InferJob::kEmbed;
  const auto help_of = [](InferOptions& options) { return declare_infer_options(options).help_text(1000); };
  for (const char* both : {"0.40821073; of a classifier 0.485 0.456 0.406", "0.27577711; of a classifier 0.229 0.224",
                           "bicubic; of a classifier bilinear"}) {
    EXPECT_TRUE(holds(help_of(classify), both)) << both;
    EXPECT_FALSE(holds(help_of(embed), both)) << both;
  }
}

TEST(Commands, OutputsOfInferenceThatCannotBeWrittenAreRefusedBeforeTheWork) {
  for (const char* command : {"embed --pretrained w --texts t", "classify --pretrained w --images d --classnames c",
                              "caption --pretrained w --images d", "retrieve --embeddings e --queries q"}) {
    const std::string line = std::string("infer ") + command + " -o ";
    EXPECT_TRUE(holds(line_error(line + "/nosuch/y"), "the folder '/nosuch' of '/nosuch/y' does not exist")) << line;
    EXPECT_TRUE(holds(line_error(line + "/dev"), "--output '/dev' is a folder")) << line;
    EXPECT_EQ(line_error(line + "/dev/stdout"), "") << line;
  }
  EXPECT_EQ(line_error("infer embed --pretrained w --shards a.tar -o /nosuch/y"), "") << "the folder will be made";
}

TEST(Commands, OfInferenceOnlyShardsAreSharedByRanks) {
  const auto error = [](const char* command, bool has_shards, int64_t num_ranks) {
    return tests::message_of<UsageError>([&] { check_infer_ranks(command, has_shards, num_ranks); });
  };
  EXPECT_TRUE(holds(error("infer embed", false, 2), "'infer embed' is the work of one rank, there are 2"));
  EXPECT_TRUE(holds(error("infer embed", false, 2), "many ranks share --shards SPEC"));
  EXPECT_TRUE(holds(error("infer retrieve", false, 3), "there are 3"));
  EXPECT_NO_THROW(check_infer_ranks("infer embed", true, 2));
  EXPECT_NO_THROW(check_infer_ranks("infer retrieve", false, 1));
}

TEST(Commands, EmbedAndClassify) {
  const ParsedCommand embed = parse_command(
      Args{"infer", "embed", "--model", "ViT-B-32", "--pretrained", "w.pt", "--images", "d", "-o", "x.safetensors"});
  ASSERT_NE(embed.infer, nullptr);
  EXPECT_EQ(embed.infer->job, InferJob::kEmbed);
  EXPECT_EQ(embed.infer->output, "x.safetensors");
  EXPECT_EQ(embed.infer->precision, "fp32");
  const ParsedCommand classify = parse_command(
      Args{"infer", "classify", "--pretrained", "w.pt", "--images", "d", "--classnames", "c.txt", "--top-k", "3"});
  EXPECT_EQ(classify.infer->job, InferJob::kClassify);
  EXPECT_EQ(classify.infer->top_k, 3);
  EXPECT_TRUE(holds(line_error("infer embed --pretrained w -o x"), "needs --images DIR"));
  EXPECT_TRUE(holds(line_error("infer embed --pretrained w --images d"), "needs --output FILE"));
  EXPECT_TRUE(holds(line_error("infer embed --images d -o x"), "needs --pretrained FILE"));
  EXPECT_TRUE(holds(line_error("infer classify --pretrained w --images d"), "needs --classnames FILE"));
  EXPECT_TRUE(holds(line_error("infer classify --pretrained w --classnames c"), "needs --images DIR"));
  EXPECT_TRUE(holds(line_error("infer classify --images d"), "needs --pretrained FILE")) << "a classifier has no names";
  const std::string here = std::filesystem::current_path().string();
  EXPECT_TRUE(holds(line_error("infer classify --pretrained w a.jpg b.jpg"), "--images '" + here + "'"));
  EXPECT_TRUE(holds(line_error("infer classify --pretrained w a.jpg"), "--images 'a.jpg'"));
  EXPECT_TRUE(holds(line_error("infer embed /d/sounds/a.wav"), "--sounds '/d/sounds/a.wav'"));
  EXPECT_TRUE(holds(line_error("infer embed /d/sounds/a.wav"), "--sounds '/d/sounds'"));
  EXPECT_TRUE(holds(line_error("infer classify --texts f"), "--texts is unknown to 'infer classify'"));
}

TEST(Commands, OutputsAreGivenByTheFlagToo) {
  for (const Args& args : {Args{"ckpt", "export", "run", "-o", "out.pt"}, Args{"ckpt", "export", "run", "out.pt"},
                           Args{"ckpt", "export", "--output=out.pt", "run"}})
    EXPECT_EQ(parse_command(args).ckpt->output, "out.pt");
  EXPECT_TRUE(holds(line_error("ckpt export run out.pt -o b.pt"), "does not take the argument 'out.pt'"));
  EXPECT_TRUE(holds(line_error("ckpt export run"), "needs OUT"));
  EXPECT_EQ(parse_command(Args{"report", "compare", "a", "b", "-o", "dir"}).report->output, "dir");
  EXPECT_EQ(parse_command(Args{"report", "compare", "a", "b"}).report->output, "");
}

TEST(Commands, AnOutputIsNamedAsTheFormatThatItHas) {
  for (const char* line : {"ckpt export run x.onnx", "ckpt convert a.pt x.onnx", "ckpt export run model.v2",
                           "ckpt export run x.onnx --names openclip --model RN50"}) {
    const std::string refused = line_error(line);
    EXPECT_TRUE(holds(refused, "no format that can be written")) << line << refused;
    EXPECT_TRUE(holds(refused, ".safetensors (safetensors) or in .pt, .pth or .bin (PyTorch)")) << refused;
  }
  for (const char* line : {"ckpt export run x", "ckpt export run x.SAFETENSORS", "ckpt export run x.PTH",
                           "ckpt export run x.weights --format safetensors", "ckpt list run.onnx",
                           "ckpt export run some.folder --names huggingface"})
    EXPECT_EQ(line_error(line), "") << line;
  EXPECT_TRUE(writes_pt(*parse_command(Args{"ckpt", "export", "run", "x.PTH"}).ckpt));
}

TEST(Commands, AFileOfWeightsMayTellItsModel) {
  const core::TempDir folder;
  const std::string weights = (folder.path() / "resnet18.pth").string();
  core::write_file_atomic(weights, "x");
  const auto asks = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"infer", "classify", "--images", "d", "--pretrained"});
    return parse_command(more).infer->asks_weights;
  };
  EXPECT_TRUE(asks({weights}));
  EXPECT_TRUE(asks({weights, "--classnames", "c.txt"}));
  EXPECT_FALSE(asks({weights, "--model", "resnet18"}));
  EXPECT_FALSE(asks({weights + ".none", "--classnames", "c.txt"}));
  EXPECT_TRUE(holds(line_error("infer classify --pretrained " + weights), "needs --images DIR"));
  EXPECT_TRUE(holds(line_error("infer classify --pretrained w " + weights + " a.jpg"), "'a.jpg'"));
}

TEST(Commands, Generate) {
  const ParsedCommand command =
      parse_command(Args{"infer", "generate", "--pretrained", "w", "--prompt", "a b", "c", "--top_k", "40",
                         "--prompt=--d", "--no-stop-at-eod", "--prompt", ""});
  ASSERT_NE(command.generate, nullptr);
  EXPECT_EQ(command.infer, nullptr);
  EXPECT_EQ(command.generate->prompts, (Args{"a b", "c", "--d", ""})) << "repeated prompts add up";
  EXPECT_TRUE(command.generate->is_sampled());
  EXPECT_FALSE(command.generate->stop_at_eod);
  EXPECT_FALSE(parse_command(Args{"infer", "generate", "--pretrained", "w", "--prompt-file", "f", "--greedy"})
                   .generate->is_sampled());
  EXPECT_TRUE(holds(line_error("infer generate --prompt a"), "needs --pretrained PATH"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w"), "needs --prompt TEXT or --prompt-file FILE"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --greedy --temperature 0.7"),
                    "--greedy contradicts --temperature"));
  EXPECT_TRUE(
      holds(line_error("infer generate --pretrained w --prompt a --greedy --top-k 4"), "--greedy contradicts --top-k"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --greedy --top-p 0.4"),
                    "--greedy contradicts --top-p"));
  EXPECT_TRUE(
      holds(line_error("infer generate --pretrained w --prompt a --greedy --top-k 4"), "--greedy contradicts --top-k"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --greedy --top-p 0.4"),
                    "--greedy contradicts --top-p"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --seed 4"), "--seed without --temperature"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --temperature -1"), "expected a number >= 0"));
  for (const char* more : {"", " --top-k 4", " --seed 4", " --greedy"})
    EXPECT_FALSE(
        parse_command(core::split(std::string("infer generate --pretrained w --prompt a --temperature 0") + more, " "))
            .generate->is_sampled())
        << more;
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --top-p 1.5"), "--top-p got '1.5'"));
  EXPECT_TRUE(holds(line_error("infer generate --pretrained w --prompt a --tokenizer-model t --vocab-file v"),
                    "--tokenizer-model contradicts"));
  EXPECT_TRUE(
      holds(line_error("infer generate --pretrained w --prompt a --max-new-tokens 0"), "--max-new-tokens got '0'"));
}

TEST(Commands, Checkpoints) {
  const ParsedCommand exported =
      parse_command(Args{"ckpt", "export", "in", "out.pt", "--format", "openclip-pt", "--prefix", "module"});
  ASSERT_NE(exported.ckpt, nullptr);
  EXPECT_EQ(exported.ckpt->job, CkptJob::kExport);
  EXPECT_EQ(exported.ckpt->path + exported.ckpt->output, "inout.pt");
  EXPECT_EQ(parse_command(Args{"ckpt", "list", "d"}).ckpt->job, CkptJob::kList);
  EXPECT_EQ(parse_command(Args{"ckpt", "verify", "d"}).ckpt->job, CkptJob::kVerify);
  EXPECT_EQ(parse_command(Args{"ckpt", "convert", "a", "b"}).ckpt->job, CkptJob::kConvert);
  EXPECT_TRUE(holds(line_error("ckpt list"), "'ckpt list' needs DIR"));
  EXPECT_TRUE(holds(line_error("ckpt export in"), "needs OUT"));
  EXPECT_TRUE(holds(line_error("ckpt convert a a"), "would overwrite its input"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --format onnx"), "expected auto, safetensors or openclip-pt"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --names laion"), "needs --names and --model together"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --model gpt2"), "needs --names and --model together"));
}

TEST(Commands, AnExportReplacesNoFileUnasked) {
  const core::TempDir folder;
  const std::string out = (folder.path() / "foo.pt").string();
  for (const std::string job : {"export", "convert"}) {
    EXPECT_EQ(line_error("ckpt " + job + " in " + out), "");
    core::write_file_atomic(out, "of somebody else");
    EXPECT_TRUE(holds(line_error("ckpt " + job + " in " + out), "foo.pt', which is there already")) << job;
    EXPECT_TRUE(parse_command(Args{"ckpt", job, "in", out, "--force"}).ckpt->force);
    std::filesystem::remove(out);
  }
}

TEST(Commands, PicturesArePreparedAsTheConfigurationBesideTheWeightsSays) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "open_clip_config.json", R"({"model_cfg": {"embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 64, "width": 64, "heads": 1, "layers": 2}},
    "preprocess_cfg": {"resize_mode": "longest", "fill_color": 128}})");
  const std::string model = "local-dir:" + folder.path().string();
  const auto embed = [&](Args more) {
    more.insert(more.begin(), {"infer", "embed", "--images", "d", "--output", "e.npy", "--model", model});
    return parse_command(more);
  };
  EXPECT_EQ(embed({}).infer->image_resize_mode, "longest");
  EXPECT_EQ(embed({}).infer->image_fill_color, 128);
  EXPECT_EQ(embed({"--image-fill-color", "3"}).infer->image_fill_color, 3);
  EXPECT_TRUE(holds(line_error("infer embed --images d --output e.npy --image-fill-color 256"), "--image-fill-color"));
}

TEST(Commands, AModelIsTakenFromTheRunOfAnOpenClipFile) {
  const core::TempDir folder;
  const core::Json attempt = {{"task", "clip"},
                              {"options", {{"model", "ViT-B-32"}, {"image_mean", {0.5}}, {"image_fill_color", 7}}}};
  core::write_file_atomic(
      folder.path() / "run.json",
      core::Json{{"record_version", record::kRecordVersion}, {"attempts", core::Json::array({attempt})}}.dump());
  std::filesystem::create_directories(folder.path() / "checkpoints");
  std::filesystem::create_directories(folder.path() / "other");
  for (const char* name : {"checkpoints/epoch_3.pt", "checkpoints/epoch_latest.pt", "other/epoch_3.pt"})
    core::write_file_atomic(folder.path() / name, "weights");
  const std::string file = (folder.path() / "checkpoints/epoch_3.pt").string();
  const auto caption = [](const std::string& weights, Args more = {}) {
    more.insert(more.begin(), {"infer", "caption", "--images", "d", "--pretrained", weights});
    return parse_command(more);
  };
  EXPECT_EQ(caption(file).infer->model, "ViT-B-32");
  EXPECT_EQ(caption(file).infer->image_mean, std::vector<double>{0.5});
  EXPECT_EQ(caption(file).infer->image_fill_color, 7);
  EXPECT_TRUE(caption(file).warnings.empty());
  EXPECT_EQ(caption((folder.path() / "checkpoints/epoch_latest.pt").string()).infer->model, "ViT-B-32");
  EXPECT_EQ(caption(file, {"--model", "RN101"}).infer->model, "RN101");
  const ParsedCommand unknown = caption((folder.path() / "other/epoch_3.pt").string());
  EXPECT_EQ(unknown.infer->model, "RN50");
  ASSERT_EQ(unknown.warnings.size(), 1u);
  EXPECT_TRUE(holds(unknown.warnings[0], "no --model given: RN50 is assumed for the weights")) << unknown.warnings[0];
  EXPECT_FALSE(parse_command(Args{"infer", "classify", "--images", "d", "--pretrained", file, "--classnames", "c"})
                   .infer->asks_weights);
  const auto train = [](const std::string& weights) {
    return parse_command(Args{"train", "clip", "--train-data", "a.tar", "--pretrained", weights});
  };
  EXPECT_EQ(train(file).task->options().task, "clip");
  EXPECT_EQ(options_as<ContrastiveOptions>(*train(file).task).model, "ViT-B-32");
  EXPECT_TRUE(train(file).warnings.empty());
  ASSERT_EQ(train((folder.path() / "other/epoch_3.pt").string()).warnings.size(), 1u);
  const std::string refused = line_error("ckpt export " + file + " out --names huggingface");
  EXPECT_TRUE(holds(refused, "is of a run of `train clip`, and --names huggingface is of CLAP and GPT")) << refused;
}

TEST(Commands, ExportsOfGpts) {
  const auto is_gpt = [](const Args& args) { return is_gpt_export(*parse_command(args).ckpt); };
  EXPECT_TRUE(is_gpt({"ckpt", "export", "a", "b", "--names", "huggingface"}));
  EXPECT_TRUE(is_gpt({"ckpt", "export", "a", "b", "--names", "huggingface", "--model", "gpt2"}));
  EXPECT_TRUE(is_gpt({"ckpt", "convert", "a", "b.safetensors", "--names", "megatron"}));
  EXPECT_FALSE(
      is_gpt({"ckpt", "export", "a", "b.safetensors", "--names", "huggingface", "--model", "HTSAT-tiny-Roberta-base"}));
  EXPECT_FALSE(is_gpt({"ckpt", "export", "a", "b"}));
  EXPECT_TRUE(holds(line_error("ckpt export a b.safetensors --names huggingface"),
                    "contradicts the file name 'b.safetensors'\n  hint: name a folder"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --names megatron"), "hint: name a file that ends in .safetensors"));
  for (const char* line : {"ckpt export a b.safetensors --with-optimizer", "ckpt export a b --with-optimizer",
                           "ckpt export a b.pt --format safetensors --with-optimizer"})
    EXPECT_TRUE(holds(line_error(line), "writes a training checkpoint of OpenCLIP")) << line;
  EXPECT_EQ(line_error("ckpt export a b.pt --with-optimizer"), "");
  EXPECT_TRUE(holds(line_error("ckpt export a b --names huggingface --prefix module"), "contradicts --prefix module"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --names huggingface --format openclip-pt"),
                    "contradicts --format openclip-pt"));
  EXPECT_TRUE(holds(line_error("ckpt export a b --tokenizer-model t.json"),
                    "--tokenizer-model is for a GPT with --names huggingface"));
}

TEST(Commands, UnknownAndLaterCommands) {
  EXPECT_TRUE(holds(line_error("trian clip"), "'trian' is no command"));
  EXPECT_TRUE(holds(line_error("trian clip"), "did you mean `lockstep train`?"));
  EXPECT_TRUE(
      holds(line_error("train"), "'train' needs another word\n  hint: write `lockstep train` followed by clip"));
  EXPECT_TRUE(holds(line_error("train --lr 1"), "'train' needs another word"));
  EXPECT_TRUE(
      holds(line_error("train clib"), "'train clib' is no command\n  hint: did you mean `lockstep train clip`?"));
  EXPECT_TRUE(holds(line_error("ckpt list a b"), "one call takes DIR and flags"));
  EXPECT_TRUE(holds(line_error("train clip a.tar"), "quote patterns such as"));
  EXPECT_TRUE(holds(line_error("ckpt lost d"), "did you mean `lockstep ckpt list`?"));
  EXPECT_TRUE(holds(line_error("clip --lr 1"), "'clip' is no command\n  hint: did you mean `lockstep train clip`?"));
  EXPECT_TRUE(holds(line_error("python -m open_clip_train.main --lr 1"),
                    "`lockstep train clip` takes the flags that follow open_clip_train.main"));
  EXPECT_TRUE(holds(line_error("nonsense"), "`lockstep --help` lists all commands"));
  EXPECT_THROW(parse_command(Args{}), UsageError);
  for (const CommandInfo& info : command_table()) {
    if (info.is_implemented) continue;
    EXPECT_TRUE(holds(line_error(info.name), "`lockstep " + info.name + "` is not in this version yet")) << info.name;
  }
}

TEST(Commands, OtherCommandsKeepTheirArguments) {
  const ParsedCommand launch = parse_command(Args{"launch", "--nproc-per-node", "2", "--", "train", "clip", "--bogus"});
  EXPECT_EQ(launch.info->half, Half::kFront);
  EXPECT_EQ(launch.rest, (Args{"--nproc-per-node", "2", "--", "train", "clip", "--bogus"}));
  EXPECT_FALSE(launch.set.has_value());
}

TEST(Commands, HelpIsNotChecked) {
  const ParsedCommand help = parse_command(Args{"train", "clip", "--bogus", "--help"});
  EXPECT_TRUE(help.wants_help);
}

TEST(Commands, ParsedCommandsMayMove) {
  ParsedCommand first = parse_command(Args{"infer", "embed", "--pretrained", "w", "--images", "d", "-o", "x"});
  const ParsedCommand second = std::move(first);
  second.infer->output = "y";
  EXPECT_EQ(second.set->find("output")->value_text(), "y");
}

}  // namespace
}  // namespace lockstep::commands
