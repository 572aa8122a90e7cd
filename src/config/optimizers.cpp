#include "config/optimizers.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerInfo& info : kOptimizers) names.emplace_back(info.name);
  return names;
}

std::vector<std::string> optimizer_names(OptimizerFlags flags) {
  std::vector<std::string> names;
  for (const OptimizerInfo& info : kOptimizers)
    if (info.flags == flags) names.emplace_back(info.name);
  return names;
}

const OptimizerInfo& optimizer_info(std::string_view name) {
  for (const OptimizerInfo& info : kOptimizers)
    if (info.name == name) return info;
  throw UsageError(fmt::format("options: --opt {} is no optimiser", name),
                   fmt::format("use {}", core::join_or(optimizer_names())));
}

}  // namespace lockstep::config
