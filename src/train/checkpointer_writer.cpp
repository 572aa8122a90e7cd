#include "train/checkpointer_writer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <system_error>

#include "checkpoint/ranking.h"
#include "core/error_lines.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/safetensors.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDescriptionSuffix = ".json";
/// How long the first writer waits for another's file once its own rank is ending.
constexpr std::chrono::seconds kLastPatience{30};

/// Waits until all work queued so far on the current streams of the tensors' devices is done. Whether it did.
bool wait_for_devices(const NamedHandles& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_cpu()) continue;
    const c10::impl::VirtualGuardImpl guard(tensor.device().type());
    guard.synchronizeStream(
        guard.getStream(tensor.device()));  // sync: the copies must be whole before the update goes on
    return true;                            // all tensors of a rank are on one device
  }
  return false;
}

/// Finds a full disk before gigabytes were written.
void check_space(const fs::path& folder, int64_t bytes) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (!error && space.available < static_cast<uintmax_t>(bytes))
    throw EnvironmentError(fmt::format("train: no room for a checkpoint in '{}': free bytes={}, needed={}",
                                       folder.string(), space.available, bytes),
                           "delete old checkpoints, or keep fewer with --keep N");
}

}  // namespace

int64_t bytes_of(std::span<const WrittenFile> files) {
  int64_t bytes = 0;
  for (const WrittenFile& file : files)
    for (const auto& [name, tensor] : file.tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

CheckpointWriter::~CheckpointWriter() {
  is_ending_ = true;
  wait();
}

fs::path CheckpointWriter::folder_of(int64_t step, int attempt) const {
  return config_.run_folder / "checkpoints" / checkpoint::checkpoint_name(step, attempt);
}

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

void CheckpointWriter::start(const std::vector<WrittenFile>& files, checkpoint::CheckpointManifest manifest) {
  wait();
  last_succeeded_ = true;
  files_.clear();
  std::vector<const NamedHandles*> tensors;
  for (const WrittenFile& file : files) tensors.push_back(&file.tensors);
  staging_.copy_aside(tensors);
  for (size_t i = 0; i < files.size(); ++i)
    files_.push_back({.name = files[i].name,
                      .metadata = files[i].metadata,
                      .parts = files[i].parts,
                      .num_bytes = bytes_of({&files[i], 1}),
                      .tensors = staging_.entries(i)});
  for (const WrittenFile& file : files)
    if (wait_for_devices(file.tensors) && config_.check_alive) config_.check_alive();
  try {
    thread_ = std::thread([this, manifest] { write(manifest); });
  } catch (const std::system_error& failure) {
    core::log_warning("train: no thread for writing a checkpoint, training waits for it: {}", failure.what());
    write(std::move(manifest));
  }
}

bool CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  return last_succeeded_;
}

void CheckpointWriter::fail(const fs::path& folder, int64_t step, const std::string& why) {
  last_succeeded_ = false;
  using checkpoint::Presence;
  const Presence older = checkpoint::find_usable_checkpoint(config_.run_folder);
  core::log_warning("train: checkpoint of step {} was not saved, {} and training goes on: {}", step,
                    older == Presence::kPresent  ? "the one before stays"
                    : older == Presence::kAbsent ? "there is none before it"
                                                 : "whether there is one before it is not known",
                    why);
  std::error_code ignored;
  if (config_.is_first) fs::remove_all(folder, ignored);
}

void CheckpointWriter::tell_failure(const fs::path& folder, int64_t step, bool is_committed,
                                    const std::exception& error) {
  try {
    const auto* known = dynamic_cast<const Error*>(&error);
    const std::string text = known != nullptr ? one_line_text(*known) : error.what();
    if (is_committed)
      core::log_warning("train: checkpoint of step {} is saved, but what follows it failed: {}", step, text);
    else
      fail(folder, step, text);
  } catch (const std::exception&) {  // no memory for words: whoever waits still learns that it failed
  }
}

/// Of writers but the first.
void CheckpointWriter::write_for_first(const fs::path& folder) {
  const auto tell = [&](const std::string& checkpoint) {
    if (config_.on_writing) config_.on_writing(checkpoint);
  };
  std::exception_ptr failure;
  tell(folder.filename().string());
  try {
    for (const StagedFile& file : files_) {
      auto problem = write_described(folder, file);
      if (!failure) failure = std::move(problem);
    }
  } catch (const std::exception&) {  // not even its description: the first sees that nobody writes any more
    failure = std::current_exception();
  }
  tell("");
  if (failure) std::rethrow_exception(failure);
  last_succeeded_ = true;
}

void CheckpointWriter::write(checkpoint::CheckpointManifest manifest) {
  const auto folder = folder_of(manifest.step, manifest.attempt);
  bool is_committed = false;
  try {
    if (!config_.is_first) return write_for_first(folder);
    write_all(folder, manifest);
    commit(folder, manifest);
    is_committed = last_succeeded_ = true;
    core::log_info("saved checkpoint {}", folder.filename().string());
    if (config_.on_saved) config_.on_saved(folder, manifest);
    checkpoint::remove_left_overs(config_.run_folder, manifest.attempt);
    remove_superfluous(manifest.attempt, manifest.extra.value(kFirstAttemptKey, 1));
  } catch (const std::exception& error) {
    last_succeeded_ = is_committed;
    tell_failure(folder, manifest.step, is_committed, error);
  }
}

checkpoint::CheckpointFile CheckpointWriter::write_file(const fs::path& folder, const StagedFile& file) const {
  auto metadata = file.metadata;
  metadata.emplace("format", "pt");
  const auto [bytes, xxh3] = core::write_safetensors(folder / file.name, file.tensors, metadata);
  return {.name = file.name, .bytes = bytes, .xxh3 = xxh3};
}

/// The file, then its description, also where it cannot be written.
std::exception_ptr CheckpointWriter::write_described(const fs::path& folder, const StagedFile& file) const {
  core::Json description;
  std::exception_ptr failure;
  try {
    check_space(folder, file.num_bytes);
    const auto written = write_file(folder, file);
    description = {{"bytes", written.bytes}, {"xxh3", written.xxh3}, {"parts", describe_parts(file.parts)}};
  } catch (const std::exception& error) {
    failure = std::current_exception();
    description = {{"error", error.what()}};
  }
  core::write_file_atomic(folder / (file.name + kDescriptionSuffix),
                          description.dump(-1, ' ', true, core::Json::error_handler_t::replace));
  return failure;
}

void CheckpointWriter::write_all(const fs::path& folder, checkpoint::CheckpointManifest& manifest) const {
  if (!config_.is_shared) {
    fs::remove_all(folder);  // what an interrupted save of the same step left
    fs::create_directories(folder);
  }
  int64_t num_bytes = 0;
  for (const StagedFile& file : files_) num_bytes += file.num_bytes;
  check_space(folder, num_bytes);
  PartsIndex index;
  for (const StagedFile& file : files_) {
    manifest.files.push_back(write_file(folder, file));
    index.add(file.name, file.parts);
  }
  for (const auto& name : config_.awaited) {
    FileParts parts;
    manifest.files.push_back(await_file(folder, name, parts));
    index.add(name, parts);
  }
  if (config_.is_shared) index.add_to_manifest(manifest.extra);
}

checkpoint::CheckpointFile CheckpointWriter::await_file(const fs::path& folder, const std::string& name,
                                                        FileParts& parts) const {
  const auto description = folder / (name + kDescriptionSuffix);
  const auto begin = std::chrono::steady_clock::now();
  auto last_sign = begin, last_question = begin;
  while (!fs::exists(description)) {
    if (config_.check_alive) config_.check_alive();
    const auto now = std::chrono::steady_clock::now();
    if (config_.is_being_written && now - last_question > config_.patience / 10) {
      last_question = now;
      if (config_.is_being_written(name, folder.filename().string())) last_sign = std::chrono::steady_clock::now();
    }
    if (is_ending_ ? now - begin > kLastPatience : now - last_sign > config_.patience)
      throw CheckpointError(fmt::format("train: another rank has not written its file '{}'", name),
                            "did that rank stop, or does it see another file system?");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto said = core::read_json_file(description);
  if (said.contains("error"))
    throw CheckpointError(fmt::format("train: the file '{}' of another rank could not be written: {}", name,
                                      said.at("error").get<std::string>()));
  parts = parts_from_json(said.at("parts"));
  fs::remove(description);
  return {.name = name, .bytes = said.at("bytes"), .xxh3 = said.at("xxh3")};
}

void CheckpointWriter::commit(const fs::path& folder, const checkpoint::CheckpointManifest& manifest) const {
  if (checkpoint::is_superseded(config_.run_folder, manifest.attempt))
    throw CheckpointError(fmt::format("train: attempt {} does not own the checkpoints of '{}' any more",
                                      manifest.attempt, config_.run_folder.string()),
                          "a later run of the same name has taken over; end this one");
  checkpoint::write_manifest(folder, manifest);
  core::write_file_atomic(config_.run_folder / "checkpoints" / "latest", folder.filename().string() + "\n");
}

void CheckpointWriter::remove_superfluous(int attempt, int first_attempt) const {
  if (checkpoint::is_superseded(config_.run_folder, attempt)) return;
  const checkpoint::Ranking ranking = checkpoint::read_ranking(config_.run_folder);
  if (config_.num_kept <= 0 && ranking.entries.empty() && !config_.is_rolling) return;
  std::vector<checkpoint::CheckpointEntry> usable = checkpoint::list_checkpoints(config_.run_folder);
  std::erase_if(usable, [](const auto& entry) { return entry.state != checkpoint::CheckpointState::kUsable; });
  std::vector<std::string> names;
  for (const auto& entry : usable) names.push_back(entry.folder.filename().string());
  const std::vector<std::string> best = ranking.best_of(names);
  if (checkpoint::has_damaged_ranking(config_.run_folder)) first_attempt = attempt;
  int64_t num_newer = 0, num_counted = 0;
  for (size_t i = 0; i < usable.size(); ++i) {
    if (usable[i].attempt < first_attempt) continue;
    const bool is_rolled =
        num_newer++ >= config_.num_newest && config_.is_rolling && config_.is_rolling(*usable[i].manifest);
    const bool is_new = !is_rolled && num_counted++ < std::max(config_.num_kept, config_.num_newest);
    const bool is_asked_for = config_.num_kept <= 0 && !is_rolled && !ranking.is_extra(names[i]);
    if (is_new || is_asked_for || std::find(best.begin(), best.end(), names[i]) != best.end()) continue;
    if (config_.is_held && config_.is_held(names[i])) continue;  // the next call removes it
    if (config_.on_removal) config_.on_removal(usable[i].folder, *usable[i].manifest);
    checkpoint::remove_checkpoint(usable[i].folder);
  }
}

}  // namespace lockstep::train
