#include "infer/file_list.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/named_file.h"
#include "core/strings.h"
#include "data/shards/sample.h"
#include "data/shards/unread_formats.h"
#include "data/text/text_utf8.h"

namespace lockstep::infer {
namespace fs = std::filesystem;

namespace {

/// Results name files as UTF-8 text: what could not be written is refused before anything is computed.
void require_utf8(const fs::path& file) {
  const std::string text = file.string();
  if (data::find_invalid_utf8(text) != std::string_view::npos)
    throw DataError(fmt::format("infer: the name '{}' is no UTF-8 text", data::repair_utf8(text)),
                    "rename the file: results name it");
}

/// Those of a folder and the folders below it; links to folders are not followed. `left_out`: files of other formats.
void add_files(const fs::path& folder, bool is_audio, std::vector<fs::path>& files, data::UnreadFormats& left_out) {
  std::error_code failure;
  for (const fs::path& path : core::list_folder(folder, failure)) {
    std::error_code unknown;
    if (fs::symlink_status(path, unknown).type() == fs::file_type::directory) {
      add_files(path, is_audio, files, left_out);
      continue;
    }
    const std::string extension = core::to_lower_ascii(path.extension().string());
    if (extension.empty()) continue;
    if (is_audio ? data::is_audio_extension(extension.substr(1)) : data::is_picture_extension(extension.substr(1))) {
      require_utf8(path);
      files.push_back(path);
    } else {
      (is_audio ? data::count_unread_sound : data::count_unread_picture)(path, left_out);
    }
  }
  if (failure)
    throw DataError(fmt::format("infer: cannot list the folder '{}': {}", folder.string(), failure.message()),
                    is_audio ? "give a folder of sounds with --sounds" : "give a folder of pictures with --images");
}

}  // namespace

std::vector<fs::path> list_files(const fs::path& folder, bool is_audio) {
  std::vector<fs::path> files;
  std::error_code unknown;
  if (fs::is_regular_file(folder, unknown)) {
    require_utf8(folder);
    return {folder};
  }
  if (fs::status(folder, unknown).type() == fs::file_type::not_found)
    throw DataError(fmt::format("infer: '{}' does not exist", folder.string()),
                    is_audio ? "name a sound, or a folder of sounds, with --sounds"
                             : "name a picture, or a folder of pictures, with --images");
  data::UnreadFormats left_out;
  add_files(folder, is_audio, files, left_out);
  const auto endings = is_audio ? data::audio_extensions() : data::picture_extensions();
  if (!left_out.empty())
    core::log_warning("infer: '{}': {}", folder.string(),
                      data::unread_text(left_out, is_audio ? "sounds" : "pictures", endings));
  if (files.empty())
    throw DataError(fmt::format("infer: no {} in '{}': expected files that end in .{}", is_audio ? "sound" : "picture",
                                folder.string(), fmt::join(endings, ", .")));
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_in(const fs::path& folder, const fs::path& file) {
  return (file == folder ? file.filename() : file.lexically_relative(folder)).string();
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::string content = core::read_named_file(path, "list of texts", "give a file with one text per line");
  if (!content.empty() && content.back() == '\n') content.pop_back();
  if (content.empty()) throw DataError(fmt::format("infer: '{}' holds no text", path.string()), "one text per line");
  auto lines = core::split(content, "\n");
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].empty() && lines[i].back() == '\r') lines[i].pop_back();
    const size_t bad = data::find_invalid_utf8(lines[i]);
    if (bad == std::string_view::npos) continue;
    throw DataError(fmt::format("infer: line {} of '{}' is no UTF-8 text: byte {} of it is {:#04x}", i + 1,
                                path.string(), bad + 1, static_cast<unsigned char>(lines[i][bad])),
                    "convert the file to UTF-8, for example with iconv");
  }
  return lines;
}

namespace {

class FileListSource final : public data::SampleSource {
 public:
  explicit FileListSource(std::vector<fs::path> files) : files_(std::move(files)) {}

  std::optional<data::RawSample> next() override {
    if (is_interrupted_) throw DataError("infer: reading was interrupted");
    if (next_ == files_.size()) return std::nullopt;
    data::RawSample sample;
    sample.key = files_[next_].filename().string();
    sample.shard = files_[next_].parent_path().string();
    sample.file = files_[next_].string();
    sample.id = next_++;
    return sample;
  }
  core::Json position() const override { return {{"next", next_}}; }
  void seek(const core::Json& position) override { next_ = position.at("next").get<size_t>(); }
  data::SourceReport report() const override {
    data::SourceReport report;
    report.num_samples = static_cast<int64_t>(next_);
    return report;
  }
  void interrupt() override { is_interrupted_ = true; }

 private:
  std::vector<fs::path> files_;
  size_t next_ = 0;
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace

std::unique_ptr<data::SampleSource> file_list_source(std::vector<fs::path> files) {
  return std::make_unique<FileListSource>(std::move(files));
}

}  // namespace lockstep::infer
