#include "bench/collective_kinds.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "commands/bench_options.h"
#include "core/error.h"
#include "record/bus_factor.h"

namespace lockstep::bench {
namespace {

constexpr double kNeverSent = 77;

/// Are blocks for (or from) each rank counted together?
bool has_blocks(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllToAll;
}

int64_t send_elements(const CollectiveCall& call, int num_ranks) {
  return call.kind == CollectiveKind::kReduceScatter || call.kind == CollectiveKind::kAllToAll ? call.count * num_ranks
                                                                                               : call.count;
}

int64_t receive_elements(const CollectiveCall& call, int num_ranks) {
  return call.kind == CollectiveKind::kAllGather || call.kind == CollectiveKind::kAllToAll ? call.count * num_ranks
                                                                                           : call.count;
}

/// Each rank sends to the next one and receives from the one before. Even ranks send first: where transfers of one rank
/// run one after the other (NCCL outside a group) a ring of senders would wait for ever.
void pass_on(comm::Comm& comm, const CollectiveBuffers& buffers) {
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  comm::Work sent, received;
  if (comm.rank() % 2 == 0) sent = comm.send(buffers.send, next);
  received = comm.receive(buffers.receive, before);
  if (comm.rank() % 2 == 1) sent = comm.send(buffers.send, next);
  sent.wait();
  received.wait();
}

}  // namespace

CollectiveKind parse_collective(const std::string& name) {
  const auto names = commands::bench_collective_names();
  const auto found = std::find(names.begin(), names.end(), name);
  LOCKSTEP_CHECK(found != names.end(), "collective '{}'", name);
  return static_cast<CollectiveKind>(found - names.begin());
}

bool has_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

bool has_out_of_place(CollectiveKind kind) {
  return kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kBroadcast;
}

bool has_in_place(CollectiveKind kind) {
  return kind != CollectiveKind::kAllToAll && kind != CollectiveKind::kSendReceive;
}

int64_t size_in_elements(const CollectiveCall& call, int num_ranks) {
  return has_blocks(call.kind) ? call.count * num_ranks : call.count;
}

int64_t count_of_size(CollectiveKind kind, int64_t bytes, int64_t element_bytes, int num_ranks) {
  return std::max<int64_t>(1, bytes / element_bytes / (has_blocks(kind) ? num_ranks : 1));
}

double bus_factor(CollectiveKind kind, int num_ranks) {
  return record::bus_factor(commands::bench_collective_names()[static_cast<size_t>(kind)], num_ranks).value();
}

CollectiveBuffers make_buffers(const CollectiveCall& call, const comm::Comm& comm, at::Device device,
                               bool is_in_place) {
  const auto make = [&](int64_t count) { return at::empty({count}, at::TensorOptions(device).dtype(call.type)); };
  const int64_t sent = send_elements(call, comm.size()), received = receive_elements(call, comm.size());
  if (!is_in_place) return {.send = make(sent), .receive = make(received)};
  const at::Tensor all = make(std::max(sent, received));
  const auto part = [&](int64_t count) {
    return count == all.numel() ? all : all.narrow(0, comm.rank() * count, count);
  };
  return {.send = part(sent), .receive = part(received)};
}

void fill_buffers(const CollectiveCall& call, const comm::Comm& comm, const CollectiveBuffers& buffers,
                  int64_t call_number) {
  buffers.receive.fill_(kNeverSent);
  if (call.kind != CollectiveKind::kBroadcast || comm.rank() == call.root)
    fill_values(buffers.send, comm.rank(), 0, call_number);
}

std::vector<ExpectedRun> expected_runs(const CollectiveCall& call, const comm::Comm& comm) {
  const int rank = comm.rank(), size = comm.size();
  std::vector<ExpectedRun> runs;
  switch (call.kind) {
    case CollectiveKind::kAllReduce: return {{.count = call.count, .num_ranks = size}};
    case CollectiveKind::kReduceScatter:
      return {{.count = call.count, .num_ranks = size, .source_index = rank * call.count}};
    case CollectiveKind::kBroadcast: return {{.count = call.count, .first_rank = call.root}};
    case CollectiveKind::kSendReceive: return {{.count = call.count, .first_rank = (rank + size - 1) % size}};
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      for (int from = 0; from < size; ++from)
        runs.push_back({.offset = from * call.count,
                        .count = call.count,
                        .first_rank = from,
                        .source_index = call.kind == CollectiveKind::kAllToAll ? rank * call.count : 0});
  }
  return runs;
}

void run_collective(const CollectiveCall& call, comm::Comm& comm, const CollectiveBuffers& buffers) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce: return comm.all_reduce(buffers.receive, call.op).wait();
    case CollectiveKind::kAllGather: return comm.all_gather_into(buffers.receive, buffers.send).wait();
    case CollectiveKind::kReduceScatter: return comm.reduce_scatter_into(buffers.receive, buffers.send, call.op).wait();
    case CollectiveKind::kBroadcast: return comm.broadcast(buffers.receive, call.root).wait();
    case CollectiveKind::kAllToAll: return comm.all_to_all_into(buffers.receive, buffers.send).wait();
    case CollectiveKind::kSendReceive: return pass_on(comm, buffers);
  }
}

}  // namespace lockstep::bench
