#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "logs/line.h"
#include "record/run_data.h"

namespace lockstep::logs {

/// What one line says about a step. NaN: not known.
struct LogRow {
  int64_t step = 0;             ///< From 0; of an interval its last.
  int32_t num_steps = 0;        ///< Steps that step_ms is the mean of; 0: all since the line before.
  int32_t first_num_steps = 0;  ///< The same for the first line after a start; 0: as many as usually.
  int32_t num_skipped = 0;      ///< Of these steps, those that left the parameters alone.
  int32_t epoch = -1;
  double step_ms = record::kUnknown;  ///< Must be finite and above 0.
  double unit_ms = 0;                 ///< Unit in which it was printed; 0: always the same.
  double data_wait_ms = record::kUnknown, samples = record::kUnknown, tokens = record::kUnknown,
         loss = record::kUnknown, samples_seen = record::kUnknown;
  double samples_per_s = record::kUnknown, tflops_per_device = record::kUnknown;
};

/// Makes the runs of a log of its rows, one after the other: tells restarts (steps go back) from ranks that print into
/// one file, merges the ranks (the slowest counts), keeps of each step the last attempt. Most logs hold one run.
class LogBuilder {
 public:
  /// `blank`: what all runs of the log share; `given`: facts from outside the log.
  LogBuilder(const record::RunData& blank, const record::RunSetup& given) : blank_(blank), run_(blank), given_(given) {}

  /// The run that rows go to.
  record::RunData& run() { return run_; }
  /// What comes now belongs to another run, the `part` of the log: "nodes=2". The first one takes what was read of the
  /// log before.
  void begin_run(const std::string& part);
  /// What the log itself says.
  record::RunSetup& setup() { return run_.setup; }
  /// A count as the user gave it, else as the log says.
  std::optional<int64_t> known(std::optional<int64_t> record::RunSetup::*count) const {
    return given_.*count ? given_.*count : run_.setup.*count;
  }
  /// Adds a row; false (the line is to be rejected) when its time or step make no sense.
  bool add(const LogLine& line, const LogRow& row);
  /// The next row begins a new attempt whatever its step is: the program said that it starts.
  void start_attempt() { is_attempt_new_ = true; }
  /// Is a line that the program prints when it starts the first one of a start behind measurements? Where ranks name
  /// themselves, only behind its own.
  bool is_restart(const LogLine& line) const {
    return line.rank && !ranks_.contains(-1) ? ranks_.contains(*line.rank) : !ranks_.empty();
  }
  /// What the log says of itself from here on belongs to a new start, which is a new attempt, too: setup() is blank
  /// again. The run has the setup of its measured attempt.
  void begin_start();
  /// Rows of the current attempt are there.
  bool has_rows() const { return run_.steps.size() > 0; }
  /// Reported once however often it happens, with the number of times.
  void count_problem(const std::string& words);
  /// Once, at the end: all runs, at least one.
  std::vector<record::RunData> finish();

 private:
  struct RankState {
    int64_t last_step = -1;
    int attempt = 1;
  };
  void finish_run();
  void merge(size_t row, const LogRow& values);
  void tell_ranks();
  void append(const LogLine& line, const LogRow& values, int attempt);
  void fill_intervals();
  void take_measured_setup();

  const record::RunData blank_;
  record::RunData run_;
  std::vector<record::RunData> done_{};
  const record::RunSetup& given_;
  std::map<int, RankState> ranks_{};                  // by label; -1: lines without one
  std::map<std::pair<int, int64_t>, size_t> rows_{};  // (attempt, step) -> row
  std::map<std::string, int64_t> counted_{};
  std::vector<record::RunSetup> starts_{};    // of the starts before the present one
  std::map<int, size_t> start_of_attempt_{};  // index into starts_; their number: the present one
  int num_attempts_ = 1;
  std::set<int> labels_{};  // of all attempts
  bool is_attempt_new_ = false;
  double unit_ms_ = 0;
  int64_t num_late_ = 0,
          num_repeated_ =
              0;  // lines without a label that tell a step again with another time: late by an interval, or at once
};

}  // namespace lockstep::logs
