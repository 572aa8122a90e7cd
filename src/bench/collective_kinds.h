#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective_values.h"
#include "comm/comm.h"

namespace lockstep::bench {

enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kSendReceive };

/// Of a name of commands::bench_collective_names().
CollectiveKind parse_collective(const std::string& name);

/// One collective of one size on one rank.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  int root = 0;
  /// Elements of what one rank gives to one other: of gathers, scatters and exchanges the n-th part.
  int64_t count = 0;
  at::ScalarType type = at::kFloat;
};

/// Where a call reads and writes.
struct CollectiveBuffers {
  at::Tensor send, receive;  ///< The same memory, or parts of it, in place.
};

bool has_reduction(CollectiveKind kind);
/// Is there a form that leaves its input as it was? All-reduce and broadcast of comm/ work in place only.
bool has_out_of_place(CollectiveKind kind);
bool has_in_place(CollectiveKind kind);

/// Elements by which a collective's size is counted: of gathers, scatters and exchanges those of all ranks together.
int64_t size_in_elements(const CollectiveCall& call, int num_ranks);
/// The largest count whose size is at most `bytes`, at least 1.
int64_t count_of_size(CollectiveKind kind, int64_t bytes, int64_t element_bytes, int num_ranks);
/// Bus bandwidth over algorithm bandwidth.
double bus_factor(CollectiveKind kind, int num_ranks);

CollectiveBuffers make_buffers(const CollectiveCall& call, const comm::Comm& comm, at::Device device, bool is_in_place);
/// Writes what this rank sends in call number `call_number`, and what no rank sends where results will come.
void fill_buffers(const CollectiveCall& call, const comm::Comm& comm, const CollectiveBuffers& buffers,
                  int64_t call_number);
/// What must then be received.
std::vector<ExpectedRun> expected_runs(const CollectiveCall& call, const comm::Comm& comm);
/// Runs the collective to its end (on an accelerator: until its stream is ordered after it).
void run_collective(const CollectiveCall& call, comm::Comm& comm, const CollectiveBuffers& buffers);

}  // namespace lockstep::bench
