#include "record/bus_factor.h"

#include <string>

#include "core/strings.h"

namespace lockstep::record {
namespace {

struct Factor {
  std::string_view kind;  // what its name starts with, without - and _
  int passes;             // times (n-1)/n; 0: the factor is 1
};
constexpr Factor kFactors[] = {{"allreduce", 2}, {"allgather", 1}, {"reducescatter", 1},
                               {"alltoall", 1},  {"scatter", 1},  // "reducescatter" before "reduce"
                               {"gather", 1},    {"hypercube", 1}, {"broadcast", 0},
                               {"reduce", 0},    {"send", 0},      {"recv", 0}};

}  // namespace

std::optional<double> bus_factor(std::string_view kind, int num_ranks) {
  if (num_ranks < 1) return std::nullopt;
  const std::string plain = core::replace_all(core::replace_all(core::to_lower_ascii(kind), "_", ""), "-", "");
  for (const Factor& factor : kFactors)
    if (core::starts_with(plain, factor.kind))
      return factor.passes == 0 ? 1 : factor.passes * static_cast<double>(num_ranks - 1) / num_ranks;
  return std::nullopt;
}

}  // namespace lockstep::record
