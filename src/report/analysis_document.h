#pragma once
#include "report/analysis_curve.h"
#include "report/document.h"

namespace lockstep::report {

/// The report page: result first, the efficiency plot before all others; every table and chart that has something to
/// tell.
Document make_document(const Analysis& analysis);

/// The analysis as JSON: every number of the page, so that each can be recomputed or read by a program.
std::string analysis_json(const Analysis& analysis);

/// Adds a table or charts when they hold anything.
void add_block(Section& section, Table table);
void add_block(Section& section, std::vector<Chart> charts);
void add_text(Section& section, const std::vector<std::string>& texts, Paragraph::Kind kind = Paragraph::Kind::kText);

}  // namespace lockstep::report
