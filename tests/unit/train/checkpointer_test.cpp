#include "train/checkpointer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "core/error.h"
#include "core/files.h"
#include "models/contrastive_task.h"
#include "optim/adamw.h"
#include "support/error_text.h"
#include "support/file_size_limit.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "support/tiny_towers.h"
#include "train/checkpointer_writer.h"
#include "train/openclip_checkpoint.h"
#include "train/step_runner.h"
#include "train/training.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using comm::Comm;
using tests::TinyTowers;

/// A whole toy training run on one rank of `comm`: deterministic batches, dropout, loss scale, clipping.
class ToyRun {
 public:
  ToyRun(Comm& comm, const fs::path& folder, int64_t num_kept = 0, int64_t num_newest = 1,
         std::function<bool(const checkpoint::CheckpointManifest&)> is_rolling = {})
      : comm_(comm), task_(make_towers(), comm, {.loss = {.local_loss = true, .gather_with_grad = true}}),
        precision_("fp32", c10::DeviceType::CPU), scaler_(at::kCPU, {.growth_interval = 3}) {
    auto parameters = task_.network().named_parameters();
    sync_ = parallel::make_grad_sync_ddp(parameters, comm, 300);
    optimizer_ = std::make_unique<optim::AdamW>(
        optimizer_segments(sync_->partition(), static_cast<TinyTowers&>(task_.towers()).param_specs()),
        optim::AdamWConfig{});
    runner_ = make_plain_step(
        {.task = task_, .sync = *sync_, .precision = precision_, .scaler = &scaler_, .data_rank = comm.rank()});
    CheckpointState state{.tensors = parameters, .optimizer = optimizer_.get(), .scaler = &scaler_};
    for (const auto& buffer : task_.network().named_buffers()) state.tensors.push_back(buffer);
    CheckpointerConfig config;
    config.run_folder = folder;
    config.num_kept = num_kept;
    config.num_newest = num_newest;
    config.is_rolling = std::move(is_rolling);
    config.code_version = "test";
    config.who = {{"host", "here"}};
    checkpointer_ = std::make_unique<Checkpointer>(config, state, comm);
  }

  void train(int64_t num_steps) {
    for (const int64_t last = step_ + num_steps; step_ < last; ++step_) {
      models::Batch batch;
      const auto index = at::arange(48, at::kFloat) + 48.0 * static_cast<double>(step_ * comm_.size() + comm_.rank());
      batch.image_BCYX = at::sin(index * 0.7).reshape({4, 3, 2, 2});
      batch.text_BT = index.narrow(0, 0, 12).to(at::kLong).pow(2).remainder(TinyTowers::kVocabulary).reshape({4, 3});
      batch.num_samples = 4;
      runner_->run({&batch, 1}, static_cast<uint64_t>(step_));
      update_parameters(*sync_, *optimizer_, &scaler_, 1e-2, 1.0);
    }
  }

  void save() {
    checkpointer_->save({.step = step_,
                         .epoch = step_ / 4,
                         .samples_seen = step_ * 4,
                         .data = {{"lane", step_}},
                         .extra = {{"note", "x"}}});
  }
  bool restore_latest() {
    const auto restored = checkpointer_->restore_latest();
    if (restored) step_ = restored->position.step;
    return restored.has_value();
  }
  Checkpointer& checkpointer() { return *checkpointer_; }
  int64_t step() const { return step_; }

  /// Everything a run is made of, as bits.
  std::map<std::string, at::Tensor> bits() {
    std::map<std::string, at::Tensor> out;
    for (const auto& [name, tensor] : task_.network().named_parameters()) out[name] = tensor->detach().clone();
    for (const auto& [name, tensor] : task_.network().named_buffers()) out[name] = tensor->clone();
    for (const auto& entry : optimizer_->state()) {
      out["m." + entry.name] = entry.at("exp_avg").clone();
      out["v." + entry.name] = entry.at("exp_avg_sq").clone();
      out["t." + entry.name] = entry.at("step").clone();
    }
    out["scale"] =
        at::tensor({scaler_.state().scale, static_cast<double>(scaler_.state().growth_tracker)}, at::kDouble);
    return out;
  }

 private:
  static std::unique_ptr<TinyTowers> make_towers() { return std::make_unique<TinyTowers>(/*drops_features=*/true); }

  Comm& comm_;
  models::ContrastiveTask task_;
  Precision precision_;
  optim::LossScaler scaler_;
  std::unique_ptr<parallel::GradSync> sync_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Checkpointer> checkpointer_;
  int64_t step_ = 0;
};

/// Two steps, a checkpoint behind each.
void save_two(ToyRun& run) {
  for (int i = 0; i < 2; ++i) {
    run.train(1);
    run.save();
  }
  ASSERT_TRUE(run.checkpointer().wait());
}

/// Running statistics are rank 0's, as in torch's data parallel training: other ranks get them with a checkpoint.
std::map<std::string, at::Tensor> without_statistics(std::map<std::string, at::Tensor> bits) {
  bits.erase("visual.running_mean");
  return bits;
}

void expect_equal_bits(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) EXPECT_TRUE(got.at(name).equal(tensor)) << name;
}

std::vector<std::string> folders_in(const fs::path& run) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

void flip_byte(const fs::path& file) {
  std::string bytes = core::read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(Checkpointer, TenStepsAreFivePlusFiveBitForBit) {
  for (const int num_ranks : {1, 2}) {
    const core::TempDir dir;
    tests::run_ranks(num_ranks, [&](Comm& comm) {
      ToyRun whole(comm, dir.path() / "whole");
      whole.train(10);
      ToyRun first(comm, dir.path() / "parts");
      first.train(5);
      first.save();
      first.train(2);  // the copies were taken: what follows must not reach the file
      EXPECT_TRUE(first.checkpointer().wait());
      comm.barrier();
      ToyRun second(comm, dir.path() / "parts");
      ASSERT_TRUE(second.restore_latest());
      EXPECT_EQ(second.step(), 5);
      second.train(5);
      if (comm.rank() == 0) expect_equal_bits(second.bits(), whole.bits());
      expect_equal_bits(without_statistics(second.bits()), without_statistics(whole.bits()));
      EXPECT_EQ(second.checkpointer().attempt(), 2);
    });
  }
}

TEST(Checkpointer, PositionComesBack) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path());
  run.train(9);
  run.save();
  ASSERT_TRUE(run.checkpointer().wait());
  const auto restored = run.checkpointer().restore_latest();
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->position.step, 9);
  EXPECT_EQ(restored->position.epoch, 2);
  EXPECT_EQ(restored->position.samples_seen, 36);
  EXPECT_EQ(restored->position.data, (core::Json{{"lane", 9}}));
  EXPECT_EQ(restored->position.extra, (core::Json{{"note", "x"}}));
  EXPECT_EQ(core::read_file(dir.path() / "checkpoints" / "latest"), "step-00000009.a1\n");
  EXPECT_EQ(run.checkpointer().restore(restored->folder).position.step, 9);
}

TEST(Checkpointer, NothingThereIsNoError) {
  const core::TempDir dir;
  tests::run_ranks(2, [&](Comm& comm) { EXPECT_FALSE(ToyRun(comm, dir.path()).restore_latest()); });
}

TEST(Checkpointer, DamageFallsBackToTheLastWholeOne) {
  for (const char* victim : {kModelFile, "optimizer.safetensors", "manifest.json"}) {
    const core::TempDir dir;
    tests::run_ranks(2, [&](Comm& comm) {
      ToyRun run(comm, dir.path());
      std::map<std::string, at::Tensor> at_two;
      for (int i = 0; i < 2; ++i) {
        run.train(2);
        if (i == 0) at_two = run.bits();
        run.save();
        EXPECT_TRUE(run.checkpointer().wait());
      }
      comm.barrier();
      if (comm.rank() == 0) flip_byte(dir.path() / "checkpoints" / "step-00000004.a1" / victim);
      comm.barrier();
      ToyRun resumed(comm, dir.path());
      ASSERT_TRUE(resumed.restore_latest()) << victim;
      EXPECT_EQ(resumed.step(), 2) << victim;
      if (comm.rank() == 0) expect_equal_bits(resumed.bits(), at_two);
      expect_equal_bits(without_statistics(resumed.bits()), without_statistics(at_two));
      EXPECT_THROW(resumed.checkpointer().restore(dir.path() / "checkpoints" / "step-00000004.a1"), CheckpointError);
    });
  }
}

TEST(Checkpointer, OnlyDamagedOnesAreAnError) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path());
  run.train(1);
  run.save();
  ASSERT_TRUE(run.checkpointer().wait());
  flip_byte(dir.path() / "checkpoints" / "step-00000001.a1" / kModelFile);
  run.train(1);
  const auto before = run.bits();
  EXPECT_THROW(run.restore_latest(), Error);
  expect_equal_bits(run.bits(), before);
}

TEST(Checkpointer, KeepsTheNewest) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/2);
  for (int i = 0; i < 4; ++i) {
    run.train(1);
    run.save();
  }
  ASSERT_TRUE(run.checkpointer().wait());
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000003.a1", "step-00000004.a1"}));
}

/// Steps 1, 3, 5 are saved for the moment alone.
bool is_odd(const checkpoint::CheckpointManifest& manifest) { return manifest.step % 2 != 0; }

TEST(Checkpointer, OfThoseThatRollTheNewestStays) {
  const auto left_of = [](int64_t num_kept, int64_t num_newest, int num_steps) {
    const core::TempDir dir;
    Comm alone;
    ToyRun run(alone, dir.path(), num_kept, num_newest, is_odd);
    for (int i = 0; i < num_steps; ++i) {
      run.train(1);
      run.save();
    }
    EXPECT_TRUE(run.checkpointer().wait());
    std::vector<int64_t> steps;
    for (const auto& entry : checkpoint::list_checkpoints(dir.path())) steps.push_back(entry.step);
    return steps;
  };
  EXPECT_EQ(left_of(0, 1, 5), (std::vector<int64_t>{5, 4, 2}));
  EXPECT_EQ(left_of(0, 1, 6), (std::vector<int64_t>{6, 4, 2}));
  EXPECT_EQ(left_of(0, 2, 6), (std::vector<int64_t>{6, 5, 4, 2})) << "one may be on its way to a copy";
  EXPECT_EQ(left_of(2, 1, 5), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(left_of(2, 1, 6), (std::vector<int64_t>{6, 4})) << "what rolled away does not count";
}

TEST(Checkpointer, TheBestStayThoughTheyRoll) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/0, /*num_newest=*/1, is_odd);
  const auto save = [&] {
    run.train(1);
    run.save();
    ASSERT_TRUE(run.checkpointer().wait());
  };
  save();
  checkpoint::Ranking ranking;
  ranking.enter({.name = "step-00000001.a1", .value = 1}, {.metrics = {"m"}, .num_best = 1});
  checkpoint::write_ranking(dir.path(), ranking);
  for (int i = 0; i < 3; ++i) save();
  EXPECT_EQ(folders_in(dir.path()),
            (std::vector<std::string>{"step-00000001.a1", "step-00000002.a1", "step-00000004.a1"}));
}

TEST(Checkpointer, AnEpochEndsWhereItsFactsSay) {
  const auto at = [](int64_t step, int64_t epoch, const core::Json& caller) {
    return ends_epoch({.step = step, .epoch = epoch, .extra = {{"caller", caller}}});
  };
  EXPECT_TRUE(at(12, 2, {{"steps_per_epoch", 6}}));
  EXPECT_FALSE(at(13, 2, {{"steps_per_epoch", 6}}));
  EXPECT_FALSE(at(0, 0, {{"steps_per_epoch", 6}}));
  EXPECT_FALSE(at(12, 2, core::Json::object())) << "a task without epochs";
}

TEST(Checkpointer, TheBestStayBesideTheNewest) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/1);
  const auto save = [&] {
    run.train(1);
    run.save();
    ASSERT_TRUE(run.checkpointer().wait());
  };
  save();
  const checkpoint::RankingRule rule{.metrics = {"m"}, .num_best = 1};
  checkpoint::Ranking ranking;
  ranking.enter({.name = "step-00000001.a1", .value = 1}, rule);
  checkpoint::write_ranking(dir.path(), ranking);
  save();
  save();
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000001.a1", "step-00000003.a1"}));
  ranking.enter({.name = "step-00000003.a1", .value = 2}, rule);
  checkpoint::write_ranking(dir.path(), ranking);
  run.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000003.a1"});
  EXPECT_EQ(checkpoint::read_ranking(dir.path()).entries.size(), 1u) << "what was removed is not listed";
}

TEST(Checkpointer, WhereAllAreKeptOnlyWhatWasSavedForItsRankGoes) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path());
  for (int i = 0; i < 3; ++i) {
    run.train(1);
    run.save();
  }
  ASSERT_TRUE(run.checkpointer().wait());
  checkpoint::Ranking ranking;
  for (const char* name : {"step-00000001.a1", "step-00000003.a1"})
    ranking.entries.push_back({.name = name, .value = 1, .is_extra = true});
  checkpoint::write_ranking(dir.path(), ranking);
  run.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000002.a1", "step-00000003.a1"}))
      << "the newest stays";
  core::write_file_atomic(dir.path() / "checkpoints" / "best.json", "damaged");
  run.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()).size(), 2u) << "nothing is removed where the ranking is not known";
}

TEST(Checkpointer, TheNewestStayThoughSavedForTheirRankAlone) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/0, /*num_newest=*/2);
  checkpoint::Ranking ranking;
  for (int i = 0; i < 3; ++i) {
    run.train(1);
    run.save();
    ranking.entries.push_back({.name = checkpoint::checkpoint_name(run.step(), 1), .value = 1, .is_extra = true});
  }
  ASSERT_TRUE(run.checkpointer().wait());
  checkpoint::write_ranking(dir.path(), ranking);
  run.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000002.a1", "step-00000003.a1"}));
}

TEST(Checkpointer, WhatADamagedRankingMayNameStays) {
  const core::TempDir dir;
  Comm alone;
  const auto best = dir.path() / "checkpoints" / "best.json";
  {
    ToyRun run(alone, dir.path());
    save_two(run);
    core::write_file_atomic(best, "damaged");
  }
  checkpoint::set_aside_damaged_ranking(dir.path());
  ToyRun run(alone, dir.path(), /*num_kept=*/1);
  ASSERT_TRUE(run.restore_latest());
  save_two(run);
  const std::vector<std::string> older{"step-00000001.a1", "step-00000002.a1"};
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{older[0], older[1], "step-00000004.a2"}));
  std::filesystem::remove(std::filesystem::path(best) += ".damaged");
  run.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000004.a2"});
}

// The ranking names a checkpoint before it is on the disk. Where it never gets there, what it would have displaced
// stays.
TEST(Checkpointer, ABestThatCannotBeSavedDisplacesNone) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/1);
  const checkpoint::RankingRule rule{.metrics = {"m"}, .num_best = 1};
  checkpoint::Ranking ranking;
  std::string name;
  const auto save_as = [&](double value) {
    run.train(1);
    name = checkpoint::checkpoint_name(run.step(), 1);
    ranking.enter({.name = name, .value = value, .is_extra = true}, rule);
    checkpoint::write_ranking(dir.path(), ranking);
    run.save();
    return run.checkpointer().wait();
  };
  EXPECT_TRUE(save_as(1));
  EXPECT_TRUE(save_as(0));
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000001.a1", "step-00000002.a1"}));
  {
    const tests::FileSizeLimit full_disk(512);
    EXPECT_FALSE(save_as(2));
  }
  EXPECT_TRUE(run.checkpointer().has_failed());
  checkpoint::Ranking next = ranking;
  next.forget_absent(dir.path(), {name});
  EXPECT_EQ(next.enter({.name = "step-00000004.a1", .value = 1.5}, rule), 0) << "as long as it may still come";
  next = ranking;
  next.forget_absent(dir.path(), {});
  EXPECT_EQ(next.enter({.name = "step-00000004.a1", .value = 1.5}, rule), 1) << "it is in nobody's way";
  EXPECT_TRUE(save_as(-1));
  EXPECT_FALSE(run.checkpointer().has_failed());
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000001.a1", "step-00000004.a1"}));
  EXPECT_TRUE(save_as(3));
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000005.a1"});
}

TEST(Checkpointer, ASupersededAttemptRemovesNothing) {
  const core::TempDir dir;
  Comm alone;
  ToyRun old_run(alone, dir.path());
  for (int i = 0; i < 2; ++i) {
    old_run.train(1);
    old_run.save();
  }
  ASSERT_TRUE(old_run.checkpointer().wait());
  checkpoint::Ranking ranking;
  ranking.entries.push_back({.name = "step-00000001.a1", .value = 1, .is_extra = true});
  checkpoint::write_ranking(dir.path(), ranking);
  {
    const ToyRun new_run(alone, dir.path());
    old_run.checkpointer().remove_superfluous();
    EXPECT_EQ(folders_in(dir.path()).size(), 2u);
  }
  ToyRun newest(alone, dir.path());
  ASSERT_TRUE(newest.restore_latest());
  newest.checkpointer().remove_superfluous();
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000002.a1"}) << "which its successor may";
}

TEST(Checkpointer, AnAttemptThatDidNotResumeRemovesNoneOfAnother) {
  const core::TempDir dir;
  Comm alone;
  ToyRun first(alone, dir.path(), /*num_kept=*/1);
  save_two(first);
  ToyRun fresh(alone, dir.path(), /*num_kept=*/1);  // the checkpoints were not to be seen, say
  save_two(fresh);
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000002.a1", "step-00000002.a2"}));
  ToyRun resumed(alone, dir.path(), /*num_kept=*/1);
  ASSERT_TRUE(resumed.restore_latest());
  save_two(resumed);
  EXPECT_EQ(folders_in(dir.path()), (std::vector<std::string>{"step-00000002.a1", "step-00000004.a3"}));
}

TEST(Checkpointer, NumbersOfAManifestThatAreNoneAreRefused) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path());
  run.train(1);
  run.save();
  ASSERT_TRUE(run.checkpointer().wait());
  const fs::path folder = dir.path() / "checkpoints" / folders_in(dir.path()).at(0);
  const checkpoint::CheckpointManifest clean = checkpoint::read_manifest(folder);
  for (const char* change :
       {R"({"first_attempt": "x"})", R"({"first_attempt": 1e300})", R"({"first_attempt": 4294967297})",
        R"({"loss_scaler": 5})", R"({"loss_scaler": {"scale": "x", "growth_tracker": 0}})",
        R"({"loss_scaler": {"scale": 1, "growth_tracker": 0.5}})"}) {
    checkpoint::CheckpointManifest manifest = clean;
    manifest.extra.update(core::parse_json(change, "a test"));
    checkpoint::write_manifest(folder, manifest);
    EXPECT_THROW(run.restore_latest(), CheckpointError) << change;
  }
  checkpoint::write_manifest(folder, clean);
  EXPECT_TRUE(run.restore_latest());
}

TEST(Checkpointer, ASupersededWriterCommitsNothing) {
  const core::TempDir dir;
  Comm alone;
  ToyRun old_run(alone, dir.path());
  old_run.train(1);
  old_run.save();
  ASSERT_TRUE(old_run.checkpointer().wait());
  ToyRun new_run(alone, dir.path());
  old_run.train(1);
  old_run.save();
  EXPECT_FALSE(old_run.checkpointer().wait());
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000001.a1"});
  EXPECT_TRUE(new_run.restore_latest());
  EXPECT_EQ(new_run.step(), 1);
}

TEST(Checkpointer, AFullDiskKeepsTheOldOneAndTrainingGoesOn) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path(), /*num_kept=*/1);
  run.train(1);
  run.save();
  ASSERT_TRUE(run.checkpointer().wait());
  {
    const tests::FileSizeLimit full_disk(512);
    run.train(1);
    run.save();
    EXPECT_FALSE(run.checkpointer().wait());
  }
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000001.a1"});
  run.train(1);
  run.save();
  EXPECT_TRUE(run.checkpointer().wait());
  EXPECT_EQ(folders_in(dir.path()), std::vector<std::string>{"step-00000003.a1"});
}

TEST(Checkpointer, NobodyIsToldThatThereIsNoneBeforeItWhoCouldNotLook) {
  const core::TempDir dir;
  CheckpointWriter writer({.run_folder = dir.path()});
  const auto told = [&](int64_t step) {
    testing::internal::CaptureStderr();
    EXPECT_NE(writer.prepare(step, 1), "");
    return testing::internal::GetCapturedStderr();
  };
  fs::create_symlink("checkpoints", dir.path() / "checkpoints");  // leads to itself
  const std::string unknown = told(7);
  EXPECT_TRUE(tests::holds(unknown, "whether there is one before it is not known")) << unknown;
  fs::remove(dir.path() / "checkpoints");
  core::write_file_atomic(dir.path() / "checkpoints", "a file where the folder is to be");
  EXPECT_TRUE(tests::holds(told(8), "is not known"));
}

TEST(Checkpointer, AFileOfOpenClipThatCannotBeReadIsNoDamagedOne) {
  const core::TempDir dir;
  const fs::path file = dir.path() / "epoch_1.pt";
  fs::create_symlink("epoch_1.pt", file);  // leads to itself
  const auto refused = tests::message_of<CheckpointError>([&] { openclip_adamw(file); });
  EXPECT_TRUE(tests::holds(refused, "'" + file.string() + "' cannot be read")) << refused;
}

TEST(Checkpointer, AnotherModelIsRefusedByName) {
  const core::TempDir dir;
  Comm alone;
  ToyRun run(alone, dir.path());
  run.save();
  ASSERT_TRUE(run.checkpointer().wait());
  auto weight = at::zeros({6, 13}), other = at::zeros({2});
  Checkpointer wrong({.run_folder = dir.path(), .num_kept = 0, .code_version = "", .who = {}},
                     {.tensors = {{"visual.weight", &weight}, {"visual.other", &other}}}, alone);
  try {
    wrong.restore_latest();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_NE(std::string(error.what()).find("missing 1 (visual.other), other shape 1 (visual.weight)"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep::train
