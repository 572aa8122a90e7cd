#include "remote/folder_store.h"

#include <algorithm>

#include "core/hash.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr std::string_view kPartSuffix = ".part";  // of a file that is being written, and of its temporary one

/// What a file system refuses may succeed later: it may be full or away for a while.
template <typename Work> auto as_remote(Work&& work) {
  try {
    return work();
  } catch (const RemoteError&) {
    throw;
  } catch (const fs::filesystem_error& error) {
    const EnvironmentError known = core::as_environment_error(error);
    throw RemoteError(known.what(), known.hint(), true);
  } catch (const EnvironmentError& error) {
    throw RemoteError(error.what(), error.hint(), true);
  }
}

}  // namespace

FolderStore::FolderStore(fs::path root, ClientConfig config) : root_(std::move(root)), config_(std::move(config)) {}

std::vector<StoredFile> FolderStore::list(const std::string& prefix) {
  return as_remote([&] {
    std::vector<StoredFile> files;
    if (!fs::exists(root_)) return files;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(root_).generic_string();
      if (core::starts_with(name, prefix)) files.push_back({name, static_cast<int64_t>(entry.file_size())});
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return files;
  });
}

void FolderStore::put(const std::string& name, std::string_view content) {
  as_remote([&] {
    fs::create_directories((root_ / name).parent_path());
    core::write_file_atomic(root_ / name, content);
  });
}

/// Under another name first, read back, then renamed.
void FolderStore::copy(const core::Fd& from, int64_t bytes, const fs::path& shown, const fs::path& to) {
  fs::create_directories(to.parent_path());
  const fs::path temporary = to.string() + std::string(kPartSuffix);
  core::Xxh3 sent, kept;
  std::vector<std::byte> block(kBlockBytes);
  const auto read_all = [&](const core::Fd& file, const fs::path& path, core::Xxh3& hash, const auto& use) {
    for (int64_t at = 0; at < bytes;) {
      if (config_.is_stopped && config_.is_stopped()) throw Interrupted();
      const auto wanted = std::min<int64_t>(bytes - at, static_cast<int64_t>(block.size()));
      const auto part = std::span(block).first(static_cast<size_t>(wanted));
      if (core::read_at(file, part, static_cast<uint64_t>(at), path) != part.size())
        throw RemoteError(fmt::format("remote: '{}' is shorter than it was: expected bytes={}", path.string(), bytes),
                          "", true);
      hash.update(part);
      use(std::span<const std::byte>(part));
      at += wanted;
    }
  };
  {
    std::error_code ignored;
    fs::remove(temporary, ignored);  // of a copy that was cut off
    core::AtomicFile file(temporary);
    read_all(from, shown, sent, [&](std::span<const std::byte> part) { file.write(part); });
    file.commit();
  }
  read_all(core::open_for_reading(temporary), temporary, kept, [](std::span<const std::byte>) {});
  if (sent.hex() != kept.hex())
    throw RemoteError(fmt::format("remote: the copy '{}' differs from what was written: xxh3={}, expected={}",
                                  temporary.string(), kept.hex(), sent.hex()),
                      "the storage damages files", true);
  fs::rename(temporary, to);
  core::fsync_directory(to.parent_path());
}

void FolderStore::upload(const std::string& name, const OutgoingFile& file, UploadMemory&) {
  as_remote([&] { copy(file.file, file.bytes, name, root_ / name); });
}

std::string FolderStore::read(const std::string& name) {
  return as_remote([&] { return core::read_file(root_ / name); });
}

void FolderStore::download(const std::string& name, const fs::path& to) {
  as_remote([&] {
    const core::Fd file = core::open_for_reading(root_ / name);
    copy(file, static_cast<int64_t>(core::file_bytes(file, root_ / name)), root_ / name, to);
  });
}

void FolderStore::remove(const std::string& name) {
  as_remote([&] { fs::remove(root_ / name); });
}

int64_t FolderStore::drop_unfinished(const std::vector<core::Json>&) {
  int64_t num_dropped = 0;
  for (const StoredFile& file : list("")) {
    const bool is_temporary = file.name.find(std::string(kPartSuffix) + ".tmp") != std::string::npos;
    if (!is_temporary && !core::ends_with(file.name, kPartSuffix)) continue;
    remove(file.name);
    ++num_dropped;
  }
  return num_dropped;
}

}  // namespace lockstep::remote
