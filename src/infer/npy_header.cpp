#include "infer/npy_header.h"

#include <fmt/format.h>

#include <string>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::infer {
namespace {

[[noreturn]] void refuse_npy(std::string_view where, const std::string& reason) {
  throw DataError(fmt::format("infer: '{}' holds no embeddings: {}", where, reason),
                  "expected files that `lockstep infer embed` wrote");
}

}  // namespace

NpyHeader parse_npy_header(std::string_view file, std::string_view where) {
  constexpr size_t kLengthBytes = 2;
  const size_t start = kNpyMagic.size() + kLengthBytes;
  if (!core::starts_with(file, kNpyMagic) || file.size() < start)
    refuse_npy(where, "it does not begin as a .npy file of version 1.0 does");
  const auto length = static_cast<size_t>(static_cast<uint8_t>(file[8]) | static_cast<uint8_t>(file[9]) << 8);
  if (length > file.size() - start) refuse_npy(where, "its header is cut short");
  const std::string_view header = file.substr(start, length);
  NpyHeader found{.begin = start + length, .is_wide = header.find("'<f4'") != std::string_view::npos};
  constexpr std::string_view kShape = "'shape': (";
  const size_t shape = header.find(kShape);
  if ((!found.is_wide && header.find("'<f2'") == std::string_view::npos) || shape == std::string_view::npos)
    refuse_npy(where, "expected '<f4' or '<f2' and a shape of two numbers");
  const size_t first = shape + kShape.size();
  const std::string_view numbers = header.substr(first, header.find(')', first) - first);
  const auto parts = core::split(numbers, ",");
  const auto rows = parts.empty() ? std::nullopt : core::parse_int(core::trim(parts[0])),
             width = parts.size() < 2 ? std::nullopt : core::parse_int(core::trim(parts[1]));
  const uint64_t num_elements = (file.size() - found.begin) / (found.is_wide ? 4 : 2);
  if (!rows || !width || *rows < 0 || *width < 1 ||
      num_elements / static_cast<uint64_t>(*width) < static_cast<uint64_t>(*rows))
    refuse_npy(where,
               fmt::format("its {} bytes are fewer than its shape ({}) asks for", file.size(), numbers.substr(0, 60)));
  found.rows = *rows, found.width = *width;
  return found;
}

}  // namespace lockstep::infer
