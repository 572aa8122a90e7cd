#include "infer/file_list.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"

namespace lockstep::infer {
namespace fs = std::filesystem;

std::vector<fs::path> list_pictures(const fs::path& folder) {
  constexpr std::array<std::string_view, 4> kExtensions = {".jpg", ".jpeg", ".png", ".webp"};
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const std::string extension = core::to_lower_ascii(entry.path().extension().string());
    if (std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end()) files.push_back(entry.path());
  }
  if (error)
    throw DataError(fmt::format("infer: cannot list the folder '{}': {}", folder.string(), error.message()), "give a folder of pictures with --images");
  if (files.empty())
    throw DataError(fmt::format("infer: no picture in '{}': expected files that end in .jpg, .jpeg, .png or .webp", folder.string()));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::string content = core::read_named_file(path, "list of texts");
  if (!content.empty() && content.back() == '\n') content.pop_back();
  if (content.empty()) throw DataError(fmt::format("infer: '{}' holds no text", path.string()), "one text per line");
  auto lines = core::split(content, "\n");
  for (std::string& line : lines)
    if (!line.empty() && line.back() == '\r') line.pop_back();
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
