#include "infer/embedding_folder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "config/shape_facts.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "data/text/text_utf8.h"
#include "infer/npy_header.h"

namespace lockstep::infer {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFactsName = "embed.json";
constexpr const char* kPartial = ".partial";

const char* safetensors_type(at::ScalarType type) {
  LOCKSTEP_CHECK(type == at::kFloat || type == at::kHalf, "type {}", c10::toString(type));
  return type == at::kFloat ? "F32" : "F16";
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// NumPy's format 1.0: the header is padded so that the data begin at a multiple of 64.
void write_npy(const fs::path& path, const at::Tensor& rows_NE) {
  constexpr size_t kAlignment = 64, kLengthBytes = 2;
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                  rows_NE.scalar_type() == at::kFloat ? "<f4" : "<f2", rows_NE.size(0), rows_NE.size(1));
  const size_t before = kNpyMagic.size() + kLengthBytes;
  header.append(kAlignment - (before + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string start(kNpyMagic);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  core::AtomicFile file(path);
  start += header;
  file.write(std::as_bytes(std::span(start)));
  file.write(bytes_of(rows_NE));
  file.commit();
}

[[noreturn]] void throw_no_embeddings(const fs::path& path, const std::string& reason) {
  throw DataError(fmt::format("infer: '{}' holds no embeddings: {}", path.string(), reason),
                  "expected files that `lockstep infer embed` wrote: of texts with --texts FILE, of pictures with "
                  "--images DIR or --shards SPEC");
}

[[noreturn]] void throw_no_such_embeddings(const core::SafetensorsFile& file, const fs::path& path,
                                           const std::string& key) {
  std::vector<std::string> names;
  for (const auto& entry : file.entries()) names.push_back(entry.name);
  throw DataError(fmt::format("infer: '{}' holds no embeddings named '{}': it has {}", path.string(), key,
                              names.empty() ? "none" : core::join(names, ", ")),
                  "name what --embeddings holds with --key, and what --queries holds with --query-key");
}

at::Tensor read_npy(const fs::path& path) {
  const core::MappedFile file(path);
  const auto bytes = file.bytes();
  const NpyHeader header = parse_npy_header({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
  return at::from_blob(const_cast<std::byte*>(bytes.data() + header.begin), {header.rows, header.width},
                       header.is_wide ? at::kFloat : at::kHalf)
      .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

/// A file of another kind, such as a list of texts, is no damaged file of embeddings.
core::SafetensorsFile open_safetensors(const fs::path& path) {
  try {
    return core::SafetensorsFile(path);
  } catch (const DataError&) {
    if (path.extension() == ".safetensors") throw;
    throw_no_embeddings(path, "it is no safetensors file");
  }
}

std::vector<std::string> keys_of(const core::Json& json, const fs::path& path) {
  const auto is_text = [](const core::Json& key) { return key.is_string(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_text))
    throw_no_embeddings(path, "its keys are no list of texts");
  return json.get<std::vector<std::string>>();
}

core::Json bad_json(const ShardEmbeddings& embeddings) {
  core::Json list = core::Json::array();
  for (const auto& [kind, samples] : {std::pair("left_out", &embeddings.bad), std::pair("cut", &embeddings.cut)})
    for (const data::BadSample& sample : *samples)
      list.push_back(
          {{"key", data::repair_utf8(sample.key)}, {"kind", kind}, {"reason", data::repair_utf8(sample.reason)}});
  return list;
}

core::Json damage_json(const ShardDamage& damage) {
  return {{"after", data::repair_utf8(damage.after)}, {"reason", data::repair_utf8(damage.reason)}};
}

/// A value for a message.
std::string shown(const core::Json* value) {
  constexpr size_t kMostBytes = 200;
  if (value == nullptr) return "none";
  const std::string text = value->dump(-1, ' ', true, core::Json::error_handler_t::replace);
  return text.size() <= kMostBytes ? text : text.substr(0, kMostBytes) + "...";
}

const core::Json* find(const core::Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

struct Difference {
  std::string place;  // "shape.quick_gelu"
  std::string a, b;   // the values there
};

/// The first value that differs; the order of keys does not count.
std::optional<Difference> first_difference(const core::Json& a, const core::Json& b, const std::string& place = "") {
  if (!a.is_object() || !b.is_object())
    return a == b ? std::nullopt : std::optional(Difference{place, shown(&a), shown(&b)});
  const std::string before = place.empty() ? "" : place + ".";
  for (const auto& [key, value] : b.items()) {
    const core::Json* other = find(a, key);
    if (other == nullptr) return Difference{before + key, "none", shown(&value)};
    if (const auto difference = first_difference(*other, value, before + key)) return difference;
  }
  for (const auto& [key, value] : a.items())
    if (find(b, key) == nullptr) return Difference{before + key, shown(&value), "none"};
  return std::nullopt;
}

/// Adds what format 1 did not note: it had its usual value, or that of now.
void take_as_noted(core::Json& there, const core::Json& facts) {
  for (const char* key : {"format_version", "shape", "vocabulary"})
    if (facts.contains(key)) there[key] = facts.at(key);
  core::Json& preparation = there["preparation"];
  for (const auto& [key, usual] : {std::pair("interpolation", "bicubic"), std::pair("resize_mode", "shortest")})
    if (core::text_at(preparation, key).empty()) preparation[key] = usual;
  for (const char* key : {"audio_int16_normalize", "max_image_pixels"})
    if (facts.at("preparation").contains(key)) preparation[key] = facts.at("preparation").at(key);
}

/// UsageError unless `now` begins with the shards that are there.
void check_shards(const fs::path& folder, const core::Json& there, const core::Json& now) {
  const size_t num_there = there.is_array() ? there.size() : 0;
  size_t same = 0;
  while (same < num_there && same < now.size() && there[same] == now[same]) ++same;
  if (there.is_array() && same == num_there) return;
  const std::string before = same < num_there ? shown(&there[same]) : "none";
  throw UsageError(
      fmt::format("infer: '{}' holds embeddings of other shards: {} there, {} now; number {} is {} there, "
                  "{} now",
                  folder.string(), num_there, now.size(), same, before, same < now.size() ? shown(&now[same]) : "none"),
      "give the list of before, with new shards behind it, or another folder");
}

fs::path file_of(const fs::path& folder, const std::string& shard, size_t number, std::string_view ending) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  constexpr size_t kMostCharacters = 100;
  std::string name = fs::path(shard).stem().string();
  for (char& c : name)
    if (kPlain.find(c) == std::string_view::npos) c = '_';
  return folder / fmt::format("{:06}_{}{}", number, name.substr(0, kMostCharacters), ending);
}

/// The ending of the file that tells of a shard.
std::string main_ending(bool is_npy) { return is_npy ? ".json" : ".safetensors"; }

/// What a folder's embed.json or a file's metadata tell; weights of format 1 stand alone.
void add_origin(core::Json& origin, const core::Json& facts) {
  for (const char* key : {"weights", "shape", "vocabulary", "preparation"})
    if (const core::Json* value = facts.is_object() ? find(facts, key) : nullptr) origin[key] = *value;
  if (origin.contains("shape")) origin["shape"] = config::named_shape_facts(origin["shape"]);
  if (!origin.contains("shape")) origin.erase("preparation");
}

}  // namespace

EmbeddingFolder::EmbeddingFolder(fs::path folder, std::vector<std::string> shards, std::string other, bool is_npy)
    : folder_(std::move(folder)), shards_(std::move(shards)), other_(std::move(other)), is_npy_(is_npy) {}

fs::path EmbeddingFolder::path_of(size_t shard, std::string_view ending) const {
  return file_of(folder_, shards_[shard], shard, ending);
}

void EmbeddingFolder::open(const core::Json& facts, const std::vector<std::string>& newly_noted) const {
  std::error_code failure;
  fs::create_directories(folder_, failure);
  if (failure)
    throw EnvironmentError(fmt::format("infer: cannot make the folder '{}': {}", folder_.string(), failure.message()));
  const fs::path path = folder_ / kFactsName;
  if (!fs::exists(path)) {
    core::write_file_atomic(path, facts.dump(2) + "\n");
    return;
  }
  const core::Json written = core::read_json_file(path);
  const auto version = core::integer_at(written, "format_version").value_or(0);
  const core::Json* preparation = written.is_object() ? find(written, "preparation") : nullptr;
  if (version < 1 || version > kFormatVersion || preparation == nullptr || !preparation->is_object())
    throw UsageError(fmt::format("infer: '{}' holds embeddings of another version", folder_.string()),
                     "give another folder");
  core::Json there = written, now = facts;
  if (version == 1) {
    if (!newly_noted.empty())
      throw UsageError(fmt::format("infer: '{}' was begun by a version that did not note {}: whether it was given then "
                                   "is not known",
                                   folder_.string(), core::join(newly_noted, ", ")),
                       "give another folder");
    take_as_noted(there, facts);
  } else {
    there["format_version"] = kFormatVersion;
    there["shape"] = config::named_shape_facts(there.value("shape", core::Json()));  // of format 2 with numbers
    now["model"] = there.value("model", core::Json());  // its shape tells more than a name or the path of a file
  }
  check_shards(folder_, there.value("shards", core::Json()), now.at("shards"));
  there["shards"] = now.at("shards");
  if (const auto difference = first_difference(there, now))
    throw UsageError(fmt::format("infer: '{}' holds embeddings with another {}: {}, now {}", folder_.string(),
                                 difference->place, difference->a, difference->b),
                     "give the options of before to go on, or another folder");
  if (there == written) return;
  if (version == 1)
    core::log_warning(
        "infer: '{}' was begun by a version that did not note the shape of the model and the vocabulary: "
        "they are taken to be those of now",
        folder_.string());
  core::write_file_atomic(path, there.dump(2) + "\n");
}

bool EmbeddingFolder::has(size_t shard) const { return fs::exists(path_of(shard, main_ending(is_npy_))); }

/// A killed start in between leaves neither: the shard is embedded again.
void EmbeddingFolder::remove_partial(size_t shard) const {
  std::error_code ignored;
  for (const std::string& ending :
       {std::string(".safetensors"), std::string(".json"), std::string(".text.npy"), "." + other_ + ".npy"})
    fs::remove(path_of(shard, kPartial + ending), ignored);
}

void EmbeddingFolder::write(size_t shard, const ShardEmbeddings& embeddings) const {
  remove_partial(shard);
  const std::string part = embeddings.damage ? kPartial : "";
  core::Json keys = core::Json::array();
  for (const std::string& key : embeddings.keys) keys.push_back(data::repair_utf8(key));
  const core::Json bad = bad_json(embeddings);
  const std::string shard_name = data::repair_utf8(embeddings.shard);
  if (is_npy_) {
    if (embeddings.other_NE.defined()) write_npy(path_of(shard, part + "." + other_ + ".npy"), embeddings.other_NE);
    if (embeddings.text_NE.defined()) write_npy(path_of(shard, part + ".text.npy"), embeddings.text_NE);
    core::Json facts = {{"shard", shard_name}, {"keys", keys}, {"bad", bad}};
    if (embeddings.damage) facts["damage"] = damage_json(*embeddings.damage);
    core::write_file_atomic(path_of(shard, part + ".json"), facts.dump() + "\n");
    return;
  }
  std::vector<core::SafetensorsEntry> entries;
  const auto add = [&](const std::string& name, const at::Tensor& rows_NE) {
    if (!rows_NE.defined()) return;
    entries.push_back({.name = name,
                       .dtype = safetensors_type(rows_NE.scalar_type()),
                       .shape = rows_NE.sizes().vec(),
                       .bytes = bytes_of(rows_NE)});
  };
  add(other_, embeddings.other_NE);
  add("text", embeddings.text_NE);
  std::map<std::string, std::string> facts = {{"shard", shard_name}, {"keys", keys.dump()}, {"bad", bad.dump()}};
  if (embeddings.damage) facts["damage"] = damage_json(*embeddings.damage).dump();
  core::write_safetensors(path_of(shard, part + ".safetensors"), entries, facts);
}

std::optional<FolderState> folder_state(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path / kFactsName, ignored)) return std::nullopt;
  const core::Json facts = core::read_json_file(path / kFactsName);
  const core::Json* shards = facts.is_object() ? find(facts, "shards") : nullptr;
  if (shards == nullptr || !shards->is_array()) return std::nullopt;
  const std::string ending = main_ending(core::text_at(facts, "format") == "npy");
  FolderState state{.num_shards = shards->size()};
  for (size_t number = 0; number < shards->size(); ++number) {
    if (!(*shards)[number].is_string()) return std::nullopt;
    const auto& shard = (*shards)[number].get_ref<const std::string&>();
    if (fs::exists(file_of(path, shard, number, ending), ignored))
      ++state.num_whole;
    else if (fs::exists(file_of(path, shard, number, kPartial + ending), ignored))
      ++state.num_partial;
  }
  return state;
}

std::vector<fs::path> embedding_files(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path, failure) && !failure) throw_no_embeddings(path, "it does not exist");
  if (!fs::is_directory(path, failure)) return {path};
  const bool has_facts = fs::exists(path / kFactsName);
  std::vector<fs::path> files;
  for (const fs::path& file : core::list_folder(path, failure))
    if (file.extension() == ".safetensors" ||
        (file.extension() == ".json" && file.filename() != kFactsName && has_facts))
      files.push_back(file);
  if (failure)  // a search of a part of them would look like one of all
    throw EnvironmentError(fmt::format("infer: cannot list the folder '{}': {}", path.string(), failure.message()),
                           "see to its permissions or its storage");
  if (files.empty()) throw_no_embeddings(path, "no .safetensors and no .json beside .npy files is in it");
  return files;
}

EmbeddingFile read_embeddings(const fs::path& path, const std::string& key) {
  EmbeddingFile out{.path = path, .shard = "", .keys = {}, .origin = core::Json::object(), .rows_NE = {}};
  if (const fs::path facts = path.parent_path() / kFactsName; fs::exists(facts))
    add_origin(out.origin, core::read_json_file(facts));
  if (path.extension() == ".json") {
    const core::Json facts = core::read_json_file(path);
    if (!facts.is_object() || !facts.contains("keys")) throw_no_embeddings(path, "it has no keys");
    out.shard = core::text_at(facts, "shard");
    out.keys = keys_of(facts.at("keys"), path);
    const fs::path npy = path.parent_path() / (path.stem().string() + "." + key + ".npy");
    if (!fs::exists(npy)) throw_no_embeddings(path, fmt::format("'{}' is not beside it", npy.filename().string()));
    out.rows_NE = read_npy(npy);
  } else {
    const core::SafetensorsFile file = open_safetensors(path);
    if (file.find(key) == nullptr) throw_no_such_embeddings(file, path, key);
    const core::SafetensorsEntry& entry = file.at(key);
    if (entry.shape.size() != 2 || (entry.dtype != "F32" && entry.dtype != "F16"))
      throw_no_embeddings(path, fmt::format("'{}' is {} with {} dims, expected F32 or F16 with 2", key, entry.dtype,
                                            entry.shape.size()));
    out.rows_NE = at::from_blob(const_cast<std::byte*>(entry.bytes.data()), entry.shape,
                                entry.dtype == "F32" ? at::kFloat : at::kHalf)
                      .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const auto& metadata = file.metadata();
    if (metadata.count("shard") > 0) out.shard = metadata.at("shard");
    core::Json told;
    for (const char* name : {"weights", "shape", "vocabulary", "preparation"})
      if (const auto value = metadata.find(name); value != metadata.end()) {
        const bool is_object = core::starts_with(value->second, "{");
        told[name] = is_object ? core::parse_json(value->second, fmt::format("{} of '{}'", name, path.string()))
                               : core::Json(value->second);
      }
    add_origin(out.origin, told);
    const auto keys = metadata.count("keys") > 0 ? metadata.find("keys") : metadata.find("files");
    if (keys != metadata.end() && (keys->first == "keys" || key != "text"))
      out.keys = keys_of(core::parse_json(keys->second, "keys of '" + path.string() + "'"), path);
  }
  if (!out.keys.empty() && std::ssize(out.keys) != out.rows_NE.size(0))
    throw_no_embeddings(path, fmt::format("{} keys for {} rows", out.keys.size(), out.rows_NE.size(0)));
  return out;
}

std::string origin_difference(const core::Json& a, const core::Json& b, bool is_same_kind) {
  const auto differs = [&](const char* key) {
    return a.contains(key) && b.contains(key) ? first_difference(a.at(key), b.at(key), key) : std::nullopt;
  };
  if (differs("weights")) return "by other weights, or in another precision";
  if (const auto shape = differs("shape"))
    return fmt::format("with another {}: {} and {}", shape->place, shape->a, shape->b);
  if (differs("vocabulary")) return "with another vocabulary of the tokenizer";
  const auto preparation = is_same_kind ? differs("preparation") : std::nullopt;
  if (!preparation) return "";
  return fmt::format("with another {}: {} and {}", preparation->place, preparation->a, preparation->b);
}

}  // namespace lockstep::infer
