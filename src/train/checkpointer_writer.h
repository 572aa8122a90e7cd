#pragma once
#include <ATen/core/TensorBody.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "train/parts_index.h"
#include "train/staging_area.h"

namespace lockstep::train {

inline constexpr const char* kModelFile = "model.safetensors";
/// In CheckpointManifest::extra: the attempt from which on the run was continued without a break, 1 where it is
/// missing. A checkpoint never makes those of attempts before it superfluous.
inline constexpr const char* kFirstAttemptKey = "first_attempt";

/// One safetensors file of a checkpoint.
struct WrittenFile {
  std::string name;
  NamedHandles tensors = {};
  std::map<std::string, std::string> metadata = {};
  FileParts parts = {};  ///< Of all tensors, for the manifest.
};

int64_t bytes_of(std::span<const WrittenFile> files);

struct WriterConfig {
  std::filesystem::path run_folder;
  int64_t num_kept = 0;    ///< Newest checkpoints that stay, of attempts that continue each other; 0: all.
  int64_t num_newest = 1;  ///< Of them, those that stay also where they were saved for their rank alone.
  /// Is it a checkpoint that stays only while it is one of the num_newest? Older ones do not count for num_kept.
  std::function<bool(const checkpoint::CheckpointManifest&)> is_rolling = {};
  bool is_first = true;    ///< Of several writers one writes the manifest, when the files of all are there.
  bool is_shared = false;  ///< There may be several; prepare() then makes the folder.
  std::vector<std::string> awaited = {};  ///< Of the first: the files of the others.
  /// Of the first, in its thread, when the checkpoint is whole and before older ones are removed.
  checkpoint::SavedFunction on_saved = {};
  checkpoint::SavedFunction on_removal = {};  ///< Of the first, before a whole checkpoint is removed.
  /// Of the first: whether a superfluous checkpoint (its name) stays for now.
  std::function<bool(const std::string& name)> is_held = {};
  /// Throws when a rank has failed: its file would be awaited in vain, and copies from a device behind an aborted
  /// collective may be of anything.
  std::function<void()> check_alive = {};
  /// How long the first waits for a file of another, behind its own, since it last knew that it is being written.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  /// Of the first: whether the rank of a file is writing its files of a checkpoint (its name). Asked seldom.
  std::function<bool(const std::string& file, const std::string& checkpoint)> is_being_written = {};
  /// Of the others: the checkpoint that is being written, "" when it no longer is.
  std::function<void(const std::string& checkpoint)> on_writing = {};
};

/// Copies tensors aside and writes them as one checkpoint, or as files of one, in a background thread; one at a time.
///
/// Writers meet through files: each but the first leaves a description beside each of its files, with size, hash and
/// the parts it holds, or with what went wrong; the first waits for all of them, lists them in the manifest and removes
/// the descriptions. Hashes are computed while a file is written.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(const WriterConfig& config) : config_(config) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// The first of several, before any starts: makes the empty folder. What went wrong (a warning was logged), or "".
  std::string prepare(int64_t step, int attempt);
  /// Returns when the copies are queued behind the work on the tensors' device; later work may change the tensors at
  /// once. `manifest` lacks only its files. Throws what check_alive throws, and nothing is written then.
  void start(const std::vector<WrittenFile>& files, checkpoint::CheckpointManifest manifest);
  /// False when the last write failed; why was logged.
  bool wait();
  /// Whether the last write failed, as far as is known by now.
  bool has_failed() const { return !last_succeeded_; }
  /// The first, while nothing is written: removes whole checkpoints of attempts from `first_attempt` on that neither
  /// their age nor their rank (checkpoint::Ranking) keeps. The newest always stays. Nothing where another attempt has
  /// taken over from `attempt`.
  void remove_superfluous(int attempt, int first_attempt) const;

 private:
  /// What is to be written of a WrittenFile; its tensors lie in the staging area.
  struct StagedFile {
    std::string name;
    std::map<std::string, std::string> metadata;
    FileParts parts;
    int64_t num_bytes = 0;
    std::vector<core::ScatteredEntry> tensors;
  };
  std::filesystem::path folder_of(int64_t step, int attempt) const;
  void write(checkpoint::CheckpointManifest manifest);
  void write_for_first(const std::filesystem::path& folder);
  checkpoint::CheckpointFile write_file(const std::filesystem::path& folder, const StagedFile& file) const;
  std::exception_ptr write_described(const std::filesystem::path& folder, const StagedFile& file) const;
  void write_all(const std::filesystem::path& folder, checkpoint::CheckpointManifest& manifest) const;
  checkpoint::CheckpointFile await_file(const std::filesystem::path& folder, const std::string& name,
                                        FileParts& parts) const;
  void fail(const std::filesystem::path& folder, int64_t step, const std::string& why);
  void tell_failure(const std::filesystem::path& folder, int64_t step, bool is_committed, const std::exception& error);
  void commit(const std::filesystem::path& folder, const checkpoint::CheckpointManifest& manifest) const;

  WriterConfig config_;
  StagingArea staging_;
  std::vector<StagedFile> files_;
  std::thread thread_;
  std::atomic<bool> is_ending_ = false;      // nobody waits long for other parts any more
  std::atomic<bool> last_succeeded_ = true;  // while one is being written nothing else is known
};

}  // namespace lockstep::train
