#include "bench/registry.h"

#include "bench/checkpoint_case.h"
#include "bench/collective_case.h"
#include "bench/latency_case.h"
#include "bench/loader_case.h"
#include "bench/op_case.h"
#include "bench/step_case.h"
#include "core/error.h"

namespace lockstep::bench {
namespace {

struct CaseEntry {
  commands::BenchCaseName which;
  const char* name;
  std::unique_ptr<BenchCase> (*make)(const BenchContext&);
};

constexpr CaseEntry kCases[] = {
    {commands::BenchCaseName::kCollective, "collective", make_collective_case},
    {commands::BenchCaseName::kLoader, "loader", make_loader_case},
    {commands::BenchCaseName::kOp, "op", make_op_case},
    {commands::BenchCaseName::kStep, "step", make_step_case},
    {commands::BenchCaseName::kCheckpoint, "checkpoint", make_checkpoint_case},
    {commands::BenchCaseName::kLatency, "latency", make_latency_case},
};

const CaseEntry& entry_of(commands::BenchCaseName which) {
  for (const CaseEntry& entry : kCases)
    if (entry.which == which) return entry;
  LOCKSTEP_CHECK(false, "bench case {}", static_cast<int>(which));
}

}  // namespace

std::unique_ptr<BenchCase> make_case(const BenchContext& context) {
  return entry_of(context.options.which).make(context);
}

std::string case_name(commands::BenchCaseName which) { return entry_of(which).name; }

}  // namespace lockstep::bench
