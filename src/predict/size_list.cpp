#include "predict/size_list.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::predict {
namespace {

constexpr int64_t kMostNodes = 1'000'000;
constexpr size_t kMostSizes = 1000;

[[noreturn]] void throw_part(const std::string& part, const std::string& why) {
  throw UsageError(fmt::format("predict: --nodes has '{}': {}", part, why),
                   "for example 16,32 or 1-1024*2 (doubling) or 8-64+8 (steps of 8)");
}

int64_t parse_size(const std::string& text, const std::string& part) {
  const auto value = core::parse_int(core::trim(text));
  if (!value || *value < 1 || *value > kMostNodes)
    throw_part(part, fmt::format("'{}' is no whole number from 1 to {}", text, kMostNodes));
  return *value;
}
}  // namespace

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::set<int64_t> sizes;
  for (const std::string& field : core::split(text, ",")) {
    const std::string part(core::trim(field));
    const size_t dash = part.find('-');
    if (dash == std::string::npos) {
      sizes.insert(parse_size(part, part));
      continue;
    }
    const size_t sign = part.find_first_of("*+", dash);
    const int64_t first = parse_size(part.substr(0, dash), part),
                  last = parse_size(part.substr(dash + 1, sign == std::string::npos ? sign : sign - dash - 1), part);
    const int64_t step = sign == std::string::npos ? 1 : parse_size(part.substr(sign + 1), part);
    const bool multiplies = sign != std::string::npos && part[sign] == '*';
    if (multiplies && step == 1) throw_part(part, "a factor of 1 never gets there");
    if (last < first) throw_part(part, fmt::format("{} is below {}", last, first));
    for (int64_t size = first; size <= last; size = multiplies ? size * step : size + step) {
      sizes.insert(size);
      if (sizes.size() > kMostSizes) throw_part(part, fmt::format("these are more than {} sizes", kMostSizes));
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace lockstep::predict
