#include "bench/run_bench.h"
#include "cli/common/version.h"
#include "cli/engine/commands.h"

namespace lockstep::cli {

int cmd_bench(const commands::ParsedCommand& command, std::span<const std::string> args) {
  const VersionInfo version = version_info();
  bench::BenchFacts facts{
      .versions = {{"lockstep", version.version}, {"commit", version.commit}, {"libtorch", version.libtorch}}};
  if (!version.cuda.empty()) facts.versions["cuda"] = version.cuda;
  if (!version.nccl.empty()) facts.versions["nccl"] = version.nccl;
  facts.command.emplace_back("lockstep");
  facts.command.insert(facts.command.end(), args.begin(), args.end());
  return static_cast<int>(bench::run_bench(*command.bench, facts));
}

}  // namespace lockstep::cli
