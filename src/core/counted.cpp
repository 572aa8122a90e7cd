#include "core/counted.h"

#include <fmt/format.h>

namespace lockstep::core {

std::string counted(int64_t count, std::string_view singular, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", singular);
  return plural.empty() ? fmt::format("{} {}s", count, singular) : fmt::format("{} {}", count, plural);
}

}  // namespace lockstep::core
