#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "analysis/options.h"
#include "core/csv_table.h"
#include "draw/document.h"
#include "published/checked_cell.h"

namespace lockstep::published {

/// A published table, recomputed cell by cell from its own numbers.
struct PublishedTable {
  std::filesystem::path source{};
  core::CsvTable printed{};
  std::vector<std::string> given{};  ///< By column: its name as it was written.
  std::vector<CheckedCell> cells{};  ///< Every cell of a derived column.
  draw::Table recomputed{};  ///< As printed, with the recomputed value beside each derived one, and what lockstep adds.
  draw::Table differences{};  ///< Cells that do not follow from their formula.
  analysis::Analysis rows{};  ///< The rows as runs; no curves where the table has no rate over sizes.
  /// M09: efficiency or MFU that cannot be, as printed, recomputed or combined, in sentences.
  std::vector<std::string> doubts{};
  std::vector<std::string> assumed{};  ///< What was assumed of the work behind its times, in sentences.
  /// What it lacks and what could be computed with it: "the devices (a column gpus): ...".
  std::vector<std::string> missing{};
};

/// Recomputes a table; FLOPs and peak of the options win over those in its comments. DataError with file, line and
/// column for what cannot be read.
PublishedTable check_published(const std::filesystem::path& path, const analysis::AnalysisOptions& options = {});

/// What the curves of a table do not show; what holds for several of them stands there once.
std::vector<std::string> limits_of_rows(const analysis::Analysis& rows);

/// The rows of all tables as one analysis, for an application.
analysis::Analysis rows_of(const std::vector<PublishedTable>& tables, const analysis::AnalysisOptions& options);

/// One line: "nodes 8, efficiency_pct: printed 96.9, the formula gives 97.0 (96.953 to 96.9897): does not follow".
std::string difference_text(const CheckedCell& cell);

/// Tables that give different rates for the same model, device and number of nodes, in sentences.
std::vector<std::string> contradictions(const std::vector<PublishedTable>& tables);

draw::Document published_document(const std::vector<PublishedTable>& tables);
std::string published_json(const std::vector<PublishedTable>& tables);

}  // namespace lockstep::published
