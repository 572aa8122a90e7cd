#include "doctor/print.h"

#include <algorithm>

#include "core/counted.h"
#include "core/host_name.h"
#include "core/print.h"
#include "core/strings.h"

namespace lockstep::doctor {
namespace {

constexpr size_t kColumns = 80, kIndent = 22;  // the longest check is network-rate

size_t count_of(std::span<const Finding> findings, Severity severity) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [&](const Finding& finding) { return finding.severity == severity; }));
}

/// Lines of at most `width` characters; longer words are cut.
std::vector<std::string> lines_of(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  for (std::string line : core::wrap_text(text, width)) {
    for (; line.size() > width; line.erase(0, width)) lines.push_back(line.substr(0, width));
    lines.push_back(line);
  }
  return lines;
}

std::string entry(const Finding& finding) {
  const std::string indent(kIndent, ' ');
  const std::string where = finding.where.empty() ? "" : finding.where + ": ";
  std::string text;
  for (const std::string& line : lines_of(core::printable_line(where + finding.evidence), kColumns - kIndent))
    text += (text.empty() ? fmt::format("{:<8} {:<12} ", severity_name(finding.severity), finding.check) : indent) +
            line + "\n";
  bool is_first = true;
  for (const std::string& line : lines_of(finding.advice, kColumns - kIndent - 3)) {
    if (!line.empty()) text += indent + (is_first ? "-> " : "   ") + line + "\n";
    is_first = false;
  }
  return text;
}

}  // namespace

std::string report_text(std::span<const Finding> findings, const std::string& title) {
  std::string text = title + "\n";
  for (const Finding& finding : findings) text += entry(finding);
  return text + fmt::format("{}, {}, {} fine\n", core::counted(count_of(findings, Severity::kError), "error"),
                            core::counted(count_of(findings, Severity::kWarning), "warning"),
                            count_of(findings, Severity::kOk));
}

core::Json report_json(std::span<const Finding> findings, const Question& question, ExitCode code) {
  core::Json list = core::Json::array();
  for (const Finding& finding : findings) list.push_back(to_json(finding));
  return {{"lockstep", question.program.version},
          {"commit", question.program.commit},
          {"host", core::host_name()},
          {"findings", std::move(list)},
          {"errors", count_of(findings, Severity::kError)},
          {"warnings", count_of(findings, Severity::kWarning)},
          {"exit_code", static_cast<int>(code)}};
}

}  // namespace lockstep::doctor
