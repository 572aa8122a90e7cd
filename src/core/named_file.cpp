#include "core/named_file.h"

#include "core/error.h"
#include "core/files.h"

namespace lockstep::core {
namespace fs = std::filesystem;

void require_file(const fs::path& path, std::string_view what, std::string_view hint) {
  std::error_code failure;  // what cannot be looked at is left to the reader, which says why
  const fs::file_type type = fs::status(path, failure).type();
  if (type == fs::file_type::not_found)
    throw UsageError(fmt::format("files: {} '{}' does not exist", what, path.string()), std::string(hint));
  if (type == fs::file_type::directory)
    throw UsageError(fmt::format("files: {} '{}' is a folder, expected a file", what, path.string()),
                     std::string(hint));
}

std::string read_named_file(const fs::path& path, std::string_view what, std::string_view hint) {
  require_file(path, what, hint);
  return read_file_or_pipe(path);
}

}  // namespace lockstep::core
