#include "train/checkpointer_writer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "models/weights_tensors.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

/// Waits until all work queued so far on the current streams of the tensors' devices is done.
void wait_for_devices(const NamedHandles& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_cpu()) continue;
    const c10::impl::VirtualGuardImpl guard(tensor.device().type());
    guard.synchronizeStream(guard.getStream(tensor.device()));  // sync: the copies must be whole before the update goes on
    return;                                                     // all tensors of a rank are on one device
  }
}

int64_t bytes_of(const NamedHandles& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void write_tensors(const fs::path& path, const NamedHandles& tensors) {
  std::vector<core::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back(models::borrow_entry(name, tensor));
  core::write_safetensors(path, entries, {{"format", "pt"}});
}

/// Finds a full disk before gigabytes were written.
void check_space(const fs::path& folder, int64_t bytes) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (!error && space.available < static_cast<uintmax_t>(bytes))
    throw EnvironmentError(
        fmt::format("train: no room for a checkpoint in '{}': free bytes={}, needed={}", folder.string(), space.available, bytes),
        "delete old checkpoints, or use --delete-previous-checkpoint or --keep N");
}

}  // namespace

void CheckpointWriter::copy_aside(const NamedHandles& from, Copies& to) {
  const c10::NoGradGuard no_grad;
  const bool fits =
      from.size() == to.size() && std::equal(from.begin(), from.end(), to.begin(), [](const auto& a, const auto& b) {
        return a.first == b.first && a.second.sizes() == b.second.sizes() && a.second.scalar_type() == b.second.scalar_type();
      });
  if (!fits) {
    to.clear();
    for (const auto& [name, tensor] : from)
      to.emplace_back(name, at::empty(tensor.sizes(),
                                      tensor.options().device(at::kCPU).requires_grad(false).pinned_memory(tensor.is_cuda())));
  }
  for (size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second.detach(), /*non_blocking=*/from[i].second.is_cuda());
}

void CheckpointWriter::start(const NamedHandles& model, const NamedHandles& optimizer, record::CheckpointManifest manifest) {
  wait();
  copy_aside(model, model_);
  copy_aside(optimizer, optimizer_);
  wait_for_devices(model);
  thread_ = std::thread([this, manifest = std::move(manifest)]() mutable { write(std::move(manifest)); });
}

bool CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  return last_succeeded_;
}

void CheckpointWriter::write(record::CheckpointManifest manifest) {
  const auto folder = run_folder_ / "checkpoints" / record::checkpoint_name(manifest.step, manifest.attempt);
  last_succeeded_ = false;
  try {
    write_files(folder, manifest);
    commit(folder, manifest);
    last_succeeded_ = true;
    core::log_info("saved checkpoint {}", folder.filename().string());
    remove_old();
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const std::string text = known != nullptr ? known->text() : error.what();
    if (last_succeeded_) {
      core::log_warning("train: checkpoint of step {} is saved, but cleaning up after it failed: {}", manifest.step, text);
      return;
    }
    core::log_warning("train: checkpoint of step {} was not saved, the one before stays and training goes on: {}", manifest.step,
                      text);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
}

void CheckpointWriter::write_files(const fs::path& folder, record::CheckpointManifest& manifest) const {
  fs::remove_all(folder);  // what an interrupted save of the same step left
  fs::create_directories(folder);
  check_space(folder, bytes_of(model_) + bytes_of(optimizer_));
  write_tensors(folder / kModelFile, model_);
  write_tensors(folder / kOptimizerFile, optimizer_);
  manifest.files = {record::describe_file(folder, kModelFile), record::describe_file(folder, kOptimizerFile)};
}

void CheckpointWriter::commit(const fs::path& folder, const record::CheckpointManifest& manifest) const {
  if (record::is_superseded(run_folder_, manifest.attempt))
    throw CheckpointError(
        fmt::format("train: attempt {} does not own the checkpoints of '{}' any more", manifest.attempt, run_folder_.string()),
        "a later run of the same name has taken over; end this one");
  record::write_manifest(folder, manifest);
  core::write_file_atomic(run_folder_ / "checkpoints" / "latest", folder.filename().string() + "\n");
}

void CheckpointWriter::remove_old() const {
  if (num_kept_ <= 0) return;
  int64_t num_usable = 0;
  for (const auto& entry : record::list_checkpoints(run_folder_)) {
    if (!entry.problem.empty() || ++num_usable <= num_kept_) continue;
    // Renamed first: whoever lists meanwhile never sees half a checkpoint.
    const auto trash = entry.folder.parent_path() / ("trash." + entry.folder.filename().string());
    fs::rename(entry.folder, trash);
    fs::remove_all(trash);
  }
}

}  // namespace lockstep::train
