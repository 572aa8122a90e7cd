#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/json.h"

namespace lockstep::config {

/// How messages name a configuration format.
struct JsonFormat {
  std::string_view kind;              ///< Begins every message: "clip", "clap".
  std::string_view unknown_key_hint;  ///< Where no known key is near.
};

/// One JSON object of a model configuration whose keys are read one by one; finish() refuses whatever was not read.
/// Every misfit is a UsageError that names file, key and value. `object` must outlive the section.
class JsonSection {
 public:
  JsonSection(const core::Json& object, std::string where, std::string label, const JsonFormat& format);

  /// nullptr for an absent key and for null; the key counts as read.
  const core::Json* find(const std::string& key);
  bool is_null(const std::string& key) const;  ///< It is there, as null.
  void read(const std::string& key, int64_t& value);
  void read(const std::string& key, double& value);
  void read(const std::string& key, std::optional<double>& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, std::string& value);
  /// What is found under `key` as an integer of at most 10^12, either way: far beyond any size of a model, and sums and
  /// small multiples of such do not overflow. All integers are read so.
  int64_t integer(const std::string& key, const core::Json& found) const;
  /// A known key that may only stand here with its default value (or null, or {}).
  void only(const std::string& key, const core::Json& default_value, std::string_view reason);
  void finish() const;

  [[noreturn]] void fail(const std::string& key, std::string_view expected, const core::Json& seen,
                         const std::string& hint = "") const;

 private:
  std::string path(const std::string& key) const;

  const core::Json& object_;
  std::string where_, label_;
  JsonFormat format_;
  std::set<std::string> known_;
};

}  // namespace lockstep::config
