#include "data/shards/class_label.h"

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse_label(std::string_view seen, int64_t num_classes, const std::string& where) {
  const std::string what = fmt::format("{} is '{}', expected a number from 0", where, seen.substr(0, 40));
  if (num_classes == 0) throw DataError(what);
  throw DataError(fmt::format("{} to {}", what, num_classes - 1),
                  "is the number of classes that of the data? Labels count from 0");
}

}  // namespace

int64_t parse_class_label(std::string_view text, int64_t num_classes, const std::string& where) {
  const auto label = core::parse_int(core::trim(text));
  if (!label || *label < 0 || (num_classes > 0 && *label >= num_classes))
    refuse_label(core::trim(text), num_classes, where);
  return *label;
}

void check_class_label(int64_t label, int64_t num_classes, const std::string& where) {
  if (label < 0 || (num_classes > 0 && label >= num_classes)) refuse_label(fmt::to_string(label), num_classes, where);
}

}  // namespace lockstep::data
