#include "data/to_lmdb.h"

#include <algorithm>
#include <bit>
#include <future>

#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/wrapped_message.h"
#include "data/bad_sample_hint.h"
#include "data/folder_lock.h"
#include "data/parallel_for.h"
#include "data/shards/lmdb_value.h"
#include "data/shards/lmdb_writer.h"
#include "data/shards/plain_pickle.h"
#include "data/shards/source_lmdb.h"
#include "data/shards/source_rows.h"
#include "data/text/text_utf8.h"
#include "data/train_stream.h"

namespace lockstep::data {
namespace fs = std::filesystem;

namespace {

constexpr size_t kHashBytes = 16;

std::string hash_key(int64_t chunk) { return fmt::format("{}{:09}", LmdbKeys::kHashes, chunk); }

/// The hash of a value as 16 bytes.
std::string value_hash(std::string_view value) {
  const std::string hex = core::xxh3_hex(value);
  const auto digit = [&](size_t i) { return hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(digit(i) * 16 + digit(i + 1));
  return bytes;
}

struct ReadSample {
  std::string value;      ///< Ready to be written.
  std::string complaint;  ///< Why there is none.
};

/// Consecutive samples; fewer than kLmdbHashedTogether: the end.
struct LmdbChunk {
  std::vector<ReadSample> samples;
  int64_t max_label = -1;
};

/// Reads the source from front to back, a chunk at a time, in several threads.
class ChunkReader {
 public:
  explicit ChunkReader(const ToLmdbConfig& job)
      : num_threads_(job.num_threads), skips_bad_(job.skips_bad),
        depth_(job.decodes ? PictureDepth::kDecoded : PictureDepth::kFirstBytes) {
    SourceConfig config = job.source;
    config.need_label = true;
    config.need_text = false;
    // Shards are streams, so each thread has its own share of the samples of all of them; the number of threads divides
    // a chunk. Rows are named first, and then read by any thread.
    const bool is_row_source = is_made_of_rows(config);
    config.world_size = is_row_source ? 1
                                      : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
                                            std::clamp<int64_t>(num_threads_, 1, kLmdbHashedTogether))));
    for (config.rank = 0; config.rank < config.world_size; ++config.rank) sources_.push_back(open_eval_source(config));
    source_ = sources_.front()->position().at("data").get<std::string>();
  }

  const std::string& source() const { return source_; }

  /// Goes on behind `num_read` samples, a multiple of a chunk.
  void pass_over(int64_t num_read) {
    for (const auto& source : sources_) {
      core::Json position = source->position();
      position["consumed"] = num_read;
      source->seek(position);
    }
  }

  LmdbChunk next() {
    const size_t num_sources = sources_.size();
    std::vector<std::optional<RawSample>> samples(kLmdbHashedTogether);
    for_each_parallel(num_sources, static_cast<int64_t>(num_sources), [&](size_t rank, size_t) {
      for (size_t i = rank; i < samples.size(); i += num_sources) {
        samples[i] = sources_[rank]->next();
        if (!samples[i]) break;
      }
    });
    const auto end = std::find(samples.begin(), samples.end(), std::nullopt) - samples.begin();
    LmdbChunk chunk;
    chunk.samples.resize(static_cast<size_t>(end));
    for_each_parallel(chunk.samples.size(), num_threads_,
                      [&](size_t i, size_t) { chunk.samples[i] = read_sample(*samples[i]); });
    for (size_t i = 0; i < chunk.samples.size(); ++i)
      if (chunk.samples[i].complaint.empty()) chunk.max_label = std::max(chunk.max_label, samples[i]->label);
    return chunk;
  }

 private:
  ReadSample read_sample(RawSample& sample) const {
    bool can_be_skipped = skips_bad_;
    try {
      load_deferred(sample);
      const Member* picture = nullptr;
      for (const Member& member : sample.members)
        if (is_picture_extension(member.extension)) picture = &member;
      if (picture == nullptr) throw DataError("data: there is no picture");
      if (sample.label < 0) {
        can_be_skipped = false;  // that is no damage of one picture
        throw DataError("data: there is no label", "name the column or the member that has it");
      }
      check_picture(picture->bytes, sample.place(), depth_);
      return {.value = pickle_pair(picture->bytes, sample.label), .complaint = ""};
    } catch (const DataError& error) {
      const std::string hint = error.hint().empty() ? or_leave_out("get the file again") : error.hint();
      if (!can_be_skipped) rethrow_with_place(DataError(error.what(), hint), sample);
      return {.value = "", .complaint = placed_text(error, sample)};
    }
  }

  static std::string placed_text(const DataError& error, const RawSample& sample) {
    try {
      rethrow_with_place(error, sample);
    } catch (const DataError& placed) {
      return placed.what();
    }
  }

  const int64_t num_threads_;
  const bool skips_bad_;
  const PictureDepth depth_;
  std::vector<std::unique_ptr<SampleSource>> sources_;
  std::string source_;
};

/// Where a conversion stands, from what is there already. An empty file is that of a call which was killed before its
/// first commit.
LmdbProgress progress_in(const fs::path& folder) {
  std::error_code code;
  const fs::path file = lmdb_data_file(folder);
  if (!fs::exists(file, code) || fs::file_size(file, code) == 0) return {};
  try {
    return read_lmdb_progress(LmdbReader(folder)).value_or(LmdbProgress{});
  } catch (const DataError& error) {
    throw DataError(error.what(), fmt::format("remove '{}' and convert again", folder.string()));
  }
}

/// The finished name, absolute, without a separator at its end.
fs::path output_of(const ToLmdbConfig& config) {
  fs::path output = fs::absolute(config.output).lexically_normal();
  if (!output.has_filename()) output = output.parent_path();
  std::error_code code;
  if (!fs::is_directory(config.source.spec, code)) return output;
  const fs::path root = fs::absolute(config.source.spec).lexically_normal(), inside = output.lexically_relative(root);
  if (!inside.empty() && *inside.begin() != "..")
    throw UsageError(fmt::format("data: '{}' would lie among the data, in '{}'", output.string(), root.string()),
                     "name a folder elsewhere");
  return output;
}

void refuse_other_source(const fs::path& folder, const std::string& seen, const std::string& expected) {
  if (seen == expected || seen.empty()) return;
  throw DataError(fmt::format("data: '{}' is the conversion of other data: source={}, expected={}", folder.string(),
                              seen, expected),
                  "name the same data and options as before, or remove it");
}

/// The finished LMDB where `output` is that already.
std::optional<ToLmdbResult> found_complete(const fs::path& output, const std::string& source) {
  std::error_code code;
  if (!fs::exists(output, code)) return std::nullopt;
  const bool is_ours = is_lmdb(output.string());
  const std::optional<LmdbProgress> progress =
      is_ours ? read_lmdb_progress(LmdbReader(output)) : std::optional<LmdbProgress>();
  if (!progress || !progress->is_complete)
    throw UsageError(fmt::format("data: '{}' exists and is no LMDB of ours", output.string()), "name another folder");
  refuse_other_source(output, progress->source, source);
  return ToLmdbResult{.num_pictures = progress->num_done,
                      .num_classes = progress->num_classes,
                      .num_resumed = progress->num_done,
                      .num_bytes = fs::file_size(lmdb_data_file(output)),
                      .was_there = true,
                      .num_skipped = progress->num_skipped,
                      .skipped = progress->skipped};
}

LmdbWriter::Pairs pairs_of(std::span<const std::string> values, const LmdbProgress& before) {
  LmdbWriter::Pairs pairs;
  std::string hashes;
  for (size_t i = 0; i < values.size(); ++i) {
    pairs.emplace_back(fmt::to_string(before.num_done + static_cast<int64_t>(i)), values[i]);
    hashes += value_hash(values[i]);
  }
  pairs.emplace_back(hash_key(before.num_done / kLmdbHashedTogether), std::move(hashes));
  return pairs;
}

/// What readers of the folder2lmdb scripts look for first; their presence says that all is there.
LmdbWriter::Pairs closing_pairs(LmdbProgress& progress) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < progress.num_done; ++i) keys.push_back(fmt::to_string(i));
  progress.is_complete = true;
  return {{LmdbKeys::kKeys, pickle_byte_strings(keys)},
          {LmdbKeys::kLength, pickle_integer(progress.num_done)},
          {LmdbKeys::kLockstep, progress.to_json().dump()}};
}

/// Counts a picture that is left out. DataError where there are too many.
void add_skipped(const std::string& complaint, const ToLmdbConfig& config, LmdbProgress& progress) {
  ++progress.num_skipped;
  if (progress.skipped.size() < kMaxBadPictures) progress.skipped.push_back(repair_utf8(complaint));
  if (progress.num_skipped > config.max_bad)
    throw DataError(fmt::format("data: more than {} of '{}' cannot be used; the first: {}",
                                core::counted(config.max_bad, "picture"), config.source.spec, progress.skipped.front()),
                    "is the storage in order? --max-bad-samples N leaves out more");
}

/// All pictures of `waiting`, as many as are hashed together, and where reading goes on behind them.
void commit_chunk(std::vector<std::string>& waiting, LmdbWriter& writer, LmdbProgress& progress) {
  LmdbWriter::Pairs pairs = pairs_of(waiting, progress);
  progress.num_done += std::ssize(waiting);
  pairs.emplace_back(LmdbKeys::kLockstep, progress.to_json().dump());
  writer.commit(pairs);
  waiting.clear();
}

/// Reads one chunk while the one before it is written. Where pictures are left out, what is written at once was read
/// with several chunks; reading then goes on in the middle of the last of these.
void convert(ChunkReader& reader, LmdbWriter& writer, LmdbProgress& progress, const ToLmdbConfig& config) {
  std::future<LmdbChunk> coming = std::async(std::launch::async, [&] { return reader.next(); });
  std::vector<std::string> waiting;
  for (bool goes_on = true; goes_on;) {
    LmdbChunk chunk = coming.get();
    goes_on = std::ssize(chunk.samples) == kLmdbHashedTogether;
    if (goes_on) coming = std::async(std::launch::async, [&] { return reader.next(); });
    progress.num_classes = std::max(progress.num_classes, chunk.max_label + 1);
    const int64_t begin = *progress.num_read;
    for (int64_t i = progress.num_over; i < std::ssize(chunk.samples); ++i) {
      ReadSample& sample = chunk.samples[static_cast<size_t>(i)];
      const bool is_last = i + 1 == kLmdbHashedTogether;
      progress.num_read = is_last ? begin + kLmdbHashedTogether : begin;
      progress.num_over = is_last ? 0 : i + 1;
      if (!sample.complaint.empty()) {
        add_skipped(sample.complaint, config, progress);
        continue;
      }
      waiting.push_back(std::move(sample.value));
      if (std::ssize(waiting) < kLmdbHashedTogether) continue;
      commit_chunk(waiting, writer, progress);
      if (config.on_progress) config.on_progress(progress.num_done);
    }
  }
  if (progress.num_done == 0 && waiting.empty())
    throw DataError(fmt::format("data: '{}' holds no pictures to convert", config.source.spec),
                    progress.num_skipped > 0 ? "all were left out: " + progress.skipped.front() : "check its name");
  LmdbWriter::Pairs pairs = waiting.empty() ? LmdbWriter::Pairs() : pairs_of(waiting, progress);
  progress.num_done += std::ssize(waiting);
  for (auto& pair : closing_pairs(progress)) pairs.push_back(std::move(pair));
  writer.commit(pairs);
  if (config.on_progress && !waiting.empty()) config.on_progress(progress.num_done);
}

/// The unfinished conversion becomes the finished one, while its lock is held.
void publish(const fs::path& partial, const fs::path& output) {
  std::error_code code;
  fs::remove(partial / "lock", code);
  fs::rename(partial, output, code);
  if (errno = code.value(); code) core::throw_errno("cannot rename to the finished LMDB", output);
  core::fsync_directory(output.parent_path());
}

}  // namespace

ToLmdbResult to_lmdb(const ToLmdbConfig& config) {
  const fs::path output = output_of(config), partial = output.string() + ".partial";
  ChunkReader reader(config);
  if (auto found = found_complete(output, reader.source())) return *found;
  std::vector<std::string> class_names = class_names_of(config.source.type, config.source.spec);
  for (std::string& name : class_names) name = repair_utf8(name);  // of folders; the LMDB holds them as JSON
  std::error_code code;
  fs::create_directories(partial, code);
  if (errno = code.value(); code) core::throw_errno("cannot create folder", partial);
  const FolderLock lock(partial, OnLocked::kRefuse);
  if (auto found = found_complete(output, reader.source())) {  // another call finished it meanwhile
    fs::remove_all(partial, code);
    return *found;
  }
  LmdbProgress progress = progress_in(partial);
  refuse_other_source(partial, progress.source, reader.source());
  progress.class_names = class_names;
  progress.num_classes = std::max(progress.num_classes, std::ssize(class_names));
  progress.source = reader.source();
  ToLmdbResult result{.num_resumed = progress.num_done};
  if (!progress.num_read) {  // of an earlier release, whose last commit may be shorter than a chunk
    progress.num_done -= progress.num_done % kLmdbHashedTogether;
    progress.num_read = progress.num_done;
    progress.is_complete = false;
  }
  if (!progress.is_complete) {
    reader.pass_over(*progress.num_read);
    LmdbWriter writer(partial, config.map_bytes);
    convert(reader, writer, progress, config);
    result.num_grown = writer.num_grown();
  }
  result.num_pictures = progress.num_done;
  result.num_classes = progress.num_classes;
  result.num_skipped = progress.num_skipped;
  result.skipped = progress.skipped;
  result.num_bytes = fs::file_size(partial / "data.mdb");
  publish(partial, output);
  return result;
}

LmdbCheck verify_lmdb(const fs::path& path, int64_t num_threads, PictureDepth depth) {
  const LmdbReader reader(path);
  const LmdbPictures pictures = list_lmdb_pictures(reader);
  LmdbCheck check{.num_pictures = pictures.num_pictures,
                  .num_bytes = reader.num_bytes(),
                  .has_hashes = read_lmdb_progress(reader).has_value()};
  BadPictures bad;
  const auto value_of = [&](const std::string& key, const std::string& where, LmdbReader::Ahead& ahead) {
    try {
      return reader.get_ahead(key, ahead);
    } catch (const DataError& error) {
      throw DataError(core::wrapped_message(where, error), error.hint());
    }
  };
  const auto verify_one = [&](int64_t picture, const std::optional<std::string>& hashes, LmdbReader::Ahead& ahead) {
    const std::string key = pictures.key(picture), place = fmt::format("LMDB '{}' key '{}'", path.string(), key),
                      where = "data: " + place;
    try {
      const auto value = value_of(key, where, ahead);
      if (!value) throw DataError(fmt::format("{}: there is no such key", where));
      const auto at = static_cast<size_t>(picture % kLmdbHashedTogether) * kHashBytes;
      if (hashes && (at + kHashBytes > hashes->size() || hashes->substr(at, kHashBytes) != value_hash(*value)))
        throw DataError(fmt::format("{}: the value does not have the hash it was written with", where));
      check_picture(parse_lmdb_value(*value, where).picture, place, depth);
    } catch (const DataError& error) {
      bad.add(error);
    }
  };
  const auto hashes_of = [&](int64_t chunk) -> std::optional<std::string> {
    if (!check.has_hashes) return std::nullopt;
    try {
      return reader.get(hash_key(chunk)).value_or("");
    } catch (const DataError& error) {
      bad.add(error);  // the values of the chunk are read, and compared with nothing
      return std::nullopt;
    }
  };
  // Each thread reads stretches that are as long as can be: where threads take turns every few MB, the disk is slower.
  constexpr int64_t kStretchesPerThread = 4;
  const int64_t num_workers = std::max<int64_t>(num_threads, 1);
  const int64_t num_chunks = (pictures.num_pictures + kLmdbHashedTogether - 1) / kLmdbHashedTogether;
  const int64_t num_stretches = std::min(num_chunks, num_workers * kStretchesPerThread);
  std::vector<LmdbReader::Ahead> aheads(static_cast<size_t>(num_workers));
  for_each_parallel(static_cast<size_t>(num_stretches), num_workers, [&](size_t stretch, size_t worker) {
    const auto number = static_cast<int64_t>(stretch);
    const int64_t end_chunk = num_chunks * (number + 1) / num_stretches;
    for (int64_t chunk = num_chunks * number / num_stretches; chunk < end_chunk; ++chunk) {
      const std::optional<std::string> hashes = hashes_of(chunk);
      const int64_t first = chunk * kLmdbHashedTogether,
                    end = std::min(first + kLmdbHashedTogether, pictures.num_pictures);
      for (int64_t i = first; i < end; ++i) verify_one(i, hashes, aheads[worker]);
    }
  });
  check.num_bad = bad.count();
  check.bad = bad.messages();
  return check;
}

}  // namespace lockstep::data
