#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::data {

/// Writes an LMDB in a folder, by liblmdb. The caller sees to it that nobody else does.
class LmdbWriter {
 public:
  /// Makes `folder`/data.mdb, or goes on with it. EnvironmentError where liblmdb cannot.
  LmdbWriter(const std::filesystem::path& folder, uint64_t map_bytes);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  using Pairs = std::vector<std::pair<std::string, std::string>>;
  /// Puts all pairs (key, value), or none of them. On return they are on the disk. A map that is too small is doubled
  /// until they fit.
  void commit(const Pairs& pairs);
  int64_t num_grown() const { return num_grown_; }

 private:
  struct Environment;
  std::unique_ptr<Environment> environment_;
  std::filesystem::path folder_;
  uint64_t map_bytes_ = 0;
  int64_t num_grown_ = 0;
};

}  // namespace lockstep::data
