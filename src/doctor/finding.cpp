#include "doctor/finding.h"

#include <array>

#include "core/error.h"

namespace lockstep::doctor {
namespace {
constexpr std::array kSeverities{Severity::kOk, Severity::kNote, Severity::kWarning, Severity::kError};
}

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kOk: return "ok";
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "";
}

core::Json to_json(const Finding& finding) {
  return {{"severity", severity_name(finding.severity)},
          {"check", finding.check},
          {"where", finding.where},
          {"evidence", finding.evidence},
          {"advice", finding.advice}};
}

Finding finding_from_json(const core::Json& json) {
  Finding finding{.check = core::text_at(json, "check"),
                  .where = core::text_at(json, "where"),
                  .evidence = core::text_at(json, "evidence"),
                  .advice = core::text_at(json, "advice")};
  for (const Severity severity : kSeverities)
    if (core::text_at(json, "severity") == severity_name(severity)) {
      finding.severity = severity;
      return finding;
    }
  throw DataError(fmt::format("doctor: '{}' is no severity of a finding, expected ok, note, warning or error",
                              core::text_at(json, "severity")));
}

}  // namespace lockstep::doctor
