#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "record/checkpoint_manifest.h"

namespace lockstep::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

using NamedHandles = std::vector<std::pair<std::string, at::Tensor>>;

/// Copies tensors aside and writes them as one checkpoint in a background thread; one at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path run_folder, int64_t num_kept)
      : run_folder_(std::move(run_folder)), num_kept_(num_kept) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter() { wait(); }

  /// Returns when the copies are queued behind the work on the tensors' device; later work may change the tensors at once.
  /// `manifest` lacks only its files.
  void start(const NamedHandles& model, const NamedHandles& optimizer, record::CheckpointManifest manifest);
  /// False when the last write failed; why was logged.
  bool wait();

 private:
  using Copies = NamedHandles;  // contiguous CPU tensors, kept from one checkpoint to the next
  static void copy_aside(const NamedHandles& from, Copies& to);
  void write(record::CheckpointManifest manifest);
  void write_files(const std::filesystem::path& folder, record::CheckpointManifest& manifest) const;
  void commit(const std::filesystem::path& folder, const record::CheckpointManifest& manifest) const;
  void remove_old() const;

  std::filesystem::path run_folder_;
  int64_t num_kept_;
  Copies model_, optimizer_;
  std::thread thread_;
  bool last_succeeded_ = true;  // written by the thread, read after joining it
};

}  // namespace lockstep::train
