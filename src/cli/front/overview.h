#pragma once
#include <string>

namespace lockstep::cli {

/// What `lockstep --help` prints, at most 80 columns wide.
std::string overview_text();
/// Help of a word that needs another one ("train", "ckpt"); "" if `word` is no such word.
std::string word_help_text(const std::string& word);
/// What `lockstep --version` prints: commit, versions of the libraries the engine is built against, and the oldest C
/// library that both programs run on, read from their own symbol versions.
std::string version_text(bool as_json);

}  // namespace lockstep::cli
