#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "logs/builder.h"
#include "logs/line.h"

namespace lockstep::logs {

/// A row that waits for the end of the file, by which step time and elapsed time, and runs, are told apart.
struct HeldRow {
  LogLine line{};
  LogRow row{};
  double global_batch = record::kUnknown;
  bool is_start = false;
};

/// The rows of one run: of one combination of what the columns of facts hold.
struct CsvRun {
  std::vector<std::string> facts{};  // by column of facts; empty: not known
  std::string batch{};               // where its global batch tells it apart, too
  std::deque<HeldRow> rows{};
  int64_t num_rows_of_start = 0, num_headers = 0;
};

/// For each row the one before it of the same rank and start; nothing for a rank's first.
std::vector<std::optional<size_t>> rows_before(const std::deque<HeldRow>& rows);

/// Gives rows without a batch the samples of a step that the counts of samples since the start tell, where these grow
/// by one number of samples a step.
void take_batch_of_counts(std::deque<HeldRow>& rows);
/// Does a rank tell a step twice within one start? With `by_epoch` a step is one of its epoch.
bool repeats_steps(const std::deque<HeldRow>& rows, bool by_epoch = false);
/// Steps that begin again with each epoch and come once in each are numbered through; false where they do not.
bool number_through_epochs(std::deque<HeldRow>& rows);
/// Rows of a run whose steps come again with another global batch are those of several runs; a batch that changes on
/// the way, at the end of an epoch say, parts nothing.
std::vector<CsvRun> split_by_batch(CsvRun run);
/// Rows in any order: where no step comes twice, none was done again, and the order of the steps is theirs.
void order_by_step(std::deque<HeldRow>& rows);

}  // namespace lockstep::logs
