#include "train/shared_hashing.h"

#include <algorithm>
#include <exception>
#include <map>

#include "core/json.h"
#include "core/strings.h"
#include "train/agree.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

/// The rank in names like optimizer-00003-of-00008.safetensors, where that many ranks are there; else -1.
int64_t writer_in(const std::string& name, int num_ranks) {
  const std::string end = fmt::format("-of-{:05}.safetensors", num_ranks);
  if (!core::ends_with(name, end)) return -1;
  const std::string begin = name.substr(0, name.size() - end.size());
  const size_t dash = begin.rfind('-');
  if (dash == std::string::npos) return -1;
  const auto rank = core::parse_int(std::string_view(begin).substr(dash + 1));
  return rank && *rank >= 0 && *rank < num_ranks ? *rank : -1;
}

/// What ranks must know of a checkpoint that they test.
core::Json request_of(const fs::path& folder, const checkpoint::CheckpointManifest& manifest) {
  core::Json list = core::Json::array();
  for (const auto& file : manifest.files) list.push_back(core::Json::array({file.name, file.bytes, file.xxh3}));
  return {{"folder", folder.string()}, {"files", std::move(list)}, {"extra", manifest.extra}};
}

checkpoint::CheckpointManifest manifest_of(const core::Json& request) {
  checkpoint::CheckpointManifest manifest{.extra = request.at("extra")};
  for (const core::Json& file : request.at("files"))
    manifest.files.push_back({.name = file.at(0), .bytes = file.at(1), .xxh3 = file.at(2)});
  return manifest;
}

/// The files that ranks keep, by rank. Collective.
std::vector<std::set<std::string>> kept_by_ranks(comm::Comm& world, const checkpoint::CheckpointManifest& manifest,
                                                 const KeptFiles& kept) {
  std::set<std::string> own;
  try {
    own = kept.choose(manifest);
  } catch (const std::exception&) {  // reading tells what is wrong with the manifest; the others wait for an answer
  }
  core::Json numbers = core::Json::array();
  for (size_t i = 0; i < manifest.files.size(); ++i)
    if (own.contains(manifest.files[i].name)) numbers.push_back(i);
  std::vector<std::set<std::string>> of_ranks;
  for (const std::string& text : world.gather_strings(numbers.dump())) {
    of_ranks.emplace_back();
    for (const size_t number : core::parse_json(text, "message between ranks"))
      of_ranks.back().insert(manifest.files.at(number).name);
  }
  return of_ranks;
}

/// Are there files that are absent, or not as long as they were written?
bool lacks_files(const fs::path& folder, const checkpoint::CheckpointManifest& manifest) {
  return !checkpoint::verify_files(folder, manifest, checkpoint::VerifyDepth::kSizes).problems.empty();
}

/// `is_kept` is asked where there is something to keep files in.
checkpoint::FileCheck hash_and_keep(const fs::path& folder, const checkpoint::CheckpointManifest& manifest,
                                    const KeptFiles* kept,
                                    const std::function<bool(const std::string& name)>& is_kept) {
  if (kept == nullptr) return checkpoint::verify_hashes(folder, manifest);
  kept->held.clear();  // of one that was passed over
  return checkpoint::verify_files(
      folder, manifest, checkpoint::VerifyDepth::kHashes, [&](const fs::path& where, const std::string& name) {
        return kept->held.describe(where, name, is_kept(name) ? core::FileContent::kKept : core::FileContent::kDropped);
      });
}

struct SharedCheck {
  checkpoint::FileCheck found{};
  std::vector<size_t> ranks_that_lack_files{};
};

/// What all ranks found of their shares, joined on every rank. Collective.
SharedCheck hash_share(comm::Comm& world, const core::Json& request, const LongWaits& waits, const KeptFiles* kept) {
  const checkpoint::CheckpointManifest manifest = manifest_of(request);
  std::vector<std::set<std::string>> keepers;
  if (kept != nullptr) keepers = kept_by_ranks(world, manifest, *kept);
  checkpoint::CheckpointManifest share;
  share.files = hashing_share(manifest.files, world.rank(), world.size(), keepers);
  checkpoint::FileCheck own;
  try {
    own = hash_and_keep(request.at("folder").get<std::string>(), share, kept, [&](const std::string& name) {
      return keepers[static_cast<size_t>(world.rank())].contains(name);
    });
  } catch (const std::exception& error) {  // the others wait for an answer
    own = {.problems = {error.what()}, .is_unreadable = true};
  }
  std::string mine;
  if (!own.problems.empty())
    mine = core::Json{{"problems", own.problems},
                      {"is_unreadable", own.is_unreadable},
                      {"lacks_files", lacks_files(request.at("folder").get<std::string>(), share)}}
               .dump(-1, ' ', false, core::Json::error_handler_t::replace);
  if (waits.for_all) waits.for_all();
  SharedCheck all;
  const std::vector<std::string> of_ranks = world.gather_strings(mine);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].empty()) continue;
    const core::Json said = core::parse_json(of_ranks[rank], "message between ranks");
    for (const core::Json& problem : said.at("problems")) all.found.problems.push_back(problem);
    all.found.is_unreadable = all.found.is_unreadable || said.at("is_unreadable").get<bool>();
    if (said.at("lacks_files")) all.ranks_that_lack_files.push_back(rank);
  }
  return all;
}

/// On rank 0. A file that it sees and another rank does not is no damage: that rank has another file system, or one
/// that tells late, and the checkpoint may be good.
checkpoint::FileCheck judged(SharedCheck check, const fs::path& folder,
                             const checkpoint::CheckpointManifest& manifest) {
  if (check.ranks_that_lack_files.empty() || lacks_files(folder, manifest)) return std::move(check.found);
  check.found.is_unreadable = true;
  check.found.problems.push_back(
      fmt::format("rank {} does not see in '{}' what rank 0 sees: is it the same file system on all nodes?",
                  check.ranks_that_lack_files.front(), folder.string()));
  return std::move(check.found);
}

}  // namespace

std::vector<checkpoint::CheckpointFile> hashing_share(const std::vector<checkpoint::CheckpointFile>& files, int rank,
                                                      int num_ranks, const std::vector<std::set<std::string>>& kept) {
  std::map<std::string, std::vector<size_t>> keepers;
  for (size_t keeper = 0; keeper < kept.size(); ++keeper)
    for (const std::string& name : kept[keeper]) keepers[name].push_back(keeper);
  std::vector<int64_t> held_bytes(kept.size(), 0);
  std::vector<checkpoint::CheckpointFile> share;
  const auto num_files = std::ssize(files);
  for (int64_t i = 0; i < num_files; ++i) {
    const auto& file = files[static_cast<size_t>(i)];
    const int64_t writer = writer_in(file.name, num_ranks);
    int64_t chosen = writer >= 0 ? writer : i * num_ranks / num_files;
    if (const auto known = keepers.find(file.name); known != keepers.end()) {
      const auto least = std::min_element(known->second.begin(), known->second.end(),
                                          [&](size_t a, size_t b) { return held_bytes[a] < held_bytes[b]; });
      held_bytes[*least] += file.bytes;
      chosen = static_cast<int64_t>(*least);
    }
    if (chosen == rank) share.push_back(file);
  }
  return share;
}

std::string decide_on_checkpoints(comm::Comm& world, bool is_shared, const LongWaits& waits,
                                  const std::function<std::string(const checkpoint::VerifyFunction& verify)>& decide,
                                  const KeptFiles* kept) {
  if (!is_shared) {
    const checkpoint::VerifyFunction verify = [&](const fs::path& folder,
                                                  const checkpoint::CheckpointManifest& manifest) {
      return hash_and_keep(folder, manifest, kept, [](const std::string&) { return true; });
    };
    return decide_on_rank_zero(
        world, [&] { return decide(verify); }, waits.for_rank_zero);
  }
  const auto broadcast = [&](const std::string& text) {
    if (waits.for_rank_zero) waits.for_rank_zero();  // who lists the checkpoints
    return world.broadcast_string(text, 0);
  };
  if (world.rank() != 0)  // serves rank 0 until it has decided
    for (std::string request = broadcast(""); !request.empty(); request = broadcast(""))
      hash_share(world, core::parse_json(request, "message between ranks"), waits, kept);
  const checkpoint::VerifyFunction verify = [&](const fs::path& folder,
                                                const checkpoint::CheckpointManifest& manifest) {
    const core::Json request = request_of(folder, manifest);
    broadcast(request.dump());
    return judged(hash_share(world, request, waits, kept), folder, manifest);
  };
  return decide_on_rank_zero(world, [&] {
    std::exception_ptr failure;
    std::string text;
    try {
      text = decide(verify);
    } catch (...) {
      failure = std::current_exception();
    }
    broadcast("");
    if (failure) std::rethrow_exception(failure);
    return text;
  });
}

}  // namespace lockstep::train
