#pragma once
#include <ATen/core/TensorBody.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "record/checkpoint_manifest.h"

namespace lockstep::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

using NamedHandles = std::vector<std::pair<std::string, at::Tensor>>;

struct WriterConfig {
  std::filesystem::path run_folder;
  int64_t num_kept = 0;   ///< Newest checkpoints that stay; 0: all.
  int part = 0;           ///< Of the optimiser's state; part 0 also writes the model, and the manifest when all parts are there.
  int num_parts = 1;
};

/// Copies tensors aside and writes them as one checkpoint, or as a part of one, in a background thread; one at a time.
///
/// Parts meet through files: each part but 0 leaves a description beside its file, with size and hash or with what went wrong; part 0 waits
/// for all of them, lists them in the manifest and removes the descriptions.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(const WriterConfig& config) : config_(config) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Part 0 of several, before any part starts: makes the empty folder. What went wrong (a warning was logged), or "".
  std::string prepare(int64_t step, int attempt);
  /// Returns when the copies are queued behind the work on the tensors' device; later work may change the tensors at once.
  /// `manifest` lacks only its files. `metadata` goes into the optimiser's file.
  void start(const NamedHandles& model, const NamedHandles& optimizer, const std::map<std::string, std::string>& metadata,
             record::CheckpointManifest manifest);
  /// False when the last write failed; why was logged.
  bool wait();

 private:
  using Copies = NamedHandles;  // contiguous CPU tensors, kept from one checkpoint to the next
  static void copy_aside(const NamedHandles& from, Copies& to);
  std::filesystem::path folder_of(int64_t step, int attempt) const;
  std::string own_file() const;
  void write(record::CheckpointManifest manifest);
  void write_part(const std::filesystem::path& folder) const;
  void write_all(const std::filesystem::path& folder, record::CheckpointManifest& manifest) const;
  record::CheckpointFile await_part(const std::filesystem::path& folder, int part) const;
  void fail(const std::filesystem::path& folder, int64_t step, const std::string& why);
  void commit(const std::filesystem::path& folder, const record::CheckpointManifest& manifest) const;
  void remove_old() const;

  WriterConfig config_;
  Copies model_, optimizer_;
  std::map<std::string, std::string> metadata_;
  std::thread thread_;
  std::atomic<bool> is_ending_ = false;  // nobody waits long for other parts any more
  bool last_succeeded_ = true;           // written by the thread, read after joining it
};

}  // namespace lockstep::train
