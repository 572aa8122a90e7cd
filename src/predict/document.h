#pragma once
#include <vector>

#include "draw/document.h"
#include "predict/validation.h"

namespace lockstep::predict {

/// Efficiency over sizes with the 50 and 90 % intervals; calibration points and, where there are, points kept back.
draw::Chart efficiency_chart(const CurvePrediction& prediction, const std::vector<JudgedPoint>& judged = {});
/// Seconds of a step by part, a bar for each size.
draw::Chart parts_chart(const CurvePrediction& prediction);

/// The page of predictions; `more` tables (memory, goal) stand in the first section.
draw::Document predictions_document(const std::vector<CurvePrediction>& predictions,
                                    const std::vector<draw::Table>& more = {});
/// The page of a validation: scores first, then every curve.
draw::Document validations_document(const std::vector<Validation>& validations);

}  // namespace lockstep::predict
