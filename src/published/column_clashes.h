#pragma once
#include <string>
#include <vector>

#include "published/formulas.h"

namespace lockstep::published {

/// Columns that tell one thing and differ by more than five percent, with rows and both values: a step time beside a
/// rate and a batch, a rate of one device beside that of all, tokens beside samples of a length. Of `rows` alone; one
/// sentence for each pair.
std::vector<std::string> clash_texts(const FormulaContext& context, const std::vector<size_t>& rows);
/// Of all rows.
std::vector<std::string> clash_texts(const FormulaContext& context);

}  // namespace lockstep::published
