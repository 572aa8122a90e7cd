#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "support/error_text.h"

namespace lockstep::tests {
namespace {

using core::Json;

void expect_narrow(const std::string& text) {
  for (const std::string& line : core::split(text, "\n")) EXPECT_LE(line.size(), 80u) << line;
}

std::filesystem::path write_text(const core::TempDir& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path() / name) << text;
  return folder.path() / name;
}

/// A folder with a copy of the program and, as its engine, a script that shows how it was started and exits with 42.
class FakeEngine {
 public:
  FakeEngine() {
    std::filesystem::copy_file(lockstep_program(), program());
    const auto script =
        write_text(folder_, "lockstep-engine",
                   "#!/bin/sh\nfor word in \"$@\"; do echo \"arg=$word\"; done\necho \"path=$LD_LIBRARY_PATH\"\n"
                   "echo \"caller=${LOCKSTEP_CALLER_LD_LIBRARY_PATH-unset}\"\necho \"pid=$$\"\nexit 42\n");
    chmod(script.c_str(), 0755);
  }
  std::string program() const { return folder_.path() / "lockstep"; }
  std::filesystem::path path() const { return folder_.path(); }
  /// A site-packages folder whose LibTorch states this version.
  std::filesystem::path make_torch(const std::string& version) const {
    const auto site = folder_.path() / "site";
    std::filesystem::create_directories(site / "torch" / "lib");
    std::filesystem::create_directories(site / "nvidia" / "nccl" / "lib");
    for (const char* name : {"libtorch_cpu.so", "libtorch_cuda.so"}) std::ofstream(site / "torch" / "lib" / name) << "";
    std::ofstream(site / "torch" / "version.py") << "__version__ = '" << version << "'\n";
    return site;
  }

 private:
  core::TempDir folder_;
};

/// The LibTorch release that the program was built for, or "" without an engine.
std::string built_torch_release() {
  const Json version = Json::parse(run_lockstep({"--version", "--json"}).out);
  if (version["libtorch"].is_null()) return "";
  return core::split(version["libtorch"].get<std::string>(), "+")[0];
}

TEST(OptionCommands, OverviewAndHelpAreNarrowAndComplete) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{{}, {"--help"}, {"help"}}) {
    const ProgramResult result = run_lockstep(args);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(holds(result.out, "train clip"));
    EXPECT_FALSE(holds(result.out, "reshard")) << "commands of later versions must not be listed";
    EXPECT_EQ(result.err, "");
    expect_narrow(result.out);
  }
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"train", "--help"},
                                             {"train", "clip", "--help"},
                                             {"train", "imagenet", "--help"},
                                             {"data", "--help"},
                                             {"sweep", "--help"},
                                             {"profile", "train", "clip", "--help"},
                                             {"infer", "embed", "-h"},
                                             {"infer", "classify", "--help"},
                                             {"ckpt", "list", "--help"},
                                             {"ckpt", "export", "--help"},
                                             {"config", "--help"},
                                             {"config", "show", "--help"},
                                             {"config", "compare", "--help"},
                                             {"config", "reference", "--help"}}) {
    const ProgramResult result = run_lockstep(args);
    EXPECT_EQ(result.exit_code, 0) << core::join(args, " ") << result.err;
    EXPECT_TRUE(holds(result.out, "Usage: lockstep " + args[0])) << core::join(args, " ");
    expect_narrow(result.out);
  }
}

TEST(OptionCommands, HelpMayStandBeforeItsCommand) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train"}, {"train", "imagenet"}, {"data", "to-lmdb"}, {"doctor"}}) {
    std::vector<std::string> before = words, behind = words;
    before.insert(before.begin(), "help");
    behind.emplace_back("--help");
    const ProgramResult result = run_lockstep(before);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, run_lockstep(behind).out);
    EXPECT_TRUE(holds(result.out, "Usage: lockstep " + core::join(words, " "))) << result.out;
  }
  EXPECT_EQ(run_lockstep({"help", "tarin"}).exit_code, 2);
}

TEST(OptionCommands, VersionNamesTheOldestCLibrary) {
  const ProgramResult result = run_lockstep({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  expect_narrow(result.out);
  const Json json = Json::parse(run_lockstep({"--version", "--json"}).out);
  for (const char* key : {"version", "commit", "libtorch", "cuda", "nccl", "glibc_min"})
    EXPECT_TRUE(json.contains(key)) << key;
  const std::string glibc = json["glibc_min"];
  EXPECT_EQ(glibc.substr(0, 2), "2.");
  EXPECT_TRUE(holds(result.out, "glibc     " + glibc + " or newer"));
  EXPECT_TRUE(holds(result.out, json["commit"].get<std::string>()));
}

TEST(OptionCommands, UsageErrorsEndWithTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"ckpt", "reshard"}, "`lockstep ckpt reshard` is not in this version yet"},
      {{"trian"}, "'trian' is no command\n  hint: did you mean `lockstep train`?"},
      {{"train"}, "'train' needs another word"},
      {{"train", "clip", "--bacth-size", "8"},
       "--bacth-size is unknown to 'train clip'\n  hint: did you mean --batch-size?"},
      {{"train", "clip", "--batch-size", "x"},
       "--batch-size got 'x', expected an integer >= 1 and <= 1000000000 (samples per rank)"},
      {{"train", "clip", "--horovod"}, "--horovod is not supported"},
      {{"train", "clip", "--mock-data"},
       "--mock-data is not supported: made-up input has another name here\n  hint: use --dataset-type synthetic"},
      {{"train", "clap", "--outdir", "x"}, "hint: use --logs DIR --name NAME"},
      {{"train", "gpt", "--output_dir", "x"}, "hint: use --logs DIR --name NAME"},
      {{"train", "gpt", "--gpus-per-node", "4"}, "hint: start them with `lockstep launch"},
      {{"train", "clip"}, "there is nothing to do"},
      {{"infer", "embed"}, "needs --images DIR, --texts FILE or --shards SPEC"},
      {{"ckpt", "export", "x"}, "needs OUT"},
      {{"config", "compare", "/a.toml"}, "needs SECOND"},
      {{"config", "compare", "/a.toml", "/b.toml"}, "recipe '/a.toml' does not exist"},
      {{"config", "compare", "/a.toml", "/b.toml", "--for", "tarin"}, "--for got 'tarin'"},
      {{"config", "show", "data"}, "has no recipe options"},
  };
  for (const auto& [args, message] : cases) {
    const ProgramResult result = run_lockstep(args);
    EXPECT_EQ(result.exit_code, 2) << core::join(args, " ");
    EXPECT_EQ(result.err.rfind("lockstep: error: ", 0), 0u) << result.err;
    EXPECT_TRUE(holds(result.err, message)) << result.err;
    EXPECT_TRUE(holds(result.err, "\n  hint: ")) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(OptionCommands, ANameInAnErrorBeginsNoLineOnTheTerminal) {
  const std::string name = "a\n  hint: run this\n2026-01-31,12:00:00 | INFO | done";
  const std::vector<std::vector<std::string>> commands = {{"report", "/nowhere/" + name},
                                                          {"train", "clip", "--lr", name}};
  for (const auto& args : commands) {
    const ProgramResult result = run_lockstep(args);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(holds(result.err, "a\\u000a  hint: run this\\u000a2026-01-31,12:00:00 | INFO | done")) << result.err;
    EXPECT_FALSE(holds(result.out + result.err, "\n  hint: run this")) << result.err;
    EXPECT_FALSE(holds(result.out + result.err, "\n2026")) << result.err;
  }
}

TEST(OptionCommands, AnErrorIsLeftForTheLauncher) {
  const core::TempDir folder;
  const auto file = folder.path() / "error.json";
  EXPECT_EQ(run_lockstep({"train", "clip", "--lr", "x"}, {{"TORCHELASTIC_ERROR_FILE", file.string()}}).exit_code, 2);
  EXPECT_TRUE(holds(core::read_json_file(file)["message"]["message"], "--lr got 'x'"));
}

TEST(OptionCommands, ShowTellsWhereValuesComeFrom) {
  const core::TempDir folder;
  const auto recipe = write_text(folder, "r.toml", "# comment\nbatch-size = 32\nmodel = \"ViT-B-32\"\n");
  const Json json =
      Json::parse(run_lockstep({"config", "show", "--json", "--config", recipe.string(), "--batch_size", "16"}).out);
  EXPECT_EQ(json["batch_size"], (Json{{"value", 16}, {"from", "command line"}}));
  EXPECT_EQ(json["model"], (Json{{"value", "ViT-B-32"}, {"from", recipe.string() + ":3"}}));
  EXPECT_EQ(json["beta2"], (Json{{"value", 0.98}, {"from", "from the model name"}}));
  EXPECT_EQ(json["epochs"], (Json{{"value", 32}, {"from", "default"}}));
  const ProgramResult text = run_lockstep({"config", "show", "train", "clip", "--epochs", "3"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(holds(text.out, "command line\n"));
  EXPECT_EQ(run_lockstep({"config", "show", recipe.string()}).out,
            run_lockstep({"config", "show", "--config", recipe.string()}).out);
}

TEST(OptionCommands, ShowPrintsWhatDiffersAsARecipeThatLoadsBack) {
  const core::TempDir folder;
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"clip", "--local-loss", "--lr", "1e-6", "--model", "ViT-B-32", "--image-mean", "0.5",
                                 "0.5", "0.5", "--csv-separator", "\t", "--grad-clip-norm", "1", "--no-debug"},
        {"gpt", "--model", "gpt2", "--bf16", "--save", "/runs/a \"quoted\" one", "--load", "/other/run", "--split",
         "9,1,0", "--data-path", "0.3", "/d/a", "0.7", "/d/b", "--tensorboard-dir", "/tb"}}) {
    std::vector<std::string> show = {"config", "show", "train"};
    show.insert(show.end(), flags.begin(), flags.end());
    const ProgramResult shown = run_lockstep(show);
    ASSERT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_FALSE(holds(shown.out, "seed = ")) << shown.out;
    show.insert(show.begin() + 2, "--all");
    const ProgramResult all = run_lockstep(show);
    EXPECT_TRUE(holds(all.out, "\n# seed = ")) << all.out;
    show[2] = "--json";
    Json expected = Json::parse(run_lockstep(show).out);
    for (const std::string& text : {shown.out, all.out}) {
      const auto recipe = write_text(folder, flags[0] + "_shown.toml", text);
      const ProgramResult again = run_lockstep({"config", "show", "--json", recipe.string()});
      ASSERT_EQ(again.exit_code, 0) << again.err << text;
      const Json read = Json::parse(again.out);
      expected.erase("config");
      for (const auto& [name, option] : expected.items())
        EXPECT_EQ(read.at(name).at("value"), option.at("value")) << name << "\n" << text;
    }
  }
}

TEST(OptionCommands, CompareShowsWhatDiffers) {
  const core::TempDir folder;
  const auto first = write_text(folder, "a.toml", "batch-size = 32\nlr = 1e-3\n"),
             second = write_text(folder, "b.toml", "batch_size = 64\nlr = 1e-3\n");
  const Json json = Json::parse(run_lockstep({"config", "compare", first, second, "--json"}).out);
  EXPECT_EQ(json, (Json{{"batch_size", {{"first", 32}, {"second", 64}}}}));
  EXPECT_TRUE(holds(run_lockstep({"config", "compare", first, second}).out, "batch-size"));
  EXPECT_TRUE(holds(run_lockstep({"config", "compare", first, first}).out, "same options"));
  core::write_file_atomic(
      folder.path() / "run.json",
      R"({"record_version": 1, "attempts": [{"attempt": 1, "options": {"batch_size": 64, "lr": 0.001}}]})");
  const Json with_run = Json::parse(run_lockstep({"config", "compare", first, folder.path().string(), "--json"}).out);
  EXPECT_EQ(with_run["batch_size"], (Json{{"first", 32}, {"second", 64}}));
  EXPECT_FALSE(with_run.contains("lr"));
  EXPECT_TRUE(holds(run_lockstep({"config", "show", folder.path().string()}).out, "batch-size"));
}

TEST(OptionCommands, ARunThatWasEvaluatedShowsTheOptionsOfItsTraining) {
  const core::TempDir folder;
  const auto write = [&](const char* attempts) {
    core::write_file_atomic(folder.path() / "run.json",
                            fmt::format(R"({{"record_version": 1, "attempts": [{}]}})", attempts));
    return run_lockstep({"config", "show", folder.path().string()}).out;
  };
  const std::string trained = write(
      R"({"attempt": 1, "task": "imagenet", "options": {"evaluate": false, "lr": 0.5}},
         {"attempt": 2, "task": "imagenet", "options": {"evaluate": true, "lr": 0.25}})");
  EXPECT_TRUE(holds(trained, "lr = 0.5")) << trained;
  EXPECT_FALSE(holds(trained, "0.25") || holds(trained, "evaluate")) << trained;
  const std::string only = write(R"({"attempt": 1, "task": "imagenet", "options": {"evaluate": true, "lr": 0.25}})");
  EXPECT_TRUE(holds(only, "lr = 0.25") && holds(only, "evaluate = true")) << only;
}

/// A recipe cannot name the argument DIR of `train imagenet`, so it names what follows from it.
TEST(OptionCommands, RecipesOfImagenetNameTheDataThatAnArgumentGave) {
  const core::TempDir folder;
  const ProgramResult shown = run_lockstep({"config", "show", "train", "imagenet", "d", "-b", "128"});
  const auto recipe = write_text(folder, "show.toml", shown.out);
  const std::vector<std::string> flags{"config", "show", "--json", "train", "imagenet", "--config"};
  std::vector<std::string> again = flags;
  again.push_back(recipe.string());
  const Json options = Json::parse(run_lockstep(again).out);
  EXPECT_EQ(options["train_data"]["value"], "d/train") << shown.out;
  EXPECT_EQ(options["val_data"]["value"], "d/val") << shown.out;
  EXPECT_EQ(options["batch_size"]["value"], 128) << shown.out;

  core::write_file_atomic(folder.path() / "run.json", R"({"record_version": 1, "attempts": [{"attempt": 1,
      "task": "imagenet", "options": {"data": "d", "train_data": "d/train", "val_data": "d/val", "epochs": 2}}]})");
  const ProgramResult run = run_lockstep({"config", "show", folder.path().string()});
  again.back() = write_text(folder, "run.toml", run.out).string();
  const ProgramResult from_run = run_lockstep(again);
  ASSERT_EQ(from_run.exit_code, 0) << run.out << from_run.err;
  EXPECT_EQ(Json::parse(from_run.out)["train_data"]["value"], "d/train") << run.out;
  EXPECT_EQ(Json::parse(from_run.out)["epochs"]["value"], 2) << run.out;
}

TEST(OptionCommands, ShowTakesTheCommandBehindDashesToo) {
  const ProgramResult behind = run_lockstep({"config", "show", "--", "train", "imagenet", "-b", "128"});
  EXPECT_EQ(behind.exit_code, 0) << behind.err;
  EXPECT_EQ(behind.out, run_lockstep({"config", "show", "train", "imagenet", "-b", "128"}).out);
}

TEST(OptionCommands, TheReferenceSaysWhyFlagsChangeNothing) {
  const std::string text = run_lockstep({"config", "reference"}).out;
  const std::string markdown = run_lockstep({"config", "reference", "--format", "markdown"}).out;
  EXPECT_TRUE(holds(text, "Known and without effect\n  --"));
  EXPECT_TRUE(holds(text, "  --transformer-impl\n      "));
  EXPECT_TRUE(holds(text, "  --context-parallel-size\n      "));
  EXPECT_FALSE(holds(markdown, "taken with ``"));
}

TEST(OptionCommands, DevicesThatAreNotHereAreToldWithAllElse) {
  const core::TempDir machine;
  const ProgramResult result =
      run_lockstep({"train", "gpt", "--model", "gpt2", "--device", "cuda", "--distributed-backend", "nccl"},
                   {{"LOCKSTEP_SYSTEM_ROOT", machine.path().string()}});
  EXPECT_EQ(result.exit_code, 2);
  for (const char* part :
       {"--device cuda was asked for, and this machine shows no GPU",
        "--distributed-backend nccl was asked for, and this machine shows no GPU", "use --distributed-backend gloo",
        "--lr is not given", "options: 5 things are wrong:\n  how long"})
    EXPECT_TRUE(holds(result.err, part)) << result.err;
}

TEST(OptionCommands, TheReferenceInDocsIsCurrent) {
  namespace fs = std::filesystem;
  const core::TempDir folder("reference");
  ASSERT_EQ(run_lockstep({"config", "reference", "--output", folder.path().string()}).exit_code, 0);
  const fs::path docs = fs::path(LOCKSTEP_SOURCE_DIR) / "docs";
  const auto pages = [](const fs::path& root) {
    std::map<std::string, std::string> found{{"options.md", core::read_file((root / "options.md").string())}};
    for (const auto& entry : fs::directory_iterator(root / "options"))
      found[entry.path().filename().string()] = core::read_file(entry.path().string());
    return found;
  };
  const auto written = pages(folder.path()), kept = pages(docs);
  EXPECT_TRUE(holds(written.at("train_clip.md"), "--gather-with-grad"));
  const std::map<std::string, std::string> flag_of_page{{"sweep_run.md", "--submit"},
                                                        {"sweep_collect.md", "--json"},
                                                        {"predict.md", "--nodes"},
                                                        {"config_show.md", "--all"},
                                                        {"config_reference.md", "--metrics"}};
  for (const auto& [name, flag] : flag_of_page)
    EXPECT_TRUE(written.contains(name) && holds(written.at(name), flag)) << name;
  const std::string& index = written.at("options.md");
  EXPECT_TRUE(holds(index, "`profile train TASK`"));
  EXPECT_EQ(index.find("options/train_imagenet.md"), index.rfind("options/train_imagenet.md")) << "listed once";
  for (const auto& [name, text] : written)
    EXPECT_TRUE(kept.contains(name) && kept.at(name) == text)
        << "docs/options/" << name << " is not current; write it again: build/lockstep config reference --output docs";
  EXPECT_EQ(written.size(), kept.size()) << "docs/options has pages of commands that there are not";
}

TEST(OptionCommands, EveryTrainingFlagOfOpenClipIsToldAndFewAreRefused) {
  const std::string root = LOCKSTEP_SOURCE_DIR;
  const std::string page = core::read_file(root + "/docs/options/openclip_flags.md");
  size_t num_flags = 0, at = 0;
  for (const std::string& name : core::split(core::read_file(root + "/tests/golden/openclip_flags/3.3.0.txt"), "\n")) {
    if (name.empty()) continue;
    ++num_flags;
    const size_t found = page.find("- `--" + name + "`: ", at);
    ASSERT_NE(found, std::string::npos) << name << " is missing, says nothing, or stands in another order";
    at = found + name.size();
  }
  EXPECT_EQ(num_flags, 90u);
  size_t num_refused = 0;
  for (size_t i = page.find("`: Refused"); i != std::string::npos; i = page.find("`: Refused", i + 1)) ++num_refused;
  EXPECT_LE(num_refused, 15u);
  EXPECT_GT(num_refused, 0u);
}

TEST(OptionCommands, TheMetricsInDocsAreCurrent) {
  const ProgramResult result = run_lockstep({"config", "reference", "--metrics", "--format", "markdown"});
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_TRUE(holds(result.out, "`karp_flatt`"));
  EXPECT_EQ(result.out, core::read_file(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/metrics.md"))
      << "write it again: build/lockstep config reference --metrics --format markdown > docs/metrics.md";
  const Json list = Json::parse(run_lockstep({"config", "reference", "--metrics", "--json"}).out);
  EXPECT_GT(list.size(), 80u);
  EXPECT_EQ(list[0]["source"], "steps.jsonl");
  EXPECT_TRUE(holds(run_lockstep({"config", "reference", "--metrics"}).out, "step_p99_ms"));
}

TEST(OptionCommands, EveryRecipeInTheRepositoryIsRead) {
  size_t num_recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(LOCKSTEP_SOURCE_DIR) + "/recipes")) {
    if (entry.path().extension() != ".toml") continue;
    ++num_recipes;
    const ProgramResult result = run_lockstep({"config", "show", "--config", entry.path().string()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_GT(num_recipes, 0u);
}

TEST(OptionCommands, DryRunComputesWithoutTensors) {
  const EnvChanges alone = {{"RANK", std::nullopt}, {"WORLD_SIZE", std::nullopt}, {"SLURM_STEP_ID", std::nullopt}};
  const std::vector<std::string> args = {"train",
                                         "clip",
                                         "--train-data",
                                         "d-{0..9}.tar",
                                         "--model",
                                         "ViT-B-32",
                                         "--train-num-samples",
                                         "1000000",
                                         "--batch-size",
                                         "256",
                                         "--accum-freq",
                                         "2",
                                         "--epochs",
                                         "3",
                                         "--dry-run",
                                         "--world-size",
                                         "8"};
  std::vector<std::string> json_args = args;
  json_args.emplace_back("--json");
  const Json json = Json::parse(run_lockstep(json_args, alone).out);
  EXPECT_EQ(json["world_size"], 8);
  EXPECT_EQ(json["global_batch"], 4096);
  EXPECT_EQ(json["steps_per_epoch"], 245);
  EXPECT_EQ(json["total_steps"], 735);
  EXPECT_EQ(json["parameters"], 151277313);
  EXPECT_GE(json["gradient_bytes"], 151277313 * 4);
  EXPECT_GT(json["gradient_buckets"], 10);
  EXPECT_EQ(json["options"]["beta2"], 0.98);
  const ProgramResult text = run_lockstep(args, alone);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(holds(text.out, "4096 samples"));
  std::vector<std::string> misfit = args;
  misfit.insert(misfit.end(), {"--global-batch-size", "1000"});
  EXPECT_EQ(run_lockstep(misfit, alone).exit_code, 2);
}

TEST(OptionCommands, DryRunSaysHowToFetchWeightsThatAreMissing) {
  const core::TempDir home;
  const auto dry_run = [&](const std::string& weights) {
    return run_lockstep({"train", "clip", "--dataset-type", "synthetic", "--train-num-samples", "1000", "--model",
                         "ViT-B-32", "--pretrained", weights, "--dry-run"},
                        {{"HF_HOME", home.path().string()}, {"HOME", home.path().string()}});
  };
  for (const char* weights : {"laion2b_s34b_b79k", "laion9b"}) EXPECT_EQ(dry_run(weights).exit_code, 2) << weights;
  const std::string known = words_of(dry_run("laion2b_s34b_b79k").out), unknown = words_of(dry_run("laion9b").out);
  EXPECT_TRUE(holds(known, "`hf download laion/CLIP-ViT-B-32-laion2B-s34B-b79K`")) << known;
  EXPECT_TRUE(holds(unknown, "'laion9b' does not exist")) << unknown;
  EXPECT_TRUE(holds(unknown, "tags of model 'ViT-B-32': openai")) << unknown;
}

TEST(OptionCommands, DryRunPlansTheMemoryOfARankAndWhetherItFits) {
  const auto dry_run = [](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train",       "clip",     "--dataset-type", "synthetic",    "--train-num-samples",
                                     "1000",        "--model",  "ViT-B-32",       "--batch-size", "256",
                                     "--precision", "amp_bf16", "--dry-run",      "--world-size", "8"};
    args.insert(args.end(), more.begin(), more.end());
    return run_lockstep(args);
  };
  const Json unknown = Json::parse(dry_run({"--json"}).out);
  const Json& plan = unknown.at("memory_per_rank_bytes");
  EXPECT_EQ(plan.at("parameters"), 151277313 * 4);
  EXPECT_EQ(plan.at("optimizer"), 2 * 151277313 * int64_t{4});
  int64_t total = 0;
  for (const char* part : {"parameters", "gradients", "optimizer", "activations", "batch", "logits"}) {
    EXPECT_GT(plan.at(part).get<int64_t>(), 0) << part;
    total += plan.at(part).get<int64_t>();
  }
  EXPECT_NEAR(plan.at("total").get<double>(), static_cast<double>(total), 6);
  EXPECT_TRUE(unknown.at("device_memory").is_null()) << "eight ranks are not here";

  const Json fits = Json::parse(dry_run({"--json", "--device-memory", "h100"}).out).at("device_memory");
  EXPECT_NEAR(fits.at("bytes").get<double>(), 80 * 0.97 * (1 << 30), 1) << "as the driver shows it";
  EXPECT_EQ(fits.at("fits"), true);
  const Json lumi = Json::parse(dry_run({"--json", "--device-memory", "LUMI-G"}).out).at("device_memory");
  EXPECT_EQ(lumi.at("source"), "MI250X GCD");
  const ProgramResult small = dry_run({"--device-memory", "4G"});
  EXPECT_TRUE(holds(small.out, "does not fit: ")) << small.out;
  EXPECT_TRUE(holds(small.out, "of 4.00 GiB (--device-memory)")) << small.out;
  EXPECT_TRUE(holds(small.out, "    activations")) << small.out;
  const Json recomputed = Json::parse(dry_run({"--json", "--grad-checkpointing"}).out).at("memory_per_rank_bytes");
  EXPECT_LT(recomputed.at("activations"), plan.at("activations"));

  EXPECT_EQ(dry_run({"--device-memory", "12"}).exit_code, 2);
  const ProgramResult odd = dry_run({"--device-memory", "Z99"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_TRUE(holds(odd.err, "GH200 96GB")) << odd.err;
  EXPECT_EQ(run_lockstep(
                {"train", "clip", "--device-memory", "64G", "--dataset-type", "synthetic", "--train-num-samples", "8"})
                .exit_code,
            2);

  const Json here =
      Json::parse(run_lockstep({"launch", "--nproc-per-node", "2", "--", "train", "clip", "--dataset-type", "synthetic",
                                "--train-num-samples", "1000", "--model", "ViT-B-32", "--batch-size", "16", "--dry-run",
                                "--device", "cpu", "--json"})
                      .out);
  EXPECT_GT(here.at("device_memory").at("bytes").get<int64_t>(), 0);
  EXPECT_TRUE(holds(here.at("device_memory").at("source").get<std::string>(), "each of 2 ranks"));
}

TEST(DryRun, EveryTaskDoubtsRoomByTheSameRule) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> tasks{
      {"clip", {"--model", "ViT-B-32", "--dataset-type", "synthetic", "--train-num-samples", "1000"}},
      {"clap", {"--model", "HTSAT-tiny-Roberta-base", "--dataset-type", "synthetic", "--train-num-samples", "1000"}},
      {"imagenet", {"--dummy"}},
      {"gpt", {"--model", "gpt2", "--mock-data", "--train-iters", "1", "--global-batch-size", "1"}}};
  for (const auto& [task, flags] : tasks) {
    const auto planned = [&](int64_t device_bytes) {
      std::vector<std::string> args{"train", task, "--dry-run", "--json", "--world-size", "1"};
      args.insert(args.end(), flags.begin(), flags.end());
      args.insert(args.end(), {"--device-memory", std::to_string(device_bytes)});
      const ProgramResult result = run_lockstep(args);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return core::parse_json(result.out, "dry run");
    };
    const Json large = planned(int64_t{1} << 45);
    const auto bytes =
        static_cast<int64_t>(task == "gpt" ? large.at("memory_bytes").get<double>()
                                           : large.at("memory_per_rank_bytes").at("total").get<double>());
    const auto room = [&](int64_t device_bytes) {
      const Json device = planned(device_bytes).at("device_memory");
      return std::pair(device.at("fits").get<bool>(), device.at("is_doubtful").get<bool>());
    };
    EXPECT_EQ(room(bytes / 8 * 10), std::pair(true, false)) << task;
    EXPECT_EQ(room(bytes / 92 * 100), std::pair(true, true)) << task;
    EXPECT_EQ(room(bytes - 8), std::pair(false, false)) << task;
  }
}

TEST(OptionCommands, Zero1DividesTheMemoryOfTheOptimiser) {
  const auto plan = [](std::vector<std::string> more, const std::string& ranks) {
    std::vector<std::string> args = {"train",     "clip",    "--dataset-type", "synthetic",   "--train-num-samples",
                                     "1000",      "--model", "ViT-B-32",       "--precision", "bf16_master",
                                     "--dry-run", "--json",  "--world-size",   ranks};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(run_lockstep(args).out);
  };
  constexpr int64_t kParameters = 151277313;
  const Json ddp = plan({}, "4"), zero1 = plan({"--grad-sync", "zero1"}, "4"),
             megatron = plan({"--use-distributed-optimizer"}, "4");
  EXPECT_EQ(ddp["memory_per_rank_bytes"]["masters"], 4.0 * kParameters);
  EXPECT_EQ(ddp["memory_per_rank_bytes"]["optimizer"], 8.0 * kParameters);
  EXPECT_NEAR(zero1["memory_per_rank_bytes"]["masters"], 1.0 * kParameters, 1);
  EXPECT_NEAR(zero1["memory_per_rank_bytes"]["optimizer"], 2.0 * kParameters, 1);
  EXPECT_EQ(megatron["memory_per_rank_bytes"], zero1["memory_per_rank_bytes"]);
  EXPECT_EQ(megatron["options"]["grad_sync"], "zero1");
  const double wide = plan({"--accumulate-allreduce-grads-in-fp32"}, "4")["gradient_bytes"];
  EXPECT_NEAR(wide, 2 * ddp["gradient_bytes"].get<double>(), 1e5);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--use-distributed-optimizer", "--grad-sync", "ddp"},
        {"--accumulate-allreduce-grads-in-fp32", "--precision", "fp32"}}) {
    std::vector<std::string> args = {"train", "clip",     "--dataset-type", "synthetic", "--train-num-samples",
                                     "1000",  "--dry-run"};
    args.insert(args.end(), wrong.begin(), wrong.end());
    const auto refused = run_lockstep(args);
    EXPECT_EQ(refused.exit_code, 2) << wrong[0];
    EXPECT_TRUE(holds(refused.err, wrong[0])) << refused.err;
  }
}

TEST(OptionCommands, ADryRunOnDataThatCannotBeUsedEndsAsTheRunWould) {
  const core::TempDir folder;
  std::filesystem::create_directories(folder.path() / "train/ant");
  const std::string train = folder.path() / "train";
  const std::vector<std::string> args = {"train", "imagenet", "--train-data", train, "--dry-run"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = args;
    words.insert(words.end(), more.begin(), more.end());
    return run_lockstep(words);
  };
  const auto refused = with({});
  EXPECT_EQ(refused.exit_code, 4) << refused.out;
  EXPECT_TRUE(holds(refused.err, "class folder '" + train + "/ant' holds no picture")) << refused.err;
  EXPECT_TRUE(holds(refused.out, "memory of a rank")) << "the plan all the same: " << refused.out;
  const auto json = with({"--json"});
  EXPECT_EQ(json.exit_code, 4);
  EXPECT_TRUE(Json::parse(json.out).contains("memory_per_rank_bytes"));
  const auto elsewhere = with({"--world-size", "4"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_TRUE(holds(core::replace_all(elsewhere.out, "\n", " "), "holds no picture")) << elsewhere.out;
}

TEST(OptionCommands, ADryRunWithOtherClassesThanFoldersEndsAsTheRunWould) {
  const core::TempDir folder;
  for (const char* name : {"ant", "bee"}) std::filesystem::create_directories(folder.path() / "val" / name);
  const std::string names = folder.path() / "names.txt", val = folder.path() / "val";
  const auto dry_run = [&](const std::string& lines, const std::vector<std::string>& more) {
    core::write_file_atomic(names, lines);
    std::vector<std::string> words = {
        "train", "clip",      "--dataset-type", "synthetic", "--train-num-samples", "1000", "--imagenet-val",
        val,     "--dry-run", "--classnames",   names};
    words.insert(words.end(), more.begin(), more.end());
    return run_lockstep(words);
  };
  const auto refused = dry_run("ant\nbee\ncat\n", {});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_TRUE(holds(refused.err, "has 2 class folders, but there are 3 class names")) << refused.err;
  EXPECT_TRUE(holds(refused.out, "memory of a rank")) << "the plan all the same: " << refused.out;
  EXPECT_EQ(dry_run("bee\nant\n", {}).exit_code, 2) << "another order";
  EXPECT_EQ(dry_run("bee\nant\n", {"--zeroshot-frequency", "0"}).exit_code, 0) << "the run does not look at them";
  EXPECT_EQ(dry_run("ant\nbee\n", {}).exit_code, 0);
}

/// NVIDIA's table of NeMo CLIP on DGX nodes: micro-batch and global batch on 32 GPUs of 80 GB.
TEST(OptionCommands, RecipesOfLargeClipModelsFitTheirDevices) {
  struct Row {
    const char* file;
    int64_t micro, global;
  };
  for (const Row& row : {Row{"clip_vitb32_dgx.toml", 500, 16000}, Row{"clip_vith14_dgx.toml", 112, 3584},
                         Row{"clip_vitg14_dgx.toml", 80, 2560}}) {
    const auto result =
        run_lockstep({"train", "clip", "--config", std::string(LOCKSTEP_SOURCE_DIR) + "/recipes/" + row.file,
                      "--dry-run", "--json", "--world-size", "32"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["micro_batch_size"], row.micro);
    EXPECT_EQ(json["global_batch"], row.global);
    EXPECT_EQ(json["precision"], "bf16_master");
    EXPECT_LT(json["memory_per_rank_bytes"]["total"].get<double>(), 80e9) << row.file;
    EXPECT_NEAR(json["memory_per_rank_bytes"]["masters"].get<double>() * 32, 4 * json["parameters"].get<double>(), 100);
  }
}

TEST(OptionCommands, ADryRunInTheShellOfASlurmJobWarnsAsTheRunDoes) {
  const auto warnings_with = [](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"train",        "clip", "--dataset-type", "synthetic", "--train-num-samples", "64",
                                     "--batch-size", "4",    "--dry-run",      "--json"};
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramResult result = run_lockstep(
        args, {{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", std::nullopt}, {"RANK", std::nullopt}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out)["warnings"].dump();
  };
  const std::string warnings = warnings_with({});
  EXPECT_TRUE(holds(warnings, "SLURM_NTASKS=8, not a task of srun")) << warnings;
  EXPECT_TRUE(holds(warnings, "--world-size 8 here plans for all of them")) << warnings;
  EXPECT_FALSE(holds(warnings_with({"--world-size", "8"}), "SLURM_NTASKS"));
}

TEST(OptionCommands, AMissingEngineIsAnEnvironmentError) {
  const FakeEngine fake;
  std::filesystem::remove(fake.path() / "lockstep-engine");
  const ProgramResult result = run_program({fake.program(), "ckpt", "export", "a", "b"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_TRUE(holds(result.err, "lockstep-engine' is missing")) << result.err;
}

TEST(OptionCommands, UsageErrorsNeedNoEngine) {
  const FakeEngine fake;
  std::filesystem::remove(fake.path() / "lockstep-engine");
  EXPECT_EQ(run_program({fake.program(), "ckpt", "export", "a", "a"}).exit_code, 2);
  EXPECT_EQ(run_program({fake.program(), "train", "clip", "--help"}).exit_code, 0);
}

TEST(OptionCommands, TheEngineIsExecutedWithLibTorchOnItsPath) {
  const std::string release = built_torch_release();
  const FakeEngine fake;
  const auto site = fake.make_torch(release.empty() ? "1.2.3" : release + "+local");  // which says nothing of CUDA
  const std::string folders = (site / "torch" / "lib").string() + ":" + (site / "nvidia" / "nccl" / "lib").string();
  for (const auto& torch_dir : {site, site / "torch"}) {
    const ProgramResult result = run_program({fake.program(), "ckpt", "export", "a b", "c"},
                                             {{"LOCKSTEP_TORCH_DIR", torch_dir.string()},
                                              {"LD_LIBRARY_PATH", "/caller"},
                                              {"LOCKSTEP_CALLER_LD_LIBRARY_PATH", std::nullopt}});
    if (release.empty()) {  // a build without the engine cannot know which LibTorch fits
      EXPECT_EQ(result.exit_code, 6);
      continue;
    }
    EXPECT_EQ(result.exit_code, 42) << result.err;
    EXPECT_TRUE(holds(result.out, "arg=ckpt\narg=export\narg=a b\narg=c\n")) << result.out;
    EXPECT_TRUE(holds(result.out, "path=" + folders + ":/caller\n")) << result.out;
    EXPECT_TRUE(holds(result.out, "caller=/caller\n")) << result.out;
  }
}

TEST(OptionCommands, AnUnfittingLibTorchIsAnEnvironmentError) {
  if (built_torch_release().empty()) GTEST_SKIP() << "built without lockstep-engine";
  const FakeEngine fake;
  const auto site = fake.make_torch("1.0.0");
  const std::vector<std::string> args = {fake.program(), "ckpt", "export", "a", "b"};
  const ProgramResult other = run_program(args, {{"LOCKSTEP_TORCH_DIR", site.string()}});
  EXPECT_EQ(other.exit_code, 6);
  EXPECT_TRUE(holds(other.err, "has version 1.0.0, expected")) << other.err;
  const ProgramResult empty = run_program(args, {{"LOCKSTEP_TORCH_DIR", (fake.path() / "nowhere").string()}});
  EXPECT_EQ(empty.exit_code, 6);
  EXPECT_TRUE(holds(empty.err, "holds neither lib/libtorch_cpu.so nor torch/lib/libtorch_cpu.so")) << empty.err;
}

TEST(OptionCommands, LibTorchForAnotherCudaIsAnEnvironmentError) {
  const Json version = Json::parse(run_lockstep({"--version", "--json"}).out);
  if (version["cuda"].is_null()) GTEST_SKIP() << "built without CUDA";
  const FakeEngine fake;
  const std::string tag = "+cu" + core::replace_all(version["cuda"].get<std::string>(), ".", "");
  const auto run_with = [&](const std::string& other_tag) {
    const auto site = fake.make_torch(built_torch_release() + other_tag);
    return run_program({fake.program(), "ckpt", "export", "a", "b"}, {{"LOCKSTEP_TORCH_DIR", site.string()}});
  };
  const ProgramResult other = run_with("+cu90");
  EXPECT_EQ(other.exit_code, 6) << other.err;
  EXPECT_TRUE(holds(other.err, "this build needs " + tag + ", found +cu90")) << other.err;
  EXPECT_TRUE(holds(other.err, "cuda-compat-")) << other.err;
  EXPECT_EQ(run_with(tag).exit_code, 42);
  EXPECT_EQ(run_with(tag + ".with.pypi.cudnn").exit_code, 42);
}

TEST(OptionCommands, LibTorchThatIsNowhereIsAnEnvironmentError) {
  if (built_torch_release().empty()) GTEST_SKIP() << "built without lockstep-engine";
  const FakeEngine fake;
  // A real program without a run path stands in for the engine: what it links does not matter, it must not be started.
  std::filesystem::copy_file("/bin/sh", fake.path() / "lockstep-engine",
                             std::filesystem::copy_options::overwrite_existing);
  const ProgramResult result =
      run_program({fake.program(), "ckpt", "export", "a", "b"}, {{"LOCKSTEP_TORCH_DIR", std::nullopt},
                                                                 {"LD_LIBRARY_PATH", std::nullopt},
                                                                 {"XDG_CACHE_HOME", fake.path().string()}});
  EXPECT_EQ(result.exit_code, 6) << result.err;
  EXPECT_TRUE(holds(result.err, "LibTorch (libtorch_cpu.so) is not found")) << result.err;
}

}  // namespace
}  // namespace lockstep::tests
