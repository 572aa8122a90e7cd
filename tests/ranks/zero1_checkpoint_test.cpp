// Checkpoints of sharded optimisers: bit for bit at the same layout, and at any other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/safetensors.h"
#include "support/wave_training.h"
#include "train/checkpointer.h"
#include "train/checkpointer_writer.h"
#include "train/shared_hashing.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using comm::Comm;
using tests::require;
using tests::WaveSetting;
using tests::WaveState;

/// A run of WaveModel with its checkpoints.
struct SavedRun {
  SavedRun(const WaveSetting& setting, Comm& data, const fs::path& folder)
      : run(setting, data), checkpointer({.run_folder = folder, .num_kept = 0, .code_version = "test", .who = {}},
                                         {.tensors = run.model.all(),
                                          .optimizer = run.optimizer.get(),
                                          .scaler = nullptr,
                                          .shards = run.sync->partition().shards},
                                         data) {}
  void train(int64_t num_steps) {
    for (int64_t i = 0; i < num_steps; ++i, ++step) {
      losses.push_back(run.mean_loss());
      run.step();
    }
  }
  void save() {
    run.sync->wait_params();
    checkpointer.save({.step = step, .epoch = 0, .samples_seen = step * tests::kSamples, .data = {}, .extra = {}});
  }
  tests::WaveRun run;
  Checkpointer checkpointer;
  int64_t step = 0;
  std::vector<double> losses{};
};

struct Result {
  WaveState at_start, at_end;
  std::vector<double> losses;
};

/// Trains on from the newest checkpoint, or from the start; saves after the first half when asked to.
Result train_on(const WaveSetting& setting, const fs::path& folder, int64_t num_steps, bool saves) {
  Result out;
  std::mutex mutex;
  tests::run_ranks(
      setting.num_ranks,
      [&](Comm& data) {
        SavedRun saved(setting, data, folder);
        if (const auto restored = saved.checkpointer.restore_latest()) saved.step = restored->position.step;
        {
          const std::lock_guard lock(mutex);
          saved.run.collect(out.at_start);
        }
        if (saves) {
          saved.train(num_steps / 2);
          saved.save();  // what follows must not reach the files
        }
        saved.train(saves ? num_steps - num_steps / 2 : num_steps);
        require(saved.checkpointer.wait(), "a part was not written");
        const std::lock_guard lock(mutex);
        saved.run.collect(out.at_end);
        out.losses = saved.losses;
      },
      setting.backend);
  return out;
}

std::vector<WaveSetting> layouts(const WaveSetting& common) {
  std::vector<WaveSetting> out;
  for (const auto& [num_ranks, is_sharded, bucket_bytes] :
       {std::tuple{1, false, 400}, {2, false, 400}, {1, true, 400}, {2, true, 400}, {4, true, 1}, {3, true, 1 << 20}}) {
    out.push_back(common);
    out.back().num_ranks = num_ranks;
    out.back().is_sharded = is_sharded;
    out.back().bucket_bytes = bucket_bytes;
  }
  return out;
}

class ShardedCheckpoint : public ::testing::TestWithParam<WaveSetting> {};

/// 6 steps are 3 + 3 at any two layouts. At one layout bit for bit; else losses differ by the order of sums, in 16 bits
/// by rounding.
TEST_P(ShardedCheckpoint, IsReadAtEveryLayout) {
  const double tolerance = GetParam().masters.has_masters ? 2e-2 : 1e-5;
  for (const auto& writer : layouts(GetParam())) {
    const core::TempDir dir;
    const auto whole = train_on(writer, dir.path() / "run", 6, /*saves=*/true);
    const auto saved =
        train_on(writer, dir.path() / "again", 3, /*saves=*/false).at_end;  // what the checkpoint must hold
    ASSERT_EQ(whole.losses.size(), 6u);
    ASSERT_LT(whole.losses[5], 0.99 * whole.losses[3]) << "nothing is learnt after the checkpoint";
    for (const auto& reader : layouts(GetParam())) {
      SCOPED_TRACE(fmt::format("written by {} ranks {}, read by {} ranks {}", writer.num_ranks,
                               writer.is_sharded ? "zero1" : "ddp", reader.num_ranks,
                               reader.is_sharded ? "zero1" : "ddp"));
      const auto rest = train_on(reader, dir.path() / "run", 3, /*saves=*/false);
      EXPECT_NO_THROW(tests::require_equal(rest.at_start, saved));
      const bool is_same = reader.num_ranks == writer.num_ranks && reader.is_sharded == writer.is_sharded;
      if (is_same) {
        EXPECT_NO_THROW(tests::require_equal(rest.at_end, whole.at_end));
      }
      for (size_t step = 0; step < 3; ++step)
        EXPECT_NEAR(rest.losses[step], whole.losses[step + 3], is_same ? 0 : tolerance * whole.losses[0]) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShardedCheckpoint,
                         ::testing::Values(WaveSetting{},
                                           WaveSetting{.type = at::kBFloat16,
                                                       .masters = {.has_masters = true, .fp32_gradients = true}}),
                         [](const auto& entry) { return entry.param.masters.has_masters ? "Bf16Master" : "Fp32"; });

TEST(ShardedCheckpointFiles, EachRankWritesItsPart) {
  const core::TempDir dir;
  train_on({.num_ranks = 3, .type = at::kBFloat16, .masters = {.has_masters = true}}, dir.path(), 2, /*saves=*/true);
  const auto entries = checkpoint::list_checkpoints(dir.path());
  ASSERT_EQ(entries.size(), 1u);
  ASSERT_TRUE(entries[0].manifest.has_value());
  std::vector<std::string> names;
  for (const auto& file : entries[0].manifest->files) names.push_back(file.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"model.safetensors", "optimizer-00000-of-00003.safetensors",
                                      "optimizer-00001-of-00003.safetensors", "optimizer-00002-of-00003.safetensors"}));
  EXPECT_TRUE(checkpoint::verify_files(entries[0].folder, *entries[0].manifest, checkpoint::VerifyDepth::kHashes)
                  .problems.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(entries[0].folder), {}), 5) << "something was left behind";
  int64_t num_masters = 0;
  for (size_t part = 1; part < names.size(); ++part) {
    const core::SafetensorsFile file(entries[0].folder / names[part]);
    for (const auto& entry : file.entries())
      if (entry.name.starts_with("master.")) num_masters += static_cast<int64_t>(entry.bytes.size()) / 4;
  }
  EXPECT_EQ(num_masters, 6 * 27 + 6 + 35 + 36 + 24 + 1);  // every trained element of WaveModel once
}

TEST(ShardedCheckpointFiles, ADamagedPartFallsBack) {
  const core::TempDir dir;
  const WaveSetting setting{.num_ranks = 2};
  train_on(setting, dir.path(), 2, /*saves=*/true);  // step 1
  train_on(setting, dir.path(), 2, /*saves=*/true);  // from 1: step 2
  const auto newest = checkpoint::list_checkpoints(dir.path()).at(0);
  EXPECT_EQ(newest.step, 2);
  const auto victim = newest.folder / "optimizer-00001-of-00002.safetensors";
  std::string bytes = core::read_file(victim);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(victim, std::ios::binary | std::ios::trunc) << bytes;
  tests::run_ranks(2, [&](Comm& data) {
    SavedRun saved(setting, data, dir.path());
    const auto restored = saved.checkpointer.restore_latest();
    require(restored && restored->position.step == 1, "not the older one");
  });
}

/// Where rank 0 reads for all, the others need not see its files: --logs may lie on local disks.
TEST(ShardedCheckpointFiles, AWholeCheckpointIsRankZeros) {
  const core::TempDir dir, elsewhere;
  const WaveSetting setting{.num_ranks = 2, .is_sharded = false};
  train_on(setting, dir.path(), 2, /*saves=*/true);
  std::atomic<int> num_verified = 0;
  tests::run_ranks(2, [&](Comm& data) {
    const auto chosen = decide_on_checkpoints(data, /*is_shared=*/false, {}, [&](const auto& verify) {
      return checkpoint::choose_latest(dir.path(),
                                       [&](const auto& folder, const auto& manifest) {
                                         ++num_verified;
                                         return verify(folder, manifest);
                                       })
          .chosen->folder.string();
    });
    require(data.count("all_gather") == 0 && !chosen.empty(), "other ranks were asked");
    SavedRun saved(setting, data, data.rank() == 0 ? dir.path() : elsewhere.path());
    const auto restored = saved.checkpointer.restore_latest();
    require(restored && restored->position.step == 1, "not restored");
  });
  EXPECT_EQ(num_verified, 1);
}

TEST(ShardedCheckpointFiles, AFailingPartLeavesNoCheckpointAndTheNextOneIsWhole) {
  const core::TempDir dir;
  const std::string own = "optimizer-00000-of-00002.safetensors", others = "optimizer-00001-of-00002.safetensors";
  CheckpointWriter first({.run_folder = dir.path(), .is_shared = true, .awaited = {others}}),
      second({.run_folder = dir.path(), .is_first = false, .is_shared = true});
  const auto values = at::ones({100});
  const auto save = [&](int64_t step) {
    first.start(
        {{.name = "model.safetensors", .tensors = {{"w", values}}}, {.name = own, .tensors = {{"exp_avg.w", values}}}},
        {.step = step});
    second.start({{.name = others, .tensors = {{"exp_avg.w", values}}}}, {.step = step});
    const bool is_second_whole = second.wait();
    return std::pair(first.wait(), is_second_whole);
  };
  ASSERT_EQ(first.prepare(1, 1), "");
  fs::create_directories(dir.path() / "checkpoints" / "step-00000001.a1" / others / "in the way");
  EXPECT_EQ(save(1), std::pair(false, false));
  EXPECT_TRUE(checkpoint::list_checkpoints(dir.path()).empty());
  EXPECT_FALSE(fs::exists(dir.path() / "checkpoints" / "step-00000001.a1"));
  ASSERT_EQ(first.prepare(2, 1), "");
  EXPECT_EQ(save(2), std::pair(true, true));
  const auto entries = checkpoint::list_checkpoints(dir.path());
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(checkpoint::verify_files(entries[0].folder, entries[0].manifest.value(), checkpoint::VerifyDepth::kHashes)
                  .problems.empty());
}

TEST(ShardedCheckpointFiles, NobodyWaitsForThePartOfARankThatHasFailed) {
  const core::TempDir dir;
  CheckpointWriter first({.run_folder = dir.path(),
                          .is_shared = true,
                          .awaited = {"optimizer-00001-of-00002.safetensors"},
                          .check_alive = [] { throw CommError("comm: rank 1 does not answer any more"); }});
  ASSERT_EQ(first.prepare(1, 1), "");
  const auto begin = std::chrono::steady_clock::now();
  first.start({{.name = "model.safetensors", .tensors = {{"w", at::ones({100})}}}}, {.step = 1});
  EXPECT_FALSE(first.wait());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1)) << "of ten";
  EXPECT_FALSE(fs::exists(dir.path() / "checkpoints" / "step-00000001.a1"));
}

/// However long that takes: the first waits in vain for as long as its patience only where nothing tells that the file
/// is being written.
TEST(ShardedCheckpointFiles, AFileThatIsBeingWrittenIsWaitedFor) {
  const core::TempDir dir;
  const std::string others = "optimizer-00001-of-00002.safetensors";
  const auto values = at::ones({100});
  std::vector<std::string> told;
  CheckpointWriter second({.run_folder = dir.path(),
                           .is_first = false,
                           .is_shared = true,
                           .on_writing = [&](const std::string& checkpoint) { told.push_back(checkpoint); }});
  int num_questions = 0;
  bool is_at_work = true;
  const auto is_being_written = [&](const std::string& file, const std::string& checkpoint) {
    EXPECT_EQ(file, others);
    EXPECT_EQ(checkpoint, checkpoint::checkpoint_name(is_at_work ? 1 : 2, 1));
    if (is_at_work && ++num_questions == 20) {  // of which the patience alone allows for two or so
      second.start({{.name = others, .tensors = {{"exp_avg.w", values}}}}, {.step = 1});
      EXPECT_TRUE(second.wait());
    }
    return is_at_work;
  };
  CheckpointWriter first({.run_folder = dir.path(),
                          .is_shared = true,
                          .awaited = {others},
                          .patience = std::chrono::milliseconds(40),
                          .is_being_written = is_being_written});
  const auto save = [&](int64_t step) {
    EXPECT_EQ(first.prepare(step, 1), "");
    first.start({{.name = "model.safetensors", .tensors = {{"w", values}}}}, {.step = step});
    return first.wait();
  };
  EXPECT_TRUE(save(1));
  EXPECT_EQ(num_questions, 20);
  EXPECT_EQ(told, (std::vector<std::string>{"step-00000001.a1", ""}));
  is_at_work = false;
  EXPECT_FALSE(save(2));
  EXPECT_EQ(checkpoint::list_checkpoints(dir.path()).at(0).step, 1);
}

/// Neither the file nor what tells of it: then the first must not wait for ever.
TEST(ShardedCheckpointFiles, WhoCannotEvenTellOfItsFailureIsNoLongerWriting) {
  const core::TempDir dir;
  std::vector<std::string> told;
  CheckpointWriter second({.run_folder = dir.path() / "gone",
                           .is_first = false,
                           .is_shared = true,
                           .on_writing = [&](const std::string& checkpoint) { told.push_back(checkpoint); }});
  second.start({{.name = "optimizer-00001-of-00002.safetensors", .tensors = {{"w", at::ones({100})}}}}, {.step = 1});
  EXPECT_FALSE(second.wait());
  EXPECT_EQ(told, (std::vector<std::string>{"step-00000001.a1", ""}));
}

TEST(ShardedCheckpointFiles, AnotherModelIsRefused) {
  const core::TempDir dir;
  train_on({.num_ranks = 2}, dir.path(), 2, /*saves=*/true);
  int num_refused = 0;
  std::mutex mutex;
  tests::run_ranks(2, [&](Comm& data) {
    SavedRun saved({.num_ranks = 2, .type = at::kBFloat16, .masters = {.has_masters = true}}, data, dir.path());
    try {
      saved.checkpointer.restore_latest();
    } catch (const CheckpointError& error) {
      require(std::string(error.what()).find("master.") != std::string::npos, error.what());
      const std::lock_guard lock(mutex);
      ++num_refused;
    }
  });
  EXPECT_EQ(num_refused, 2);
}

}  // namespace
}  // namespace lockstep::train
