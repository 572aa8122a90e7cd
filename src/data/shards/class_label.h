#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The class that `text` names. DataError, which begins with `where` ("data: ...: the class in ..."), unless it is a
/// number from 0 and below num_classes; num_classes = 0: any number from 0.
int64_t parse_class_label(std::string_view text, int64_t num_classes, const std::string& where);

/// The same for a number.
void check_class_label(int64_t label, int64_t num_classes, const std::string& where);

}  // namespace lockstep::data
