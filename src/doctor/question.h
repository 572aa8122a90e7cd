#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "hw/gpus.h"
#include "hw/ranks.h"

namespace lockstep::doctor {

/// What a program was built from, and a hash of the files that run.
struct ProgramIdentity {
  std::string version, commit;
  std::string file_hash;  ///< XXH3-128 of the front program, and of the engine where it is there.
};

/// What the system should reach; 0: not known.
struct ExpectedRates {
  std::string source{};            ///< Where the numbers are from: "table of systems, LUMI-G".
  double node_gbytes_per_s = 0;    ///< Of a node into the network, per direction.
  double memory_gbytes_per_s = 0;  ///< Of the memory that one rank of processor cores reaches (triad).
  int threads_of_rank = 0;         ///< Which that rank has.
};

/// What is looked at.
struct Question {
  hw::EnvLookup env = hw::process_env();
  hw::SystemRoots roots = hw::SystemRoots::here();
  std::optional<std::string> visible_devices = hw::visible_devices();  ///< `env` takes an empty one for none.
  ProgramIdentity program{};
  int needed_cuda = 0;  ///< That LibTorch was built for: 13000; 0: without CUDA, or not known.
  /// Says where the engine finds LibTorch, and throws what a command of the engine would; empty: there is no engine.
  std::function<std::string()> find_libtorch{};
  std::filesystem::path folder{};            ///< Where runs write (--logs).
  std::vector<std::string> data{};           ///< Files and folders that a run reads.
  size_t num_data_left_out = 0;              ///< Of a list too long to be looked at whole.
  std::vector<std::string> remote_data{};    ///< What it reads behind s3://, http:// and https://.
  size_t num_remote_data_left_out = 0;       ///< As above.
  std::vector<std::string> data_commands{};  ///< "pipe:COMMAND": what only running them would tell.
  std::string remote_sync{};                 ///< s3://BUCKET/FOLDER or a path that a run is copied to; "": none.
  std::string system{};                      ///< Name of a known system; "": by the names of host and cluster.
  ExpectedRates expected{};                  ///< Of that system, or of one of a file.
  std::string command{};                     ///< Command whose run is looked at ("train clip"); may be empty.
  std::string device = "auto";               ///< Its --device.
  std::string backend = "auto";              ///< Its --dist-backend.
  core::Json options{};                      ///< Its options, which all ranks must share.
  double memory_planned_bytes = 0;           ///< Of its fullest rank; 0: not known.
  double memory_here_bytes = 0;              ///< What the device of a rank has for it; 0: not known.
  std::chrono::milliseconds timeout{std::chrono::seconds(30)};
  bool measures = true;  ///< Measures speeds and asks for remote data, too: one rank of each node does.
  bool copies = true;    ///< Writes to `remote_sync`: rank 0 does, as it alone copies a run.
};

}  // namespace lockstep::doctor
