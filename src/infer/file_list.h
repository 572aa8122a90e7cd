#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/source.h"

namespace lockstep::infer {

/// Pictures of a folder and its sub-folders, sorted by path; by extension: jpg, jpeg, png, webp in any case. DataError when there is none.
std::vector<std::filesystem::path> list_pictures(const std::filesystem::path& folder);
/// The lines of a text file (a line end at the end of the file makes no further line). DataError when there is none.
std::vector<std::string> read_lines(const std::filesystem::path& path);

/// Stream of those files, each once.
std::unique_ptr<data::SampleSource> file_list_source(std::vector<std::filesystem::path> files);

}  // namespace lockstep::infer
