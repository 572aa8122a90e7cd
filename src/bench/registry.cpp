#include "bench/registry.h"

#include "bench/checkpoint_case.h"
#include "bench/collective_case.h"
#include "bench/loader_case.h"
#include "bench/op_case.h"
#include "bench/step_case.h"
#include "core/error.h"

namespace lockstep::bench {
namespace {

struct CaseEntry {
  config::BenchCaseName which;
  const char* name;
  std::unique_ptr<BenchCase> (*make)(const BenchContext&);
};

constexpr CaseEntry kCases[] = {
    {config::BenchCaseName::kCollective, "collective", make_collective_case},
    {config::BenchCaseName::kLoader, "loader", make_loader_case},
    {config::BenchCaseName::kOp, "op", make_op_case},
    {config::BenchCaseName::kStep, "step", make_step_case},
    {config::BenchCaseName::kCheckpoint, "checkpoint", make_checkpoint_case},
};

const CaseEntry& entry_of(config::BenchCaseName which) {
  for (const CaseEntry& entry : kCases)
    if (entry.which == which) return entry;
  LOCKSTEP_CHECK(false, "bench case {}", static_cast<int>(which));
}

}  // namespace

std::unique_ptr<BenchCase> make_case(const BenchContext& context) {
  return entry_of(context.options.which).make(context);
}

std::string case_name(config::BenchCaseName which) { return entry_of(which).name; }

}  // namespace lockstep::bench
