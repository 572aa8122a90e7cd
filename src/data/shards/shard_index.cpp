#include "data/shards/shard_index.h"

#include <algorithm>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json.h"
#include "data/shards/open_stream.h"

namespace lockstep::data {
namespace fs = std::filesystem;
using core::Json;

namespace {

constexpr std::string_view kShardIndexFormat = "lockstep-shard-index";
constexpr int kShardIndexVersion = 1;

/// Hashes all that passes; never skips.
class HashingStream : public ByteStream {
 public:
  HashingStream(std::unique_ptr<ByteStream> inner, core::Xxh3& hash, uint64_t& bytes)
      : inner_(std::move(inner)), hash_(hash), bytes_(bytes) {}
  size_t read(std::span<std::byte> buffer) override {
    const size_t got = inner_->read(buffer);
    hash_.update(buffer.first(got));
    bytes_ += got;
    return got;
  }
  bool skip(uint64_t) override { return false; }
  std::optional<uint64_t> size() const override { return inner_->size(); }
  void finish() override { inner_->finish(); }

 private:
  std::unique_ptr<ByteStream> inner_;
  core::Xxh3& hash_;
  uint64_t& bytes_;
};

std::vector<std::string> extensions_of(const std::vector<MemberPlace>& places) {
  std::vector<std::string> list;
  for (const MemberPlace& place : places) list.push_back(place.extension);
  std::sort(list.begin(), list.end());
  return list;
}

/// Bytes of foreign names may be anything; JSON text must be UTF-8.
std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A number of samples or bytes.
int64_t count_of(const Json& value, const std::string& where) {
  const auto count = core::integer_of(value);
  if (!count || *count < 0)
    throw DataError(fmt::format("data: '{}': {} stands where a count belongs", where, dump(value)),
                    "build it again: lockstep data index --force");
  return *count;
}

/// No shard has as many; those of all shards can be added.
int64_t samples_of(const Json& value, const std::string& where) {
  constexpr int64_t kMostSamples = 1'000'000'000'000;
  const int64_t count = count_of(value, where);
  if (count > kMostSamples)
    throw DataError(fmt::format("data: '{}': {} samples in a shard, expected at most {}", where, count, kMostSamples));
  return count;
}

uint64_t bytes_of(const Json& value, const std::string& where) { return static_cast<uint64_t>(count_of(value, where)); }

ShardIndex parse_header(std::string_view line, const std::string& where, std::string& table_hash) {
  const Json header = core::parse_json(line, where);
  ShardIndex index;
  try {
    if (header.at("format") != kShardIndexFormat || header.at("version") != kShardIndexVersion)
      throw DataError(fmt::format("data: '{}' is no shard index of version {}", where, kShardIndexVersion),
                      "build it again: lockstep data index --force");
    index.bytes = bytes_of(header.at("bytes"), where);
    index.xxh3_128 = header.at("xxh3_128").get<std::string>();
    index.num_samples = samples_of(header.at("samples"), where);
    for (const Json& set : header.at("extension_sets"))
      index.extension_sets.emplace_back(set.at(0).get<std::vector<std::string>>(), samples_of(set.at(1), where));
    for (const auto& [reason, count] : header.at("skipped").items()) index.skipped[reason] = count_of(count, where);
    if (header.contains("damage"))
      index.damage = {bytes_of(header.at("damage").at("offset"), where),
                      header.at("damage").at("reason").get<std::string>()};
    table_hash = header.at("table_xxh3_128").get<std::string>();
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("data: '{}' is no shard index: {}", where, error.what()),
                    "build it again: lockstep data index --force");
  }
  int64_t in_sets = 0;
  for (const auto& [extensions, count] : index.extension_sets) {
    if (count > INT64_MAX - in_sets) throw DataError(fmt::format("data: '{}': a count of {} samples", where, count));
    in_sets += count;
  }
  if (index.num_samples != in_sets)
    throw DataError(
        fmt::format("data: '{}': samples={} but its extension sets hold {}", where, index.num_samples, in_sets));
  return index;
}

ShardIndex::Sample parse_row(std::string_view line, const std::string& where) {
  const Json row = core::parse_json(line, where);
  ShardIndex::Sample sample;
  try {
    sample.offset = bytes_of(row.at(0), where);
    for (size_t i = 1; i < row.size(); ++i)
      sample.places.push_back(
          {row.at(i).at(0).get<std::string>(), bytes_of(row.at(i).at(1), where), bytes_of(row.at(i).at(2), where)});
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("data: '{}': malformed row: {}", where, error.what()));
  }
  return sample;
}

}  // namespace

int64_t ShardIndex::num_usable(const SampleFilter& filter) const {
  int64_t count = 0;
  for (const auto& [extensions, num] : extension_sets)
    if (filter.reason_against(extensions).empty()) count += num;
  return count + (damage ? 1 : 0);
}

std::vector<uint64_t> ShardIndex::usable_offsets(const SampleFilter& filter) const {
  std::vector<uint64_t> offsets;
  for (const Sample& sample : samples)
    if (filter.reason_against(extensions_of(sample.places)).empty()) offsets.push_back(sample.offset);
  if (damage) offsets.push_back(damage->offset);
  return offsets;
}

fs::path side_car_path(const std::string& shard, const std::string& index_dir) {
  if (index_dir.empty()) return shard + ".index";
  const fs::path absolute = fs::absolute(shard).lexically_normal();
  const uint64_t folder = core::stable_hash(absolute.parent_path().string());
  return fs::path(index_dir) / fmt::format("{}.{:08x}.index", absolute.filename().string(), folder & 0xffffffffu);
}

ShardIndex build_shard_index(const std::string& shard, bool keep_damaged, const MediaVisitor& visit) {
  std::vector<std::string> wanted(picture_extensions().begin(), picture_extensions().end());
  wanted.insert(wanted.end(), audio_extensions().begin(), audio_extensions().end());
  ShardIndex index;
  core::Xxh3 hash;
  TarSampleReader reader(std::make_unique<HashingStream>(open_byte_stream(shard, 0, nullptr), hash, index.bytes), shard,
                         0, &wanted);
  std::map<std::vector<std::string>, int64_t> sets;
  try {
    while (auto sample = reader.next(/*with_data=*/static_cast<bool>(visit))) {
      if (visit) visit(*sample);
      ++sets[extensions_of(sample->places)];
      index.samples.push_back({sample->offset, std::move(sample->places)});
    }
  } catch (const DataError& error) {
    if (!keep_damaged) throw;
    index.damage = {reader.next_offset(), error.what()};
    index.bytes = fs::file_size(shard);  // the rest of it was not read
  }
  if (reader.has_global_overrides())
    throw DataError(
        fmt::format("data: shard '{}' has a pax global header with a path or size, so it cannot be indexed", shard),
        "write the archive again without global pax records");
  index.num_samples = static_cast<int64_t>(index.samples.size());
  index.extension_sets.assign(sets.begin(), sets.end());
  index.skipped = reader.skipped();
  index.xxh3_128 = hash.hex();
  return index;
}

std::string format_index_header(const std::string& name, const ShardIndex& index, const std::string& table_hash) {
  Json sets = Json::array();
  for (const auto& [extensions, count] : index.extension_sets) sets.push_back(Json::array({extensions, count}));
  Json header{{"format", kShardIndexFormat}, {"version", kShardIndexVersion},  {"shard", name},
              {"bytes", index.bytes},        {"xxh3_128", index.xxh3_128},     {"samples", index.num_samples},
              {"extension_sets", sets},      {"skipped", Json(index.skipped)}, {"table_xxh3_128", table_hash}};
  if (index.damage) header["damage"] = {{"offset", index.damage->offset}, {"reason", index.damage->reason}};
  return dump(header);
}

std::pair<std::string, ShardIndex> parse_index_header(std::string_view line, const std::string& where) {
  std::string table_hash;
  ShardIndex index = parse_header(line, where, table_hash);
  const Json header = core::parse_json(line, where);
  if (!header.contains("shard") || !header.at("shard").is_string())
    throw DataError(fmt::format("data: '{}' names no shard in a header", where));
  return {header.at("shard").get<std::string>(), std::move(index)};
}

std::string format_shard_index(const std::string& shard, const ShardIndex& index) {
  std::string table;
  for (const ShardIndex::Sample& sample : index.samples) {
    Json row = Json::array({sample.offset});
    for (const MemberPlace& place : sample.places)
      row.push_back(Json::array({place.extension, place.offset, place.size}));
    table += dump(row) + "\n";
  }
  return format_index_header(fs::path(shard).filename().string(), index, core::xxh3_hex(table)) + "\n" + table;
}

ShardIndex parse_shard_index(std::string_view text, const std::string& where) {
  const size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos)
    throw DataError(fmt::format("data: shard index '{}' is cut: no whole header line", where));
  std::string table_hash;
  ShardIndex index = parse_header(text.substr(0, line_end), where, table_hash);
  std::string_view table = text.substr(line_end + 1);
  if (core::xxh3_hex(table) != table_hash)
    throw DataError(fmt::format("data: shard index '{}' is damaged: the checksum of its table does not fit", where),
                    "build it again: lockstep data index --force");
  while (!table.empty()) {
    const size_t end = table.find('\n');
    if (end == std::string_view::npos) throw DataError(fmt::format("data: shard index '{}' is cut in a row", where));
    index.samples.push_back(parse_row(table.substr(0, end), where));
    table.remove_prefix(end + 1);
  }
  if (static_cast<int64_t>(index.samples.size()) != index.num_samples)
    throw DataError(fmt::format("data: shard index '{}' lists {} samples, its header says {}", where,
                                index.samples.size(), index.num_samples));
  return index;
}

std::optional<ShardIndex> read_index_header(const fs::path& side_car) {
  std::error_code code;
  if (!fs::exists(side_car, code)) return std::nullopt;
  const core::Fd file = core::open_for_reading(side_car);
  std::string text;
  for (size_t block = 1 << 14; text.find('\n') == std::string::npos; block *= 4) {
    const size_t before = text.size();
    text.resize(before + block);
    const size_t got = core::read_at(file, std::as_writable_bytes(std::span(text)).subspan(before), before, side_car);
    text.resize(before + got);
    if (got < block) break;
  }
  const size_t end = text.find('\n');
  if (end == std::string::npos)
    throw DataError(fmt::format("data: shard index '{}' is cut: no whole header line", side_car.string()));
  std::string table_hash;
  return parse_header(std::string_view(text).substr(0, end), side_car.string(), table_hash);
}

}  // namespace lockstep::data
