#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/shards/source_config.h"

namespace lockstep::data {

struct StageConfig {
  SourceConfig source;
  std::filesystem::path folder = {};  ///< On storage of this node, or in memory (/dev/shm); made when missing.
  int64_t num_threads = 4;            ///< Files copied at the same time.
};

struct StageResult {
  std::string spec;  ///< In place of SourceConfig::spec.
  int64_t num_files = 0;
  uint64_t num_bytes = 0;
  double seconds = 0;      ///< Of the copy, or of the wait for the process that made it.
  bool was_there = false;  ///< By an earlier call, or another process of the node; nothing was copied.
};

/// Copies shards (with their side-cars and sizes.json), class folders or an LMDB to `folder`, below which each file
/// keeps its absolute path, so that the order of the samples stays and positions continue.
///
/// Each copy is read back and compared with what was read (XXH3-128), and appears under its name only then. Of several
/// processes of a node one copies, and the others wait for it. What an earlier call finished is taken over where names,
/// sizes and times of all files are still the same. UsageError for data that cannot be staged (pipe:, tables, made-up
/// data); EnvironmentError with both numbers where it does not fit; DataError where a file is missing or a copy
/// differs.
StageResult stage_data(const StageConfig& config);

}  // namespace lockstep::data
