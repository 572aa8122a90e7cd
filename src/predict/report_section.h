#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "analysis/proposal.h"
#include "draw/document.h"
#include "published/recompute.h"

namespace lockstep::predict {

/// What a report says of predictions: every curve of four sizes or more is predicted from its smaller half and joined
/// with what was measured, and continued for two doublings, marked as not measured.
struct ReportedPredictions {
  std::optional<draw::Section> section{};  ///< Nothing where no curve could be joined.
  std::vector<std::string> texts{};    ///< Of each joined curve how far off, where, and by which part, for a terminal.
  std::vector<std::string> why_not{};  ///< Why others are not predicted, in sentences.
};
/// Curves of one size are passed over in silence.
ReportedPredictions join_predictions(const analysis::Analysis& runs);
/// The same of tables of results, whose curves are read as `predict` reads them.
ReportedPredictions join_predictions(const std::vector<published::PublishedTable>& tables,
                                     const analysis::AnalysisOptions& options);

/// What `size` is predicted to keep of the rate per node of the curve's largest size, from all of its sizes; from one
/// size the loss is that of the priors. `tables`: those that rows of `runs` are from. Nothing where what is known of
/// the curve does not make sense together.
analysis::PredictKeptRate kept_rate_predictor(const analysis::Analysis& runs,
                                              const std::vector<published::PublishedTable>& tables = {});

}  // namespace lockstep::predict
