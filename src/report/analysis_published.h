#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/table.h"
#include "report/analysis_curve.h"
#include "report/analysis_options.h"
#include "report/document.h"

namespace lockstep::report {

/// How a printed cell stands to the formula of its column.
enum class CellVerdict {
  kExact,          ///< The formula on the printed inputs gives the printed digits.
  kUnroundedOnly,  ///< Only inputs that the source had before rounding can give it.
  kNot,            ///< No inputs that round to the printed ones give it.
  kOtherMeaning,   ///< The arithmetic holds; the formula does not fit what the cell is said to be. The remark says why.
};

struct CheckedCell {
  size_t row = 0;
  std::string row_name{}, column{}, formula{};
  std::string printed{}, recomputed{};  ///< To the same digits.
  double value = 0, low = 0, high = 0;  ///< Recomputed, and the range that rounding of the inputs leaves.
  CellVerdict verdict = CellVerdict::kExact;
  std::string remark{};
};

/// A published table, recomputed cell by cell from its own numbers.
struct PublishedTable {
  std::filesystem::path source{};
  record::Table printed{};
  std::vector<CheckedCell> cells{};  ///< Every cell of a derived column.
  Table recomputed{};   ///< As printed, with the recomputed value beside each derived one, and what lockstep adds.
  Table differences{};  ///< Cells that do not follow from their formula.
  Analysis rows{};      ///< The rows as runs; no curves where the table has no rate over sizes.
  std::vector<std::string>
      doubts{};  ///< M09: efficiency or MFU that cannot be, as printed, recomputed or combined, in sentences.
  std::vector<std::string>
      missing{};  ///< What it lacks and what could be told with it: "the devices (a column gpus): ...".
};

/// Is this a CSV of results over sizes, rather than of steps? False for what cannot be read.
bool is_published_table(const std::filesystem::path& path);

/// Recomputes a table; FLOPs and peak of the options win over those in its comments. DataError with file, line and
/// column for what cannot be read.
PublishedTable check_published(const std::filesystem::path& path, const AnalysisOptions& options = {});

/// The rows of all tables as one analysis, for an application.
Analysis rows_of(const std::vector<PublishedTable>& tables, const AnalysisOptions& options);

/// One line: "nodes 8, efficiency_pct: printed 96.9, the formula gives 97.0 (96.953 to 96.9897): does not follow".
std::string difference_text(const CheckedCell& cell);

/// Tables that give different rates for the same model, device and number of nodes, in sentences.
std::vector<std::string> contradictions(const std::vector<PublishedTable>& tables);

Document published_document(const std::vector<PublishedTable>& tables);
std::string published_json(const std::vector<PublishedTable>& tables);

}  // namespace lockstep::report
