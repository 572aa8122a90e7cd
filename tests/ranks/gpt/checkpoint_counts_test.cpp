// Checkpoints of many ranks: training goes on from them at any other number and layout with the losses of the run that
// nobody stopped, and what is opened, read and hashed is counted against docs/parallelism.md.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <future>
#include <mutex>
#include <numeric>
#include <utility>

#include "checkpoint/manifest.h"
#include "comm/mesh_groups.h"
#include "comm/store.h"
#include "comm/store_calls.h"
#include "comm/world.h"
#include "core/env.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "record/run_record.h"
#include "support/gpt_mesh.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "train/checkpointer.h"
#include "train/interval_recorder.h"

namespace lockstep::tests {
namespace {

/// A mesh that sees so many sequences in a step, in micro-batches of `micro_size`.
struct ScaleCase {
  MeshCase mesh;
  int64_t global_batch = 0, micro_size = 1;
};

tasks::GptOptions options_for(const ScaleCase& scale) {
  tasks::GptOptions options = options_of(scale.mesh);
  options.hidden_dropout = options.attention_dropout = 0;  // drawn by micro-batch
  options.num_layers = 2;
  options.max_position_embeddings = options.seq_length.value();
  options.micro_batch_size = scale.micro_size;
  options.global_batch_size = scale.global_batch;
  return options;
}

/// Sequences [begin, begin + count) of a step's global batch.
models::Batch batch_of_step(int64_t step, int64_t begin, int64_t count, int64_t num_tokens) {
  const at::Tensor number_B1 = at::arange(begin, begin + count).add(step * 1009).view({count, 1});
  const at::Tensor ids = number_B1.mul(7).add(at::arange(num_tokens + 1)).mul(29).add(3).mul(11).remainder(45);
  models::Batch batch;
  batch.num_samples = count;
  batch.text_BT = ids.narrow(1, 0, num_tokens);
  batch.target_BT = ids.narrow(1, 1, num_tokens);
  return batch;
}

/// What a run of all ranks left.
struct RunTrace {
  std::vector<double> losses;
  std::vector<train::ReadCounts> reads;  ///< Of the ranks, in any order.
  int64_t restored_step = -1, num_buckets = 0;
  int64_t state_bytes = 0, model_bytes = 0;       ///< Of the optimiser on all ranks; of the tensors of one rank.
  std::map<std::string, int64_t> calls_per_step;  ///< Of the group of all ranks, texts included, on rank 0.
};

/// What one rank does in train_on(), and what it counts before and behind each part.
struct RankRun {
  const ScaleCase& scale;
  const std::filesystem::path& folder;
  int64_t num_steps, save_after;
  train::LongWaits waits = {};
  std::function<void(const std::string& part)> on_end = [](const std::string&) {};
};

void train_rank(const RankRun& run, comm::MeshGroups& groups, RunTrace& trace, std::mutex& mutex) {
  const ScaleCase& scale = run.scale;
  const tasks::GptOptions options = options_for(scale);
  const plan::GptLayout layout = tasks::train_gpt_layout(options, scale.mesh.num_ranks());
  if (groups.world.size() != scale.mesh.num_ranks()) throw std::runtime_error("wrong world size");
  tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
  run.on_end("building");
  train::CheckpointState state = train::checkpoint_state(training);
  train::Checkpointer checkpointer({.run_folder = run.folder, .code_version = "test", .who = {}, .waits = run.waits},
                                   state, groups.world);
  const auto restored = checkpointer.restore_latest();
  run.on_end("restoring");
  const int64_t first = restored ? restored->position.step : 0;
  std::unique_ptr<record::RunRecord> record;
  if (groups.world.rank() == 0)
    record = std::make_unique<record::RunRecord>(run.folder, core::Json{{"world_size", groups.world.size()}});
  train::IntervalRecorder intervals(groups.world, std::vector<std::string>(scale.mesh.num_ranks(), "one"), at::kCPU,
                                    record.get());
  std::vector<double> losses;
  std::map<std::string, int64_t> before;
  const auto calls = [&] {
    std::map<std::string, int64_t> counts;
    for (const auto& entry : groups.world.recorder().snapshot())
      if (entry.axis == groups.world.axis()) counts[entry.kind] += entry.count;
    return counts;
  };
  for (int64_t step = first; step < first + run.num_steps; ++step) {
    before = calls();
    std::vector<models::Batch> batches;
    for (int64_t micro = 0; micro < layout.batch.num_micro_batches; ++micro)
      batches.push_back(batch_of_step(step, (micro * layout.dp() + groups.mesh.point().dp) * scale.micro_size,
                                      scale.micro_size, layout.shape.sequence));
    const auto outcome = training.runner->run(batches, static_cast<uint64_t>(step));
    losses.push_back(outcome.scalars.at(0).second.item<double>());
    training.update(1e-2, 0.5);
    train::IntervalTimes times;
    times.step = times.last_run_step = step;
    times.num_steps = times.num_run_steps = 1;
    intervals.record(times);
    run.on_end("steps");
    if (step - first + 1 == run.save_after)
      checkpointer.save({.step = step + 1, .epoch = 0, .samples_seen = 0, .data = {}, .extra = {}});
    run.on_end("saving");
  }
  intervals.finish();
  if (!checkpointer.wait()) throw std::runtime_error("a part was not written");
  const std::lock_guard lock(mutex);
  if (groups.world.rank() == 0) {
    trace.losses = losses;
    trace.restored_step = first;
    trace.num_buckets = training.sync->num_buckets();
    for (const auto& [name, tensor] : state.tensors) trace.model_bytes += static_cast<int64_t>(tensor->nbytes());
    for (const auto& [kind, count] : calls())
      if (count > before[kind]) trace.calls_per_step[kind] = count - before[kind];
  }
  trace.reads.push_back(restored ? restored->read : train::ReadCounts{});
  for (const auto& entry : training.optimizer->state())
    for (const auto* tensors : {&entry.tensors, &entry.scalars})
      for (const auto& [name, tensor] : *tensors) trace.state_bytes += static_cast<int64_t>(tensor.nbytes());
}

/// Trains `num_steps` from the newest checkpoint in `folder` and saves behind the first `save_after` of them.
RunTrace train_on(const ScaleCase& scale, const std::filesystem::path& folder, int64_t num_steps, int64_t save_after) {
  const plan::GptLayout layout = tasks::train_gpt_layout(options_for(scale), scale.mesh.num_ranks());
  RunTrace trace;
  std::mutex mutex;
  run_mesh_groups(layout.mesh, [&](comm::MeshGroups& groups) {
    train_rank({.scale = scale, .folder = folder, .num_steps = num_steps, .save_after = save_after}, groups, trace,
               mutex);
  });
  return trace;
}

int64_t total_files(const RunTrace& trace) {
  return std::accumulate(trace.reads.begin(), trace.reads.end(), int64_t{0},
                         [](int64_t sum, const train::ReadCounts& read) { return sum + read.num_files; });
}

int64_t total_bytes(const RunTrace& trace) {
  return std::accumulate(trace.reads.begin(), trace.reads.end(), int64_t{0},
                         [](int64_t sum, const train::ReadCounts& read) { return sum + read.num_bytes; });
}

int64_t most_files(const RunTrace& trace) {
  return std::max_element(trace.reads.begin(), trace.reads.end(),
                          [](const auto& a, const auto& b) { return a.num_files < b.num_files; })
      ->num_files;
}

int64_t most_bytes(const RunTrace& trace) {
  return std::max_element(trace.reads.begin(), trace.reads.end(),
                          [](const auto& a, const auto& b) { return a.num_bytes < b.num_bytes; })
      ->num_bytes;
}

int64_t bytes_of_files(const checkpoint::CheckpointManifest& manifest) {
  return std::accumulate(manifest.files.begin(), manifest.files.end(), int64_t{0},
                         [](int64_t sum, const checkpoint::CheckpointFile& file) { return sum + file.bytes; });
}

int64_t longest_header_in(const checkpoint::CheckpointEntry& entry) {
  int64_t longest = 0;
  for (const auto& listed : entry.manifest.value().files) {
    const core::SafetensorsFile file(entry.folder / listed.name);
    int64_t bytes = file.num_bytes();
    for (const auto& tensor : file.entries()) bytes -= std::ssize(tensor.bytes);
    longest = std::max(longest, bytes);
  }
  return longest;
}

double largest_difference(const RunTrace& trace, const std::vector<double>& want, int64_t skipped) {
  double most = 0;
  for (size_t i = 0; i < trace.losses.size(); ++i) {
    const double other = want.at(i + static_cast<size_t>(skipped));
    most = std::max(most, std::abs(trace.losses[i] - other) / other);
  }
  return most;
}

void expect_losses(const RunTrace& trace, const std::vector<double>& want, int64_t skipped) {
  ASSERT_EQ(trace.losses.size() + static_cast<size_t>(skipped), want.size());
  EXPECT_EQ(trace.restored_step, skipped);
  for (size_t i = 0; i < trace.losses.size(); ++i)
    EXPECT_NEAR(trace.losses[i], want[i + static_cast<size_t>(skipped)], 2e-5 * want[i]) << i;
}

ScaleCase data_ranks(int num_ranks, int64_t global_batch) {
  ScaleCase scale{.mesh = {}, .global_batch = global_batch};
  scale.mesh.dp = num_ranks;
  scale.mesh.is_sharded = true;
  return scale;
}

/// Ranks of the run that saves, its steps, and when it saves. LOCKSTEP_TEST_RANKS tries more, over 20 steps.
struct Scale {
  int num_ranks = 12;
  int64_t num_steps = 6, saved = 3;
};
Scale wanted_scale() {
  const auto ranks = core::parse_int(core::env("LOCKSTEP_TEST_RANKS").value_or("12")).value();
  return {.num_ranks = static_cast<int>(ranks), .num_steps = ranks > 12 ? 20 : 6, .saved = ranks > 12 ? 10 : 3};
}

/// Adds a row to the file that LOCKSTEP_TEST_RESULTS names, if any.
void keep_result(const core::Json& row) {
  const auto path = core::env("LOCKSTEP_TEST_RESULTS");
  if (!path) return;
  core::Json rows = std::filesystem::exists(*path) ? core::Json::parse(core::read_file(*path)) : core::Json::array();
  rows.push_back(row);
  core::write_file_atomic(*path, rows.dump(1) + "\n");
}

/// ZeRO-1 on N data ranks, gone on with on as many, half as many and twice as many. Without knowing what lies where
/// each rank would open the files of all.
TEST(CheckpointCounts, EachRankOpensFilesThatHoldItsParts) {
  const auto [num_ranks, num_steps, saved] = wanted_scale();
  const core::TempDir dir;
  const int64_t batch = 2 * num_ranks;
  const RunTrace whole = train_on(data_ranks(num_ranks, batch), dir.path(), num_steps, saved);
  ASSERT_LT(whole.losses.back(), 0.99 * whole.losses.front()) << "nothing is learnt";
  const auto manifest = checkpoint::list_checkpoints(dir.path()).at(0).manifest.value();
  const auto num_optimizer_files = static_cast<int64_t>(manifest.files.size()) - 1;
  EXPECT_GT(num_optimizer_files, 5) << "a tiny model has nothing for many of 512 ranks";
  const int64_t file_bytes = bytes_of_files(manifest);
  const int64_t longest_header = longest_header_in(checkpoint::list_checkpoints(dir.path()).at(0));
  for (const int reader : {num_ranks, num_ranks / 2, 2 * num_ranks}) {
    SCOPED_TRACE(fmt::format("{} ranks read what {} wrote", reader, num_ranks));
    const RunTrace rest = train_on(data_ranks(reader, batch), dir.path(), num_steps - saved, /*save_after=*/-1);
    expect_losses(rest, whole.losses, saved);
    EXPECT_EQ(std::ssize(rest.reads), reader);
    // A rank's range of a bucket lies in so many ranges of the writers.
    const int64_t per_bucket = (num_ranks + reader - 1) / reader + 1;
    EXPECT_LE(most_files(rest), rest.num_buckets * per_bucket + 1) << "and the model on rank 0";
    EXPECT_LE(total_files(rest), rest.num_buckets * (num_ranks + reader) + 1);
    EXPECT_GE(total_files(rest), num_optimizer_files + 1);
    if (reader == num_ranks) {
      EXPECT_EQ(total_files(rest), num_optimizer_files + 1) << "each its own";
    }
    // Tests and reading together: a file once, and again what another rank than the one that tested it needs of it.
    EXPECT_GE(total_bytes(rest), file_bytes);
    if (reader == num_ranks) {
      EXPECT_EQ(total_bytes(rest), file_bytes) << "each byte once";
    } else {
      EXPECT_LE(total_bytes(rest),
                file_bytes + rest.state_bytes + (total_files(rest) - std::ssize(manifest.files)) * longest_header);
    }
    EXPECT_EQ(rest.calls_per_step, whole.calls_per_step) << "collectives of all ranks";
    EXPECT_EQ(rest.calls_per_step.at("all_gather"), 1) << "times and counters of a step";
    fmt::print("{} ranks read what {} wrote: {} files opened, at most {} by a rank; {} without the index\n", reader,
               num_ranks, total_files(rest), most_files(rest), int64_t{reader} * num_optimizer_files + 1);
    keep_result({{"what", "resume"},
                 {"ranks_that_wrote", num_ranks},
                 {"ranks_that_read", reader},
                 {"steps", std::ssize(rest.losses)},
                 {"largest_relative_loss_difference", largest_difference(rest, whole.losses, saved)},
                 {"buckets", rest.num_buckets},
                 {"files_of_the_optimizer", num_optimizer_files},
                 {"files_opened", total_files(rest)},
                 {"files_opened_at_most", rest.num_buckets * (num_ranks + reader) + 1},
                 {"files_opened_by_one_rank", most_files(rest)},
                 {"files_opened_by_one_rank_at_most", rest.num_buckets * per_bucket + 1},
                 {"files_opened_without_the_index", int64_t{reader} * num_optimizer_files + 1},
                 {"bytes_read", total_bytes(rest)},
                 {"bytes_of_files", file_bytes},
                 {"bytes_of_state_and_model", rest.state_bytes + rest.model_bytes},
                 {"most_bytes_read_by_one_rank", most_bytes(rest)},
                 {"calls_of_all_ranks_per_step", rest.calls_per_step}});
  }
}

/// Tensor and pipeline ranks: the parameters are read by one of the data ranks, and by none that has other rows.
TEST(CheckpointCounts, PartsOfTheModelAreReadOnce) {
  const core::TempDir dir;
  ScaleCase writer{.mesh = {}, .global_batch = 8};
  writer.mesh = {.tp = 4, .pp = 2, .dp = 2, .is_tied = false, .is_sharded = true};
  const RunTrace whole = train_on(writer, dir.path(), 6, 3);
  ASSERT_LT(whole.losses.back(), 0.99 * whole.losses.front()) << "nothing is learnt";
  ScaleCase same = writer, wider = writer, copies = writer;
  wider.mesh.tp = 2;
  wider.mesh.dp = 4;
  copies.mesh = {.tp = 4, .pp = 2, .dp = 2, .is_tied = false};
  // Norms lie with the first tensor rank: of 8 places in the model one data rank opens 2 files of the model, the first
  // tensor ranks 1; the same of the optimiser on all 16. Without zero1 the optimiser, too, is read by one data rank,
  // but from the files of both that wrote it. Rows of other tensor ranks lie in up to all 4 files of a stage.
  const int64_t model = 8 * 2 - 2;
  for (const auto& [reader, most, total] : {std::tuple(same, int64_t{4}, model + 16 * 2 - 4),
                                            {wider, int64_t{12}, 4 * 4 + 16 * 8},
                                            {copies, int64_t{6}, model + 2 * model}}) {
    SCOPED_TRACE(reader.mesh.name());
    const RunTrace rest = train_on(reader, dir.path(), 3, -1);
    expect_losses(rest, whole.losses, 3);
    EXPECT_LE(most_files(rest), most);
    EXPECT_LE(total_files(rest), total);
  }
  for (const bool is_two : {false, true}) {
    ScaleCase few = writer;
    few.mesh = {.tp = is_two ? 2 : 1, .is_tied = false};
    expect_losses(train_on(few, dir.path(), 3, -1), whole.losses, 3);
  }
}

/// A new run that begins with a checkpoint of another one, on the mesh that wrote it.
struct BegunRun {
  std::vector<train::ReadCounts> reads;  ///< Of the ranks, in any order.
  std::vector<double> losses;            ///< Of step `step`, on each rank.
  int64_t step = -1;
};

BegunRun begin_from(const ScaleCase& scale, const std::filesystem::path& load, train::SnapshotUse use) {
  tasks::GptOptions options = options_for(scale);
  options.load = load.string();
  options.finetune = use == train::SnapshotUse::kWeights;
  options.no_load_optim = use == train::SnapshotUse::kWeightsAndPosition;
  const plan::GptLayout layout = tasks::train_gpt_layout(options, scale.mesh.num_ranks());
  const core::TempDir own;
  BegunRun run;
  std::mutex mutex;
  run_mesh_groups(layout.mesh, [&](comm::MeshGroups& groups) {
    const train::Snapshot snapshot = tasks::find_gpt_snapshot(options, groups.world);
    tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU, {.snapshot = snapshot});
    std::optional<train::RestoredCheckpoint> taken = training.weights_from;
    if (use == train::SnapshotUse::kAll) {
      EXPECT_FALSE(taken) << "nothing is read that is restored later";
      train::Checkpointer checkpointer({.run_folder = own.path(), .code_version = "test", .who = {}},
                                       train::checkpoint_state(training), groups.world);
      taken = checkpointer.restore_chosen(snapshot.choose);
    }
    const int64_t step = taken.value().position.step;
    std::vector<models::Batch> batches;
    for (int64_t micro = 0; micro < layout.batch.num_micro_batches; ++micro)
      batches.push_back(batch_of_step(step, (micro * layout.dp() + groups.mesh.point().dp) * scale.micro_size,
                                      scale.micro_size, layout.shape.sequence));
    const double loss = training.runner->run(batches, static_cast<uint64_t>(step)).scalars.at(0).second.item<double>();
    const std::lock_guard lock(mutex);
    run.reads.push_back(taken->read);
    run.losses.push_back(loss);
    run.step = step;
  });
  return run;
}

/// The same for --load as for a run that goes on. Weights alone are read without opening what the optimiser left.
TEST(CheckpointCounts, ANewRunReadsTheCheckpointOfAnotherOnce) {
  ScaleCase data{.mesh = {}, .global_batch = 8}, stages = data, tensors = data;
  data.mesh = {.dp = 4, .is_sharded = true};
  stages.mesh = {.pp = 2, .dp = 2, .is_tied = false, .is_sharded = true};
  tensors.mesh = {.tp = 2, .dp = 2, .is_tied = false, .is_sharded = true};
  for (const ScaleCase& scale : {data, stages, tensors}) {
    SCOPED_TRACE(scale.mesh.name());
    const core::TempDir dir;
    const RunTrace whole = train_on(scale, dir.path(), 6, 3);
    ASSERT_LT(whole.losses.back(), 0.99 * whole.losses.front()) << "nothing is learnt";
    const auto entry = checkpoint::list_checkpoints(dir.path()).at(0);
    checkpoint::CheckpointManifest all = entry.manifest.value(), model = all;
    std::erase_if(model.files, [](const auto& file) { return !core::starts_with(file.name, "model"); });
    ASSERT_GE(all.files.size(), model.files.size() + 2) << "each rank has a part of the optimiser";
    for (const auto use :
         {train::SnapshotUse::kAll, train::SnapshotUse::kWeightsAndPosition, train::SnapshotUse::kWeights}) {
      SCOPED_TRACE(static_cast<int>(use));
      const checkpoint::CheckpointManifest& taken = use == train::SnapshotUse::kAll ? all : model;
      const BegunRun run = begin_from(scale, dir.path(), use);
      ASSERT_EQ(std::ssize(run.reads), scale.mesh.num_ranks());
      EXPECT_EQ(run.step, 3);
      for (const double loss : run.losses) EXPECT_NEAR(loss, whole.losses[3], 2e-5 * whole.losses[3]);
      train::ReadCounts total;
      for (const train::ReadCounts& read : run.reads) total.add(read);
      // What tensor ranks hold alike lies with the first, where the other opens its files beside its own.
      const int64_t more = scale.mesh.tp == 1 ? 0 : std::ssize(taken.files) / 2;
      EXPECT_EQ(total.num_files, std::ssize(taken.files) + more);
      if (more == 0) {
        EXPECT_EQ(total.num_bytes, bytes_of_files(taken)) << "each byte once";
      } else {
        EXPECT_LE(total.num_bytes, bytes_of_files(taken) + more * longest_header_in(entry) + whole.model_bytes / 10);
      }
    }
  }
}

/// A table of 48 rows at one tensor rank has 64 at four, of which the last rank has padding alone; and a tied copy of
/// it is in no file of its stage.
TEST(CheckpointCounts, RowsOfPaddingAloneAreReadAsSuch) {
  const core::TempDir dir;
  ScaleCase writer{.mesh = {}, .global_batch = 8};
  writer.mesh = {.tp = 1, .pp = 2, .dp = 2, .is_sharded = true};
  const RunTrace whole = train_on(writer, dir.path(), 6, 3);
  for (const int dp : {1, 2}) {
    ScaleCase reader = writer;
    reader.mesh = {.tp = 4, .pp = 2, .dp = dp, .is_sharded = dp > 1};
    expect_losses(train_on(reader, dir.path(), 3, -1), whole.losses, 3);
  }
}

/// Calls of the ranks to their job's store, by the part of a run in which they are made: without questions whether a
/// name is there, of which a wait asks as many as its time takes.
struct StoreUse {
  std::map<std::string, std::vector<int64_t>> others;  ///< [part][rank]
  int64_t checks_in_steps = 0;

  int64_t total(const std::string& part) const {
    const auto found = others.find(part);
    return found == others.end() ? 0 : std::accumulate(found->second.begin(), found->second.end(), int64_t{0});
  }
};

/// As train_on, with ranks that meet in a store and communicate over Gloo. Signs of life are left out.
StoreUse use_of_store(const ScaleCase& scale, const std::filesystem::path& folder, int64_t num_steps,
                      int64_t save_after) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // see run_ranks
  const plan::GptLayout layout = tasks::train_gpt_layout(options_for(scale), scale.mesh.num_ranks());
  const int num_ranks = scale.mesh.num_ranks();
  const uint16_t port = comm::Store::serve(0, std::chrono::seconds(20)).port();
  StoreUse use;
  RunTrace trace;
  std::mutex mutex;
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      const auto calls = std::make_shared<comm::StoreCalls>();
      int64_t counted = 0;
      const auto on_end = [&](const std::string& part) {
        const int64_t now = calls->others;
        const std::lock_guard lock(mutex);
        auto& of_part = use.others[part];
        of_part.resize(static_cast<size_t>(num_ranks));
        of_part[static_cast<size_t>(rank)] += now - std::exchange(counted, now);
        if (part == "steps") use.checks_in_steps += calls->checks;
        calls->checks = 0;
      };
      hw::RankInfo info;
      info.rank = info.local_rank = rank;
      info.world_size = info.local_world_size = num_ranks;
      info.master_port = port;
      comm::World world = comm::World::join(info, {.notice_times = {std::chrono::hours(1), std::chrono::hours(1)},
                                                   .report_interval = std::chrono::hours(1),
                                                   .store_calls = calls});
      on_end("joining");
      comm::MeshGroups groups = comm::make_mesh_groups(
          layout.mesh, world.comm(),
          [&](const std::string& axis, const std::vector<int>& members) { return world.group(axis, members); });
      on_end("groups");
      train_rank({.scale = scale,
                  .folder = folder,
                  .num_steps = num_steps,
                  .save_after = save_after,
                  .waits = {.for_rank_zero = [&] { world.wait_for_rank_zero("a test"); },
                            .for_all = [&] { world.wait_for_all("a test"); }},
                  .on_end = on_end},
                 groups, trace, mutex);
      world.comm().barrier();
    }));
  for (auto& rank : ranks) rank.get();
  return use;
}

/// The store serves ranks that meet, groups that connect (k ranks over Gloo: k (2k + 1) calls), and long waits; a step
/// asks it for nothing. With LOCKSTEP_TEST_RESULTS also for more ranks, as many as one process has connections for.
TEST(CheckpointCounts, CallsToTheStoreAreNoneInSteps) {
  for (const int dp : core::env("LOCKSTEP_TEST_RESULTS") ? std::vector{2, 4, 8, 16} : std::vector{2}) {
    const core::TempDir dir;
    ScaleCase scale{.mesh = {}, .global_batch = 4 * dp};
    scale.mesh = {.tp = 2, .pp = 1, .dp = dp, .is_sharded = true};
    for (const bool is_resume : {false, true}) {
      SCOPED_TRACE(fmt::format("{} data ranks, resume {}", dp, is_resume));
      const StoreUse use = use_of_store(scale, dir.path(), 3, is_resume ? -1 : 2);
      const int64_t n = 2 * dp, of_world = n * (2 * n + 1), of_tensors = n / 2 * 2 * 5, of_data = 2 * dp * (2 * dp + 1);
      EXPECT_EQ(use.total("joining"), 9 * n + of_world);
      EXPECT_EQ(use.total("groups"), of_tensors + of_data);
      EXPECT_EQ(use.total("restoring"), is_resume ? 3 * n + 6 : 1);
      EXPECT_EQ(use.total("saving"), is_resume ? 0 : 1);
      EXPECT_EQ(use.total("building"), 0);
      EXPECT_EQ(use.total("steps"), 0);
      EXPECT_EQ(use.checks_in_steps, 0);
      keep_result({{"what", "calls to the store of all ranks together, over Gloo, without questions in waits"},
                   {"ranks", 2 * dp},
                   {"is_resume", is_resume},
                   {"joining", use.total("joining")},
                   {"groups", use.total("groups")},
                   {"restoring", use.total("restoring")},
                   {"steps", use.total("steps")},
                   {"saving", use.total("saving")}});
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
