#include "train/checkpoint_reader.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "core/error.h"
#include "train/agree.h"
#include "train/checkpointer_writer.h"
#include "train/parts_index.h"

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

/// One of `replicas`, which hold the same, reads for all of them; nullptr: each rank reads.
bool reads_for(comm::Comm* replicas) { return replicas == nullptr || replicas->rank() == 0; }

}  // namespace

core::Json callers_extra(const checkpoint::CheckpointManifest& manifest) {
  return manifest.extra.value(kCallersExtraKey, core::Json::object());
}

CheckpointReader::CheckpointReader(CheckpointState state, comm::Comm& world, LongWaits waits)
    : state_(std::move(state)), world_(world), waits_(std::move(waits)) {}

/// Those of which this rank reads at least half: in memory they take no more than twice what it reads.
std::set<std::string> CheckpointReader::files_to_keep(const checkpoint::CheckpointManifest& manifest) const {
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

std::optional<RestoredCheckpoint> CheckpointReader::take(const ChooseFunction& choose) const {
  HeldFiles held;
  const KeptFiles kept{.choose = [&](const auto& manifest) { return files_to_keep(manifest); }, .held = held};
  const auto chosen = decide_on_checkpoints(
      world_, is_in_parts(state_), waits_,
      [&](const checkpoint::VerifyFunction& verify) {
        return choose(state_.optimizer != nullptr ? verify : of_model(verify));
      },
      &kept);
  if (chosen.empty()) return std::nullopt;
  return load(chosen, held);
}

/// See reads_for(). Collective over all ranks.
ReadCounts CheckpointReader::read_once(comm::Comm* replicas, const std::vector<at::Tensor>& tensors,
                                       const std::function<ReadCounts()>& read) const {
  ReadCounts counts;
  succeed_together(
      world_,
      [&] {
        if (reads_for(replicas)) counts = read();
      },
      waits_.for_all);
  if (replicas != nullptr && replicas->size() > 1) broadcast_all(tensors, *replicas);
  return counts;
}

RestoredCheckpoint CheckpointReader::load(const fs::path& folder) const { return load(folder, {}); }

RestoredCheckpoint CheckpointReader::load(const fs::path& folder, const HeldFiles& held) const {
  const bool has_optimizer = state_.optimizer != nullptr;
  ReadCounts counts = held.counts();
  const auto read_head = [&] {
    const auto manifest = checkpoint::read_manifest(folder);
    const PartsIndex parts = PartsIndex::of_manifest(manifest.extra);
    if (!state_.layout.holds_part)
      counts.add(read_model({.folder = folder, .files = model_files(manifest), .parts = parts, .held = &held}, state_));
    if (has_optimizer && !is_in_parts(state_))
      counts.add(read_optimizer({.folder = folder, .files = optimizer_files(manifest), .parts = parts, .held = &held},
                                state_));
    return head_of(manifest).dump();
  };
  const auto head = core::parse_json(decide_on_rank_zero(world_, read_head, waits_.for_rank_zero), folder.string());
  const core::Json& extra = head.at("extra");
  const PartsIndex parts = PartsIndex::of_manifest(extra);
  RestoredCheckpoint restored{.folder = folder,
                              .position = {.step = head.at("step"),
                                           .epoch = head.at("epoch"),
                                           .samples_seen = head.at("samples_seen"),
                                           .data = head.at("data"),
                                           .extra = head.at("caller")},
                              .first_attempt = first_attempt_of(extra)};
  if (!state_.layout.holds_part) broadcast_all(model_tensors(state_), world_);
  const StoredIn model{.folder = folder, .files = head.at("model_files"), .parts = parts, .held = &held};
  const StoredIn optimizer{.folder = folder, .files = head.at("optimizer_files"), .parts = parts, .held = &held};
  if (state_.layout.holds_part)
    counts.add(read_once(state_.replicas, model_tensors(state_), [&] { return read_model(model, state_); }));
  if (has_optimizer && is_in_parts(state_))
    counts.add(read_once(state_.shards == nullptr ? state_.replicas : nullptr, optimizer_tensors(state_),
                         [&] { return read_optimizer(optimizer, state_); }));
  else
    broadcast_all(optimizer_tensors(state_), world_);
  if (state_.scaler != nullptr && extra.contains("loss_scaler"))
    state_.scaler->load_state(scaler_state_of(extra.at("loss_scaler"), folder));
  restored.read = counts;
  return restored;
}

}  // namespace lockstep::train
