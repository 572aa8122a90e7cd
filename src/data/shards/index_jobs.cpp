#include "data/shards/index_jobs.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "core/files.h"
#include "data/parallel_for.h"
#include "data/shards/shard_list.h"
#include "data/sounds/recording_check.h"

namespace lockstep::data {
namespace fs = std::filesystem;

namespace {

constexpr const char* kSummaryName = "shards.index";

/// Header of the shard's side-car; a damaged side-car counts as missing.
std::optional<ShardIndex> readable_header(const std::string& shard, const std::string& index_dir) {
  try {
    return read_index_header(side_car_path(shard, index_dir));
  } catch (const DataError&) {  // built again
    return std::nullopt;
  }
}

/// The same where it fits the shard's present size.
std::optional<ShardIndex> fitting_header(const std::string& shard, const std::string& index_dir) {
  auto header = readable_header(shard, index_dir);
  std::error_code code;
  if (header && fs::file_size(shard, code) == header->bytes && !code) return header;
  return std::nullopt;
}

/// The header from when the shard, damaged now, was longer and whole: it knows how many samples are lost.
std::optional<ShardIndex> header_before_cut(const std::string& shard, const std::string& index_dir, uint64_t bytes) {
  auto header = readable_header(shard, index_dir);
  if (header && !header->damage && header->bytes > bytes) return header;
  return std::nullopt;
}

/// The summary of a folder; lines that cannot be read are left out, since the side-cars themselves are still there.
std::map<std::string, ShardIndex> read_summary(const fs::path& folder) {
  std::map<std::string, ShardIndex> headers;
  const fs::path path = folder / kSummaryName;
  std::error_code code;
  if (!fs::exists(path, code)) return headers;
  const std::string text = core::read_file(path);
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      headers.insert(parse_index_header(std::string_view(text).substr(begin, end - begin), path.string()));
    } catch (const DataError&) {
    }
  }
  return headers;
}

/// One run of build_indexes: what its threads share.
class IndexRun {
 public:
  explicit IndexRun(const IndexJob& job)
      : job_(job), headers_(job.shards.size()), errors_(job.shards.size()), damages_(job.shards.size()) {}

  IndexSummary run() {
    for_each_parallel(job_.shards.size(), job_.num_threads, [this](size_t i, size_t) { index_one(i); });
    if (fatal_) std::rethrow_exception(fatal_);
    for (size_t i = 0; i < errors_.size(); ++i)
      if (errors_[i]) summary_.damaged.emplace_back(job_.shards[i], *errors_[i]);
    for (const std::string& damage : damages_)
      if (!damage.empty()) summary_.kept_damage.push_back(damage);
    write_summaries();
    return summary_;
  }

 private:
  void index_one(size_t i) {
    const std::string& shard = job_.shards[i];
    std::optional<ShardIndex> index;
    std::optional<DataError> error;
    std::string damage;
    bool is_reused = false;
    try {
      if (has_failed()) return;
      if (!job_.force) index = fitting_header(shard, job_.index_dir);
      if (index && index->damage) index.reset();  // read again: the shard may have been repaired in place
      is_reused = index.has_value();
      if (!is_reused) {
        index = build_shard_index(shard, job_.keep_damaged);
        if (index->damage) damage = index->damage->reason;
        auto before = index->damage ? header_before_cut(shard, job_.index_dir, index->bytes) : std::nullopt;
        if (before) {
          index = std::move(before);
          is_reused = true;
        } else {
          core::write_file_atomic(side_car_path(shard, job_.index_dir), format_shard_index(shard, *index));
          index->samples = {};
        }
      }
    } catch (const DataError& caught) {
      error = caught;
    } catch (...) {  // a full disk, a folder without permission: no use in going on
      const std::scoped_lock lock(mutex_);
      if (!fatal_) fatal_ = std::current_exception();
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (index) {
      ++(is_reused ? summary_.num_reused : summary_.num_built);
      summary_.num_samples += index->num_samples;
      summary_.bytes += index->bytes;
    }
    headers_[i] = std::move(index);
    errors_[i] = std::move(error);
    damages_[i] = std::move(damage);
    ++num_done_;
    if (job_.on_progress) job_.on_progress(num_done_, shard);
  }

  bool has_failed() {
    const std::scoped_lock lock(mutex_);
    return fatal_ != nullptr;
  }

  /// Adds the headers to the summaries of their folders; a damaged shard loses its line.
  void write_summaries() const {
    std::map<fs::path, std::map<std::string, ShardIndex>> folders;
    for (size_t i = 0; i < headers_.size(); ++i) {
      const fs::path side_car = side_car_path(job_.shards[i], job_.index_dir);
      const auto [folder, is_new] = folders.try_emplace(side_car.parent_path());
      if (is_new) folder->second = read_summary(folder->first);
      if (headers_[i]) {
        folder->second[side_car.filename().string()] = *headers_[i];
      } else {
        folder->second.erase(side_car.filename().string());
      }
    }
    for (const auto& [folder, headers] : folders) {
      std::error_code code;
      if (headers.empty() && !fs::exists(folder / kSummaryName, code)) continue;  // none of its shards could be read
      std::string text;
      for (const auto& [name, header] : headers) text += format_index_header(name, header, "") + "\n";
      core::write_file_atomic(folder / kSummaryName, text);
    }
  }

  const IndexJob& job_;
  std::mutex mutex_;  // guards all below
  std::vector<std::optional<ShardIndex>> headers_;
  std::vector<std::optional<DataError>> errors_;
  std::vector<std::string> damages_;  // "" for whole shards
  IndexSummary summary_;
  std::exception_ptr fatal_;
  int64_t num_done_ = 0;
};

void decode_media(const std::string& shard, const TarSample& sample, VerifyResult& result) {
  for (const Member& member : sample.members) {
    const bool is_recording = is_audio_extension(member.extension);
    MediaCheck& check = is_recording ? result.recordings : result.pictures;
    ++check.num_seen;
    try {
      (is_recording ? check_recording : check_picture)(
          member.bytes,
          fmt::format("shard '{}' offset={} key='{}' ({})", shard, sample.offset, sample.key, member.extension),
          PictureDepth::kDecoded);
    } catch (const DataError& error) {
      ++check.num_bad;
      if (check.bad.size() < kMaxBadPictures) check.bad.emplace_back(error.what());
    }
  }
}

VerifyResult verify_shard(const std::string& shard, const IndexJob& job) {
  const std::string& index_dir = job.index_dir;
  VerifyResult result;
  result.shard = shard;
  std::error_code missing_code;
  result.is_missing = !is_streamed(shard) && !fs::exists(shard, missing_code) && !missing_code;
  if (result.is_missing && !fs::path(shard).has_extension()) {  // perhaps the prefix of a tokenized corpus
    result.error = fmt::format("data: '{0}' does not exist, nor are there token files '{0}.idx' and .bin", shard);
    return result;
  }
  try {
    const auto expected = is_streamed(shard) ? std::nullopt : read_index_header(side_car_path(shard, index_dir));
    result.has_index = expected.has_value();
    std::error_code code;
    const uint64_t bytes = is_streamed(shard) ? 0 : fs::file_size(shard, code);
    if (expected && !code && bytes != expected->bytes)
      throw DataError(fmt::format("data: shard '{}' has another size than its index says: bytes={}, expected={}", shard,
                                  bytes, expected->bytes),
                      "copy the shard again, or index it again if it was replaced on purpose");
    MediaVisitor visit;
    if (job.decodes) visit = [&](const TarSample& sample) { decode_media(shard, sample, result); };
    const ShardIndex found = build_shard_index(shard, /*keep_damaged=*/false, visit);
    result.num_samples = found.num_samples;
    result.bytes = found.bytes;
    if (expected && found.xxh3_128 != expected->xxh3_128)
      throw DataError(fmt::format("data: shard '{}' has another content than its index says: xxh3_128={}, expected={}",
                                  shard, found.xxh3_128, expected->xxh3_128));
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace

IndexSummary build_indexes(const IndexJob& job) {
  for (const std::string& shard : job.shards)
    if (is_streamed(shard))
      throw UsageError(fmt::format("data: '{}' cannot be indexed: it is no file of this machine", shard));
  std::error_code code;
  if (!job.index_dir.empty()) fs::create_directories(job.index_dir, code);
  if (code) throw EnvironmentError(fmt::format("data: cannot make the folder '{}': {}", job.index_dir, code.message()));
  return IndexRun(job).run();
}

std::optional<ShardIndex> IndexHeaders::find(const std::string& shard) {
  if (is_streamed(shard)) return std::nullopt;
  const fs::path side_car = side_car_path(shard, index_dir_);
  const auto [folder, is_new] = folders_.try_emplace(side_car.parent_path());
  if (is_new) folder->second = read_summary(folder->first);
  const auto found = folder->second.find(side_car.filename().string());
  return found != folder->second.end() ? std::optional(found->second) : read_index_header(side_car);
}

std::vector<VerifyResult> verify_shards(const IndexJob& job) {
  std::vector<VerifyResult> results(job.shards.size());
  std::mutex mutex;
  int64_t done = 0;
  for_each_parallel(job.shards.size(), job.num_threads, [&](size_t i, size_t) {
    results[i] = verify_shard(job.shards[i], job);
    const std::scoped_lock lock(mutex);
    ++done;
    if (job.on_progress) job.on_progress(done, job.shards[i]);
  });
  return results;
}

}  // namespace lockstep::data
