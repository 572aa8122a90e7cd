#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/json.h"
#include "record/append_queue.h"
#include "record/steps.h"

namespace lockstep::record {

/// What Weights & Biases is told of a run before its first number.
struct WandbRun {
  std::string id = {};                       ///< Also the name shown; later attempts of a run have the same.
  std::string project = {};                  ///< --wandb-project-name
  std::string notes = {};                    ///< --wandb-notes
  core::Json config = core::Json::object();  ///< The options.
  bool is_resumed = false;
};

/// The name of a run as an id that the service accepts: / \ # ? % and : become '-'.
std::string wandb_id(std::string_view run_name);

/// Serialised protobuf records (wandb_internal.proto), each with its number in the file, counted from 1.
std::string encode_wandb_header(int64_t number, const std::string& producer);
std::string encode_wandb_run(int64_t number, const WandbRun& run, const std::string& host, double start_time_s);
/// What the page of the run shows as its latest values.
std::string encode_wandb_summary(int64_t number, const NamedNumbers& values);
std::string encode_wandb_history(int64_t number, int64_t step, const NamedNumbers& values);
std::string encode_wandb_exit(int64_t number, int exit_code, int64_t runtime_s);

/// Frames of LevelDB's log format behind wandb's file header: blocks of 32 KiB, CRC-32 of type and piece.
class WandbFrames {
 public:
  static std::string file_header();
  /// The bytes that follow those made so far.
  std::string frame(std::string_view record);

 private:
  size_t offset_ = 7;  // of the file: its header comes first
};

/// An offline run, as `wandb sync FOLDER` uploads it: FOLDER/offline-run-TIME-ID/run-ID.wandb. Writing happens on
/// `queue`'s thread; the queue must outlive the writer. EnvironmentError when the file cannot be created.
class WandbWriter {
 public:
  WandbWriter(const std::filesystem::path& folder, const WandbRun& run, AppendQueue& queue);
  /// Steps never go back: earlier ones are taken as the latest.
  void add_scalars(int64_t step, const NamedNumbers& scalars);
  void finish(int exit_code);
  const std::filesystem::path& path() const { return path_; }

 private:
  void append(const std::string& record) { queue_.append(file_, frames_.frame(record)); }
  int64_t next_number() { return ++num_records_; }

  std::filesystem::path path_;
  AppendQueue& queue_;
  WandbFrames frames_;
  int file_ = -1;
  int64_t num_records_ = 0, last_step_ = 0;
  double start_time_s_ = 0;
};

}  // namespace lockstep::record
