#pragma once
#include <string>

namespace lockstep::config {

/// The configurations of OpenCLIP 3.3.0, which are all here, by name as a page in Markdown, with sizes and work:
/// docs/clip_models.md.
std::string openclip_models_page();

/// The same as an aligned list of at most 80 columns, for a terminal.
std::string openclip_models_list();

}  // namespace lockstep::config
