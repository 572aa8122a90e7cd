#pragma once
#include <string>
#include <vector>

namespace lockstep::config {

/// A configuration of OpenCLIP 3.3.0.
struct ClipListEntry {
  std::string name;
  std::string missing;  ///< Why it is not here; "" where it is.
};

/// All of them, by name.
std::vector<ClipListEntry> openclip_models();

/// The list as a page in Markdown, with sizes and work of what is here: docs/clip_models.md.
std::string openclip_models_page();

}  // namespace lockstep::config
