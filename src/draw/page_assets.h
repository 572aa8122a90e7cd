#pragma once
#include <string>
#include <string_view>

namespace lockstep::draw {

/// Style sheet of the page, with the colours of both themes.
std::string page_style();
/// Script of the page: theme switch, tooltips and arrow keys in charts, hiding of series, tables as CSV. The page is
/// complete without it.
std::string_view page_script();
/// "sha256-...", as a content security policy names an inline style or script that is allowed.
std::string csp_hash(std::string_view content);

}  // namespace lockstep::draw
