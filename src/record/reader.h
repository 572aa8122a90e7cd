#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "record/steps.h"

namespace lockstep::record {

/// The steps of a run, ordered by step, each from the last attempt that did it.
struct StepsRead {
  std::vector<StepRecord> steps{};
  int64_t num_superseded = 0;     ///< Lines of earlier attempts (or repeated ones) that a later line replaced.
  int64_t num_damaged = 0;        ///< Lines that could not be read.
  bool is_last_line_cut = false;  ///< The file does not end with a line end: the writer died or still writes. Counted
                                  ///< in num_damaged too, unless the line is whole.
};

/// The same from the text of a steps.jsonl; `where` is for messages.
StepsRead parse_steps(std::string_view content, std::string_view where);
/// Reads steps.jsonl of a run folder. Damaged lines are skipped and counted. EnvironmentError when there is no such
/// file.
StepsRead read_steps(const std::filesystem::path& folder);

/// Objects of any other JSON Lines file of a record (ranks.jsonl, comm.jsonl, results.jsonl), in file order; damaged
/// lines are counted.
struct LinesRead {
  std::vector<core::Json> lines;
  int64_t num_damaged = 0;
  bool is_last_line_cut = false;
};
LinesRead parse_json_lines(std::string_view content, std::string_view where);
LinesRead read_json_lines(const std::filesystem::path& path);

/// A record_version above ours: damage can be worked around, this cannot.
class NewerRecordError : public DataError {
 public:
  using DataError::DataError;
};

/// run.json. DataError for another layout; a record_version above ours is refused with a hint.
struct RunRead {
  int record_version = 0;
  core::Json attempts;  ///< Array of objects.
};
RunRead read_run(const std::filesystem::path& folder);

/// status.json.
struct StatusRead {
  std::string state;  ///< "running", "finished", "stopped", "failed"
  int attempt = 0;
  std::optional<int> exit_code;
  std::optional<int> first_failing_rank;
  std::string message;
  std::optional<int64_t> steps_done;  ///< Optimiser steps.
  std::string cuda_graphs;            ///< "used", "refused: why", "off", "not with several ranks"; "" on CPUs.
  double heartbeat_s = 0, heartbeat_every_s = 0;
  std::optional<double> ended_s;
  int64_t dropped_lines = 0;
  std::string writer{};        ///< "pid 123 on node7": the process that keeps the record.
  bool has_no_writer = false;  ///< It says "running", and its writer, on this machine, is gone.

  /// True when it says "running" but its writer is gone, or the heartbeat has stopped: the run died without a word.
  bool is_dead(double now_unix_s) const;
};
StatusRead read_status(const std::filesystem::path& folder);

}  // namespace lockstep::record
