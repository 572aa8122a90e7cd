#pragma once
#include <string>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/validation.h"

namespace lockstep::predict {

/// What the steps of a curve are told in: "step (s)", "device seconds per sample", "relative time".
std::string clock_name(const MeasuredCurve& curve);
/// Efficiency of a target against the smallest calibrated size; without calibration against the first target.
Interval efficiency_of(const CurvePrediction& prediction, size_t target);
/// Predicted steps, rates and efficiencies over sizes, with intervals.
draw::Table steps_table(const CurvePrediction& prediction);
/// Rates over sizes with intervals; without columns where the curve tells no rate.
draw::Table rates_table(const CurvePrediction& prediction);
/// Where the time of a step goes, in percent of it.
draw::Table parts_table(const CurvePrediction& prediction);
/// What the parts of a step rest on where nothing tells its seconds: an assumed batch, say. "" where they are told.
std::string parts_doubt(const CurvePrediction& prediction);
/// What bounds the step of the largest size beside computing, and how much of it that is: "The limit at 64 nodes: ...".
std::string limit_text(const CurvePrediction& prediction);
/// What was taken as known, with sources, and what calibration said of the rest (nothing, where there was none).
draw::Table facts_table(const CurvePrediction& prediction);
draw::Table learned_table(const CurvePrediction& prediction);
/// "Calibrated on 4 points: 0.9877 s at 1 node, ... Efficiency is against the step at 1 node."
std::string calibration_text(const CurvePrediction& prediction);

/// Predicted against measured, point by point.
draw::Table judged_table(const Validation& validation);
/// Errors, coverage and the rivals of all curves, a row each.
draw::Table score_table(const std::vector<Validation>& validations);
/// "mean error 2.0 %, worst 3.8 %; 4 of 4 points in the 90 % interval; ..."
std::string score_text(const Validation& validation);

core::Json prediction_json(const CurvePrediction& prediction);
core::Json validation_json(const Validation& validation);

}  // namespace lockstep::predict
