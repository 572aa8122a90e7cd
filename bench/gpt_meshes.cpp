// Every legal mesh of up to 8 ranks, or of as many as the first argument says, against one rank
// (tests/support/gpt_mesh.h); ends with 1 where one differs. The second argument names the result file, JSON Lines: one
// mesh a line and a summary as the last.
//   bench_gpt_meshes 8 bench/results/gpt_meshes.jsonl
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "cli/common/version.h"
#include "core/json.h"
#include "core/strings.h"
#include "support/gpt_mesh.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const auto max_ranks = core::parse_int(argc > 1 ? argv[1] : "8");
  if (argc != 3 || !max_ranks || *max_ranks < 1 || *max_ranks > 64) {
    std::fputs("usage: bench_gpt_meshes MAX_RANKS RESULT_FILE\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  std::ofstream file(argv[2]);
  const auto start = std::chrono::steady_clock::now();
  const auto all = tests::legal_meshes(static_cast<int>(*max_ranks));
  int64_t num_failed = 0;
  tests::MeshDeviation worst;
  const auto describe = [](const tests::MeshDeviation& deviation) {
    return core::Json{{"loss", deviation.loss}, {"tensor", deviation.tensor}, {"change", deviation.change}};
  };
  for (size_t i = 0; i < all.size(); ++i) {
    tests::MeshDeviation largest;
    const std::string difference = tests::compare_with_one_rank(all[i], tests::ThreadBackend::kLocal, &largest);
    worst = {std::max(worst.loss, largest.loss), std::max(worst.tensor, largest.tensor),
             std::max(worst.change, largest.change)};
    num_failed += difference.empty() ? 0 : 1;
    file << core::Json{{"mesh", all[i].name()},
                       {"ranks", all[i].num_ranks()},
                       {"difference", difference},
                       {"largest", describe(largest)}}
                .dump()
         << std::endl;
    if (!difference.empty()) fmt::print(stderr, "{}:\n{}\n", all[i].name(), difference);
    if (i % 100 == 99) fmt::print(stderr, "{} of {} meshes, {} differ\n", i + 1, all.size(), num_failed);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  file << core::Json{{"meshes", all.size()},
                     {"differ", num_failed},
                     {"largest", describe(worst)},
                     {"max_ranks", *max_ranks},
                     {"lockstep", cli::version_info().version},
                     {"commit", cli::version_info().commit},
                     {"seconds", seconds.count()},
                     {"command", fmt::format("bench_gpt_meshes {} {}", argv[1], argv[2])}}
              .dump()
       << "\n";
  if (!file.flush()) {
    fmt::print(stderr, "bench_gpt_meshes: '{}' cannot be written\n", argv[2]);
    return 6;
  }
  return num_failed == 0 ? 0 : 1;
}
