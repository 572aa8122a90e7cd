#include "data/stage.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/clock.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/log.h"
#include "core/units.h"
#include "data/folder_lock.h"
#include "data/parallel_for.h"
#include "data/shards/lmdb_reader.h"
#include "data/shards/shard_index.h"
#include "data/shards/shard_list.h"
#include "data/train_stream.h"

namespace lockstep::data {
namespace fs = std::filesystem;

namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr uint64_t kReservedBytes = uint64_t{64} << 20;  // left free on the node's storage

struct StagedFile {
  fs::path source;         // absolute
  uint64_t num_bytes = 0;  // from its beginning on: an LMDB's file may be as large as its map
  int64_t written_ns = 0;  // time of the last change
};

fs::path absolute_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

StagedFile staged_file(const fs::path& path) {
  std::error_code code;
  const uint64_t num_bytes = fs::file_size(path, code);
  const auto written = code ? fs::file_time_type() : fs::last_write_time(path, code);
  if (code)
    throw DataError(fmt::format("data: cannot stage '{}': {}", path.string(), code.message()),
                    "is the folder visible on this node?");
  return {path, num_bytes, std::chrono::duration_cast<std::chrono::nanoseconds>(written.time_since_epoch()).count()};
}

std::vector<fs::path> paths_of_shards(const std::string& spec, const std::string& index_dir) {
  std::set<fs::path> paths;
  const auto add_existing = [&](const fs::path& path) {
    std::error_code code;
    if (fs::exists(path, code)) paths.insert(path);
  };
  for (const ShardSource& source : parse_shard_sources(spec, "")) {
    for (const std::string& shard : source.shards) {
      if (is_streamed(shard))
        throw UsageError(fmt::format("data: '{}' is no file of this machine and cannot be staged", shard),
                         "name files");
      const fs::path path = absolute_path(shard);
      paths.insert(path);
      if (index_dir.empty()) {
        add_existing(side_car_path(path.string(), ""));
        add_existing(path.parent_path() / "shards.index");
      }
      add_existing(path.parent_path() / "sizes.json");
      add_existing(path.parent_path() / "__len__");
    }
  }
  return {paths.begin(), paths.end()};
}

std::vector<fs::path> paths_below(const fs::path& root) {
  std::vector<fs::path> paths;
  std::error_code code;
  auto entry = fs::recursive_directory_iterator(root, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code))
    if (entry->is_regular_file()) paths.push_back(entry->path());
  if (code)
    throw DataError(fmt::format("data: cannot list '{}': {}", root.string(), code.message()), "check its permissions");
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<StagedFile> files_to_stage(const SourceConfig& source) {
  std::vector<fs::path> paths;
  std::error_code code;
  if (is_lmdb(source.spec))
    paths = {absolute_path(lmdb_data_file(source.spec))};
  else if (fs::is_directory(source.spec, code))
    paths = paths_below(absolute_path(source.spec));
  else if (!source.spec.empty() && !is_made_of_rows(source))
    paths = paths_of_shards(source.spec, source.index_dir);
  else
    throw UsageError(fmt::format("data: '{}' cannot be staged", source.spec.empty() ? source.type : source.spec),
                     "stage shards, class folders or an LMDB; `lockstep data to-lmdb` makes one of a table");
  std::vector<StagedFile> files;
  for (const fs::path& path : paths) files.push_back(staged_file(path));
  if (is_lmdb(source.spec)) files.front().num_bytes = LmdbReader(source.spec).used_bytes();
  return files;
}

/// The spec with `root` before each of its sources; braces stay as they are.
std::string moved_spec(const std::string& spec, const fs::path& root) {
  std::string moved;
  for (const ShardSource& source : parse_shard_sources(spec, ""))
    moved += fmt::format("{}{}{}", moved.empty() ? "" : "::", root.string(), absolute_path(source.spec).string());
  return moved;
}

fs::path target_of(const fs::path& root, const fs::path& source) { return root / source.relative_path(); }

std::string fingerprint_of(const std::vector<StagedFile>& files) {
  core::Xxh3 hash;
  for (const StagedFile& file : files) {
    const std::string line = fmt::format("{}\n{} {}\n", file.source.string(), file.num_bytes, file.written_ns);
    hash.update(std::as_bytes(std::span(line)));
  }
  return hash.hex();
}

uint64_t free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) core::throw_errno("cannot ask for the free space of", folder);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

/// Calls use(piece) for the first num_bytes of a file, or for all of a shorter one.
template <typename Use> void read_pieces(const fs::path& path, uint64_t num_bytes, const Use& use) {
  const core::Fd file = core::open_for_reading(path);
  std::vector<std::byte> piece(kPieceBytes);
  for (uint64_t offset = 0; offset < num_bytes;) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(piece.size(), num_bytes - offset));
    const size_t count = core::read_at(file, std::span(piece).first(wanted), offset, path);
    use(std::span(piece).first(count));
    offset += count;
    if (count < wanted) return;
  }
}

std::string hash_of_file(const fs::path& path, uint64_t num_bytes) {
  core::Xxh3 hash;
  read_pieces(path, num_bytes, [&](std::span<const std::byte> piece) { hash.update(piece); });
  return hash.hex();
}

bool is_of_size(const fs::path& path, uint64_t num_bytes) {
  std::error_code code;
  const uint64_t seen = fs::file_size(path, code);
  return !code && seen == num_bytes;
}

/// Leaves a good copy of an earlier call as it is.
void copy_checked(const StagedFile& file, const fs::path& target) {
  std::error_code code;
  fs::create_directories(target.parent_path(), code);
  if (errno = code.value(); code) core::throw_errno("cannot create folder", target.parent_path());
  if (is_of_size(target, file.num_bytes) &&
      hash_of_file(target, file.num_bytes) == hash_of_file(file.source, file.num_bytes))
    return;
  core::Xxh3 hash;
  uint64_t num_bytes = 0;
  core::AtomicFile copy(target);
  read_pieces(file.source, file.num_bytes, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    copy.write(piece);
    num_bytes += piece.size();
  });
  if (num_bytes != file.num_bytes)
    throw DataError(fmt::format("data: '{}' changed while it was staged: bytes={}, expected {}", file.source.string(),
                                num_bytes, file.num_bytes),
                    "let no program write to the data of a run");
  copy.commit();
  const std::string seen = hash_of_file(target, file.num_bytes);
  if (seen == hash.hex()) return;
  fs::remove(target, code);
  throw DataError(fmt::format("data: the copy '{}' differs from '{}': xxh3={}, expected {}", target.string(),
                              file.source.string(), seen, hash.hex()),
                  "the storage of this node is faulty; stage to another folder");
}

void refuse_too_large(uint64_t num_bytes, const fs::path& folder) {
  const uint64_t available = free_bytes(folder);
  if (num_bytes + kReservedBytes <= available) return;
  throw EnvironmentError(fmt::format("data: staging needs {} bytes ({}) in '{}', where {} ({}) are free",
                                     num_bytes + kReservedBytes, core::format_bytes(static_cast<double>(num_bytes)),
                                     folder.string(), available, core::format_bytes(static_cast<double>(available))),
                         "name another folder, remove older copies, or read the data where they are");
}

/// Whether all copies have their sizes and none was changed once the marker, which is written last, was there.
bool is_staged(const fs::path& marker, const std::vector<StagedFile>& files, const fs::path& root) {
  std::error_code code;
  const auto marked = fs::last_write_time(marker, code);
  if (code) return false;
  return std::all_of(files.begin(), files.end(), [&](const StagedFile& file) {
    const fs::path copy = target_of(root, file.source);
    return is_of_size(copy, file.num_bytes) && fs::last_write_time(copy, code) <= marked && !code;
  });
}

/// Files of earlier calls in the copy of class folders that the source no longer has: they would be read as data.
std::vector<fs::path> leftovers_of(const SourceConfig& source, const std::vector<StagedFile>& files,
                                   const fs::path& root) {
  std::error_code code;
  if (is_lmdb(source.spec) || !fs::is_directory(source.spec, code)) return {};
  const fs::path original = absolute_path(source.spec), copy = target_of(root, original);
  if (!fs::is_directory(copy, code) || fs::equivalent(copy, original, code)) return {};
  std::set<fs::path> wanted;
  for (const StagedFile& file : files) wanted.insert(target_of(root, file.source));
  std::vector<fs::path> leftovers = paths_below(copy);
  std::erase_if(leftovers, [&](const fs::path& path) { return wanted.contains(path); });
  return leftovers;
}

void remove_leftovers(const std::vector<fs::path>& leftovers) {
  for (const fs::path& path : leftovers) {
    std::error_code code, ignored;
    fs::remove(path, code);
    if (errno = code.value(); code) core::throw_errno("cannot remove what the data no longer have,", path);
    for (fs::path folder = path.parent_path(); fs::is_empty(folder, ignored) && fs::remove(folder, ignored);)
      folder = folder.parent_path();
  }
  if (!leftovers.empty())
    core::log_info("data: {} of an earlier copy removed, which the data no longer have: '{}'",
                   core::counted(leftovers.size(), "file"), leftovers.front().string());
}

}  // namespace

StageResult stage_data(const StageConfig& config) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<StagedFile> files = files_to_stage(config.source);
  const fs::path root = absolute_path(config.folder);
  std::error_code code;
  fs::create_directories(root, code);
  if (errno = code.value(); code) core::throw_errno("cannot create folder", root);
  StageResult result{.spec = moved_spec(config.source.spec, root), .num_files = static_cast<int64_t>(files.size())};
  for (const StagedFile& file : files) result.num_bytes += file.num_bytes;
  const FolderLock lock(root, OnLocked::kWait);
  const fs::path marker = root / fmt::format("staged-{}.json", fingerprint_of(files));
  const std::vector<fs::path> leftovers = leftovers_of(config.source, files, root);
  remove_leftovers(leftovers);
  result.was_there = is_staged(marker, files, root);
  if (!result.was_there) {
    uint64_t num_missing = 0;
    for (const StagedFile& file : files)
      if (!is_of_size(target_of(root, file.source), file.num_bytes)) num_missing += file.num_bytes;
    refuse_too_large(num_missing, root);
    for_each_parallel(files.size(), config.num_threads,
                      [&](size_t i, size_t) { copy_checked(files[i], target_of(root, files[i].source)); });
    core::write_file_atomic(marker, core::Json{{"files", files.size()}, {"bytes", result.num_bytes}}.dump() + "\n");
  }
  result.seconds = core::ms_since(start) / 1e3;
  return result;
}

}  // namespace lockstep::data
