#include "sweep/scalar.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::sweep {

bool is_whole(double value) { return std::abs(value) <= 9007199254740992.0 && value == std::floor(value); }

std::string to_text(const Scalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double number = std::get<double>(value);
  return is_whole(number) ? fmt::format("{}", static_cast<int64_t>(number)) : core::format_double(number);
}

core::Json to_json(const Scalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double number = std::get<double>(value);
  return is_whole(number) ? core::Json(static_cast<int64_t>(number)) : core::Json(number);
}

Scalar scalar_from_json(const core::Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  throw DataError(fmt::format("sweep: got {}, expected true, false, a number or a text", value.dump()));
}

Scalar scalar_from_text(const std::string& text) {
  const auto number = core::parse_double(text);
  if (number && std::isfinite(*number)) return *number;
  return text;
}

}  // namespace lockstep::sweep
