// A file: the header's JSON on one line, its XXH3 on the next, spaces up to kPage bytes; then each array from a
// multiple of kPage on. Numbers lie as this kind of machine has them (little endian).
#include "data/tokens/array_cache.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "data/folder_lock.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using core::Json;

constexpr std::string_view kArrayFormat = "lockstep arrays";
constexpr int kArrayVersion = 1;
constexpr size_t kPage = 4096;
constexpr std::chrono::hours kLeftOver{24};  // a temporary file as old as that belongs to no living process

size_t round_up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

[[noreturn]] void refuse_array(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("data: array file '{}': {}", path.string(), what),
                  "remove it; the next start makes it again");
}

std::string header_text(std::string_view kind, const std::string& key, const Arrays& arrays) {
  std::vector<size_t> bytes;
  for (const auto& part : arrays.parts) bytes.push_back(part.size());
  const std::string line = Json{{"format", kArrayFormat}, {"version", kArrayVersion}, {"kind", kind}, {"key", key},
                                {"bytes", bytes},         {"facts", arrays.facts}}
                               .dump();
  std::string text = fmt::format("{}\n{}\n", line, core::xxh3_hex(line));
  LOCKSTEP_CHECK(text.size() <= kPage, "header of {} bytes", text.size());
  text.resize(kPage, ' ');
  return text;
}

Json read_header(const fs::path& path, std::span<const std::byte> bytes) {
  if (bytes.size() < kPage) refuse_array(path, fmt::format("cut: bytes={}, expected at least {}", bytes.size(), kPage));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), kPage);
  const size_t end = text.find('\n');
  if (end == text.npos || text.substr(end + 1, 33) != core::xxh3_hex(text.substr(0, end)) + "\n")
    refuse_array(path, "its header does not have the checksum it should");
  return core::parse_json(text.substr(0, end), path.string());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  errno = error.value();
  if (error) core::throw_errno("cannot create folder", folder);
}

/// "<kind>-<32 hexadecimal digits>.arrays.tmp...", as AtomicFile calls it: others may keep files in the folder.
bool is_own_temporary(std::string_view name) {
  constexpr size_t kHashDigits = 32;
  const size_t end = name.find(".arrays.tmp");
  if (end == std::string_view::npos || end <= kHashDigits || name[end - kHashDigits - 1] != '-') return false;
  return name.substr(end - kHashDigits, kHashDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void remove_left_over(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& path : core::list_folder(folder, error)) {
    if (!is_own_temporary(path.filename().string())) continue;
    const auto written = fs::last_write_time(path, error);
    if (!error && fs::file_time_type::clock::now() - written > kLeftOver) fs::remove(path, error);
  }
}

}  // namespace

Arrays read_array_file(const fs::path& path, std::string_view kind, const std::string& key) {
  auto file = std::make_shared<const core::MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  Arrays arrays;
  try {
    const Json header = read_header(path, bytes);
    if (header.at("format") != kArrayFormat || header.at("version") != kArrayVersion)
      refuse_array(path, fmt::format("no array file of version {}", kArrayVersion));
    if (header.at("kind") != kind || header.at("key") != key) refuse_array(path, "it is of something else");
    size_t begin = kPage;
    for (const Json& size : header.at("bytes")) {
      const auto told = core::integer_of(size);
      if (!told || *told < 0) refuse_array(path, fmt::format("an array of {} bytes", size.dump().substr(0, 60)));
      const auto part = static_cast<size_t>(*told);
      if (begin > bytes.size() || part > bytes.size() - begin)
        refuse_array(path, fmt::format("cut: bytes={}, expected at least {}", bytes.size(), begin + part));
      arrays.parts.push_back(bytes.subspan(begin, part));
      begin += round_up(part);
    }
    if (begin != bytes.size()) refuse_array(path, fmt::format("bytes={}, expected {}", bytes.size(), begin));
    arrays.facts = header.at("facts");
  } catch (const Json::exception& error) {
    refuse_array(path, fmt::format("malformed header: {}", error.what()));
  }
  arrays.memory = std::move(file);
  return arrays;
}

void write_array_file(const fs::path& path, std::string_view kind, const std::string& key, const Arrays& arrays) {
  constexpr std::byte kZeros[kPage]{};
  core::AtomicFile file(path);
  const std::string header = header_text(kind, key, arrays);
  file.write(std::as_bytes(std::span(header)));
  for (const auto& part : arrays.parts) {
    file.write(part);
    file.write(std::span(kZeros).first(round_up(part.size()) - part.size()));
  }
  file.commit();
}

ArrayCache::ArrayCache(fs::path folder, bool is_required, bool warns)
    : folder_(std::move(folder)), is_required_(is_required), warns_(warns) {}

bool ArrayCache::is_writable() {
  if (std::exchange(is_tried_, true)) return unwritable_.empty();
  try {
    make_folder(folder_);
    open_folder_lock(folder_);
  } catch (const EnvironmentError& error) {
    unwritable_ = error.what();
  }
  return unwritable_.empty();
}

std::optional<Arrays> ArrayCache::find(const fs::path& path, std::string_view kind, const std::string& key,
                                       bool tells) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    return read_array_file(path, kind, key);
  } catch (const Error& damage) {
    if (tells) core::log_warning("{}; it is made again", damage.what());
    return std::nullopt;
  }
}

Arrays ArrayCache::make_in_memory(const std::function<Arrays()>& make) {
  if (is_required_)
    throw EnvironmentError(unwritable_,
                           "--data-cache-path names a folder that this user may write, and where there is room");
  if (warns_)
    core::log_warning(
        "{}: indices of samples are made in the memory of every rank; --data-cache-path DIR names another folder",
        unwritable_);
  warns_ = false;
  return make();
}

Arrays ArrayCache::get(std::string_view kind, const std::string& key, const std::function<Arrays()>& make) {
  const fs::path path = folder_ / fmt::format("{}-{}.arrays", kind, core::xxh3_hex(key));
  if (auto found = find(path, kind, key, false)) return std::move(*found);
  if (!is_writable()) return make_in_memory(make);
  const FolderLock lock(folder_, OnLocked::kWait);
  if (auto found = find(path, kind, key, true)) return std::move(*found);
  const auto start = std::chrono::steady_clock::now();
  Arrays made = make();
  try {
    remove_left_over(folder_);
    write_array_file(path, kind, key, made);
  } catch (const EnvironmentError& error) {
    unwritable_ = error.what();
    return make_in_memory([&] { return made; });
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  core::log_info("data: made '{}' in {:.1f} s", path.string(), taken.count());
  return read_array_file(path, kind, key);
}

}  // namespace lockstep::data
