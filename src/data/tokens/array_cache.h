#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace lockstep::data {

/// Arrays of numbers and a few facts about them, in memory or in a mapped file; `memory` keeps them there.
struct Arrays {
  core::Json facts = core::Json::object();
  std::vector<std::span<const std::byte>> parts{};
  std::shared_ptr<const void> memory{};

  template <typename T> std::span<const T> part_as(size_t i) const {
    const std::span<const std::byte> bytes = parts.at(i);
    LOCKSTEP_CHECK(bytes.size() % sizeof(T) == 0, "{} bytes of elements of {}", bytes.size(), sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};  // files align parts to pages
  }
};

/// Arrays that are costly to make, in files of one folder: whoever needs one first writes it, all processes map it. One
/// caller thread.
///
/// A file appears whole or not at all. Its header (format, kind, key, sizes) has a checksum and is tested when it is
/// opened; what does not fit is made again, with a warning. The arrays themselves are trusted as far as their readers
/// need not crash.
class ArrayCache {
 public:
  /// `is_required`: a folder that cannot be written is an EnvironmentError where something must be made, else (with one
  /// warning, if it `warns`) each process makes arrays in its own memory.
  ArrayCache(std::filesystem::path folder, bool is_required, bool warns = true);

  const std::filesystem::path& folder() const { return folder_; }
  /// False: what is not there yet will be made in memory. The first call makes the folder.
  bool is_writable();
  /// The arrays of this kind and key (which must name all that they depend on), from a file or from `make`.
  Arrays get(std::string_view kind, const std::string& key, const std::function<Arrays()>& make);

 private:
  static std::optional<Arrays> find(const std::filesystem::path& path, std::string_view kind, const std::string& key,
                                    bool tells);
  Arrays make_in_memory(const std::function<Arrays()>& make);

  std::filesystem::path folder_;
  bool is_required_, warns_, is_tried_ = false;
  std::string unwritable_;  ///< Why nothing can be written.
};

/// One file of an ArrayCache. DataError when it is damaged, or of another kind or key.
Arrays read_array_file(const std::filesystem::path& path, std::string_view kind, const std::string& key);
void write_array_file(const std::filesystem::path& path, std::string_view kind, const std::string& key,
                      const Arrays& arrays);

}  // namespace lockstep::data
