#include "report/analysis_protocols.h"

namespace lockstep::report {

std::vector<ProtocolNumber> protocol_numbers(const record::RunData&, const AnalysisOptions&) { return {}; }

}  // namespace lockstep::report
