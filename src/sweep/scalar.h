#pragma once
#include <string>
#include <variant>

#include "core/json.h"

namespace lockstep::sweep {

/// One value of a sweep file or of a formula. Numbers are doubles: whole ones are exact up to 2^53.
using Scalar = std::variant<bool, double, std::string>;

/// As a command line has it: "true", "64", "0.0005", the text itself.
std::string to_text(const Scalar& value);
/// A whole number becomes a JSON integer.
core::Json to_json(const Scalar& value);
/// DataError for anything but true, false, a number or a text.
Scalar scalar_from_json(const core::Json& value);
/// A number where the text is one, else the text.
Scalar scalar_from_text(const std::string& text);

bool is_whole(double value);

}  // namespace lockstep::sweep
