// `lockstep train clip` as users run it: real programs, real shards, tiny model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "commands/train_fixture.h"
#include "core/hash.h"
#include "core/safetensors.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

class TrainCommand : public TrainFixture {};

TEST_F(TrainCommand, LeavesTheRunRecord) {
  const auto done = train("run", {"--report-to", "wandb,tensorboard", "--val-data", shapes("val_shards"),
                                  "--zeroshot-data", shapes("heldout"), "--classnames", shapes("class_names"),
                                  "--templates", shapes("templates"), "--zeroshot-frequency", "1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const fs::path run = logs_.path() / "run";
  for (const char* file : {"run.json", "steps.jsonl", "ranks.jsonl", "results.jsonl", "status.json", "out.log",
                           "params.txt", "checkpoints", "tensorboard"})
    EXPECT_TRUE(fs::exists(run / file)) << file;
  std::ifstream lines(run / "steps.jsonl");
  std::string line;
  int64_t step = 0;
  for (; std::getline(lines, line); ++step) {
    const auto object = core::parse_json(line, "steps.jsonl");
    EXPECT_EQ(object.at("step"), step);
    for (const char* key : {"loss", "lr", "step_ms", "data_wait_ms", "samples", "samples_per_s", "losses", "phases_ms",
                            "host_memory_bytes", "time_s"})
      EXPECT_TRUE(object.contains(key)) << key;
    EXPECT_EQ(object.at("samples"), 8);
  }
  EXPECT_EQ(step, 24);  // 96 pictures, 8 a step, 2 epochs
  const auto results = core::read_file(run / "results.jsonl");
  for (const char* metric : {"zeroshot-top1", "image_to_text_R@1", "text_to_image_R@10", "clip_val_loss"})
    EXPECT_NE(results.find(metric), std::string::npos) << metric;
  std::string wandb;
  for (const auto& entry : fs::recursive_directory_iterator(run / "wandb"))
    if (entry.path().filename() == "run-run.wandb") wandb = core::read_file(entry.path());
  for (const char* part : {":W&B", "train/loss", "val/clip_val_loss", "open-clip", "batch_size"})
    EXPECT_NE(wandb.find(part), std::string::npos) << part;
  EXPECT_EQ(record::read_status(run).state, "finished");
  EXPECT_NE(done.err.find("Train Epoch: 1 [96/96 (100%)]"), std::string::npos) << done.err;
}

TEST_F(TrainCommand, ExistingNameIsRefused) {
  ASSERT_EQ(train("twice", {"--max-steps", "1"}).exit_code, 0);
  const auto again = train("twice", {"--max-steps", "1"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--resume latest"), std::string::npos) << again.err;
}

TEST_F(TrainCommand, ResumeInMidEpochIsBitForBit) {
  ASSERT_EQ(train("whole", {"--max-steps", "10"}).exit_code, 0);
  ASSERT_EQ(train("parts", {"--max-steps", "5"}).exit_code, 0);
  const auto resumed = train("parts", {"--max-steps", "10", "--resume", "latest"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  ASSERT_EQ(losses("whole").size(), 10u);
  EXPECT_EQ(losses("whole"), losses("parts"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(core::read_file(newest_checkpoint("whole") / file), core::read_file(newest_checkpoint("parts") / file))
        << file;
}

TEST_F(TrainCommand, ResumeLatestWithoutCheckpointStartsFresh) {
  const auto done = train("fresh", {"--max-steps", "1", "--resume", "latest"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(losses("fresh").size(), 1u);
}

TEST_F(TrainCommand, TwoRanksFollowOneRankWithTheSameGlobalBatch) {
  const std::vector<std::string> more = {"--global-batch-size", "16", "--max-steps", "4", "--local-loss",
                                         "--gather-with-grad"};
  const auto strip_batch = [](std::vector<std::string> args) {
    const auto at = std::find(args.begin(), args.end(), "--batch-size");
    args.erase(at, at + 2);
    return args;
  };
  auto one = strip_batch(train_args("one", more)), two = strip_batch(train_args("two", more));
  two.insert(two.begin(), {"launch", "--nproc-per-node", "2", "--"});
  ASSERT_EQ(run_lockstep(one).exit_code, 0);
  const auto pair = run_lockstep(two);
  ASSERT_EQ(pair.exit_code, 0) << pair.err;
  const auto want = losses("one"), got = losses("two");
  ASSERT_EQ(want.size(), 4u);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_NE(want[0], want[3]);
  for (size_t step = 0; step < 4; ++step) EXPECT_NEAR(got[step], want[step], 2e-5 * std::abs(want[step])) << step;
  EXPECT_EQ(core::read_json_file(logs_.path() / "two/run.json").at("attempts")[0].at("world_size"), 2);
}

TEST_F(TrainCommand, TerminationSavesAndAsksForRequeue) {
  auto args = train_args("term", {"--epochs", "100000"});
  args.insert(args.begin(), {"/bin/sh", "-c",
                             "\"$0\" \"$@\" & pid=$!; while [ \"$(wc -l < \"$STEPS\" 2>/dev/null || echo 0)\" -lt 3 ]; "
                             "do kill -0 $pid || break; sleep 0.05; done; "
                             "kill -TERM $pid; wait $pid",
                             lockstep_program()});
  const auto stopped = run_program(args, {{"STEPS", (logs_.path() / "term/steps.jsonl").string()}});
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  ASSERT_FALSE(newest_checkpoint("term").empty());
  EXPECT_EQ(record::read_status(logs_.path() / "term").state, "stopped");
  const int64_t saved_step = checkpoint::read_manifest(newest_checkpoint("term")).step;
  EXPECT_EQ(train("term", {"--epochs", "100000", "--resume", "latest", "--max-steps", std::to_string(saved_step + 1)})
                .exit_code,
            0);
  EXPECT_EQ(static_cast<int64_t>(losses("term").size()), saved_step + 1);
}

TEST_F(TrainCommand, DamagedCheckpointFallsBackToTheOneBefore) {
  ASSERT_EQ(train("damaged", {"--max-steps", "4", "--save-every-n-steps", "2"}).exit_code, 0);
  const fs::path newest = newest_checkpoint("damaged");
  std::string bytes = core::read_file(newest / "model.safetensors");
  bytes[bytes.size() - 5] ^= 1;
  core::write_file_atomic(newest / "model.safetensors", bytes);
  const auto resumed = train("damaged", {"--max-steps", "5", "--resume", "latest"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("passed over"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("after step 2"), std::string::npos) << resumed.err;
}

TEST_F(TrainCommand, DamagedDataEndsWithCodeFour) {
  const auto missing = run_lockstep({"train", "clip", "--train-data", "/nonexistent/{00..03}.tar", "--model",
                                     (shared_->path() / "tiny.json").string(), "--device", "cpu", "--train-num-samples",
                                     "32", "--logs", logs_.path().string(), "--name", "missing"});
  EXPECT_EQ(missing.exit_code, 4) << missing.err;
  EXPECT_NE(missing.err.find("cannot open shard '/nonexistent/0"), std::string::npos) << missing.err;

  const fs::path cut = logs_.path() / "cut.tar";
  const std::string whole = core::read_file(fs::path(shapes("heldout")).parent_path() / "train-000000.tar");
  std::ofstream(cut, std::ios::binary) << whole.substr(0, whole.size() / 2);
  const auto truncated = train("cut", {"--train-data", cut.string(), "--train-num-samples", "16"});
  EXPECT_EQ(truncated.exit_code, 4) << truncated.err;
  EXPECT_NE(truncated.err.find("cut.tar"), std::string::npos) << truncated.err;
}

TEST_F(TrainCommand, ResumeWithAnotherBatchIsRefused) {
  ASSERT_EQ(train("batch", {"--max-steps", "1"}).exit_code, 0);
  const auto done = train("batch", {"--resume", "latest", "--batch-size", "16"});
  EXPECT_EQ(done.exit_code, 2) << done.err;
  EXPECT_NE(done.err.find("global_batch=8"), std::string::npos) << done.err;
}

TEST_F(TrainCommand, AMissingClassFileStopsTheRunBeforeItTrains) {
  const auto done = train("early", {"--zeroshot-data", shapes("heldout"), "--classnames", "/nonexistent/names.txt"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.err.find("/nonexistent/names.txt"), std::string::npos) << done.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "early/steps.jsonl")) << done.err;
}

TEST_F(TrainCommand, EvaluatesWithoutTraining) {
  const auto done = run_lockstep({"train", "clip", "--model", (shared_->path() / "tiny.json").string(), "--device",
                                  "cpu", "--threads", "1", "--precision", "fp32", "--batch-size", "8", "--val-data",
                                  shapes("val_shards"), "--logs", logs_.path().string(), "--name", "only"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(core::read_file(logs_.path() / "only/results.jsonl").find("clip_val_loss"), std::string::npos);
  EXPECT_NE(done.err.find("Eval Epoch: 0 "), std::string::npos) << done.err;
}

TEST_F(TrainCommand, AnEvaluationOfACheckpointHasItsEpoch) {
  ASSERT_EQ(train("trained").exit_code, 0);
  const auto done = run_lockstep({"train",           "clip",
                                  "--model",         (shared_->path() / "tiny.json").string(),
                                  "--device",        "cpu",
                                  "--threads",       "1",
                                  "--precision",     "fp32",
                                  "--batch-size",    "16",
                                  "--val-data",      shapes("val_shards"),
                                  "--val-frequency", "5",
                                  "--resume",        newest_checkpoint("trained").string(),
                                  "--logs",          logs_.path().string(),
                                  "--name",          "checked"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.err.find("Eval Epoch: 2 "), std::string::npos) << done.err;
  const auto results = record::read_json_lines(logs_.path() / "checked/results.jsonl").lines;
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].at("epoch"), 2);
  EXPECT_EQ(results[0].at("step"), 24);
}

TEST_F(TrainCommand, WrongWeightsAreListed) {
  ASSERT_EQ(train("narrow", {"--max-steps", "1"}).exit_code, 0);
  const fs::path wide = logs_.path() / "wide.json";
  std::ofstream(wide) << core::replace_all(kTinyModel, "\"embed_dim\": 32", "\"embed_dim\": 48");
  const auto done = train(
      "wide", {"--model", wide.string(), "--pretrained", (newest_checkpoint("narrow") / "model.safetensors").string()});
  EXPECT_EQ(done.exit_code, 4);
  EXPECT_NE(done.err.find("hint: check that --model names the architecture"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("', the weights are of a run of '"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("visual.proj"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("text_projection"), std::string::npos) << done.err;
}

TEST_F(TrainCommand, BatchThatExceedsTheDataIsRefused) {
  const auto done = train("large", {"--batch-size", "1000"});
  EXPECT_EQ(done.exit_code, 4) << done.err;
  EXPECT_NE(done.err.find("--batch-size"), std::string::npos) << done.err;
}

class TrainLostRank : public TrainCommand, public testing::WithParamInterface<bool> {};

TEST_P(TrainLostRank, EndsTheOthersAndIsNamedWithWhatToDo) {
  const bool saves = GetParam();
  auto args = train_args("killed", {"--epochs", "100000", "--save-frequency", saves ? "1" : "0"});
  args.insert(
      args.begin(),
      {"/bin/sh", "-c",
       "\"$0\" launch --nproc-per-node 2 -- \"$@\" & pid=$!; "
       "while [ \"$(wc -l < \"$STEPS\" 2>/dev/null || echo 0)\" -lt 2 ] || { [ $SAVES = 1 ] && [ ! -e "
       "\"$LATEST\" ]; }; do kill -0 $pid || break; sleep 0.05; done; "
       "for p in $(pgrep -P $pid); do tr '\\0' '\\n' < /proc/$p/environ | grep -qx RANK=1 && kill -KILL $p; done; wait "
       "$pid",
       lockstep_program()});
  const auto done = run_program(args, {{"STEPS", (logs_.path() / "killed/steps.jsonl").string()},
                                       {"LATEST", (logs_.path() / "killed/checkpoints/latest").string()},
                                       {"SAVES", saves ? "1" : "0"}});
  EXPECT_FALSE(done.timed_out);
  EXPECT_EQ(done.exit_code, 128 + SIGKILL) << done.err;
  EXPECT_NE(done.err.find("rank 1"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("signal 9"), std::string::npos) << done.err;
  EXPECT_EQ(done.err.find("--resume latest continues") != std::string::npos, saves) << done.err;
  EXPECT_EQ(done.err.find("no checkpoint was saved, so nothing can be continued") != std::string::npos, !saves)
      << done.err;
  EXPECT_EQ(done.err.find("rank 0 on"), std::string::npos) << "only the rank that failed is named: " << done.err;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TrainLostRank, testing::Bool());

TEST_F(TrainCommand, AModelBeyondTheMemoryIsRefusedBeforeItIsBuilt) {
  const auto refused = run_lockstep({"train", "clip", "--dataset-type", "synthetic", "--train-num-samples", "20000000",
                                     "--batch-size", "10000000", "--model", "ViT-B-32", "--device", "cpu", "--logs",
                                     logs_.path().string(), "--name", "huge"});
  EXPECT_EQ(refused.exit_code, 6) << refused.err;
  for (const char* text : {"model 'ViT-B-32' laid out so takes ", "most of a rank's is activations (", "--batch-size"})
    EXPECT_NE(refused.err.find(text), std::string::npos) << text << " in: " << refused.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "huge"));
}

TEST_F(TrainCommand, MoreSamplesToldThanFoundAreWarnedAbout) {
  const auto told = train("told", {"--train-num-samples", "120", "--max-steps", "1"}, {{"OMP_NUM_THREADS", "abc"}});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  const std::string text =
      "data: 96 samples found, 120 told by --train-num-samples: an epoch reads the data 1.25 times";
  const size_t at = told.err.find(text);
  EXPECT_NE(at, std::string::npos) << told.err;
  EXPECT_EQ(told.err.find(text, at + 1), std::string::npos) << "once: " << told.err;
  EXPECT_EQ(told.err.find("OMP_NUM_THREADS='abc'"), std::string::npos) << "--threads is given: " << told.err;
}

TEST_F(TrainCommand, ExportAndEmbed) {
  ASSERT_EQ(train("export", {"--max-steps", "2"}).exit_code, 0);
  const fs::path pt = logs_.path() / "m.pt", safetensors = logs_.path() / "m.safetensors";
  ASSERT_EQ(run_lockstep({"ckpt", "export", (logs_.path() / "export").string(), pt.string()}).exit_code, 0);
  EXPECT_EQ(core::read_file(pt).substr(0, 4), "PK\3\4");  // a .pt file by its ending
  ASSERT_EQ(run_lockstep({"ckpt", "convert", pt.string(), safetensors.string()}).exit_code, 0);
  const core::SafetensorsFile original(newest_checkpoint("export") / "model.safetensors"), back(safetensors);
  ASSERT_EQ(original.entries().size(), back.entries().size());
  for (const auto& entry : original.entries())
    EXPECT_EQ(core::xxh3_hex(entry.bytes), core::xxh3_hex(back.at(entry.name).bytes)) << entry.name;

  // A damaged newest checkpoint is passed over aloud.
  ASSERT_EQ(train("export", {"--max-steps", "4", "--resume", "latest"}).exit_code, 0);
  fs::resize_file(newest_checkpoint("export") / "model.safetensors", 1000);
  const auto older = run_lockstep(
      {"ckpt", "export", (logs_.path() / "export").string(), (logs_.path() / "older.safetensors").string()});
  EXPECT_EQ(older.exit_code, 0) << older.err;
  EXPECT_NE(older.err.find("passed over"), std::string::npos) << older.err;
  EXPECT_NE(older.err.find("of step 2"), std::string::npos) << older.err;

  // A copy of the folder of checkpoints, under any name, is as good as the run.
  fs::copy(logs_.path() / "export/checkpoints", logs_.path() / "copy", fs::copy_options::recursive);
  for (const char* job : {"list", "export"}) {
    std::vector<std::string> args = {"ckpt", job, (logs_.path() / "copy").string()};
    if (std::string(job) == "export") args.push_back((logs_.path() / "copied.safetensors").string());
    const auto copied = run_lockstep(args);
    EXPECT_EQ(copied.exit_code, 0) << copied.err;
  }
  const auto nameless = run_lockstep({"infer", "embed", "--pretrained", (logs_.path() / "copy").string(), "--images",
                                      shapes("heldout"), "-o", (logs_.path() / "none").string()});
  EXPECT_EQ(nameless.exit_code, 2) << nameless.err;
  EXPECT_NE(nameless.err.find("no run.json"), std::string::npos) << nameless.err;
  EXPECT_EQ(core::read_file(logs_.path() / "copied.safetensors"), core::read_file(logs_.path() / "older.safetensors"));

  // Another file below a run is not its weights: it is read as the default model, which it does not fit.
  fs::create_directories(logs_.path() / "export/foreign");
  fs::copy_file(pt, logs_.path() / "export/foreign/m.pt");
  const auto foreign = run_lockstep({"infer", "embed", "--pretrained", (logs_.path() / "export/foreign/m.pt").string(),
                                     "--images", shapes("heldout"), "-o", (logs_.path() / "none").string()});
  EXPECT_EQ(foreign.exit_code, 4) << foreign.err;
  EXPECT_NE(foreign.err.find("do not fit the model"), std::string::npos) << foreign.err;

  std::ofstream(logs_.path() / "texts.txt") << "a photo of a red circle\na blue square\n";
  const auto embed = [&](const fs::path& weights, const std::string& output) {
    return run_lockstep({"infer", "embed", "--model", (shared_->path() / "tiny.json").string(), "--pretrained",
                         weights.string(), "--device", "cpu", "--texts", (logs_.path() / "texts.txt").string(),
                         "--images", fs::directory_iterator(shapes("heldout"))->path().string(), "--output",
                         (logs_.path() / output).string()});
  };
  const auto first = embed(pt, "a.safetensors");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(embed(safetensors, "b.safetensors").exit_code, 0);
  std::ofstream(logs_.path() / "names.txt") << "circle\nsquare\n";
  const auto classified =
      run_lockstep({"infer", "classify", "--pretrained", (logs_.path() / "export").string(), "--device", "cpu",
                    "--images", shapes("heldout"), "--classnames", (logs_.path() / "names.txt").string()});
  EXPECT_EQ(classified.exit_code, 0) << "the run says which model it is: " << classified.err;
  const core::SafetensorsFile features(logs_.path() / "a.safetensors"), again(logs_.path() / "b.safetensors");
  for (const char* part : {"image", "text"})
    EXPECT_EQ(core::xxh3_hex(features.at(part).bytes), core::xxh3_hex(again.at(part).bytes)) << part;
  EXPECT_EQ(features.at("text").shape, (std::vector<int64_t>{2, 32}));
  const core::Json names = core::parse_json(features.metadata().at("files"), "names of files");
  EXPECT_EQ(static_cast<int64_t>(names.size()), features.at("image").shape[0]);
  EXPECT_TRUE(fs::exists(fs::directory_iterator(shapes("heldout"))->path() / names.at(0).get<std::string>()));
  const auto* values = reinterpret_cast<const float*>(features.at("text").bytes.data());
  double squares = 0;
  for (int e = 0; e < 32; ++e) squares += static_cast<double>(values[e]) * values[e];
  EXPECT_NEAR(squares, 1.0, 1e-5);
}

}  // namespace
}  // namespace lockstep::tests
