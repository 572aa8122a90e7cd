#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/source.h"

namespace lockstep::infer {

/// Pictures or sounds (data::picture_extensions, data::audio_extensions) of a folder and its sub-folders, sorted by
/// path; of a file that file, whatever its name. DataError when there is none.
std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder, bool is_audio);
/// What results call a file of that list: its path below the folder, or its name.
std::string name_in(const std::filesystem::path& folder, const std::filesystem::path& file);
/// The lines of a text file (a line end at the end of the file makes no further line). DataError when there is none.
std::vector<std::string> read_lines(const std::filesystem::path& path);

/// Stream of those files, each once.
std::unique_ptr<data::SampleSource> file_list_source(std::vector<std::filesystem::path> files);

}  // namespace lockstep::infer
