#pragma once
#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// The report page: result first, the efficiency plot before all others; every table and chart
/// that has something to tell.
draw::Document make_document(const Analysis& analysis);

/// Adds a table or charts when they hold anything.
void add_block(draw::Section& section, draw::Table table);
void add_block(draw::Section& section, std::vector<draw::Chart> charts);
void add_text(draw::Section& section, const std::vector<std::string>& texts,
              draw::Paragraph::Kind kind = draw::Paragraph::Kind::kText);

}  // namespace lockstep::analysis
