#include "checkpoint/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <set>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/hashed_file.h"
#include "core/strings.h"

namespace lockstep::checkpoint {
namespace {

using core::Json;
namespace fs = std::filesystem;

constexpr int kManifestVersion = 1;
constexpr const char* kFormat = "lockstep checkpoint";
constexpr const char* kHashKey = "manifest_xxh3";
constexpr size_t kMaxFiles = 1'000'000;
constexpr int64_t kMaxCount = 1'000'000'000'000'000;  // of steps and samples: sums and products of some stay integers
constexpr int64_t kMaxBytes = 1'000'000'000'000'000'000;  // of all files together
constexpr double kMaxTime = 253402300800;                 // the year 10000

/// Reads fields of a manifest; every error names the file and the key.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("is no JSON object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(fmt::format("checkpoint: '{}' {}", where_, what),
                          "`lockstep ckpt list` shows which checkpoints are usable");
  }
  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(fmt::format("lacks the key '{}'", key));
    return *found;
  }
  int64_t integer(const char* key, int64_t lowest, int64_t highest) const {
    const Json& value = at(key);
    const auto number = core::integer_of(value);
    if (!number) fail(fmt::format("has '{}'={}, expected an integer", key, value.dump().substr(0, 60)));
    if (*number < lowest || *number > highest)
      fail(fmt::format("has '{}'={}, expected a value in [{}, {}]", key, *number, lowest, highest));
    return *number;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail(fmt::format("has '{}'={}, expected a text", key, value.dump().substr(0, 60)));
    return value.get<std::string>();
  }
  double number(const char* key, double lowest, double highest) const {
    const Json& value = at(key);
    const bool is_in_range = value.is_number() && value.get<double>() >= lowest && value.get<double>() <= highest;
    if (!is_in_range)
      fail(fmt::format("has '{}'={}, expected a number in [{}, {}]", key, value.dump().substr(0, 60), lowest, highest));
    return value.get<double>();
  }

 private:
  const Json& object_;
  std::string where_;
};

Json manifest_json(const CheckpointManifest& manifest) {
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  return Json{{"format", kFormat},
              {"version", kManifestVersion},
              {"step", manifest.step},
              {"attempt", manifest.attempt},
              {"world_size", manifest.world_size},
              {"epoch", manifest.epoch},
              {"samples_seen", manifest.samples_seen},
              {"created_s", manifest.created_s},
              {"code_version", manifest.code_version},
              {"data_position", manifest.data_position},
              {"extra", manifest.extra},
              {"files", std::move(files)}};
}

std::string hash_without_hash(Json json) {
  json.erase(kHashKey);
  return core::xxh3_hex(json.dump(-1, ' ', true));
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." && name != kManifestName &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::vector<CheckpointFile> files_from_json(const Fields& fields, const std::string& where) {
  const Json& list = fields.at("files");
  if (!list.is_array() || list.empty() || list.size() > kMaxFiles) fields.fail("has no list of files");
  std::vector<CheckpointFile> files;
  std::set<std::string> names;
  int64_t left = kMaxBytes;
  for (const Json& item : list) {
    const Fields file(item, where);
    files.push_back({file.text("name"), file.integer("bytes", 0, left), file.text("xxh3")});
    left -= files.back().bytes;
    if (!is_plain_name(files.back().name))
      fields.fail(fmt::format("names the file '{}', which is no plain file name", files.back().name));
    if (!names.insert(files.back().name).second)
      fields.fail(fmt::format("names the file '{}' twice", files.back().name));
  }
  return files;
}

/// What the trainer keeps there; nothing where it keeps nothing.
Json extra_from_json(const Fields& fields) {
  const Json& extra = fields.at("extra");
  if (extra.is_null()) return Json::object();
  if (!extra.is_object()) fields.fail(fmt::format("has 'extra'={}, expected an object", extra.dump().substr(0, 60)));
  return extra;
}

CheckpointManifest manifest_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  if (fields.text("format") != kFormat)
    fields.fail(fmt::format("has format='{}', expected '{}'", fields.text("format"), kFormat));
  const int64_t version = fields.integer("version", 1, std::numeric_limits<int>::max());
  if (version > kManifestVersion)
    fields.fail(fmt::format("has version={}, this program reads up to {}", version, kManifestVersion));
  const std::string expected = hash_without_hash(json);
  if (fields.text(kHashKey) != expected)
    fields.fail(fmt::format("was altered: {}={}, expected {}", kHashKey, fields.text(kHashKey), expected));
  constexpr int kMaxInt = std::numeric_limits<int>::max();
  return {.step = fields.integer("step", 0, kMaxCount),
          .attempt = static_cast<int>(fields.integer("attempt", 0, kMaxInt)),
          .world_size = static_cast<int>(fields.integer("world_size", 1, kMaxInt)),
          .epoch = fields.integer("epoch", 0, kMaxCount),
          .samples_seen = fields.integer("samples_seen", 0, kMaxCount),
          .created_s = fields.number("created_s", 0, kMaxTime),
          .code_version = fields.text("code_version"),
          .data_position = fields.at("data_position"),
          .extra = extra_from_json(fields),
          .files = files_from_json(fields, where)};
}

constexpr const char* kUnreadableHint =
    "whether it is good is not known: see to the storage or the permissions and start again, or move it away";
constexpr const char* kTrashPrefix = "trash.";

/// Names in a folder; none when it is not there. One that cannot be read is no empty one.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const fs::path& path : core::list_folder(folder, failure)) names.push_back(path.filename().string());
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw CheckpointError(fmt::format("checkpoint: cannot list '{}': {}", folder.string(), failure.message()),
                          kUnreadableHint);
  return names;
}

std::vector<int> owner_attempts(const fs::path& checkpoints) {
  constexpr std::string_view kPrefix = "owner.";
  std::vector<int> attempts;
  for (const std::string& name : names_in(checkpoints)) {
    if (!core::starts_with(name, kPrefix)) continue;
    const auto number = core::parse_int(std::string_view(name).substr(kPrefix.size()));
    if (number && *number > 0 && *number < std::numeric_limits<int>::max())
      attempts.push_back(static_cast<int>(*number));
  }
  std::sort(attempts.begin(), attempts.end());
  return attempts;
}

/// Who claimed the checkpoints when, and which could be good then: usable or not readable. A claim without a list (its
/// process died first) judges nothing.
struct Claim {
  int attempt;
  std::set<std::string> accepted;
};

std::vector<Claim> read_claims(const fs::path& checkpoints) {
  std::vector<Claim> claims;
  for (const int attempt : owner_attempts(checkpoints)) {
    try {
      const Json json = core::read_json_file(checkpoints / fmt::format("owner.{}", attempt));
      if (!json.is_object() || !json.contains("usable") || !json["usable"].is_array()) continue;
      Claim claim{attempt, {}};
      for (const char* key : {"usable", "unreadable"})
        for (const Json& name : json.value(key, Json::array()))
          if (name.is_string()) claim.accepted.insert(name.get<std::string>());
      claims.push_back(std::move(claim));
    } catch (const EnvironmentError& error) {
      throw CheckpointError(error.what(), kUnreadableHint);
    } catch (const DataError&) {
    }
  }
  return claims;
}

CheckpointEntry read_entry(const fs::path& folder, int64_t step, int attempt, const std::vector<Claim>& claims) {
  CheckpointEntry entry{.folder = folder, .step = step, .attempt = attempt};
  const auto refuse = [&](CheckpointState state, std::string problem) {
    entry.state = state;
    entry.problem = std::move(problem);
    return entry;
  };
  const fs::path path = folder / kManifestName;
  std::error_code failure;
  if (fs::symlink_status(path, failure).type() == fs::file_type::not_found)
    return refuse(CheckpointState::kIncomplete, "has no manifest: it was never completed");
  try {
    entry.manifest = parse_manifest(core::read_file(path), path.string());
  } catch (const EnvironmentError& error) {
    return refuse(CheckpointState::kUnreadable, error.what());
  } catch (const Error& error) {
    return refuse(CheckpointState::kDamaged, error.what());
  }
  if (entry.manifest->step != step || entry.manifest->attempt != attempt)
    return refuse(CheckpointState::kDamaged, fmt::format("says step={} attempt={} inside, unlike its name",
                                                         entry.manifest->step, entry.manifest->attempt));
  for (const Claim& claim : claims)
    if (claim.attempt > attempt && !claim.accepted.contains(folder.filename().string()))
      return refuse(CheckpointState::kSuperseded,
                    fmt::format("was committed by attempt {} after attempt {} had taken over", attempt, claim.attempt));
  return entry;
}

}  // namespace

std::string checkpoint_name(int64_t step, int attempt) { return fmt::format("step-{:08}.a{}", step, attempt); }

std::optional<std::pair<int64_t, int>> parse_checkpoint_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  const size_t dot = name.rfind(".a");
  if (!core::starts_with(name, kPrefix) || dot == std::string::npos || dot < kPrefix.size()) return std::nullopt;
  const auto step = core::parse_int(std::string_view(name).substr(kPrefix.size(), dot - kPrefix.size()));
  const auto attempt = core::parse_int(std::string_view(name).substr(dot + 2));
  if (!step || !attempt || *step < 0 || *attempt < 0 || *attempt > std::numeric_limits<int>::max()) return std::nullopt;
  if (checkpoint_name(*step, static_cast<int>(*attempt)) != name) return std::nullopt;
  return std::pair(*step, static_cast<int>(*attempt));
}

void write_manifest(const fs::path& folder, const CheckpointManifest& manifest) {
  LOCKSTEP_CHECK(!manifest.files.empty(), "a checkpoint holds at least one file");
  for (const CheckpointFile& file : manifest.files) LOCKSTEP_CHECK(is_plain_name(file.name), "name='{}'", file.name);
  Json json = manifest_json(manifest);
  // What is read back must hash alike, whatever number or text went in.
  json = core::parse_json(json.dump(-1, ' ', true, Json::error_handler_t::replace), (folder / kManifestName).string());
  json[kHashKey] = hash_without_hash(json);
  core::write_file_atomic(folder / kManifestName, json.dump(1, ' ', true) + "\n");
  core::fsync_directory(folder.parent_path().empty() ? fs::path(".") : folder.parent_path());
}

CheckpointManifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::string text;
  try {
    text = core::read_file(path);
  } catch (const Error& error) {
    throw CheckpointError(error.what(), error.hint().empty() ? kUnreadableHint : error.hint());
  }
  return parse_manifest(text, path.string());
}

CheckpointManifest parse_manifest(std::string_view text, const std::string& where) {
  try {
    return manifest_from_json(core::parse_json(text, where), where);
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("checkpoint: '{}' is damaged: {}", where, error.what()), error.hint());
  } catch (const Json::exception& error) {  // text that is no UTF-8
    throw CheckpointError(fmt::format("checkpoint: '{}' is damaged: {}", where, error.what()));
  }
}

CheckpointFile describe_file(const fs::path& folder, const std::string& name) {
  core::HashedFile file = core::hash_file(folder / name);
  return {name, file.num_bytes, std::move(file.xxh3)};
}

FileCheck verify_files(const fs::path& folder, const CheckpointManifest& manifest, VerifyDepth depth,
                       const DescribeFunction& describe) {
  FileCheck check;
  std::vector<std::string>& problems = check.problems;
  for (const CheckpointFile& file : manifest.files) {
    const fs::path path = folder / file.name;
    std::error_code failure;
    const auto bytes = fs::file_size(path, failure);
    if (failure) {
      problems.push_back(fmt::format("'{}' cannot be read: {}", path.string(), failure.message()));
      check.is_unreadable = check.is_unreadable || failure != std::errc::no_such_file_or_directory;
    } else if (static_cast<int64_t>(bytes) != file.bytes) {
      problems.push_back(
          fmt::format("'{}' has the wrong size: bytes={}, expected={}", path.string(), bytes, file.bytes));
    } else if (depth == VerifyDepth::kHashes) {
      try {
        const CheckpointFile seen = describe(folder, file.name);
        if (seen.xxh3 != file.xxh3)
          problems.push_back(
              fmt::format("'{}' was altered: xxh3={}, expected={}", path.string(), seen.xxh3, file.xxh3));
      } catch (const Error& error) {
        problems.push_back(error.what());
        check.is_unreadable = true;
      }
    }
  }
  return check;
}

FileCheck verify_hashes(const fs::path& folder, const CheckpointManifest& manifest) {
  return verify_files(folder, manifest, VerifyDepth::kHashes);
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& run_folder) {
  // Only where there is nothing by that name: one that cannot be read must not pass for absent.
  std::error_code ignored;
  const fs::path inside = run_folder / "checkpoints";
  const bool is_copy = fs::symlink_status(inside, ignored).type() == fs::file_type::not_found;
  const fs::path& checkpoints = is_copy ? run_folder : inside;
  const std::vector<Claim> claims = read_claims(checkpoints);
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : names_in(checkpoints)) {
    if (const auto parsed = parse_checkpoint_name(name))
      entries.push_back(read_entry(checkpoints / name, parsed->first, parsed->second, claims));
  }
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::pair(a.attempt, a.step) > std::pair(b.attempt, b.step);
  });
  return entries;
}

Presence find_usable_checkpoint(const fs::path& run_folder) {
  try {
    const auto entries = list_checkpoints(run_folder);
    const auto any_is = [&](CheckpointState state) {
      return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.state == state; });
    };
    if (any_is(CheckpointState::kUsable)) return Presence::kPresent;
    return any_is(CheckpointState::kUnreadable) ? Presence::kUnknown : Presence::kAbsent;
  } catch (const std::exception&) {
    return Presence::kUnknown;
  }
}

std::string how_to_continue(const fs::path& run_folder, const std::string& flags_to_resume) {
  const Presence older = find_usable_checkpoint(run_folder);
  if (older == Presence::kUnknown)
    return fmt::format(
        "whether there is a checkpoint is not known, not all of '{}' can be read: see to the storage or the "
        "permissions, then the same command with {} continues from the last one",
        (run_folder / "checkpoints").string(), flags_to_resume);
  if (older == Presence::kPresent)
    return fmt::format("the same command with {} continues from the last checkpoint", flags_to_resume);
  return fmt::format(
      "no checkpoint was saved, so nothing can be continued: begin again under another name, or in this folder with "
      "{}; --save-every-n-steps N saves sooner",
      flags_to_resume);
}

LatestChoice choose_latest(const fs::path& run_folder, const VerifyFunction& verify) {
  LatestChoice choice;
  for (CheckpointEntry& entry : list_checkpoints(run_folder)) {
    if (entry.state == CheckpointState::kUsable) {
      const FileCheck check = verify(entry.folder, *entry.manifest);
      if (check.problems.empty()) {
        choice.chosen = std::move(entry);
        return choice;
      }
      entry.problem = core::join(check.problems, "; ");
      if (check.is_unreadable) entry.state = CheckpointState::kUnreadable;
    }
    if (entry.state == CheckpointState::kUnreadable)
      throw CheckpointError(
          fmt::format("checkpoint: one newer than every usable one cannot be read: {}", entry.problem),
          kUnreadableHint);
    choice.skipped.push_back(fmt::format("{}: {}", entry.folder.filename().string(), entry.problem));
  }
  return choice;
}

OwnerClaim claim_checkpoints(const fs::path& run_folder, const Json& who, int lowest) {
  const fs::path checkpoints = run_folder / "checkpoints";
  std::error_code failure;
  fs::create_directories(checkpoints, failure);
  if (failure) {
    errno = failure.value();
    core::throw_errno("checkpoint: cannot create", checkpoints);
  }
  std::random_device random;
  OwnerClaim claim{.attempt = lowest, .token = fmt::format("{:08x}{:08x}", random(), random())};
  for (const int seen : owner_attempts(checkpoints)) claim.attempt = std::max(claim.attempt, seen + 1);
  for (const std::string& name : names_in(checkpoints)) {  // one that was copied alone, without its claim
    const auto parsed = parse_checkpoint_name(name);
    if (parsed && parsed->second < std::numeric_limits<int>::max())
      claim.attempt = std::max(claim.attempt, parsed->second + 1);
  }
  fs::path path;
  while (true) {
    path = checkpoints / fmt::format("owner.{}", claim.attempt);
    const core::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.valid()) break;
    if (errno != EEXIST) core::throw_errno("checkpoint: cannot create", path);
    ++claim.attempt;  // another process was faster
  }
  core::fsync_directory(checkpoints);
  Json usable = Json::array(), unreadable = Json::array();
  for (const CheckpointEntry& entry : list_checkpoints(run_folder)) {
    if (entry.attempt >= claim.attempt) continue;
    if (entry.state == CheckpointState::kUsable) usable.push_back(entry.folder.filename().string());
    if (entry.state == CheckpointState::kUnreadable) unreadable.push_back(entry.folder.filename().string());
  }
  const Json json{
      {"attempt", claim.attempt}, {"token", claim.token},    {"claimed_s", core::unix_seconds()}, {"who", who},
      {"usable", usable},         {"unreadable", unreadable}};
  core::write_file_atomic(path, json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n");
  return claim;
}

std::optional<Json> who_claimed(const fs::path& run_folder, int attempt) {
  try {
    const Json json = core::read_json_file(run_folder / "checkpoints" / fmt::format("owner.{}", attempt));
    if (json.is_object() && json.contains("who") && json["who"].is_object()) return json["who"];
  } catch (const Error&) {  // not there, or its process died before it was written
  }
  return std::nullopt;
}

bool is_superseded(const fs::path& run_folder, int attempt) {
  const std::vector<int> attempts = owner_attempts(run_folder / "checkpoints");
  return !attempts.empty() && attempts.back() > attempt;
}

void remove_left_overs(const fs::path& run_folder, int attempt) {
  for (const CheckpointEntry& entry : list_checkpoints(run_folder))
    if (entry.state == CheckpointState::kIncomplete && entry.attempt < attempt && fs::is_directory(entry.folder))
      fs::remove_all(entry.folder);
  const fs::path checkpoints = run_folder / "checkpoints";
  for (const std::string& name : names_in(checkpoints)) {
    if (!core::starts_with(name, kTrashPrefix)) continue;
    const auto parsed = parse_checkpoint_name(name.substr(std::string_view(kTrashPrefix).size()));
    if (parsed) fs::remove_all(checkpoints / name);
  }
}

void remove_checkpoint(const fs::path& folder) {
  const fs::path trash = folder.parent_path() / (kTrashPrefix + folder.filename().string());
  fs::rename(folder, trash);
  fs::remove_all(trash);
}

std::string instead_of_damaged(const std::filesystem::path& folder) {
  const std::filesystem::path checkpoints = (folder / "").lexically_normal().parent_path().parent_path();
  if (checkpoints.filename() != "checkpoints") return "copy it again, or name another checkpoint";
  const std::string run = checkpoints.parent_path().string();
  return fmt::format("copy it again, or name another checkpoint of this run: `lockstep ckpt list '{}'` shows them",
                     run.empty() ? "." : run);
}

}  // namespace lockstep::checkpoint
