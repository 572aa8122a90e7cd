#pragma once
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::doctor {

enum class Severity {
  kOk,       ///< Looked at, nothing wrong.
  kNote,     ///< Worth knowing.
  kWarning,  ///< A run works, slower or with a risk.
  kError,    ///< A run fails, hangs or computes something else.
};
const char* severity_name(Severity severity);  ///< "ok", "note", "warning", "error"

/// What a check found.
struct Finding {
  Severity severity = Severity::kOk;
  std::string check{};     ///< Name in the table of checks.
  std::string where{};     ///< Whom it concerns: "ranks 2-3", "node2 and node5"; "": this process.
  std::string evidence{};  ///< What was read or measured, with the value.
  std::string advice{};    ///< What to change; empty where nothing is wrong.

  bool operator==(const Finding&) const = default;
};

core::Json to_json(const Finding& finding);
/// DataError for text that no doctor has written.
Finding finding_from_json(const core::Json& json);

/// What one check says; carries the check's name.
class Report {
 public:
  Report(std::string check, std::vector<Finding>& findings) : check_(std::move(check)), findings_(findings) {}
  void ok(std::string evidence) { add(Severity::kOk, std::move(evidence), ""); }
  void note(std::string evidence, std::string advice = "") {
    add(Severity::kNote, std::move(evidence), std::move(advice));
  }
  void warning(std::string evidence, std::string advice) {
    add(Severity::kWarning, std::move(evidence), std::move(advice));
  }
  void error(std::string evidence, std::string advice) {
    add(Severity::kError, std::move(evidence), std::move(advice));
  }

 private:
  void add(Severity severity, std::string evidence, std::string advice) {
    findings_.push_back({severity, check_, "", std::move(evidence), std::move(advice)});
  }
  std::string check_;
  std::vector<Finding>& findings_;
};

}  // namespace lockstep::doctor
