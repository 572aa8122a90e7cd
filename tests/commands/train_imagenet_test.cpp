// Real runs of `train imagenet` on labelled shapes: staged data, averages of the weights, their checkpoints, weights
// that leave as torchvision has them and come back, and classification with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {
namespace fs = std::filesystem;

/// 56 training and 28 validation pictures as LMDBs, and class folders of others.
class TrainImagenet : public EngineTest {
 protected:
  static void SetUpTestSuite() {
    shared_ = new core::TempDir("lockstep_imagenet");
    const auto made = run_lockstep({"data", "make-shapes", path("shapes"), "--samples", "56", "--val-samples", "28",
                                    "--samples-per-shard", "56", "--image-size", "32"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (const std::string split : {"train", "val"}) {
      const auto done =
          run_lockstep({"data", "to-lmdb", path("shapes/" + split + "-000000.tar"), path(split + ".lmdb")});
      ASSERT_EQ(done.exit_code, 0) << done.err;
    }
  }
  static void TearDownTestSuite() { delete shared_; }
  static std::string path(const std::string& name) { return (shared_->path() / name).string(); }
  std::string logs(const std::string& name = "") const { return (logs_.path() / name).string(); }

  ProgramResult train(const std::string& name, const std::vector<std::string>& more, int num_ranks = 1) const {
    std::vector<std::string> words = {"train",
                                      "imagenet",
                                      "--train-data",
                                      path("train.lmdb"),
                                      "--val-data",
                                      path("val.lmdb"),
                                      "--num-classes",
                                      "28",
                                      "-a",
                                      "resnet18",
                                      "--train-crop-size",
                                      "32",
                                      "-b",
                                      "8",
                                      "-j",
                                      "1",
                                      "--threads",
                                      "1",
                                      "--device",
                                      "cpu",
                                      "--epochs",
                                      "2",
                                      "--lr",
                                      "0.01",
                                      "-p",
                                      "1",
                                      "--logs",
                                      logs(),
                                      "--name",
                                      name};
    words.insert(words.end(), more.begin(), more.end());
    if (num_ranks > 1) words.insert(words.begin(), {"launch", "--nproc-per-node", std::to_string(num_ranks), "--"});
    return run_lockstep(words, {}, std::chrono::minutes(4));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> out;
    for (const auto& step : record::read_steps(logs(name)).steps) out.push_back(step.loss);
    return out;
  }
  core::Json last_result(const std::string& name) const {
    return record::read_json_lines(logs(name) + "/results.jsonl").lines.back();
  }
  std::string checkpoint(const std::string& name, const std::string& step) const {
    for (const auto& entry : fs::directory_iterator(logs(name) + "/checkpoints"))
      if (core::starts_with(entry.path().filename().string(), "step-" + step)) return entry.path().string();
    return "";
  }

  static core::TempDir* shared_;
  core::TempDir logs_;
};
core::TempDir* TrainImagenet::shared_ = nullptr;

TEST_F(TrainImagenet, StagedDataGiveTheSameRun) {
  const std::vector<std::string> two_steps = {"--max-steps",    "2",       "--val-frequency", "0",
                                              "--auto-augment", "ta_wide", "--random-erase",  "0.5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), two_steps.begin(), two_steps.end());
    return more;
  };
  const auto plain = train("plain", with({}));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const auto staged = train("staged", with({"--stage-to", logs("stage")}), 2);
  ASSERT_EQ(staged.exit_code, 0) << staged.err;
  // Rank 0 tells what it did: it copied the data, or found what rank 1 had copied before it.
  const bool has_copied = staged.err.find("copied to '" + logs("stage") + "'") != std::string::npos;
  EXPECT_TRUE(has_copied || staged.err.find("found in '" + logs("stage") + "'") != std::string::npos) << staged.err;
  EXPECT_FALSE(fs::is_empty(logs("stage")));
  const auto again = train("again", with({"--stage-to", logs("stage")}));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("found in '" + logs("stage") + "'"), std::string::npos) << again.err;
  ASSERT_EQ(losses("plain").size(), 2u);
  EXPECT_EQ(losses("again"), losses("plain"));
  EXPECT_NE(losses("plain")[0], losses("plain")[1]);
}

TEST_F(TrainImagenet, AugmentationChangesWhatIsTrained) {
  const auto loss_with = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--max-steps", "1", "--val-frequency", "0"});
    const auto run = train(name, more);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return losses(name).at(0);
  };
  const double plain = loss_with("plain", {});
  EXPECT_EQ(loss_with("same", {}), plain);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--auto-augment", "ra"}, {"--random-erase", "1"}, {"--cutmix-alpha", "1"}})
    EXPECT_NE(loss_with(flags[0].substr(2), flags), plain) << flags[0];
}

TEST_F(TrainImagenet, EvaluationPicturesHaveTheirOwnSizeAndKind) {
  const auto evaluated = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--max-steps", "1"});
    const auto run = train(name, more);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return last_result(name).at("metrics").at("loss").get<double>();
  };
  const double plain = evaluated("plain", {});
  EXPECT_NE(evaluated("larger", {"--val-crop-size", "64", "--val-resize-size", "64"}), plain);
  EXPECT_EQ(losses("larger"), losses("plain"));
  // A name that tells nothing is of the kind that --dataset-type says.
  std::string table = "filepath\tlabel\n";
  int64_t label = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("shapes/heldout")))
    if (entry.is_regular_file() && entry.path().extension() != ".txt")
      table += entry.path().string() + "\t" + std::to_string(label++ % 28) + "\n";
  core::write_file_atomic(logs("pictures.txt"), table);
  evaluated("table",
            {"--dataset-type", "csv", "--train-data", logs("pictures.txt"), "--val-data", logs("pictures.txt")});
}

TEST_F(TrainImagenet, AveragesAreEvaluatedAndGoOnBitForBit) {
  const std::vector<std::string> average = {"--model-ema", "--model-ema-steps",  "2", "--model-ema-decay",
                                            "0.9",         "--lr-warmup-epochs", "1", "--sync-bn"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), average.begin(), average.end());
    return more;
  };
  const auto whole = train("whole", with({}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_NE(whole.err.find("; of the average "), std::string::npos) << whole.err;
  ASSERT_EQ(train("resumed", with({"--max-steps", "9"})).exit_code, 0);
  const auto resumed = train("resumed", with({"--resume", "latest"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(losses("resumed"), losses("whole"));
  const auto last = [&](const std::string& name) { return checkpoint(name, "00000014"); };
  EXPECT_EQ(core::read_file(last("whole") + "/optimizer.safetensors"),
            core::read_file(last("resumed") + "/optimizer.safetensors"));
  const core::SafetensorsFile state(last("whole") + "/optimizer.safetensors");
  EXPECT_NE(state.find("ema.conv1.weight"), nullptr);
  EXPECT_NE(state.find("ema.bn1.running_var"), nullptr);
  const core::Json metrics = last_result("whole");
  EXPECT_TRUE(std::isfinite(metrics.at("metrics").at("ema_top1_pct").get<double>())) << metrics;
  EXPECT_NE(metrics.at("metrics").at("ema_loss"), metrics.at("metrics").at("loss")) << metrics;
  // Ranks that share the optimiser's state write and read each their part of the average.
  ASSERT_EQ(train("parts", with({"--grad-sync", "zero1", "--max-steps", "9"}), 2).exit_code, 0);
  const core::Json of_two = last_result("parts").at("metrics");
  const auto joined = train("parts", with({"--evaluate", "--resume", "latest"}));
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  const core::Json of_one = last_result("parts").at("metrics");
  for (const char* loss : {"loss", "ema_loss"})
    EXPECT_NEAR(of_one.at(loss).get<double>(), of_two.at(loss).get<double>(), 1e-4 * of_two.at(loss).get<double>());
  // Exported averages are the weights of a model that evaluates as they do.
  const auto exported = run_lockstep({"ckpt", "export", logs("parts"), logs("ema.pth"), "--model-ema"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const auto of_file = train("of_file", {"--evaluate", "--pretrained", logs("ema.pth")});
  ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_EQ(last_result("of_file").at("metrics").at("loss"), of_one.at("ema_loss"));
  ASSERT_EQ(train("none", {"--max-steps", "1", "--val-frequency", "0"}).exit_code, 0);
  const auto none = run_lockstep({"ckpt", "export", logs("none"), logs("none.pth"), "--model-ema"});
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_NE(none.err.find("keeps no averages of its weights"), std::string::npos) << none.err;
}

TEST_F(TrainImagenet, WeightsLeaveAndComeBackAndClassify) {
  ASSERT_EQ(train("run", {"--val-frequency", "0"}).exit_code, 0);
  for (const std::string file : {"weights.pth", "weights.safetensors"}) {
    const auto done = run_lockstep({"ckpt", "export", logs("run"), logs(file)});
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }
  EXPECT_EQ(core::read_file(logs("weights.pth")).find("state_dict"), std::string::npos)
      << "torchvision's load_state_dict takes the file as it is";
  const auto classify = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "infer", "classify", "--images", path("shapes/heldout"), "--device", "cpu", "--threads", "1", "--top-k", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return run_lockstep(words, {}, std::chrono::minutes(2));
  };
  const auto of_run = classify({"--pretrained", logs("run")});
  ASSERT_EQ(of_run.exit_code, 0) << of_run.err;
  const auto lines = core::split(core::trim(of_run.out), "\n");
  ASSERT_EQ(lines.size(), 28u);
  const core::Json first = core::parse_json(lines[0], "line");
  ASSERT_EQ(first.at("classes").size(), 3u);
  EXPECT_GE(first.at("classes")[0].at("probability"), first.at("classes")[1].at("probability"));
  for (const std::string file : {"weights.pth", "weights.safetensors"}) {
    const auto of_file = classify({"--pretrained", logs(file), "--model", "resnet18", "--force-image-size", "32"});
    ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
    EXPECT_EQ(of_file.out, of_run.out) << file;
    const auto by_itself = classify({"--pretrained", logs(file)});  // brings its network and 32 pixels along
    ASSERT_EQ(by_itself.exit_code, 0) << by_itself.err;
    EXPECT_EQ(by_itself.out, of_run.out) << file;
    EXPECT_EQ(classify({"--pretrained", logs(file), "--model", "resnet18"}).out, of_run.out) << file;
    const auto larger = classify({"--pretrained", logs(file), "--force-image-size", "48"});
    ASSERT_EQ(larger.exit_code, 0) << larger.err;
    EXPECT_NE(larger.out, of_run.out) << "a flag goes before";
  }
  fs::copy_file(logs("weights.pth"), logs("alone.pth"));
  const auto derived = classify({"--pretrained", logs("alone.pth"), "--force-image-size", "32"});
  ASSERT_EQ(derived.exit_code, 0) << derived.err;  // its tensors tell the model
  EXPECT_EQ(derived.out, of_run.out);
  EXPECT_NE(derived.err.find("are those of resnet18 with 28 classes; pictures are prepared with 32 pixels\n"),
            std::string::npos)
      << derived.err;
  // Beside a PyTorch file lies what timm's config.json would say; nothing of another name is overwritten.
  const core::Json config = core::read_json_file(logs("weights.json"));
  EXPECT_EQ(config.at("architecture"), "resnet18");
  EXPECT_EQ(config.at("pretrained_cfg").at("input_size"), core::Json({3, 32, 32}));
  fs::remove(logs("weights.pth"));
  const auto kept = run_lockstep({"ckpt", "export", logs("run"), logs("weights.pth")});
  EXPECT_EQ(kept.exit_code, 2);
  EXPECT_NE(kept.err.find("would go into '" + logs("weights.json") + "', which is there already"), std::string::npos)
      << kept.err;
  ASSERT_EQ(run_lockstep({"ckpt", "export", logs("run"), logs("weights.pth"), "--force"}).exit_code, 0);
  const fs::path other = checkpoint("run", "00000014") + "/optimizer.safetensors";
  const auto unknown = classify({"--pretrained", other.string()});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("the model of '" + other.string() + "' is not known"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("--model NAME"), std::string::npos) << unknown.err;
  const std::string name = first.at("file");
  const auto alone = run_lockstep({"infer", "classify", "--images", path("shapes/heldout/" + name), "--pretrained",
                                   logs("run"), "--device", "cpu", "--threads", "1", "--top-k", "3"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const core::Json of_one = core::parse_json(core::trim(alone.out), "line");
  EXPECT_EQ(of_one.at("file"), name.substr(name.rfind('/') + 1));
  EXPECT_EQ(of_one.at("classes")[0].at("name"), first.at("classes")[0].at("name"));
  const auto named = classify({"--pretrained", logs("run"), "--classnames", path("shapes/classnames.txt")});
  ASSERT_EQ(named.exit_code, 0) << named.err;
  const core::Json first_named = core::parse_json(core::split(named.out, "\n")[0], "line");
  const auto names = core::split(core::trim(core::read_file(path("shapes/classnames.txt"))), "\n");
  EXPECT_EQ(first_named.at("classes")[0].at("name"),
            names.at(std::stoul(first.at("classes")[0].at("name").get<std::string>())));
  // A run on class folders knows the names, and gives those that the sorted folders give.
  const auto of_folders =
      train("folders", {"--train-data", path("shapes/heldout"), "--max-steps", "1", "--val-frequency", "0"});
  ASSERT_EQ(of_folders.exit_code, 0) << of_folders.err;
  const auto by_itself = classify({"--pretrained", logs("folders")});
  ASSERT_EQ(by_itself.exit_code, 0) << by_itself.err;
  std::vector<std::string> sorted;
  for (const auto& entry : fs::directory_iterator(path("shapes/heldout"))) sorted.push_back(entry.path().filename());
  std::sort(sorted.begin(), sorted.end());
  core::write_file_atomic(logs("sorted.txt"), core::join(sorted, "\n") + "\n");
  EXPECT_EQ(by_itself.out, classify({"--pretrained", logs("folders"), "--classnames", logs("sorted.txt")}).out);
  ASSERT_EQ(run_lockstep({"ckpt", "export", logs("folders"), logs("named.safetensors")}).exit_code, 0);
  EXPECT_EQ(classify({"--pretrained", logs("named.safetensors")}).out, by_itself.out) << "names of classes go along";
  core::write_file_atomic(logs("few.txt"), "one\ntwo\n");
  const auto few = classify({"--pretrained", logs("run"), "--classnames", logs("few.txt")});
  EXPECT_EQ(few.exit_code, 4);
  EXPECT_NE(few.err.find("has 2 class names, the network 28 classes"), std::string::npos) << few.err;
  // A run that begins with the exported weights scores as they did.
  const auto evaluated = train("evaluated", {"--evaluate", "--pretrained", logs("weights.pth")});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const auto again = train("again", {"--evaluate", "--pretrained", logs("run")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(last_result("evaluated").at("metrics").at("loss"), last_result("again").at("metrics").at("loss"));
  EXPECT_NE(again.out.find("pictures             28\nfailed                0\ntop-1 (%) "), std::string::npos)
      << again.out;
  // Flags that are not given are those of the run: its network, classes and pictures of 32 pixels.
  for (const auto& [evaluated_as, weights] :
       {std::pair("of_run", "run"), std::pair("of_file", "weights.safetensors")}) {
    const auto bare = run_lockstep(
        {"train", "imagenet", "--val-data", path("val.lmdb"), "--evaluate", "--pretrained", logs(weights), "-b", "8",
         "-j", "1", "--threads", "1", "--device", "cpu", "--logs", logs(), "--name", evaluated_as},
        {}, std::chrono::minutes(2));
    ASSERT_EQ(bare.exit_code, 0) << bare.err;
    EXPECT_EQ(last_result(evaluated_as).at("metrics").at("loss"), last_result("again").at("metrics").at("loss"));
    EXPECT_NE(bare.err.find("--num-classes 28, --train-crop-size 32"), std::string::npos) << bare.err;
  }
  // Training on other classes keeps all but the last layer.
  const auto finer = train("finer", {"--pretrained", logs("run"), "--num-classes", "30", "--max-steps", "1", "--lr",
                                     "0", "--wd", "0", "--val-frequency", "0"});
  ASSERT_EQ(finer.exit_code, 0) << finer.err;
  EXPECT_NE(finer.err.find("tells 28 classes apart and is left out: that of 30 classes begins as drawn"),
            std::string::npos)
      << finer.err;
  const core::SafetensorsFile before(checkpoint("run", "00000014") + "/model.safetensors"),
      after(checkpoint("finer", "00000001") + "/model.safetensors");
  const auto bytes = [](const core::SafetensorsFile& file, const std::string& tensor) {
    const auto data = file.find(tensor)->bytes;
    return std::string(reinterpret_cast<const char*>(data.data()), data.size());
  };
  EXPECT_EQ(bytes(before, "layer4.1.conv2.weight"), bytes(after, "layer4.1.conv2.weight"));
  EXPECT_EQ(after.find("fc.weight")->shape, (std::vector<int64_t>{30, 512}));
  const auto wider = train("wider", {"--evaluate", "--pretrained", logs("run"), "--num-classes", "1000"});
  EXPECT_EQ(wider.exit_code, 4);
  EXPECT_NE(wider.err.find("another number of classes apart: give it with --num-classes"), std::string::npos)
      << wider.err;
}

TEST_F(TrainImagenet, AnEvaluationCountsPicturesThatCannotBeRead) {
  ASSERT_EQ(train("run", {"--max-steps", "1", "--val-frequency", "0"}).exit_code, 0);
  fs::copy(path("shapes/heldout"), logs("val"), fs::copy_options::recursive);
  fs::path damaged;
  for (const auto& entry : fs::recursive_directory_iterator(logs("val")))
    if (entry.is_regular_file()) damaged = entry.path();
  fs::resize_file(damaged, fs::file_size(damaged) / 2);
  const auto evaluate = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--evaluate", "--pretrained", logs("run"), "--val-data", logs("val")});
    return train(name, more);
  };
  const auto refused = evaluate("refused", {});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_NE(refused.err.find(damaged.string()), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--on-bad-sample skip"), std::string::npos) << refused.err;
  const auto counted = evaluate("counted", {"--on-bad-sample", "skip"});
  ASSERT_EQ(counted.exit_code, 0) << counted.err;
  EXPECT_NE(counted.out.find("pictures             27\nfailed                1\n"), std::string::npos) << counted.out;
  EXPECT_NE(counted.err.find(damaged.string()), std::string::npos) << counted.err;
  EXPECT_EQ(counted.err.find("data: bad sample left out"), counted.err.rfind("data: bad sample left out"))
      << "told once: " << counted.err;
  EXPECT_EQ(last_result("counted").at("metrics").at("num_failed"), 1);
}

TEST_F(TrainImagenet, AStoppedRunWithoutANameTellsItsName) {
  std::vector<std::string> words = {
      "train", "imagenet",  "--dummy", "--num-classes", "4",   "--train-crop-size", "32", "-b",     "2",    "-j",
      "1",     "--threads", "1",       "--device",      "cpu", "--val-num-samples", "0",  "--logs", logs(), "-p",
      "1",     "--epochs",  "1"};
  std::string shell = lockstep_program();
  for (const std::string& word : words) shell += " '" + word + "'";
  const auto stopped = run_program({"/bin/bash", "-c",
                                    shell + " & pid=$!; until ls " + logs() +
                                        "/*/steps.jsonl >/dev/null 2>&1; do sleep 0.1; done; sleep 1; "
                                        "kill -TERM $pid; wait $pid"},
                                   {}, std::chrono::minutes(2));
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  const std::string name = fs::directory_iterator(logs())->path().filename().string();
  EXPECT_NE(stopped.err.find("the same command with --name " + name + " --resume latest continues the run"),
            std::string::npos)
      << stopped.err;
  words.insert(words.end(), {"--name", name, "--resume", "latest", "--max-steps", "1"});
  const auto resumed = run_lockstep(words, {}, std::chrono::minutes(2));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("nothing to train"), std::string::npos) << resumed.err;
}

TEST_F(TrainImagenet, ClassifiersEmbedNothing) {
  const auto run = run_lockstep(
      {"infer", "embed", "--model", "resnet50", "--images", ".", "--pretrained", "x.pth", "-o", "x.safetensors"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("'resnet50' is a classifier"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace lockstep::tests
