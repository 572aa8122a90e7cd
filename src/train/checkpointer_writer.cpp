#include "train/checkpointer_writer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <exception>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "models/weights_tensors.h"
#include "train/checkpointer_optimizer.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDescriptionSuffix = ".json";
/// How long part 0 waits for another part behind its own; and once its own rank is ending.
constexpr std::chrono::minutes kPatience{10};
constexpr std::chrono::seconds kLastPatience{30};

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

void write_tensors(const fs::path& path, const NamedHandles& tensors, std::map<std::string, std::string> metadata = {}) {
  std::vector<core::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back(models::borrow_entry(name, tensor));
  metadata.emplace("format", "pt");
  core::write_safetensors(path, entries, metadata);
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

CheckpointWriter::~CheckpointWriter() {
  is_ending_ = true;
  wait();
}

fs::path CheckpointWriter::folder_of(int64_t step, int attempt) const {
  return config_.run_folder / "checkpoints" / record::checkpoint_name(step, attempt);
}

std::string CheckpointWriter::own_file() const { return optimizer_file_name(config_.part, config_.num_parts); }

std::string CheckpointWriter::prepare(int64_t step, int attempt) {
  const auto folder = folder_of(step, attempt);
  try {
    fs::remove_all(folder);  // what an interrupted save of the same step left
    fs::create_directories(folder);
    return "";
  } catch (const std::exception& error) {
    fail(folder, step, error.what());
    return error.what();
  }
}

void CheckpointWriter::start(const NamedHandles& model, const NamedHandles& optimizer, const std::map<std::string, std::string>& metadata,
                             record::CheckpointManifest manifest) {
  wait();
  copy_aside(model, model_);
  copy_aside(optimizer, optimizer_);
  metadata_ = metadata;
  wait_for_devices(optimizer.empty() ? model : optimizer);
  thread_ = std::thread([this, manifest = std::move(manifest)]() mutable { write(std::move(manifest)); });
}

bool CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  return last_succeeded_;
}

void CheckpointWriter::fail(const fs::path& folder, int64_t step, const std::string& why) {
  last_succeeded_ = false;
  core::log_warning("train: checkpoint of step {} was not saved, the one before stays and training goes on: {}", step, why);
  std::error_code ignored;
  if (config_.part == 0) fs::remove_all(folder, ignored);
}

void CheckpointWriter::write(record::CheckpointManifest manifest) {
  const auto folder = folder_of(manifest.step, manifest.attempt);
  bool is_committed = false;
  try {
    if (config_.part > 0) {
      write_part(folder);
      last_succeeded_ = true;
      return;
    }
    write_all(folder, manifest);
    commit(folder, manifest);
    is_committed = last_succeeded_ = true;
    core::log_info("saved checkpoint {}", folder.filename().string());
    remove_old();
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const std::string text = known != nullptr ? known->text() : error.what();
    if (is_committed) core::log_warning("train: checkpoint of step {} is saved, but cleaning up after it failed: {}", manifest.step, text);
    else fail(folder, manifest.step, text);
  }
}

/// Of parts but 0: the file, then its description.
void CheckpointWriter::write_part(const fs::path& folder) const {
  core::Json description;
  std::exception_ptr failure;
  try {
    check_space(folder, bytes_of(optimizer_));
    write_tensors(folder / own_file(), optimizer_, metadata_);
    const auto file = record::describe_file(folder, own_file());
    description = {{"bytes", file.bytes}, {"xxh3", file.xxh3}};
  } catch (const std::exception& error) {
    failure = std::current_exception();
    description = {{"error", error.what()}};
  }
  core::write_file_atomic(folder / (own_file() + kDescriptionSuffix), description.dump(-1, ' ', true, core::Json::error_handler_t::replace));
  if (failure) std::rethrow_exception(failure);
}

void CheckpointWriter::write_all(const fs::path& folder, record::CheckpointManifest& manifest) const {
  if (config_.num_parts == 1) {
    fs::remove_all(folder);  // what an interrupted save of the same step left
    fs::create_directories(folder);
  }
  check_space(folder, bytes_of(model_) + bytes_of(optimizer_) * config_.num_parts);
  write_tensors(folder / kModelFile, model_);
  write_tensors(folder / own_file(), optimizer_, metadata_);
  manifest.files = {record::describe_file(folder, kModelFile), record::describe_file(folder, own_file())};
  for (int part = 1; part < config_.num_parts; ++part) manifest.files.push_back(await_part(folder, part));
}

record::CheckpointFile CheckpointWriter::await_part(const fs::path& folder, int part) const {
  const std::string name = optimizer_file_name(part, config_.num_parts);
  const auto description = folder / (name + kDescriptionSuffix);
  const auto begin = std::chrono::steady_clock::now();
  while (!fs::exists(description)) {
    if (std::chrono::steady_clock::now() - begin > (is_ending_ ? std::chrono::seconds(kLastPatience) : std::chrono::seconds(kPatience)))
      throw CheckpointError(fmt::format("train: rank {} has not written its part '{}'", part, name), "did that rank stop, or does it see another file system?");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto said = core::read_json_file(description);
  if (said.contains("error")) throw CheckpointError(fmt::format("train: rank {} could not write its part: {}", part, said.at("error").get<std::string>()));
  fs::remove(description);
  return {.name = name, .bytes = said.at("bytes"), .xxh3 = said.at("xxh3")};
}

void CheckpointWriter::commit(const fs::path& folder, const record::CheckpointManifest& manifest) const {
  if (record::is_superseded(config_.run_folder, manifest.attempt))
    throw CheckpointError(
        fmt::format("train: attempt {} does not own the checkpoints of '{}' any more", manifest.attempt, config_.run_folder.string()),
        "a later run of the same name has taken over; end this one");
  record::write_manifest(folder, manifest);
  core::write_file_atomic(config_.run_folder / "checkpoints" / "latest", folder.filename().string() + "\n");
}

void CheckpointWriter::remove_old() const {
  if (config_.num_kept <= 0) return;
  int64_t num_usable = 0;
  for (const auto& entry : record::list_checkpoints(config_.run_folder)) {
    if (!entry.problem.empty() || ++num_usable <= config_.num_kept) continue;
    // Renamed first: whoever lists meanwhile never sees half a checkpoint.
    const auto trash = entry.folder.parent_path() / ("trash." + entry.folder.filename().string());
    fs::rename(entry.folder, trash);
    fs::remove_all(trash);
  }
}

}  // namespace lockstep::train
