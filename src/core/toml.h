#pragma once
#include <toml++/toml.h>

#include <string_view>

namespace lockstep::core {

/// toml::parse for texts of others: throws toml::parse_error also for a key of more than 64 parts and for values nested
/// deeper than 64 levels, which the library would put into tables that overflow the stack when they are taken apart.
toml::table parse_toml(std::string_view text, std::string_view path);

}  // namespace lockstep::core
