#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace lockstep::data {

/// How closely a check looks at pictures.
enum class PictureDepth {
  kFirstBytes,  ///< Which format they begin as: what is cut short behind that passes.
  kDecoded,     ///< Every pixel, as training reads it.
};

/// DataError with `name` where the encoded picture cannot be used.
void check_picture(std::string_view encoded, std::string_view name, PictureDepth depth);

/// Messages that a check keeps; the others are counted.
inline constexpr size_t kMaxBadPictures = 100;

/// Bad pictures, as several threads find them.
class BadPictures {
 public:
  void add(const DataError& error);
  int64_t count() const { return count_; }
  /// The first kMaxBadPictures that were found, sorted: file or shard, and what is wrong.
  std::vector<std::string> messages() const;

 private:
  std::mutex mutex_;
  int64_t count_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace lockstep::data
