#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::core {

constexpr std::string_view kCheckPath = "check the path; it must be visible on every node";

/// UsageError "<what> '<path>' does not exist" (or is a folder) unless the user named a file that can be opened.
void require_file(const std::filesystem::path& path, std::string_view what, std::string_view hint = kCheckPath);

/// Its content.
std::string read_named_file(const std::filesystem::path& path, std::string_view what,
                            std::string_view hint = kCheckPath);

}  // namespace lockstep::core
