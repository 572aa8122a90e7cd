#include "data/shards/source_lmdb.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"
#include "data/shards/class_label.h"
#include "data/shards/lmdb_value.h"
#include "data/shards/plain_pickle.h"
#include "data/shards/warn_once.h"

namespace lockstep::data {
using core::Json;

namespace {

constexpr int kProgressVersion = 1;

std::string place_of(const LmdbReader& reader, std::string_view key) {
  return fmt::format("data: LMDB '{}' key '{}'", reader.path().string(), key);
}

[[noreturn]] void refuse_lmdb(const LmdbReader& reader, const std::string& what, const std::string& hint) {
  throw DataError(fmt::format("data: LMDB '{}' {}", reader.path().string(), what), hint);
}

std::optional<int64_t> stated_length(const LmdbReader& reader) {
  const auto value = reader.get(LmdbKeys::kLength);
  if (!value) return std::nullopt;
  if (const auto number = core::parse_int(core::trim(*value))) return *number;
  const PlainPickle pickle = parse_plain_pickle(*value, place_of(reader, LmdbKeys::kLength));
  if (pickle.kind != PlainPickle::Kind::kInteger)
    refuse_lmdb(reader, "has no number in __len__", "convert it again with `lockstep data to-lmdb`");
  return pickle.integer;
}

std::vector<std::string> stated_keys(const LmdbReader& reader, const std::string& value) {
  std::vector<std::string> keys;
  size_t num_bytes = 0;
  for (const PlainPickle& key : parse_plain_pickle(value, place_of(reader, LmdbKeys::kKeys)).items) {
    if (key.kind != PlainPickle::Kind::kBytes)
      refuse_lmdb(reader, "has something else than keys in __keys__", "convert it again with `lockstep data to-lmdb`");
    num_bytes += key.bytes.size();
    if (num_bytes > value.size())  // a pickle may name one text many times
      refuse_lmdb(reader, fmt::format("has keys in __keys__ that are together longer than its {} bytes", value.size()),
                  "convert it again with `lockstep data to-lmdb`");
    keys.emplace_back(key.bytes);
  }
  return keys;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> found_keys(const LmdbReader& reader) {
  std::vector<std::string> keys;
  reader.for_each_key([&](std::string_view key) {
    if (!core::starts_with(key, "__")) keys.emplace_back(key);
  });
  if (std::all_of(keys.begin(), keys.end(), is_number))
    std::stable_sort(keys.begin(), keys.end(), [](const std::string& a, const std::string& b) {
      return core::parse_int(a).value() < core::parse_int(b).value();
    });
  return keys;
}

/// Classes by the first folder of the keys; empty where a key has none.
std::map<std::string, int64_t> classes_of_keys(const std::vector<std::string>& keys) {
  std::map<std::string, int64_t> classes;
  for (const std::string& key : keys) {
    const size_t slash = key.find('/');
    if (slash == 0 || slash == std::string::npos) return {};
    classes[key.substr(0, slash)] = 0;
  }
  int64_t label = 0;
  for (auto& [name, number] : classes) number = label++;
  return classes;
}

/// Whether the values are pictures alone, as the first one is. A value that cannot be read is told where it is loaded.
bool has_bare_pictures(const LmdbReader& reader, const std::string& first_key) {
  const auto value = reader.get(first_key);
  if (!value) return false;
  try {
    return !parse_lmdb_value(*value, place_of(reader, first_key)).label;
  } catch (const DataError&) {
    return false;
  }
}

void warn_of_unknown_end(const std::string& path, int64_t num_pictures) {
  warn_once(fmt::format(
      "data: LMDB '{}' has neither __len__ nor __keys__: all its {} keys are taken for pictures; one whose conversion "
      "broke off looks the same",
      path, num_pictures));
}

/// Extension of a member by the first bytes of its picture; what is no picture is told by the decoder.
const char* extension_of(std::string_view picture) {
  if (core::starts_with(picture, "\x89PNG")) return "png";
  return core::starts_with(picture, "RIFF") ? "webp" : "jpg";
}

/// What the rows of one LMDB share.
struct LmdbRows {
  LmdbReader reader;
  LmdbPictures pictures;
  std::map<std::string, int64_t> classes;
  bool needs_label = false;
  int64_t num_classes = 0;

  void load(const std::string& key, RawSample& sample) const {
    const std::string where = place_of(reader, key);
    std::string value;
    if (!reader.get_into(key, value))
      throw DataError(fmt::format("{}: there is no such key", where), "its __keys__ list others than it has");
    const LmdbValue parsed = parse_lmdb_value(value, where);
    if (needs_label) sample.label = label_of(key, parsed, where);
    const char* extension = extension_of(parsed.picture);
    const auto begin = static_cast<size_t>(parsed.picture.data() - value.data()), size = parsed.picture.size();
    value.resize(begin + size);
    value.erase(0, begin);
    sample.members.push_back({extension, std::move(value)});
  }

 private:
  int64_t label_of(const std::string& key, const LmdbValue& value, const std::string& where) const {
    int64_t label = -1;
    if (value.label) {
      label = *value.label;
    } else {
      const auto found = classes.find(key.substr(0, key.find('/')));
      if (found == classes.end())
        throw DataError(fmt::format("{}: the value is a picture without a label, and the key names no class", where),
                        "convert it from class folders with `lockstep data to-lmdb`");
      label = found->second;
    }
    check_class_label(label, num_classes, fmt::format("{}: the class", where));
    return label;
  }
};

std::string fingerprint_of(const LmdbRows& rows, const std::optional<LmdbProgress>& progress) {
  core::Xxh3 hash;
  const auto add = [&](const std::string& text) { hash.update(std::as_bytes(std::span(text))); };
  add(fmt::format("{} {}\n", rows.pictures.num_pictures, progress ? progress->source : ""));
  for (const std::string& key : rows.pictures.keys) add(key + "\n");
  return hash.hex();
}

}  // namespace

Json LmdbProgress::to_json() const {
  Json json = {{"version", kProgressVersion}, {"samples", num_done},
               {"is_complete", is_complete},  {"source", source},
               {"classes", class_names},      {"num_classes", num_classes}};
  if (num_read) json["read"] = {{"samples", *num_read}, {"over", num_over}};
  if (num_skipped > 0) json["skipped"] = {{"samples", num_skipped}, {"messages", skipped}};
  return json;
}

std::optional<LmdbProgress> read_lmdb_progress(const LmdbReader& reader) {
  const auto text = reader.get(LmdbKeys::kLockstep);
  if (!text) return std::nullopt;
  const std::string where = place_of(reader, LmdbKeys::kLockstep);
  const Json json = core::parse_json(*text, where);
  try {
    if (json.at("version") != kProgressVersion)
      refuse_lmdb(reader, fmt::format("is of version {}, expected {}", json.at("version").dump(), kProgressVersion),
                  "read it with the release that wrote it");
    LmdbProgress progress{.num_done = json.at("samples").get<int64_t>(),
                          .is_complete = json.at("is_complete").get<bool>(),
                          .source = json.at("source").get<std::string>(),
                          .class_names = json.at("classes").get<std::vector<std::string>>()};
    progress.num_classes = json.value("num_classes", static_cast<int64_t>(progress.class_names.size()));
    if (const auto read = json.find("read"); read != json.end()) {
      progress.num_read = read->at("samples").get<int64_t>();
      progress.num_over = read->at("over").get<int64_t>();
      if (*progress.num_read < 0 || *progress.num_read % kLmdbHashedTogether != 0 || progress.num_over < 0 ||
          progress.num_over > kLmdbHashedTogether)
        throw DataError(fmt::format("{}: reading goes on at {}, expected multiples of {}", where, read->dump(),
                                    kLmdbHashedTogether));
    }
    if (const auto skipped = json.find("skipped"); skipped != json.end()) {
      progress.num_skipped = skipped->at("samples").get<int64_t>();
      progress.skipped = skipped->at("messages").get<std::vector<std::string>>();
    }
    if (progress.num_done < 0 || static_cast<uint64_t>(progress.num_done) > reader.num_entries())
      throw DataError(fmt::format("{}: samples={}, expected 0 to {}, the keys of the file", where, progress.num_done,
                                  reader.num_entries()));
    return progress;
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: {}", where, error.what()));
  }
}

LmdbPictures list_lmdb_pictures(const LmdbReader& reader) {
  LmdbPictures pictures;
  if (const auto progress = read_lmdb_progress(reader)) {
    if (!progress->is_complete)
      refuse_lmdb(reader, fmt::format("is half converted: {} pictures so far", progress->num_done),
                  "go on with the same `lockstep data to-lmdb` as before");
    pictures.num_pictures = progress->num_done;
    return pictures;
  }
  const auto length = stated_length(reader);
  const auto stated = reader.get(LmdbKeys::kKeys);
  pictures.keys = stated ? stated_keys(reader, *stated) : found_keys(reader);
  pictures.num_pictures = static_cast<int64_t>(pictures.keys.size());
  if (length && *length != pictures.num_pictures)
    refuse_lmdb(reader, fmt::format("has {} keys, but its __len__ is {}", pictures.num_pictures, *length),
                "was its conversion broken off? Convert it again with `lockstep data to-lmdb`");
  if (pictures.num_pictures == 0) refuse_lmdb(reader, "holds no pictures", "convert it again");
  if (!length && !stated) warn_of_unknown_end(reader.path().string(), pictures.num_pictures);
  return pictures;
}

std::vector<std::string> lmdb_class_names(const LmdbReader& reader) {
  if (const auto progress = read_lmdb_progress(reader)) return progress->class_names;
  const LmdbPictures pictures = list_lmdb_pictures(reader);
  std::vector<std::string> names;
  for (const auto& [name, number] : classes_of_keys(pictures.keys)) names.push_back(name);
  if (!names.empty() && !has_bare_pictures(reader, pictures.keys.front())) return {};
  return names;
}

RowTable open_lmdb(const SourceConfig& config) {
  if (config.need_text)
    throw UsageError(fmt::format("data: '{}' is an LMDB; its pictures have no captions", config.spec),
                     "tasks with classes read it");
  auto rows = std::make_shared<LmdbRows>(LmdbRows{.reader = LmdbReader(config.spec),
                                                  .pictures = {},
                                                  .classes = {},
                                                  .needs_label = config.need_label,
                                                  .num_classes = config.num_classes});
  rows->pictures = list_lmdb_pictures(rows->reader);
  rows->classes = classes_of_keys(rows->pictures.keys);
  RowTable result;
  result.num_rows = rows->pictures.num_pictures;
  result.fingerprint = fingerprint_of(*rows, read_lmdb_progress(rows->reader));
  const auto shared = std::shared_ptr<const LmdbRows>(std::move(rows));
  result.row = [shared, spec = config.spec](int64_t row) {
    RawSample sample;
    sample.key = shared->pictures.key(row);
    sample.shard = spec;
    sample.offset = static_cast<uint64_t>(row);
    sample.load = [shared, key = sample.key](RawSample& loaded) { shared->load(key, loaded); };
    return sample;
  };
  return result;
}

}  // namespace lockstep::data
