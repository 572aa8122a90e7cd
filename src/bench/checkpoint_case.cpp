#include "bench/checkpoint_case.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "bench/sample_stats.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/units.h"
#include "tasks/contrastive/engine/contrastive_training.h"
#include "train/agree.h"
#include "train/checkpointer.h"

namespace lockstep::bench {
namespace {

using core::Clock;

namespace fs = std::filesystem;

/// A new folder below `above`, the same on all ranks; rank 0 removes it at the end.
class ScratchFolder {
 public:
  ScratchFolder(const std::string& above, comm::Comm& world) : is_owner_(world.rank() == 0) {
    path_ = train::decide_on_rank_zero(world, [&] {
      std::error_code error;
      fs::create_directories(above, error);
      std::string name = (fs::path(above) / "lockstep-bench-XXXXXX").string();
      if (error || ::mkdtemp(name.data()) == nullptr)
        throw EnvironmentError(fmt::format("bench: cannot make a folder in '{}'", above),
                               "choose a --dir that can be written");
      return name;
    });
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (is_owner_) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool is_owner_;
};

/// Asks the kernel to forget the files, so that reading them again comes from the storage.
void drop_from_cache(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) {
      const core::Fd file = core::open_for_reading(entry.path());
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

class CheckpointCase final : public BenchCase {
 public:
  explicit CheckpointCase(const BenchContext& context) : context_(context) {}

  std::vector<core::Json> points() override {
    const auto& o = context_.options.train;
    return {{{"part", "checkpoint"}, {"model", o.model}, {"precision", o.precision}}};
  }

  std::vector<std::string> preamble() override {
    return {fmt::format("lockstep bench checkpoint: {} of {}, below '{}'", context_.options.train.model,
                        core::counted(world().size(), "rank"), context_.options.directory),
            fmt::format("warmup iters: {} iters: {}; medians. staging: what the training loop waits for. save: until "
                        "all is on the storage "
                        "(fsync). load: with the check of all hashes, after the kernel was asked to forget the files",
                        context_.options.num_warmup, context_.options.num_iterations),
            ""};
  }

  std::vector<TableColumn> columns() override {
    return {{.key = "model", .title = "model", .is_in_table = false},
            {.key = "precision", .title = "precision", .width = 9},
            {.key = "gbytes", .title = "size", .unit = "GB", .width = 8, .decimals = 3},
            {.key = "staging_ms", .title = "staging", .unit = "ms", .width = 10},
            {.key = "save_ms", .title = "save", .unit = "ms", .width = 10},
            {.key = "save_gbytes_per_s", .title = "save", .unit = "GB/s", .width = 8, .decimals = 3},
            {.key = "load_ms", .title = "load", .unit = "ms", .width = 10},
            {.key = "load_gbytes_per_s", .title = "load", .unit = "GB/s", .width = 8, .decimals = 3},
            {.key = "wrong", .title = "#wrong", .width = 7}};
  }

  int64_t verify(core::Json& row) override {
    const c10::NoGradGuard no_grad;
    prepare();
    save_once();
    std::vector<at::Tensor> before;
    for (const at::Tensor& tensor : all_tensors()) before.push_back(tensor.clone());
    for (const at::Tensor& tensor : all_tensors()) tensor.zero_();  // parameters may be listed twice
    load_once();
    at::Tensor wrong = at::zeros({1}, at::TensorOptions(context_.device).dtype(at::kLong));
    const auto after = all_tensors();
    for (size_t i = 0; i < after.size(); ++i) wrong += after[i].ne(before[i]).sum();
    world().all_reduce(wrong).wait();
    row["wrong"] = wrong.item<int64_t>();  // sync: a check
    row["bytes"] = bytes_;
    row["gbytes"] = static_cast<double>(bytes_) / 1e9;
    return row["wrong"];
  }

  void time(core::Json& row) override {
    const c10::NoGradGuard no_grad;
    prepare();
    std::vector<double> staging_ms, save_ms, load_ms;
    const int64_t total = context_.options.num_warmup + context_.options.num_iterations;
    for (int64_t i = 0; i < total; ++i) {
      const auto [staging, save] = save_once();
      const double load = load_once();
      if (i < context_.options.num_warmup) continue;
      staging_ms.push_back(staging);
      save_ms.push_back(save);
      load_ms.push_back(load);
    }
    add(row, "staging", staging_ms);
    add(row, "save", save_ms);
    add(row, "load", load_ms);
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>&) override { return {}; }

 private:
  comm::Comm& world() const { return context_.world; }

  void prepare() {
    if (checkpointer_) return;
    const auto& options = context_.options.train;
    training_ = tasks::build_contrastive_training(options, tasks::contrastive_shape_of(options), world(),
                                                  context_.device, /*num_micro_batches=*/1);
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(options.seed));
    for (const auto& state : training_.optimizer->state())  // zeros would compress on some file systems
      for (const auto& [name, moment] : state.tensors)
        moment.copy_(at::randn(moment.sizes(), generator, at::TensorOptions().dtype(at::kFloat)));
    state_ = train::checkpoint_state(training_);
    folder_.emplace(context_.options.directory, world());
    train::CheckpointerConfig config;
    config.run_folder = folder_->path();
    config.num_kept = 1;
    checkpointer_ = std::make_unique<train::Checkpointer>(config, state_, world());
  }

  std::vector<at::Tensor> all_tensors() const {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : state_.tensors) tensors.push_back(tensor->detach());
    for (const auto& state : training_.optimizer->state())
      for (const auto& [name, moment] : state.tensors) tensors.push_back(moment);
    for (const auto& segment : training_.optimizer->segments())
      tensors.push_back(segment.parameter.detach());  // master copies, or again parameters
    return tensors;
  }

  /// How long the caller of save() waits, and how long until the checkpoint is durable.
  std::pair<double, double> save_once() {
    world().barrier();
    const auto begin = Clock::now();
    train::CheckpointPosition position;
    position.step = ++step_;
    checkpointer_->save(position);
    const double staging = core::ms_since(begin);
    train::succeed_together(world(), [&] {
      if (!checkpointer_->wait())
        throw CheckpointError(
            fmt::format("bench: the checkpoint could not be written below '{}'; the warning above says why",
                        folder_->path().string()),
            "choose another --dir");
    });
    const double save = core::ms_since(begin);
    if (world().rank() == 0) bytes_ = bytes_below(folder_->path());
    return {staging, save};
  }

  double load_once() {
    if (world().rank() == 0) drop_from_cache(folder_->path());
    world().barrier();
    const auto begin = Clock::now();
    checkpointer_->restore_latest();
    return core::ms_since(begin);
  }

  void add(core::Json& row, const std::string& what, const std::vector<double>& mine_ms) const {
    const auto samples = combine_ranks(world(), mine_ms, "max");
    const auto statistics = statistics_of(samples);
    row[what + "_ms"] = statistics["median"];
    if (what != "staging")
      row[what + "_gbytes_per_s"] = static_cast<double>(bytes_) / statistics["median"].get<double>() / 1e6;
    row[what + "_statistics_ms"] = statistics;
    row[what + "_samples_ms"] = samples;
  }

  BenchContext context_;
  train::Training training_;
  train::CheckpointState state_;
  std::optional<ScratchFolder> folder_;
  std::unique_ptr<train::Checkpointer> checkpointer_;  // after the folder: its thread ends first
  int64_t step_ = 0, bytes_ = 0;
};

}  // namespace

std::unique_ptr<BenchCase> make_checkpoint_case(const BenchContext& context) {
  return std::make_unique<CheckpointCase>(context);
}

}  // namespace lockstep::bench
