#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "comm/backend.h"
#include "comm/store.h"

namespace lockstep::comm {

struct GlooOptions {
  std::string address = "127.0.0.1";  ///< Own address (or host name) that the other ranks of the group can reach.
  std::string interface {};           ///< Network interface to use instead of an address; empty: none.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  /// Compare operation, element count and type on all ranks before each collective (three times the latency). Without
  /// it a mismatch of sizes ends the process inside Gloo.
  bool check_collectives = false;
  /// A process that ends by an exception leaves the group to the operating system: Gloo cannot call off what is under
  /// way, and its destructor would wait for that until the time limit.
  bool abandon_on_failure = false;
};

/// Collective over the ranks of the group: all of them call it with a store under the same prefix, which no other group
/// uses.
std::unique_ptr<Backend> make_gloo_backend(const Store& store, int rank, int size, const GlooOptions& options);

}  // namespace lockstep::comm
