#pragma once
#include <span>
#include <string>

#include "doctor/checks.h"

namespace lockstep::doctor {

/// The findings as text of at most 80 columns, and a line that counts them.
std::string report_text(std::span<const Finding> findings, const std::string& title);

/// {"lockstep", "host", "findings": [{severity, check, where, evidence, advice}], "errors", "warnings", "exit_code"}
core::Json report_json(std::span<const Finding> findings, const Question& question, ExitCode code);

}  // namespace lockstep::doctor
