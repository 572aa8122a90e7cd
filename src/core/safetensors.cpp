#include "core/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <span>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/strings.h"

// Format: u64 little-endian header bytes, JSON header {name: {dtype, shape, data_offsets: [begin, end]},
// "__metadata__": {..}}, data. https://github.com/huggingface/safetensors (format description in its README).
static_assert(std::endian::native == std::endian::little, "safetensors data are little endian");

namespace lockstep::core {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's own limit

struct ElementType {
  std::string_view name;
  size_t bytes;
};
constexpr std::array kElementTypes{ElementType{"F64", 8},  ElementType{"F32", 4},     ElementType{"F16", 2},
                                   ElementType{"BF16", 2}, ElementType{"I64", 8},     ElementType{"I32", 4},
                                   ElementType{"I16", 2},  ElementType{"I8", 1},      ElementType{"U8", 1},
                                   ElementType{"BOOL", 1}, ElementType{"F8_E4M3", 1}, ElementType{"F8_E5M2", 1}};

[[noreturn]] void damaged(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("safetensors: '{}' is damaged: {}", path.string(), what),
                  "copy or download the file again and compare its size with the original");
}

/// Product of the shape times element bytes; nothing on a negative size or an overflow.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, size_t element_bytes) {
  uint64_t bytes = element_bytes;
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<size_t> safetensors_element_bytes(std::string_view dtype) {
  for (const ElementType& type : kElementTypes)
    if (type.name == dtype) return type.bytes;
  return std::nullopt;
}

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : path_(path), file_(std::make_unique<MappedFile>(path)), bytes_(file_->bytes()) {
  parse_header();
  check_layout();
}

SafetensorsFile::SafetensorsFile(const fs::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {
  parse_header();
  check_layout();
}

void SafetensorsFile::parse_header() {
  uint64_t header_bytes = 0;
  if (bytes_.size() < sizeof header_bytes)
    damaged(path_, fmt::format("file bytes={}, expected at least 8", bytes_.size()));
  std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
  if (header_bytes > std::min<uint64_t>(kMaxHeaderBytes, bytes_.size() - 8))
    damaged(path_, fmt::format("header bytes={}, file bytes={}", header_bytes, bytes_.size()));
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + 8, header_bytes);
  const auto data = bytes_.subspan(8 + header_bytes);
  const Json header = parse_json(text, path_.string());
  if (!header.is_object()) damaged(path_, "header is not a JSON object");
  for (const auto& [name, value] : header.items()) {
    try {
      if (name == "__metadata__") {
        metadata_ = value.get<std::map<std::string, std::string>>();
        continue;
      }
      SafetensorsEntry entry{.name = name, .dtype = value.at("dtype"), .shape = value.at("shape"), .bytes = {}};
      const auto offsets = value.at("data_offsets").get<std::array<uint64_t, 2>>();
      const auto element = safetensors_element_bytes(entry.dtype);
      if (!element) damaged(path_, fmt::format("tensor '{}' has unknown dtype '{}'", name, entry.dtype));
      const auto expected = tensor_bytes(entry.shape, *element);
      if (!expected || offsets[0] > offsets[1] || offsets[1] > data.size() || offsets[1] - offsets[0] != *expected)
        damaged(path_, fmt::format("tensor '{}' has data_offsets=[{}, {}], expected {} bytes inside {} data bytes",
                                   name, offsets[0], offsets[1], expected.value_or(0), data.size()));
      entry.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
      entries_.push_back(std::move(entry));
    } catch (const Json::exception& error) {
      damaged(path_, fmt::format("header entry '{}': {}", name, error.what()));
    }
  }
}

void SafetensorsFile::check_layout() {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
  const std::byte* next = bytes_.data() + 8 + header_bytes;
  std::stable_sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  for (const auto& entry : entries_) {
    if (entry.bytes.data() != next)
      damaged(path_, fmt::format("tensor '{}' overlaps another one or follows a hole", entry.name));
    next = entry.bytes.data() + entry.bytes.size();
  }
  const std::byte* end = bytes_.data() + bytes_.size();
  if (next != end) damaged(path_, fmt::format("{} bytes follow the last tensor", end - next));
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  if (const auto* entry = find(name)) return *entry;
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.name);
  std::string hint = "it has none";
  if (const auto nearest = nearest_name(name, names)) {
    hint = fmt::format("the nearest name in it is '{}'", *nearest);
  } else if (!names.empty()) {
    const size_t num_shown = std::min<size_t>(names.size(), 5);
    hint = fmt::format("it has {}{}", join(std::span(names).first(num_shown), ", "),
                       num_shown < names.size() ? ", ..." : "");
  }
  throw DataError(fmt::format("safetensors: '{}' has no tensor '{}'", path_.string(), name), hint);
}

namespace {
std::string header_text(std::span<const ScatteredEntry> entries, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  auto& members = header.get_ref<Json::object_t&>();  // at the end: the JSON looks for a key among all before it
  std::set<std::string_view> names{"__metadata__"};
  uint64_t offset = 0;
  for (const auto& entry : entries) {
    const auto element = safetensors_element_bytes(entry.dtype);
    uint64_t num_bytes = 0;
    for (const auto piece : entry.pieces) num_bytes += piece.size();
    LOCKSTEP_CHECK(element && tensor_bytes(entry.shape, *element) == num_bytes, "tensor '{}' dtype={} bytes={}",
                   entry.name, entry.dtype, num_bytes);
    LOCKSTEP_CHECK(names.insert(entry.name).second, "tensor '{}' twice", entry.name);
    members.emplace_back(
        entry.name,
        Json{{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {offset, offset + num_bytes}}});
    offset += num_bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}
}  // namespace

WrittenBytes write_safetensors(const fs::path& path, std::span<const SafetensorsEntry> entries,
                               const std::map<std::string, std::string>& metadata) {
  std::vector<ScatteredEntry> scattered;
  for (const auto& entry : entries)
    scattered.push_back({.name = entry.name, .dtype = entry.dtype, .shape = entry.shape, .pieces = {entry.bytes}});
  return write_safetensors(path, scattered, metadata);
}

WrittenBytes write_safetensors(const fs::path& path, std::span<const ScatteredEntry> entries,
                               const std::map<std::string, std::string>& metadata) {
  constexpr size_t kPieceBytes = size_t{4} << 20;  // small enough that the hash finds in the cache what was written
  const std::string header = header_text(entries, metadata);
  const uint64_t header_bytes = header.size();
  AtomicFile file(path);
  Xxh3 hash;
  int64_t num_bytes = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    num_bytes += static_cast<int64_t>(bytes.size());
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(kPieceBytes, bytes.size()));
      file.write(piece);
      hash.update(piece);
      bytes = bytes.subspan(piece.size());
    }
  };
  add({reinterpret_cast<const std::byte*>(&header_bytes), sizeof header_bytes});
  add(std::as_bytes(std::span(header)));
  for (const auto& entry : entries)
    for (const auto piece : entry.pieces) add(piece);
  file.commit();
  return {.bytes = num_bytes, .xxh3 = hash.hex()};
}

}  // namespace lockstep::core
