#include "train/shared_hashing.h"

#include <exception>

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

core::Json request_text(const fs::path& folder, const std::vector<checkpoint::CheckpointFile>& files) {
  core::Json list = core::Json::array();
  for (const auto& file : files) list.push_back(core::Json::array({file.name, file.bytes, file.xxh3}));
  return {{"folder", folder.string()}, {"files", std::move(list)}};
}

/// Are there files that are absent, or not as long as they were written?
bool lacks_files(const fs::path& folder, const checkpoint::CheckpointManifest& manifest) {
  return !checkpoint::verify_files(folder, manifest, checkpoint::VerifyDepth::kSizes).problems.empty();
}

struct SharedCheck {
  checkpoint::FileCheck found{};
  std::vector<size_t> ranks_that_lack_files{};
};

/// What all ranks found of their shares, joined on every rank. Collective.
SharedCheck hash_share(comm::Comm& world, const core::Json& request, const LongWaits& waits) {
  std::vector<checkpoint::CheckpointFile> files;
  for (const core::Json& file : request.at("files"))
    files.push_back({.name = file.at(0), .bytes = file.at(1), .xxh3 = file.at(2)});
  checkpoint::CheckpointManifest share;
  share.files = hashing_share(files, world.rank(), world.size());
  checkpoint::FileCheck own;
  try {
    own = checkpoint::verify_hashes(request.at("folder").get<std::string>(), share);
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
                                                      int num_ranks) {
  std::vector<checkpoint::CheckpointFile> share;
  const auto num_files = std::ssize(files);
  for (int64_t i = 0; i < num_files; ++i) {
    const auto& file = files[static_cast<size_t>(i)];
    const int64_t writer = writer_in(file.name, num_ranks);
    if ((writer >= 0 ? writer : i * num_ranks / num_files) == rank) share.push_back(file);
  }
  return share;
}

std::string decide_on_checkpoints(comm::Comm& world, bool is_shared, const LongWaits& waits,
                                  const std::function<std::string(const checkpoint::VerifyFunction& verify)>& decide) {
  if (!is_shared)
    return decide_on_rank_zero(
        world, [&] { return decide(checkpoint::verify_hashes); }, waits.for_rank_zero);
  const auto broadcast = [&](const std::string& text) {
    if (waits.for_rank_zero) waits.for_rank_zero();  // who lists the checkpoints
    return world.broadcast_string(text, 0);
  };
  if (world.rank() != 0)  // serves rank 0 until it has decided
    for (std::string request = broadcast(""); !request.empty(); request = broadcast(""))
      hash_share(world, core::parse_json(request, "message between ranks"), waits);
  const checkpoint::VerifyFunction verify = [&](const fs::path& folder,
                                                const checkpoint::CheckpointManifest& manifest) {
    const core::Json request = request_text(folder, manifest.files);
    broadcast(request.dump());
    return judged(hash_share(world, request, waits), folder, manifest);
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
