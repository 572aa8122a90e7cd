#pragma once
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace lockstep::data {

/// Reads the fields of a stream position; whatever does not fit throws DataError that names the field.
class PositionReader {
 public:
  PositionReader(const core::Json& json, std::string_view kind) : json_(json) {
    expect("kind", std::string(kind), "the position belongs to another kind of data or order");
  }

  template <typename T> void expect(const char* key, const T& wanted, std::string_view complaint) const {
    if (number<T>(key) != wanted)
      throw DataError(fmt::format("data: cannot continue this stream: {} ({}={}, expected {})", complaint, key,
                                  json_.at(key).dump(), core::Json(wanted).dump()),
                      "resume with the data and the data options that the checkpoint was written with");
  }

  /// The field as T (also text or a truth value).
  template <typename T> T number(const char* key) const {
    try {
      const core::Json& value = json_.at(key);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (!value.is_number_integer() || (std::is_unsigned_v<T> && !value.is_number_unsigned()))
          throw DataError(
              fmt::format("data: field '{}' of a stream position is {}, expected a whole number", key, value.dump()));
      }
      return value.get<T>();
    } catch (const core::Json::exception& error) {
      throw DataError(fmt::format("data: field '{}' of a stream position: {}", key, error.what()));
    }
  }

  int64_t positive(const char* key) const {
    const auto value = number<int64_t>(key);
    if (value < 1 || value > (int64_t{1} << 40))
      throw DataError(fmt::format("data: field '{}' of a stream position is {}", key, value));
    return value;
  }

 private:
  const core::Json& json_;
};

}  // namespace lockstep::data
