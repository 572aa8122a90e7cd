#include "support/ranks/run_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "comm/backend.h"
#include "comm/backend_gloo.h"
#include "comm/error_text.h"
#include "comm/recorder.h"
#include "core/error.h"
#include "support/ranks/local_hub.h"

namespace lockstep::tests {

using comm::Comm, comm::Mesh, comm::MeshGroups, comm::Recorder, comm::Store;

namespace {

/// A new thread takes the thread count that any other thread set last, unless it asks for its own first (LibTorch
/// facts, 0.5).
void compute_with_one_thread() {
  at::get_num_threads();
  at::set_num_threads(1);
}

class FirstFailure {
 public:
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

template <typename Body> void run_threads(int num_ranks, const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&body, rank] {
      compute_with_one_thread();
      body(rank);
    });
  for (auto& thread : threads) thread.join();
}

std::vector<int> all_ranks(int num_ranks) {
  std::vector<int> ranks(static_cast<size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Runs one rank's body and tells the hub how it ended.
template <typename Body> void run_guarded(LocalHub& hub, int rank, FirstFailure& failure, const Body& body) {
  try {
    body();
    hub.end_rank(rank);
  } catch (const std::exception& error) {
    failure.keep(std::current_exception());
    hub.fail(rank, comm::error_text(error));
  } catch (...) {
    failure.keep(std::current_exception());
    hub.fail(rank, "an exception of unknown type");
  }
}

/// `body(hub, rank)` on one thread for each rank.
template <typename Body> void run_local(int num_ranks, const Body& body) {
  const auto hub = std::make_shared<LocalHub>(num_ranks);
  FirstFailure failure;
  run_threads(num_ranks, [&](int rank) { run_guarded(*hub, rank, failure, [&] { body(*hub, rank); }); });
  failure.rethrow();
}

/// `make(store, rank)` gives a rank its groups, `body(groups)` works with them.
template <typename Make, typename Body> void run_gloo(int num_ranks, const Make& make, const Body& body) {
  const Store store = Store::in_process();
  FirstFailure failure;
  // Connections outlive the threads, since a rank that ends early must not cut off those that are not through yet.
  // Those of a rank that fails are closed at once, which makes the others fail.
  std::vector<std::optional<decltype(make(store, 0))>> groups(static_cast<size_t>(num_ranks));
  run_threads(num_ranks, [&](int rank) {
    auto& mine = groups[static_cast<size_t>(rank)];
    try {
      mine.emplace(make(store, rank));
      body(*mine);
    } catch (...) {
      failure.keep(std::current_exception());
      mine.reset();
    }
  });
  groups.clear();
  failure.rethrow();
}

std::string axis_of(const std::string& name) { return name.substr(0, name.find('/')); }  // see Mesh::MakeGroup

Comm make_gloo_group(const Store& store, const std::string& name, const std::vector<int>& ranks, int rank,
                     const std::shared_ptr<Recorder>& recorder) {
  constexpr std::chrono::seconds kTimeout{30};
  if (ranks.size() == 1) return {};
  const auto place = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  const Store own = store.under(fmt::format("{}/{}", name, ranks.front()));
  return Comm(comm::make_gloo_backend(own, place, static_cast<int>(ranks.size()), {.timeout = kTimeout}), recorder,
              axis_of(name), nullptr, ranks);
}

}  // namespace

void run_ranks(int num_ranks, const std::function<void(Comm&)>& body, ThreadBackend backend) {
  LOCKSTEP_CHECK(num_ranks >= 1, "num_ranks={}", num_ranks);
  // c10d's flight recorder is not safe when ranks are threads; it reads this before its first
  // group.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  const auto everyone = all_ranks(num_ranks);
  if (backend == ThreadBackend::kGloo && num_ranks > 1)
    return run_gloo(
        num_ranks,
        [&](const Store& store, int rank) {
          return make_gloo_group(store, "world", everyone, rank, std::make_shared<Recorder>());
        },
        body);
  run_local(num_ranks, [&](LocalHub& hub, int rank) {
    Comm comm(hub.join("world", everyone, rank), std::make_shared<Recorder>(), "world");
    body(comm);
  });
}

namespace {

/// The group of all ranks does not move while the mesh refers to it.
struct WorldAndGroups {
  std::unique_ptr<Comm> world;
  MeshGroups groups;
};

WorldAndGroups make_groups(const plan::MeshLayout& layout, const Mesh::MakeGroup& make_group) {
  auto world = std::make_unique<Comm>(make_group("world", all_ranks(layout.world_size())));
  Comm& all = *world;
  return {std::move(world), comm::make_mesh_groups(layout, all, make_group)};
}

}  // namespace

void run_mesh_groups(const plan::MeshLayout& layout, const std::function<void(MeshGroups&)>& body,
                     ThreadBackend backend) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // see run_ranks
  if (backend == ThreadBackend::kGloo && layout.world_size() > 1)
    return run_gloo(
        layout.world_size(),
        [&](const Store& store, int rank) {
          const auto recorder = std::make_shared<Recorder>();
          return make_groups(layout, [&](const std::string& name, const std::vector<int>& ranks) {
            return make_gloo_group(store, name, ranks, rank, recorder);
          });
        },
        [&](WorldAndGroups& mine) { body(mine.groups); });
  run_local(layout.world_size(), [&](LocalHub& hub, int rank) {
    const auto recorder = std::make_shared<Recorder>();
    WorldAndGroups mine = make_groups(layout, [&](const std::string& name, const std::vector<int>& ranks) {
      return Comm(hub.join(fmt::format("{} from rank {}", name, ranks.front()), ranks, rank), recorder, axis_of(name),
                  nullptr, ranks);
    });
    body(mine.groups);
  });
}

void run_mesh(const plan::MeshLayout& layout, const std::function<void(Mesh&)>& body) {
  run_mesh_groups(layout, [&](MeshGroups& groups) { body(groups.mesh); });
}

}  // namespace lockstep::tests
