#pragma once
#include <fmt/format.h>

#include <array>
#include <future>
#include <string>
#include <vector>

#include "commands/run_program.h"
#include "support/listening.h"

namespace lockstep::tests {

/// Runs `lockstep <args>` under two launchers on this machine, each of which takes itself for a node.
inline std::array<ProgramResult, 2> launch_on_two_nodes(const std::vector<std::string>& args, int ranks_per_node,
                                                        const EnvChanges& changes) {
  const int port = Listening().port;  // free again
  const auto launch_node = [&](int node) {
    std::vector<std::string> all{"launch",
                                 "--nnodes",
                                 "2",
                                 "--node-rank",
                                 fmt::to_string(node),
                                 "--nproc-per-node",
                                 fmt::to_string(ranks_per_node),
                                 "--rdzv-endpoint",
                                 fmt::format("127.0.0.1:{}", port),
                                 "--"};
    all.insert(all.end(), args.begin(), args.end());
    return run_lockstep(all, changes);
  };
  auto second = std::async(std::launch::async, launch_node, 1);
  return {launch_node(0), second.get()};
}

}  // namespace lockstep::tests
