#include "train/checkpointer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "core/error.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "models/weights_tensors.h"
#include "record/checkpoint_manifest.h"
#include "train/agree.h"
#include "train/checkpointer_optimizer.h"
#include "train/checkpointer_writer.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

NamedHandles model_tensors(const CheckpointState& state) {
  NamedHandles out;
  for (const auto& [name, tensor] : state.tensors) out.emplace_back(name, *tensor);
  return out;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  const std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  return fmt::format("{} ({}{})", names.size(), core::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

/// Copies a file's tensors into the handles; nothing is written unless all names and shapes agree.
void fill_from(const fs::path& path, const NamedHandles& targets) {
  const core::SafetensorsFile file(path);
  std::unordered_map<std::string, const core::SafetensorsEntry*> entries;
  for (const auto& entry : file.entries()) entries.emplace(entry.name, &entry);
  std::vector<std::string> missing, misshaped;
  for (const auto& [name, tensor] : targets) {
    const auto found = entries.find(name);
    if (found == entries.end())
      missing.push_back(name);
    else if (tensor.sizes() != at::IntArrayRef(found->second->shape))
      misshaped.push_back(name);
  }
  if (!missing.empty() || !misshaped.empty() || file.entries().size() != targets.size())
    throw CheckpointError(
        fmt::format(
            "train: checkpoint file '{}' is of another model: missing {}, other shape {}, tensors in file={}, expected={}",
            path.string(), first_names(missing), first_names(misshaped), file.entries().size(), targets.size()),
        "resume with the options the run was started with");
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : targets) tensor.detach().copy_(models::borrow_tensor(*entries.at(name), path.string()));
}

void broadcast_all(const NamedHandles& tensors, comm::Comm& world) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors)
    if (tensor.numel() > 0) world.broadcast(tensor.detach(), 0).wait();
}

double unix_time_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

Checkpointer::Checkpointer(const CheckpointerConfig& config, const CheckpointState& state, comm::Comm& world)
    : config_(config), state_(state), world_(world) {
  const auto claimed = decide_on_rank_zero(world_, [&] {
    fs::create_directories(config_.run_folder / "checkpoints");
    return fmt::format("{}", record::claim_checkpoints(config_.run_folder, config_.who).attempt);
  });
  attempt_ = static_cast<int>(core::parse_int(claimed).value());
  if (state_.shards != nullptr) check_shared_folder();
  if (state_.shards != nullptr || world_.rank() == 0)
    writer_ = std::make_unique<CheckpointWriter>(WriterConfig{.run_folder = config_.run_folder,
                                                              .num_kept = config_.num_kept,
                                                              .part = world_.rank(),
                                                              .num_parts = state_.shards != nullptr ? world_.size() : 1});
}

void Checkpointer::check_shared_folder() const {
  LOCKSTEP_CHECK(state_.shards->size() == world_.size(), "shards={} ranks={}", state_.shards->size(), world_.size());
  succeed_together(world_, [&] {
    const auto claim = config_.run_folder / "checkpoints" / fmt::format("owner.{}", attempt_);
    for (int tries = 0; !fs::exists(claim); ++tries) {  // network file systems show new files late
      if (tries == 100)
        throw EnvironmentError(fmt::format("train: '{}', which rank 0 has just written, is not here", claim.string()),
                               "every rank writes a part of a sharded checkpoint: put --logs on a file system that all nodes share, or use --grad-sync ddp");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

Checkpointer::~Checkpointer() = default;

void Checkpointer::save(const CheckpointPosition& position) {
  if (!writer_) return;
  if (state_.shards != nullptr) {
    writer_->wait();
    const auto problem = decide_on_rank_zero(world_, [&] { return writer_->prepare(position.step, attempt_); });
    if (!problem.empty()) return;  // rank 0 has warned
  }
  record::CheckpointManifest manifest;
  manifest.step = position.step;
  manifest.attempt = attempt_;
  manifest.world_size = world_.size();
  manifest.epoch = position.epoch;
  manifest.samples_seen = position.samples_seen;
  manifest.created_s = unix_time_s();
  manifest.code_version = config_.code_version;
  manifest.data_position = position.data;
  manifest.extra = {{"caller", position.extra}};
  if (state_.scaler != nullptr) {
    const auto scaler = state_.scaler->state();
    manifest.extra["loss_scaler"] = {{"scale", scaler.scale}, {"growth_tracker", scaler.growth_tracker}};
  }
  writer_->start(world_.rank() == 0 ? model_tensors(state_) : NamedHandles(), optimizer_tensors(state_), optimizer_metadata(state_), std::move(manifest));
}

bool Checkpointer::wait() { return !writer_ || writer_->wait(); }

std::optional<RestoredCheckpoint> Checkpointer::restore_latest() {
  const auto chosen = decide_on_rank_zero(world_, [&]() -> std::string {
    const auto choice = record::choose_latest(config_.run_folder, record::VerifyDepth::kHashes);
    for (const auto& reason : choice.skipped) core::log_warning("train: checkpoint passed over: {}", reason);
    if (!choice.chosen && !choice.skipped.empty())
      throw CheckpointError(fmt::format("train: none of the {} checkpoints in '{}' is whole", choice.skipped.size(),
                                        (config_.run_folder / "checkpoints").string()),
                            "the warnings above say what is wrong with each; start a run of another --name to begin anew");
    if (choice.chosen && !choice.skipped.empty())
      core::log_warning("train: falling back to '{}'", choice.chosen->folder.string());
    return choice.chosen ? choice.chosen->folder.string() : "";
  });
  if (chosen.empty()) return std::nullopt;
  return load(chosen);
}

RestoredCheckpoint Checkpointer::restore(const fs::path& folder) {
  decide_on_rank_zero(world_, [&]() -> std::string {
    if (!fs::exists(folder / record::kManifestName))
      throw CheckpointError(fmt::format("train: '{}' is no checkpoint: {}", folder.string(),
                                        fs::exists(folder) ? fmt::format("it has no {}", record::kManifestName) : "it does not exist"),
                            "name a folder <logs>/<name>/checkpoints/step-*, or go on with --name NAME --resume latest");
    const auto manifest = record::read_manifest(folder);
    const auto damage = record::verify_files(folder, manifest, record::VerifyDepth::kHashes);
    if (!damage.empty())
      throw CheckpointError(fmt::format("train: checkpoint '{}' is damaged: {}", folder.string(), core::join(damage, "; ")),
                            "use --resume latest to take the newest whole one");
    return "";
  });
  return load(folder);
}

RestoredCheckpoint Checkpointer::load(const fs::path& folder) {
  const auto head = decide_on_rank_zero(world_, [&] {
    const auto manifest = record::read_manifest(folder);
    fill_from(folder / kModelFile, model_tensors(state_));
    std::vector<std::string> optimizer_files;
    for (const auto& file : manifest.files)
      if (is_optimizer_file(file.name)) optimizer_files.push_back(file.name);
    if (state_.shards == nullptr) read_optimizer(folder, optimizer_files, state_);
    return core::Json{{"step", manifest.step}, {"epoch", manifest.epoch}, {"samples_seen", manifest.samples_seen}, {"data", manifest.data_position},
                      {"extra", manifest.extra}, {"optimizer_files", optimizer_files}}
        .dump();
  });
  const auto parsed = core::parse_json(head, folder.string());
  broadcast_all(model_tensors(state_), world_);
  if (state_.shards != nullptr) succeed_together(world_, [&] { read_optimizer(folder, parsed.at("optimizer_files"), state_); });
  else broadcast_all(optimizer_tensors(state_), world_);
  if (state_.scaler != nullptr && parsed.at("extra").contains("loss_scaler")) {
    const auto& scaler = parsed.at("extra").at("loss_scaler");
    state_.scaler->load_state({.scale = scaler.at("scale"), .growth_tracker = scaler.at("growth_tracker")});
  }
  return {.folder = folder,
          .position = {.step = parsed.at("step"),
                       .epoch = parsed.at("epoch"),
                       .samples_seen = parsed.at("samples_seen"),
                       .data = parsed.at("data"),
                       .extra = parsed.at("extra").value("caller", core::Json::object())}};
}

}  // namespace lockstep::train
