#include "train/checkpointer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "checkpoint/is_there.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "checkpoint/room.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "train/agree.h"
#include "train/checkpoint_files.h"
#include "train/checkpointer_writer.h"
#include "train/tensor_part.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

/// Of what all ranks hold alike.
void broadcast_all(const std::vector<at::Tensor>& tensors, comm::Comm& world) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors)
    if (tensor.numel() > 0) world.broadcast(tensor.detach(), 0).wait();
}

std::vector<at::Tensor> model_tensors(const CheckpointState& state) {
  std::vector<at::Tensor> out;
  for (const auto& [name, tensor] : state.tensors) out.push_back(*tensor);
  return out;
}

constexpr const char* kCaller = "caller";  // beside what the Checkpointer itself keeps

/// What all ranks must know of a checkpoint.
core::Json head_of(const checkpoint::CheckpointManifest& manifest) {
  return {{"step", manifest.step},
          {"epoch", manifest.epoch},
          {"samples_seen", manifest.samples_seen},
          {"data", manifest.data_position},
          {"extra", manifest.extra},
          {"caller", callers_extra(manifest)},
          {"model_files", model_files(manifest)},
          {"optimizer_files", optimizer_files(manifest)}};
}

/// Since which attempt the run of a checkpoint goes on without a break.
int first_attempt_of(const core::Json& extra) {
  const int64_t attempt = extra.contains(kFirstAttemptKey) ? whole_number(extra.at(kFirstAttemptKey)) : 1;
  if (!std::in_range<int>(attempt)) throw CheckpointError(fmt::format("train: {}={}", kFirstAttemptKey, attempt));
  return static_cast<int>(attempt);
}

optim::LossScalerState scaler_state_of(const core::Json& said, const fs::path& folder) {
  try {
    return {
        .scale = said.at("scale"),
        .growth_tracker = whole_number(said.at("growth_tracker")),
        .hysteresis_tracker = said.contains("hysteresis_tracker") ? whole_number(said.at("hysteresis_tracker")) : 1};
  } catch (const core::Json::exception& error) {
    throw CheckpointError(
        fmt::format("train: checkpoint '{}' does not say the loss scale: {}", folder.string(), error.what()));
  }
}

RestoredCheckpoint restored_from(const fs::path& folder, const core::Json& head) {
  return {.folder = folder,
          .position = {.step = head.at("step"),
                       .epoch = head.at("epoch"),
                       .samples_seen = head.at("samples_seen"),
                       .data = head.at("data"),
                       .extra = head.at("caller")}};
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointerConfig& config, const CheckpointState& state, comm::Comm& world)
    : config_(config), state_(state), world_(world) {
  const auto claimed = decide_on_rank_zero(world_, [&] {
    fs::create_directories(config_.run_folder / "checkpoints");
    return fmt::format("{}",
                       checkpoint::claim_checkpoints(config_.run_folder, config_.who, config_.lowest_attempt).attempt);
  });
  attempt_ = first_attempt_ = static_cast<int>(core::parse_int(claimed).value());
  if (is_in_parts(state_)) check_shared_folder();
  std::vector<std::string> awaited;
  std::map<std::string, int> rank_of_file;
  if (is_in_parts(state_))
    for (const auto& [name, rank] : files_of_others()) {
      awaited.push_back(name);
      rank_of_file.emplace(name, rank);
    }
  std::function<bool(const std::string&, const std::string&)> is_being_written;
  if (config_.waits.is_at_work)
    is_being_written = [asks = config_.waits.is_at_work, rank_of_file](const std::string& file,
                                                                       const std::string& checkpoint) {
      return asks(rank_of_file.at(file), checkpoint);
    };
  if (world_.rank() == 0 || !files_to_write(state_, world_.rank(), world_.size()).empty())
    writer_ = std::make_unique<CheckpointWriter>(WriterConfig{.run_folder = config_.run_folder,
                                                              .num_kept = config_.num_kept,
                                                              .num_newest = config_.num_newest,
                                                              .is_rolling = config_.is_rolling,
                                                              .is_first = world_.rank() == 0,
                                                              .is_shared = is_in_parts(state_),
                                                              .awaited = awaited,
                                                              .on_saved = config_.on_saved,
                                                              .on_removal = config_.on_removal,
                                                              .is_held = config_.is_held,
                                                              .check_alive = [this] { world_.check_alive(); },
                                                              .is_being_written = is_being_written,
                                                              .on_writing = config_.waits.tell_work});
}

/// With their ranks, on rank 0. Collective.
std::vector<std::pair<std::string, int>> Checkpointer::files_of_others() const {
  core::Json own = core::Json::array();
  for (const auto& file : files_to_write(state_, world_.rank(), world_.size())) own.push_back(file.name);
  const auto of_ranks = world_.gather_strings(own.dump());
  std::vector<std::pair<std::string, int>> files;
  for (int rank = 1; rank < world_.size() && world_.rank() == 0; ++rank)
    for (const auto& name : core::parse_json(of_ranks[static_cast<size_t>(rank)], "files of a rank"))
      files.emplace_back(name.get<std::string>(), rank);
  return files;
}

void Checkpointer::check_shared_folder() const {
  succeed_together(world_, [&] {
    const auto claim = config_.run_folder / "checkpoints" / fmt::format("owner.{}", attempt_);
    for (int tries = 0; !fs::exists(claim); ++tries) {  // network file systems show new files late
      if (tries == 100)
        throw EnvironmentError(
            fmt::format("train: '{}', which rank 0 has just written, is not here", claim.string()),
            "every rank writes a part of the checkpoint: put --logs on a file system that all nodes share");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

void Checkpointer::warn_without_room() const {
  const int64_t own = bytes_of(files_to_write(state_, world_.rank(), world_.size()));
  int64_t all = 0;
  for (const auto& text : world_.gather_strings(std::to_string(own))) all += core::parse_int(text).value();
  if (world_.rank() != 0) return;
  const int64_t num_kept = config_.num_kept > 0 ? config_.num_kept + config_.num_best : 0;
  if (const auto warning = checkpoint::lacking_room(config_.run_folder, all, num_kept); !warning.empty())
    core::log_warning("{}", warning);
}

Checkpointer::~Checkpointer() = default;

bool Checkpointer::save(const CheckpointPosition& position) {
  if (is_in_parts(state_)) {
    if (writer_) writer_->wait();
    if (config_.waits.for_rank_zero) config_.waits.for_rank_zero();  // whose files before may take minutes still
    const auto problem = decide_on_rank_zero(world_, [&] { return writer_->prepare(position.step, attempt_); });
    if (!problem.empty()) return false;  // rank 0 has warned
  }
  if (!writer_) return true;
  checkpoint::CheckpointManifest manifest;
  manifest.step = position.step;
  manifest.attempt = attempt_;
  manifest.world_size = world_.size();
  manifest.epoch = position.epoch;
  manifest.samples_seen = position.samples_seen;
  manifest.created_s = core::unix_seconds();
  manifest.code_version = config_.code_version;
  manifest.data_position = position.data;
  manifest.extra = {{kCaller, position.extra}, {kFirstAttemptKey, first_attempt_}};
  if (state_.scaler != nullptr) {
    const auto scaler = state_.scaler->state();
    manifest.extra["loss_scaler"] = {{"scale", scaler.scale},
                                     {"growth_tracker", scaler.growth_tracker},
                                     {"hysteresis_tracker", scaler.hysteresis_tracker}};
  }
  writer_->start(files_to_write(state_, world_.rank(), world_.size()), std::move(manifest));
  return true;
}

bool Checkpointer::has_failed() const { return writer_ && writer_->has_failed(); }

bool Checkpointer::wait() { return !writer_ || writer_->wait(); }

void Checkpointer::remove_superfluous() {
  if (world_.rank() != 0) return;
  writer_->wait();
  try {
    writer_->remove_superfluous(attempt_, first_attempt_);
    if (!checkpoint::is_superseded(config_.run_folder, attempt_)) checkpoint::tidy_ranking(config_.run_folder);
  } catch (const std::exception& error) {
    core::log_warning("train: older checkpoints were not removed: {}", error.what());
  }
}

core::Json callers_extra(const checkpoint::CheckpointManifest& manifest) {
  return manifest.extra.value(kCaller, core::Json::object());
}

bool ends_epoch(const checkpoint::CheckpointManifest& manifest) {
  const core::Json facts = callers_extra(manifest);
  const auto steps = facts.find("steps_per_epoch");
  return steps != facts.end() && manifest.epoch > 0 && manifest.step == manifest.epoch * steps->get<int64_t>();
}

/// One of `replicas`, which hold the same, reads for all of them; nullptr: each rank reads.
static bool reads_for(comm::Comm* replicas) { return replicas == nullptr || replicas->rank() == 0; }

/// Those of which this rank reads at least half: in memory they take no more than twice what it reads.
std::set<std::string> Checkpointer::files_to_keep(const checkpoint::CheckpointManifest& manifest) const {
  constexpr double kLeastShare = 0.5;
  const PartsIndex parts = PartsIndex::of_manifest(manifest.extra);
  std::set<std::string> names;
  const auto add = [&](const FileParts& wanted, const std::vector<std::string>& files) {
    for (const auto& [name, share] : parts.shares_of(wanted, files))
      if (share >= kLeastShare) names.insert(name);
  };
  if (state_.layout.holds_part ? reads_for(state_.replicas) : world_.rank() == 0)
    add(model_parts(state_), model_files(manifest));
  if (reads_for(state_.shards == nullptr ? state_.replicas : nullptr))
    add(optimizer_parts(state_), optimizer_files(manifest));
  return names;
}

std::optional<RestoredCheckpoint> Checkpointer::restore_latest() {
  HeldFiles held;
  const KeptFiles kept{.choose = [&](const auto& manifest) { return files_to_keep(manifest); }, .held = held};
  const auto chosen = decide_on_checkpoints(
      world_, is_in_parts(state_), config_.waits,
      [&](const checkpoint::VerifyFunction& verify) -> std::string {
        const auto choice = checkpoint::choose_latest(config_.run_folder, verify);
        for (const auto& reason : choice.skipped) core::log_warning("train: checkpoint passed over: {}", reason);
        if (!choice.chosen && !choice.skipped.empty())
          throw CheckpointError(
              fmt::format("train: none of the {} checkpoints in '{}' is whole", choice.skipped.size(),
                          (config_.run_folder / "checkpoints").string()),
              "the warnings above say what is wrong with each; start a run of another name to begin anew");
        if (choice.chosen && !choice.skipped.empty())
          core::log_warning("train: falling back to '{}'", choice.chosen->folder.string());
        return choice.chosen ? choice.chosen->folder.string() : "";
      },
      &kept);
  if (chosen.empty()) return std::nullopt;
  return load(chosen, held);
}

/// What to give instead of `folder`, which is no checkpoint; perhaps it is a run.
static std::string hint_of_no_checkpoint(const fs::path& folder) {
  const fs::path run = (folder / "").lexically_normal().parent_path();
  std::error_code ignored;
  if (!fs::exists(run / "run.json", ignored))
    return "name a folder <logs>/<name>/checkpoints/step-*, or go on with --name NAME --resume latest";
  return fmt::format("it is a run: give --logs '{}' --name '{}' --resume latest",
                     run.has_parent_path() ? run.parent_path().string() : ".", run.filename().string());
}

RestoredCheckpoint Checkpointer::restore(const fs::path& folder) {
  HeldFiles held;
  const KeptFiles kept{.choose = [&](const auto& manifest) { return files_to_keep(manifest); }, .held = held};
  decide_on_checkpoints(
      world_, is_in_parts(state_), config_.waits,
      [&](const checkpoint::VerifyFunction& verify) -> std::string {
        if (!checkpoint::is_there(folder / checkpoint::kManifestName))
          throw CheckpointError(
              fmt::format("train: '{}' is no checkpoint: {}", folder.string(),
                          checkpoint::is_there(folder) ? fmt::format("it has no {}", checkpoint::kManifestName)
                                                       : "it does not exist"),
              hint_of_no_checkpoint(folder));
        require_whole(folder, /*with_optimizer=*/true, verify);
        return "";
      },
      &kept);
  return load(folder, held);
}

/// See reads_for(). Collective over all ranks.
ReadCounts Checkpointer::read_once(comm::Comm* replicas, const std::vector<at::Tensor>& tensors,
                                   const std::function<ReadCounts()>& read) {
  ReadCounts counts;
  succeed_together(
      world_,
      [&] {
        if (reads_for(replicas)) counts = read();
      },
      config_.waits.for_all);
  if (replicas != nullptr && replicas->size() > 1) broadcast_all(tensors, *replicas);
  return counts;
}

RestoredCheckpoint Checkpointer::load(const fs::path& folder) { return load(folder, {}); }

RestoredCheckpoint Checkpointer::load(const fs::path& folder, const HeldFiles& held) {
  ReadCounts counts = held.counts();
  const auto read_head = [&] {
    const auto manifest = checkpoint::read_manifest(folder);
    const PartsIndex parts = PartsIndex::of_manifest(manifest.extra);
    if (!state_.layout.holds_part)
      counts.add(read_model({.folder = folder, .files = model_files(manifest), .parts = parts, .held = &held}, state_));
    if (!is_in_parts(state_))
      counts.add(read_optimizer({.folder = folder, .files = optimizer_files(manifest), .parts = parts, .held = &held},
                                state_));
    return head_of(manifest).dump();
  };
  const auto head = decide_on_rank_zero(world_, read_head, config_.waits.for_rank_zero);
  const auto parsed = core::parse_json(head, folder.string());
  const PartsIndex parts = PartsIndex::of_manifest(parsed.at("extra"));
  std::error_code failure;
  if (fs::equivalent(folder.parent_path(), config_.run_folder / "checkpoints", failure))
    first_attempt_ = first_attempt_of(parsed.at("extra"));
  if (!state_.layout.holds_part) broadcast_all(model_tensors(state_), world_);
  const StoredIn model{.folder = folder, .files = parsed.at("model_files"), .parts = parts, .held = &held};
  const StoredIn optimizer{.folder = folder, .files = parsed.at("optimizer_files"), .parts = parts, .held = &held};
  if (state_.layout.holds_part)
    counts.add(read_once(state_.replicas, model_tensors(state_), [&] { return read_model(model, state_); }));
  if (is_in_parts(state_))
    counts.add(read_once(state_.shards == nullptr ? state_.replicas : nullptr, optimizer_tensors(state_),
                         [&] { return read_optimizer(optimizer, state_); }));
  else
    broadcast_all(optimizer_tensors(state_), world_);
  if (state_.scaler != nullptr && parsed.at("extra").contains("loss_scaler"))
    state_.scaler->load_state(scaler_state_of(parsed.at("extra").at("loss_scaler"), folder));
  RestoredCheckpoint restored = restored_from(folder, parsed);
  restored.read = counts;
  return restored;
}

RestoredCheckpoint Checkpointer::read_position(const fs::path& folder) {
  const auto head = decide_on_rank_zero(world_, [&] { return head_of(checkpoint::read_manifest(folder)).dump(); });
  return restored_from(folder, core::parse_json(head, folder.string()));
}

}  // namespace lockstep::train
