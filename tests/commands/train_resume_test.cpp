// Resuming and stopping of `lockstep train clip`: nothing is lost and nothing differs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "checkpoint/ranking.h"
#include "commands/train_fixture.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

class TrainResume : public TrainFixture {
 protected:
  /// Runs a command line in the background of a shell and `script` beside it, which sees its process id as $pid and the
  /// run's steps.jsonl as $STEPS; the result is that of the command.
  ProgramResult run_beside(const std::string& name, std::vector<std::string> args, const std::string& script) const {
    const std::string frame =
        "wait_for_steps() { while [ \"$(wc -l < \"$STEPS\" 2>/dev/null || echo 0)\" -lt $1 ]; do kill -0 $pid || "
        "break; sleep 0.05; done; }; "
        "\"$0\" \"$@\" & pid=$!; " +
        script + "; wait $pid";
    args.insert(args.begin(), {"/bin/sh", "-c", frame, lockstep_program()});
    return run_program(args, {{"STEPS", (logs_.path() / name / "steps.jsonl").string()}});
  }
};

struct ResumeCase {
  const char* name;
  int ranks, stop_after, end;
  std::vector<std::string> flags;
};

class ResumeBitForBit : public TrainResume, public ::testing::WithParamInterface<ResumeCase> {};

TEST_P(ResumeBitForBit, WholeEqualsParts) {
  const ResumeCase& param = GetParam();
  const auto run = [&](const std::string& name, int max_steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--max-steps", std::to_string(max_steps)});
    more.insert(more.end(), param.flags.begin(), param.flags.end());
    const auto done = param.ranks == 1 ? train(name, more) : train_on(param.ranks, name, more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run("whole", param.end, {});
  run("parts", param.stop_after, {});
  run("parts", param.end, {"--resume", "latest"});
  ASSERT_EQ(losses("whole").size(), static_cast<size_t>(param.end));
  EXPECT_NE(losses("whole").front(), losses("whole").back());
  EXPECT_EQ(losses("whole"), losses("parts"));
  const auto whole = checkpoint::read_manifest(newest_checkpoint("whole")),
             parts = checkpoint::read_manifest(newest_checkpoint("parts"));
  EXPECT_EQ(whole.world_size, param.ranks);
  EXPECT_EQ(whole.step, param.end);
  ASSERT_EQ(whole.files.size(), parts.files.size());
  for (size_t i = 0; i < whole.files.size(); ++i)
    EXPECT_EQ(whole.files[i].xxh3, parts.files[i].xxh3) << whole.files[i].name;
}

// Of 96 pictures: 12 steps an epoch with one rank and no accumulation, 6 with accumulation, 3 with two ranks as well.
INSTANTIATE_TEST_SUITE_P(
    Train, ResumeBitForBit,
    ::testing::Values(ResumeCase{"AcrossAnEpochEndWithTwoWorkers", 1, 11, 14, {"--workers", "2"}},
                      ResumeCase{"WithAccumulation", 1, 3, 5, {"--accum-freq", "2"}},
                      ResumeCase{"Zero1WithMasterCopies",
                                 2,
                                 3,
                                 5,
                                 {"--grad-sync", "zero1", "--precision", "bf16_master", "--grad-clip-norm", "1"}},
                      ResumeCase{"TwoRanksFromAnEpochEnd", 2, 3, 5, {"--accum-freq", "2", "--workers", "2"}}),
    [](const auto& entry) { return std::string(entry.param.name); });

/// 96 pictures on two ranks with zero1: 6 steps an epoch. The copy of the first epoch's end leads to the same second
/// epoch, and of three copies two are kept.
TEST_F(TrainResume, CopiesForOpenClipContinueBitForBit) {
  const std::vector<std::string> common = {"--epochs", "3", "--precision", "fp32", "--grad-sync", "zero1"};
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const auto done = train_on(2, name, more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run("whole", {"--save-format", "openclip", "--save-most-recent", "--keep", "2"});
  const fs::path copies = logs_.path() / "whole/checkpoints";
  EXPECT_FALSE(fs::exists(copies / "epoch_1.pt"));
  EXPECT_TRUE(fs::exists(copies / "epoch_3.pt"));
  EXPECT_EQ(core::read_file(copies / "epoch_latest.pt"), core::read_file(copies / "epoch_3.pt"));
  run("parts", {"--resume", (copies / "epoch_2.pt").string()});
  const auto whole = losses("whole"), parts = losses("parts");
  ASSERT_EQ(whole.size(), 18u);
  EXPECT_EQ(parts, std::vector(whole.begin() + 12, whole.end()));
  const auto refused = train("lion", {"--save-format", "openclip", "--opt", "lion"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("OpenCLIP continues AdamW alone, --opt is lion"), std::string::npos) << refused.err;
}

/// What a run evaluated, by step, as the mean of the metrics that rank its checkpoints by default.
std::map<int64_t, double> mean_recall_at_10(const fs::path& run) {
  std::map<int64_t, double> means;
  for (const core::Json& line : record::read_json_lines(run / "results.jsonl").lines) {
    const core::Json& metrics = line.at("metrics");
    means[line.at("step")] =
        (metrics.at("image_to_text_R@10").get<double>() + metrics.at("text_to_image_R@10").get<double>()) / 2;
  }
  return means;
}

std::set<int64_t> saved_steps(const fs::path& run) {
  std::set<int64_t> steps;
  for (const auto& entry : checkpoint::list_checkpoints(run)) {
    EXPECT_EQ(entry.state, checkpoint::CheckpointState::kUsable) << entry.folder;
    steps.insert(entry.step);
  }
  return steps;
}

/// --save-most-recent beside --save-frequency: OpenCLIP's one rolling file beside every second epoch's. A stop in the
/// middle changes nothing.
TEST_F(TrainResume, TheMostRecentCheckpointRollsBesideThoseOfSaveFrequency) {
  const std::vector<std::string> common = {"--epochs",      "5",       "--save-frequency", "2", "--save-most-recent",
                                           "--save-format", "openclip"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const auto done = train_on(2, "rolls", more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run({"--max-steps", "20"});  // of 6 steps an epoch
  const fs::path folder = logs_.path() / "rolls";
  EXPECT_EQ(saved_steps(folder), (std::set<int64_t>{12, 20}));
  run({"--resume", "latest"});
  EXPECT_EQ(saved_steps(folder), (std::set<int64_t>{12, 20, 24, 30}));
  for (const int64_t epoch : {1, 3}) EXPECT_FALSE(fs::exists(folder / fmt::format("checkpoints/epoch_{}.pt", epoch)));
  for (const int64_t epoch : {2, 4, 5}) EXPECT_TRUE(fs::exists(folder / fmt::format("checkpoints/epoch_{}.pt", epoch)));
  EXPECT_EQ(core::read_file(folder / "checkpoints/epoch_latest.pt"),
            core::read_file(folder / "checkpoints/epoch_5.pt"));
}

/// 96 pictures on two ranks with zero1: 6 steps an epoch. Nothing but their evaluations asks for checkpoints before the
/// last; a stop in the middle changes nothing.
TEST_F(TrainResume, TheBestEpochsAreKeptBesideTheLast) {
  const std::vector<std::string> common = {"--epochs",
                                           "6",
                                           "--grad-sync",
                                           "zero1",
                                           "--save-frequency",
                                           "0",
                                           "--val-data",
                                           shapes("val_shards"),
                                           "--keep",
                                           "1",
                                           "--save-top-performance",
                                           "2"};
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const auto done = train_on(2, name, more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run("whole", {});
  const fs::path whole = logs_.path() / "whole";
  const auto means = mean_recall_at_10(whole);
  ASSERT_EQ(means.size(), 6u);
  std::vector<std::pair<double, int64_t>> best;  // negative, so that the best and of equal ones the earlier come first
  for (const auto& [step, mean] : means) best.emplace_back(-mean, step);
  std::sort(best.begin(), best.end());
  EXPECT_NE(best.front().first, best.back().first) << "the epochs differ";
  EXPECT_EQ(saved_steps(whole), (std::set<int64_t>{best[0].second, best[1].second, 36}));
  const checkpoint::Ranking ranking = checkpoint::read_ranking(whole);
  ASSERT_GE(ranking.entries.size(), 2u);
  EXPECT_EQ(ranking.entries[0].epoch * 6, best[0].second);
  EXPECT_EQ(ranking.entries[0].value, -best[0].first);

  run("parts", {"--max-steps", "18"});
  run("parts", {"--resume", "latest"});
  EXPECT_EQ(checkpoint::read_ranking(logs_.path() / "parts").entries[0].value, ranking.entries[0].value);
  EXPECT_EQ(saved_steps(logs_.path() / "parts"), saved_steps(whole));
}

/// A learning rate of 0: all evaluations are equal, and the first stays the best.
TEST_F(TrainResume, AgeTakesNeitherTheBestNorItsCopy) {
  const auto done = train("first", {"--lr", "0", "--epochs", "4", "--train-num-samples", "16", "--keep", "1",
                                    "--val-data", shapes("val_shards"), "--save-top-performance", "1",
                                    "--top-k-checkpoint-select-metric", "clip_val_loss", "--save-format", "openclip"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const fs::path run = logs_.path() / "first";
  EXPECT_EQ(saved_steps(run), (std::set<int64_t>{2, 8}));
  for (const auto& [file, is_there] :
       {std::pair("epoch_1.pt", true), {"epoch_2.pt", false}, {"epoch_3.pt", false}, {"epoch_4.pt", true}})
    EXPECT_EQ(fs::exists(run / "checkpoints" / file), is_there) << file;
  EXPECT_NE(done.err.find("checkpoint step-00000002.a1 is number 1 of the best by clip_val_loss"), std::string::npos)
      << done.err;
}

/// The end of a run is saved in any case: others that are better do not make it superfluous.
TEST_F(TrainResume, WhatTheEndSavesWasNotSavedForItsRank) {
  const auto done = train("end", {"--epochs", "3", "--train-num-samples", "16", "--save-frequency", "2", "--val-data",
                                  shapes("val_shards"), "--save-top-performance", "3"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const checkpoint::Ranking ranking = checkpoint::read_ranking(logs_.path() / "end");
  EXPECT_EQ(ranking.entries.size(), 3u);
  EXPECT_EQ(saved_steps(logs_.path() / "end"), (std::set<int64_t>{2, 4, 6}));
  EXPECT_TRUE(ranking.is_extra("step-00000002.a1"));
  EXPECT_FALSE(ranking.is_extra("step-00000004.a1"));
  EXPECT_FALSE(ranking.is_extra("step-00000006.a1"));
}

TEST_F(TrainResume, ARunWithNothingLeftToTrainRemovesNothing) {
  const std::vector<std::string> flags{"--epochs", "2", "--train-num-samples", "16"};
  ASSERT_EQ(train("done", flags).exit_code, 0);
  auto again = flags;
  again.insert(again.end(), {"--keep", "1", "--resume", "latest"});
  ASSERT_EQ(train("done", again).exit_code, 0);
  EXPECT_EQ(saved_steps(logs_.path() / "done"), (std::set<int64_t>{2, 4}));
}

/// The second attempt goes on from the first of three epochs and writes those after it anew. What age takes of the
/// first attempt leaves the files of the second.
TEST_F(TrainResume, AgeLeavesTheCopiesOfTheAttemptThatWentOn) {
  const auto run = [&](const std::vector<std::string>& more, const std::string& name = "again") {
    std::vector<std::string> flags = {"--train-num-samples", "16", "--save-format", "openclip", "--epochs", "3"};
    flags.insert(flags.end(), more.begin(), more.end());
    const auto done = train(name, flags);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  const fs::path checkpoints = logs_.path() / "again" / "checkpoints";
  run({"--keep", "3"});
  run({"--keep", "2", "--resume", (checkpoints / "step-00000002.a1").string()});
  EXPECT_EQ(saved_steps(logs_.path() / "again"), (std::set<int64_t>{4, 6}));
  EXPECT_TRUE(fs::exists(checkpoints / "step-00000006.a2"));
  EXPECT_FALSE(fs::exists(checkpoints / "epoch_1.pt"));
  EXPECT_TRUE(fs::exists(checkpoints / "epoch_2.pt"));
  EXPECT_TRUE(fs::exists(checkpoints / "epoch_3.pt"));

  // The other way round: the earlier attempt's is kept, as one of the best, and the file is not its own any more.
  const fs::path rolled = logs_.path() / "rolled";
  run({"--keep", "3"}, "rolled");
  checkpoint::write_ranking(rolled,
                            {.metrics = {"m"}, .num_best = 1, .entries = {{.name = "step-00000004.a1", .value = 1}}});
  run({"--keep", "1", "--resume", (rolled / "checkpoints" / "step-00000002.a1").string()}, "rolled");
  EXPECT_TRUE(fs::exists(rolled / "checkpoints" / "step-00000004.a1"));
  EXPECT_FALSE(fs::exists(rolled / "checkpoints" / "step-00000004.a2"));
  EXPECT_FALSE(fs::exists(rolled / "checkpoints" / "epoch_2.pt"));
  EXPECT_TRUE(fs::exists(rolled / "checkpoints" / "epoch_3.pt"));
}

/// Two ranks with zero1 stop after 3 of 6 steps; what goes on from there, with 1 or 2 ranks and either way of
/// synchronising, has the losses of plain data parallel training that was never stopped.
TEST_F(TrainResume, Zero1GoesOnAtAnyLayout) {
  const std::vector<std::string> common = {"--grad-clip-norm",    "1",
                                           "--data-lanes",        "4",
                                           "--image-layer-decay", "0.5",
                                           "--text-layer-decay",  "0.7",
                                           "--wd-exclude",        "*positional_embedding"};
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    more.insert(more.end(), {"--batch-size", std::to_string(16 / ranks)});
    const auto done = ranks == 1 ? train(name, more) : train_on(ranks, name, more);
    ASSERT_EQ(done.exit_code, 0) << done.err;
  };
  run(2, "ddp", {"--max-steps", "6"});
  run(2, "zero1", {"--grad-sync", "zero1", "--max-steps", "3"});
  const auto want = losses("ddp");
  ASSERT_EQ(want.size(), 6u);
  EXPECT_NE(want[3], want[5]);
  const fs::path stopped = newest_checkpoint("zero1");
  EXPECT_TRUE(fs::exists(stopped / "optimizer-00001-of-00002.safetensors"));
  EXPECT_EQ(run_lockstep({"ckpt", "verify", (logs_.path() / "zero1").string()}).exit_code, 0);
  const auto exported = run_lockstep(
      {"ckpt", "export", (logs_.path() / "zero1").string(), (logs_.path() / "zero1.pt").string(), "--with-optimizer"});
  EXPECT_EQ(exported.exit_code, 5);
  EXPECT_NE(exported.err.find("has layer decay, --wd-exclude or --split-opt"), std::string::npos) << exported.err;
  for (const auto& [name, ranks, sync] : {std::tuple("zero1_on_two", 2, "zero1"),
                                          {"zero1_on_one", 1, "zero1"},
                                          {"ddp_on_two", 2, "ddp"},
                                          {"none_on_one", 1, "auto"}}) {
    fs::copy(logs_.path() / "zero1", logs_.path() / name, fs::copy_options::recursive);
    run(ranks, name, {"--grad-sync", sync, "--max-steps", "6", "--resume", "latest"});
    const auto got = losses(name);
    ASSERT_EQ(got.size(), 6u) << name;
    for (size_t step = 0; step < 6; ++step)
      EXPECT_NEAR(got[step], want[step], 1e-5 * want[0]) << name << " step " << step;
  }
}

TEST_F(TrainResume, OtherSettingsThanBeforeAreTold) {
  const auto start = [&](const char* max_steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--max-steps", max_steps});
    const auto done = train("run", more);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.err;
  };
  const std::string told = "goes on with other settings than those its checkpoint was trained with: ";
  EXPECT_EQ(start("2", {"--wd", "0.1"}).find(told), std::string::npos);
  const std::string other = start("3", {"--resume", "latest", "--wd", "0.3", "--beta1", "0.8"});
  EXPECT_NE(other.find(told + "--beta1 0.8 (before 0.9), --wd 0.3 (before 0.1)\n"), std::string::npos) << other;
  const std::string same = start("4", {"--resume", "latest", "--wd", "0.3", "--beta1", "0.8"});
  EXPECT_EQ(same.find(told), std::string::npos) << same;
}

TEST_F(TrainResume, AStartThatTrainsNothingLeavesTheParams) {
  const auto params_after = [&](const char* max_steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--max-steps", max_steps});
    const auto done = train("run", more);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return core::read_file(logs_.path() / "run" / "params.txt");
  };
  const std::string trained = params_after("2", {});
  EXPECT_EQ(params_after("2", {"--resume", "latest", "--log-every-n-steps", "2"}), trained);
  EXPECT_NE(params_after("3", {"--resume", "latest"}), trained);
}

TEST_F(TrainResume, TerminationAtTheEndOfAnEpoch) {
  // Every step ends an epoch and saves.
  const std::vector<std::string> flags = {"--train-num-samples", "8", "--epochs", "100000", "--keep", "2"};
  const auto stopped = run_beside("ends", train_args("ends", flags), "wait_for_steps 3; kill -TERM $pid");
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_EQ(record::read_status(logs_.path() / "ends").state, "stopped");
  const int64_t step = checkpoint::read_manifest(newest_checkpoint("ends")).step;
  const std::string last_words = fmt::format(
      "stopped by a signal after {0} steps of 100000: the checkpoint of step {0} is saved; the same command "
      "with --resume latest continues the run",
      step);
  EXPECT_NE(stopped.err.find(last_words), std::string::npos) << stopped.err;
  EXPECT_EQ(static_cast<int64_t>(losses("ends").size()), step);  // every step that was done is recorded and saved
  auto more = flags;
  more.insert(more.end(), {"--resume", "latest", "--max-steps", std::to_string(step + 2)});
  const auto resumed = train("ends", more);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("continuing after step " + std::to_string(step)), std::string::npos) << resumed.err;
  EXPECT_EQ(static_cast<int64_t>(losses("ends").size()), step + 2);
}

TEST_F(TrainResume, AnEvaluationThatTheStopCutOffIsMadeUpFor) {
  // Every step ends an epoch: the run stops at the end of one, without evaluating it.
  const std::vector<std::string> flags = {"--train-num-samples", "8",      "--epochs", "100000", "--val-data",
                                          shapes("val_shards"),  "--keep", "2"};
  const auto stopped = run_beside("owed", train_args("owed", flags), "wait_for_steps 2; kill -INT $pid");
  ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
  const auto evaluated = [&] {
    std::vector<int64_t> steps;
    for (const core::Json& line : record::read_json_lines(logs_.path() / "owed" / "results.jsonl").lines)
      steps.push_back(line.at("step").get<int64_t>());
    return steps;
  };
  const int64_t step = checkpoint::read_manifest(newest_checkpoint("owed")).step;
  ASSERT_FALSE(evaluated().empty());
  EXPECT_EQ(evaluated().back(), step - 1) << "it was stopped before the evaluation";
  auto more = flags;
  more.insert(more.end(), {"--resume", "latest", "--max-steps", std::to_string(step + 1)});
  for (int i = 0; i < 2; ++i) {
    const auto resumed = train("owed", more);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    std::vector<int64_t> all(static_cast<size_t>(step + 1));
    std::iota(all.begin(), all.end(), int64_t{1});
    EXPECT_EQ(evaluated(), all) << "each epoch has one evaluation";
  }
}

TEST_F(TrainResume, OneRankStopsAfterTheStepItIsIn) {
  // A second source waits for a file, so that the interrupt comes while a step waits for its input. The record has the
  // steps before but for two, whose values are read later.
  const std::string gate = (logs_.path() / "gate").string();
  const std::string shard = (shared_->path() / "shapes" / "train-000000.tar").string();
  ASSERT_TRUE(fs::exists(shard)) << shapes("train_shards");
  const std::string rest = "::pipe:while [ ! -e " + gate + " ]; do sleep 0.05; done; cat " + shard;
  const auto args = train_args(
      "one", {"--train-data", shapes("train_shards") + rest, "--train-num-samples", "960", "--shuffle", "off"});
  const std::string steps = (logs_.path() / "one" / "steps.jsonl").string();
  const auto ended = run_beside(
      "one", args, "wait_for_steps 3; sleep 2; echo lines=$(wc -l < " + steps + "); kill -INT $pid; : > " + gate);
  EXPECT_EQ(ended.exit_code, 75) << ended.err;
  const auto at = ended.out.find("lines=");
  ASSERT_NE(at, std::string::npos) << ended.out;
  EXPECT_NE(ended.err.find("saving after this step, then ending"), std::string::npos) << ended.err;
  EXPECT_EQ(losses("one").size(), std::stoul(ended.out.substr(at + 6)) + 3) << ended.err;
}

TEST_F(TrainResume, TheSecondInterruptEndsAtOnce) {
  // Behind the 96 pictures the input stalls: the first interrupt waits for the step it is in, the second does not.
  const auto args = train_args("stuck", {"--train-data", shapes("train_shards") + "::pipe:exec sleep 100 2>/dev/null",
                                         "--train-num-samples", "960", "--shuffle", "off"});
  const auto ended = run_beside(
      "stuck", args, "wait_for_steps 1; kill -INT $pid; sleep 0.5; kill -0 $pid && echo lives; kill -INT $pid");
  EXPECT_EQ(ended.exit_code, 130) << ended.err;  // the end of the input would have made it another
  EXPECT_NE(ended.out.find("lives"), std::string::npos);
}

TEST_F(TrainResume, AnotherNumberOfRanksIsToldTheGlobalBatch) {
  const auto alone = train("grows", {"--max-steps", "1"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_NE(alone.err.find("compute threads of this rank: "), std::string::npos) << alone.err;
  const auto refused = train_on(2, "grows", {"--max-steps", "2", "--resume", "latest"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("written with global_batch=8, this run has global_batch=16"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("which must divide it, add --global-batch-size 8"), std::string::npos) << refused.err;
}

TEST_F(TrainResume, AnotherOptimiserOrLockIsTold) {
  ASSERT_EQ(train("adamw", {"--max-steps", "1"}).exit_code, 0);
  for (const auto& [flags, said] :
       {std::pair<std::vector<std::string>, std::string>{{"--opt", "lion"},
                                                         "written with opt=\"adamw\", this run has opt=\"lion\""},
        {{"--lock-image"}, "written with lock_image=false, this run has lock_image=true"}}) {
    std::vector<std::string> more = {"--max-steps", "2", "--resume", "latest"};
    more.insert(more.end(), flags.begin(), flags.end());
    const auto refused = train("adamw", more);
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_NE(refused.err.find(said), std::string::npos) << refused.err;
  }
  const auto biased = train("adamw", {"--max-steps", "2", "--resume", "latest", "--siglip"});
  EXPECT_EQ(biased.exit_code, 5);
  EXPECT_NE(biased.err.find("is of another model: missing 1 (logit_bias)\n"), std::string::npos) << biased.err;
}

TEST_F(TrainResume, AnotherLengthOfAnEpochIsToldWithTheFlagThatSetsIt) {
  ASSERT_EQ(train("length", {"--max-steps", "1", "--train-num-samples", "16"}).exit_code, 0);
  const auto refused = train("length", {"--resume", "latest", "--max-steps", "2"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("was written with steps_per_epoch=2, this run has steps_per_epoch=12"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("the length of an epoch follows from --train-num-samples"), std::string::npos)
      << refused.err;
}

TEST_F(TrainResume, WithoutANameItIsWarnedThatNothingCanBeResumed) {
  const auto nameless = train("", {"--max-steps", "1", "--resume", "latest"});  // as if --name were not there
  EXPECT_EQ(nameless.exit_code, 0) << nameless.err;
  EXPECT_NE(nameless.err.find("WARNING | nothing is resumed: without --name"), std::string::npos) << nameless.err;
  const auto named = train("named", {"--max-steps", "1", "--resume", "latest"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.err.find("nothing is resumed"), std::string::npos) << named.err;
  EXPECT_NE(named.err.find("starting from the beginning"), std::string::npos) << named.err;
}

TEST_F(TrainResume, OnlyDamagedCheckpointsAreAnError) {
  ASSERT_EQ(train("bad", {"--max-steps", "2"}).exit_code, 0);
  const fs::path only = newest_checkpoint("bad"), model = only / "model.safetensors", run = logs_.path() / "bad";
  std::string bytes = core::read_file(model);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(model, std::ios::binary) << bytes;
  for (const auto& [resume, message, hint] :
       {std::tuple("latest", "none of the 1 checkpoints in", "start a run of another name"),
        std::tuple(only.c_str(), "is damaged: ", "lockstep ckpt list"),
        std::tuple("/nonexistent/step-00000002.a1", "is no checkpoint: it does not exist", "--resume latest"),
        std::tuple(run.c_str(), "is no checkpoint: it has no manifest.json", "--name 'bad' --resume latest")}) {
    const auto refused = train("bad", {"--resume", resume});
    EXPECT_EQ(refused.exit_code, 5) << refused.err;
    EXPECT_NE(refused.err.find(message), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(hint), std::string::npos) << refused.err;
  }
  EXPECT_EQ(losses("bad").size(), 2u);
}

}  // namespace
}  // namespace lockstep::tests
