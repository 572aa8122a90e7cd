#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::core {

/// "2026-01-31,12:00:00 | ERROR | text\n", with "| host |" where one is given.
std::string log_line(std::string_view host, std::string_view level, std::string_view text);

/// Appends an error to a log that is there, for one who is not its process or prints the error elsewhere. A file that
/// is missing or cannot be written gets nothing: the error is told on standard error in any case.
void append_error_to_log(const std::filesystem::path& path, std::string_view text);

}  // namespace lockstep::core
