#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/join_first.h"
#include "core/rng.h"
#include "core/strings.h"
#include "core/wrapped_message.h"
#include "data/pictures/image_codecs.h"
#include "data/shards/class_label.h"
#include "data/shards/csv_table.h"
#include "data/shards/source_rows.h"
#include "data/shards/unread_formats.h"
#include "data/shards/warn_once.h"

namespace lockstep::data {
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kPurposeLabel = 0x4c4142454cull, kPurposePicture = 0x50494354ull;
constexpr int kMaxFolderDepth = 32;  // also ends loops of symbolic links

/// What the files of class folders hold.
struct FileKind {
  const char* name;
  bool (*is_extension)(std::string_view);
  std::span<const std::string_view> (*extensions)();
  bool fits(const fs::path& path) const {
    const std::string extension = core::to_lower_ascii(path.extension().string());
    return !extension.empty() && is_extension(std::string_view(extension).substr(1));
  }
};
constexpr FileKind kPictureFiles{"picture", is_picture_extension, picture_extensions};
constexpr FileKind kRecordingFiles{"recording", is_audio_extension, audio_extensions};

/// Names that parts of a data set have, and hardly ever two of its classes.
constexpr auto kSplitNames = std::to_array<std::string_view>(
    {"train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "holdout", "heldout"});

struct FolderFile {
  std::string folder, name;
  bool operator<(const FolderFile& other) const { return std::tie(folder, name) < std::tie(other.folder, other.name); }
};

/// A data set of which a part cannot be read is not the one that was meant.
std::vector<fs::path> listed_folder(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> paths = core::list_folder(folder, failure);
  if (failure)
    throw DataError(fmt::format("data: cannot list folder '{}': {}", folder.string(), failure.message()),
                    "check its permissions, or name the folders to read one by one");
  return paths;
}

/// What lies among class folders and is no sample.
struct LeftOut {
  UnreadFormats pictures;
  std::set<std::string> hidden_folders;  ///< Names.
};

/// Editors, Jupyter and git keep things of their own in such folders: .ipynb_checkpoints, .git.
bool is_hidden(const fs::path& folder) { return core::starts_with(folder.filename().string(), "."); }

void warn_of_other_pictures(const std::string& root, const LeftOut& left_out) {
  if (left_out.pictures.empty()) return;
  warn_once(fmt::format("data: '{}': {}", root, unread_text(left_out.pictures, "pictures", picture_extensions())));
}

constexpr size_t kMostNames = 5;  // in a message

void warn_of_hidden_folders(const std::string& root, const LeftOut& left_out) {
  if (left_out.hidden_folders.empty()) return;
  const std::vector<std::string> names(left_out.hidden_folders.begin(), left_out.hidden_folders.end());
  warn_once(fmt::format("data: '{}': folders whose name begins with a dot are left out: {}", root,
                        core::join_first(names, kMostNames)));
}

void collect_files(const fs::path& folder, const FileKind& kind, int depth, std::vector<FolderFile>& files,
                   LeftOut& left_out) {
  if (depth > kMaxFolderDepth)
    throw DataError(fmt::format("data: folders nested deeper than {} levels at '{}'", kMaxFolderDepth, folder.string()),
                    "is there a symbolic link that leads back up?");
  for (const fs::path& path : listed_folder(folder)) {
    std::error_code failure;
    if (fs::is_directory(path, failure)) {
      if (is_hidden(path))
        left_out.hidden_folders.insert(path.filename().string());
      else
        collect_files(path, kind, depth + 1, files, left_out);
    } else if (kind.fits(path)) {
      files.push_back({folder.string(), path.filename().string()});
    } else {
      count_unread_picture(path, left_out.pictures);
    }
  }
}

/// What lies directly in a folder.
struct FolderContent {
  std::vector<std::string> folders;  ///< Sorted.
  bool has_media = false;            ///< A picture or a recording.
};

FolderContent content_of(const fs::path& folder) {
  FolderContent content;
  std::error_code failure;
  for (const fs::path& path : listed_folder(folder)) {
    if (kPictureFiles.fits(path) || kRecordingFiles.fits(path)) {
      content.has_media = true;
      return content;  // the rest of a thousand files says nothing more
    }
    if (fs::is_directory(path, failure) && !is_hidden(path)) content.folders.push_back(path.filename().string());
  }
  std::sort(content.folders.begin(), content.folders.end());
  return content;
}

bool is_split_name(const std::string& name) {
  return std::ranges::count(kSplitNames, std::string_view(core::to_lower_ascii(name))) > 0;
}

/// Of `names`, the one that most probably was meant as the folder of training data.
const std::string& likeliest_split(const std::vector<std::string>& names) {
  for (const char* wanted : {"train", "training", "val", "validation"})
    for (const std::string& name : names)
      if (core::to_lower_ascii(name) == wanted) return name;
  return names.front();
}

/// A folder one too high would be trained with splits, or with the data set itself, for classes. Reads one class folder
/// where there is nothing to refuse.
void refuse_folder_too_high(const fs::path& root, const std::vector<std::string>& classes) {
  std::vector<std::string> splits;
  std::copy_if(classes.begin(), classes.end(), std::back_inserter(splits), is_split_name);
  if (splits.size() > 1 || splits.size() == classes.size())
    throw DataError(
        fmt::format("data: '{}' holds no class folders, but folders named like parts of a data set: {}", root.string(),
                    core::join_first(splits, kMostNames)),
        fmt::format("name the one that holds the class folders: '{}' (`train imagenet` takes '{}' itself as its folder "
                    "of train and val)",
                    (root / likeliest_split(splits)).string(), root.string()));
  std::string first;
  FolderContent found;
  for (const std::string& name : classes) {
    FolderContent content = content_of(root / name);
    if (content.has_media) return;
    if (!found.folders.empty() || content.folders.empty()) continue;
    first = name;
    found = std::move(content);
  }
  if (found.folders.empty()) return;  // empty folders: told where their files are listed
  const fs::path below = root / first;
  const bool has_splits = is_split_name(likeliest_split(found.folders));
  const std::string data_set =
      has_splits ? fmt::format(", or '{}' as the folder of `train imagenet`", below.string()) : "";
  throw DataError(fmt::format("data: no folder of '{}' holds pictures or recordings directly; '{}' holds folders: {}",
                              root.string(), first, core::join_first(found.folders, kMostNames)),
                  fmt::format("the folder is one too high: expected FOLDER/CLASS/picture.jpg; is it '{}'{}?",
                              (has_splits ? below / likeliest_split(found.folders) : below).string(), data_set));
}

struct LabelledFile {
  std::string path;
  int64_t label = 0;
};

/// The number that a class folder's name is, from 0 to below `num_folders`.
int64_t class_number(const std::string& root, const std::string& name, int64_t num_folders) {
  const auto number = core::parse_int(name);
  if (!number || *number < 0 || *number >= num_folders)
    throw DataError(fmt::format("data: class folder '{}' is not named by a class number from 0 to {}",
                                (fs::path(root) / name).string(), num_folders - 1),
                    "expected FOLDER/0, FOLDER/1, ..., as ImageNet-v2 has them");
  return *number;
}

std::vector<LabelledFile> list_labelled(const std::string& root, const FileKind& kind, int64_t num_classes,
                                        bool is_numbered) {
  std::vector<LabelledFile> list;
  const std::vector<std::string> classes = image_folder_classes(root);
  const auto num_folders = static_cast<int64_t>(classes.size());
  if (num_classes > 0 && num_folders > num_classes)
    throw DataError(
        fmt::format("data: '{}' holds {} class folders, but {} classes were asked for", root, num_folders, num_classes),
        "ask for as many classes as there are folders");
  int64_t label = 0;
  LeftOut left_out;
  std::error_code failure;
  for (const fs::path& path : listed_folder(root))
    if (is_hidden(path) && fs::is_directory(path, failure)) left_out.hidden_folders.insert(path.filename().string());
  for (const std::string& name : classes) {
    std::vector<FolderFile> files;
    collect_files(fs::path(root) / name, kind, 1, files, left_out);
    if (files.empty())
      throw DataError(fmt::format("data: class folder '{}' holds no {} (.{})", (fs::path(root) / name).string(),
                                  kind.name, fmt::join(kind.extensions(), ", .")),
                      fmt::format("put {}s of the class there, or remove the folder here and in the other parts of the "
                                  "data: classes are numbered by their folders",
                                  kind.name));
    std::sort(files.begin(), files.end());
    const int64_t number = is_numbered ? class_number(root, name, num_folders) : label;
    for (const FolderFile& file : files) list.push_back({(fs::path(file.folder) / file.name).string(), number});
    ++label;
  }
  if (kind.extensions == kPictureFiles.extensions) warn_of_other_pictures(root, left_out);
  warn_of_hidden_folders(root, left_out);
  return list;
}

/// One CSV row.
struct CsvRow {
  size_t line = 0;  ///< That it begins in, from 1.
  std::string path;
  std::optional<std::string> caption;
  int64_t label = -1;
};

/// Where the columns that a run needs lie; a column that it does not need is none.
class CsvColumns {
 public:
  CsvColumns(const SourceConfig& config, const SampleTable& table)
      : config_(config), table_(table), path_(table.column(config.csv_image_key, config.spec)) {
    if (config.need_text) caption_ = table.column(config.csv_caption_key, config.spec);
    if (config.need_label) label_ = table.column(config.csv_label_key, config.spec);
  }

  CsvRow row(size_t number) const {
    const std::vector<std::string>& fields = table_.rows[number];
    const size_t line = table_.lines[number];
    CsvRow row{.line = line, .path = fields[path_], .caption = std::nullopt};
    if (row.path.empty())
      throw DataError(
          fmt::format("data: '{}' line {}: the column '{}' is empty", config_.spec, line, config_.csv_image_key));
    if (caption_) row.caption = fields[*caption_];
    if (!label_) return row;
    row.label = parse_class_label(
        fields[*label_], config_.num_classes,
        fmt::format("data: '{}' line {}: the class in column '{}'", config_.spec, line, config_.csv_label_key));
    return row;
  }

 private:
  const SourceConfig& config_;
  const SampleTable& table_;
  size_t path_;
  std::optional<size_t> caption_, label_;
};

std::vector<std::string> needed_columns(const SourceConfig& config) {
  std::vector<std::string> names = {config.csv_image_key};
  if (config.need_text) names.push_back(config.csv_caption_key);
  if (config.need_label) names.push_back(config.csv_label_key);
  return names;
}

/// The folder that relative paths count from: "" (the working folder) or the CSV's.
fs::path base_of(const std::string& csv, const std::vector<CsvRow>& rows) {
  const fs::path first = rows.empty() ? fs::path() : fs::path(rows.front().path), folder = fs::path(csv).parent_path();
  std::error_code code;
  if (first.empty() || first.is_absolute() || fs::exists(first, code)) return {};
  return fs::exists(folder / first, code) ? folder : fs::path();
}

/// The class of a generated sample: a function of its row alone.
int64_t synthetic_label(int64_t row, const SourceConfig& config) {
  if (!config.need_label || config.num_classes == 0) return -1;
  const uint64_t key = core::stream_key({kPurposeLabel, static_cast<uint64_t>(row)});
  return static_cast<int64_t>(core::CounterRng(key).below(static_cast<uint64_t>(config.num_classes)));
}

/// Patches of colour with noise on them, as many bytes as a photograph of the size has. Of one colour a JPEG is nearly
/// empty, and features behind the first batch norm are nearly zero.
Image noisy_picture(int pixels, uint64_t number) {
  constexpr int kPatch = 24, kNoise = 32;  // no multiple of a JPEG's blocks; levels
  Image image{
      .width = pixels, .height = pixels, .rgb_YXC = std::vector<uint8_t>(static_cast<size_t>(pixels) * pixels * 3)};
  core::CounterRng rng(core::stream_key({kPurposePicture, number}));
  std::vector<int> patch_XC(static_cast<size_t>(pixels / kPatch + 1) * 3);
  uint64_t noise = 0;
  size_t at = 0;
  for (int y = 0; y < pixels; ++y) {
    if (y % kPatch == 0)
      for (int& level : patch_XC) level = static_cast<int>(rng.below(256 - kNoise));
    for (int x = 0; x < pixels; ++x)
      for (int color = 0; color < 3; ++color, ++at, noise >>= 8) {
        if (at % sizeof noise == 0) noise = rng.next_u64();
        const int level = patch_XC[static_cast<size_t>(x / kPatch) * 3 + static_cast<size_t>(color)];
        image.rgb_YXC[at] = static_cast<uint8_t>(level + static_cast<int>(noise % kNoise));
      }
  }
  return image;
}

/// The encoded pictures that generated samples have in turn: OpenCLIP's black one, or with labels different ones.
std::vector<std::string> synthetic_pictures(const SourceConfig& config) {
  constexpr int kQuality = 90, kBlackQuality = 95;
  constexpr int64_t kMostNoisy = 16, kNoisyPixels = 1 << 24;  // of all together, so that large ones take no minutes
  const auto pixels = static_cast<int>(config.synthetic_pixels);
  if (pixels < 1 || pixels > 16384)
    throw UsageError(fmt::format("data: a synthetic image of {} pixels, expected 1 to 16384", pixels));
  std::vector<std::string> pictures;
  const auto add = [&](const Image& image, int quality) {
    const std::vector<std::byte> encoded = encode_jpeg(image, quality);
    pictures.emplace_back(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  };
  if (!config.need_label) {
    add({.width = pixels, .height = pixels, .rgb_YXC = std::vector<uint8_t>(static_cast<size_t>(pixels) * pixels * 3)},
        kBlackQuality);
    return pictures;
  }
  const auto num_noisy = std::clamp<int64_t>(kNoisyPixels / (int64_t{pixels} * pixels), 2, kMostNoisy);
  for (int64_t number = 0; number < num_noisy; ++number)
    add(noisy_picture(pixels, static_cast<uint64_t>(number)), kQuality);
  return pictures;
}

RawSample synthetic_row(int64_t row, Member media) {
  RawSample sample;
  sample.key = std::to_string(row);
  sample.shard = "synthetic";
  sample.offset = static_cast<uint64_t>(row);
  sample.members = {std::move(media), {"txt", "Dummy caption"}};
  return sample;
}

}  // namespace

RowTable open_csv(const SourceConfig& config) {
  const std::string& file = config.spec;
  std::string text;
  try {
    text = core::read_file_or_pipe(file);
  } catch (const EnvironmentError& error) {
    throw DataError(core::wrapped_message("data", error), error.hint());
  }
  const SampleTable table = parse_csv(text, parse_separator(config.csv_separator), needed_columns(config), file);
  const CsvColumns columns(config, table);
  auto rows = std::make_shared<std::vector<CsvRow>>();
  for (size_t i = 0; i < table.rows.size(); ++i) rows->push_back(columns.row(i));
  if (rows->empty()) throw DataError(fmt::format("data: '{}' has a header but no rows", file));
  const fs::path base = base_of(file, *rows);
  RowTable result;
  result.num_rows = static_cast<int64_t>(rows->size());
  result.fingerprint = core::xxh3_hex(text);
  result.row = [rows, base, file](int64_t row) {
    const CsvRow& data = (*rows)[static_cast<size_t>(row)];
    RawSample sample;
    sample.key = std::to_string(row);
    sample.shard = file;
    sample.offset = data.line;
    sample.label = data.label;
    sample.file = (base / data.path).string();
    if (data.caption) sample.members.push_back({"txt", *data.caption});
    return sample;
  };
  return result;
}

/// Folders of shards are often named where shards are expected.
static bool holds_shards(const std::string& folder) {
  const auto paths = listed_folder(folder);
  return std::any_of(paths.begin(), paths.end(), [](const fs::path& path) { return path.extension() == ".tar"; });
}

std::vector<std::string> image_folder_classes(const std::string& folder) {
  std::vector<std::string> classes;
  std::error_code failure;
  for (const fs::path& path : listed_folder(folder))
    if (fs::is_directory(path, failure) && !is_hidden(path)) classes.push_back(path.filename().string());
  if (classes.empty())
    throw DataError(fmt::format("data: '{}' holds no class folders", folder),
                    holds_shards(folder) ? fmt::format("it holds shards: name them as '{}'",
                                                       (fs::path(folder) / "NAME-{000000..000099}.tar").string())
                                         : "expected FOLDER/CLASS/picture.jpg");
  std::sort(classes.begin(), classes.end());
  refuse_folder_too_high(folder, classes);
  return classes;
}

RowTable open_class_folders(const SourceConfig& config) {
  const std::string root = config.spec;
  auto files = std::make_shared<const std::vector<LabelledFile>>(
      list_labelled(root, config.need_audio ? kRecordingFiles : kPictureFiles,
                    config.need_label ? config.num_classes : 0, config.numbered_classes));
  core::Xxh3 hash;
  for (const LabelledFile& file : *files) {
    const std::string line = fmt::format("{}\n", fs::path(file.path).lexically_relative(root).string());
    hash.update(std::as_bytes(std::span(line)));
  }
  RowTable result;
  result.num_rows = static_cast<int64_t>(files->size());
  result.fingerprint = hash.hex();
  result.row = [files, root](int64_t row) {
    const LabelledFile& file = (*files)[static_cast<size_t>(row)];
    RawSample sample;
    sample.key = fs::path(file.path).lexically_relative(root).string();
    sample.shard = root;
    sample.label = file.label;
    sample.file = file.path;
    return sample;
  };
  return result;
}

RowTable open_synthetic(const SourceConfig& config) {
  const auto pictures = std::make_shared<const std::vector<std::string>>(synthetic_pictures(config));
  RowTable result;
  result.num_rows = std::max(config.num_samples, config.global_batch);
  result.fingerprint =
      fmt::format("synthetic{}-{}-{}", config.need_label ? "-noisy" : "", config.synthetic_pixels, result.num_rows);
  result.row = [pictures, config](int64_t row) {
    RawSample sample = synthetic_row(row, {"jpg", (*pictures)[static_cast<size_t>(row) % pictures->size()]});
    sample.label = synthetic_label(row, config);
    return sample;
  };
  return result;
}

RowTable open_synthetic_audio(const SourceConfig& config) {
  RowTable result;
  result.num_rows = std::max(config.num_samples, config.global_batch);
  result.fingerprint = fmt::format("synthetic-audio-{}", result.num_rows);
  result.row = [](int64_t row) { return synthetic_row(row, {std::string(kNoiseExtension), std::to_string(row)}); };
  return result;
}

}  // namespace lockstep::data
