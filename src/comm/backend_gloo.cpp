#include "comm/backend_gloo.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>

#include <exception>

#include "comm/c10d_internal.h"
#include "comm/store_internal.h"
#include "core/error.h"

namespace lockstep::comm {
namespace {

c10d::ReduceOp c10d_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return c10d::ReduceOp::SUM;
    case ReduceOp::kAverage: return c10d::ReduceOp::AVG;
    case ReduceOp::kMax: return c10d::ReduceOp::MAX;
    case ReduceOp::kMin: return c10d::ReduceOp::MIN;
  }
  LOCKSTEP_CHECK(false, "reduce op {}", static_cast<int>(op));
}

c10::intrusive_ptr<c10d::Work> start_call(c10d::Backend& backend, Call& call, std::vector<at::Tensor>& tensors) {
  switch (call.kind) {
    case OpKind::kAllReduce: {
      c10d::AllreduceOptions options;
      options.reduceOp = c10d_op(call.op);
      return backend.allreduce(tensors, options);
    }
    case OpKind::kAllGather: return backend._allgather_base(call.tensor, call.input);
    case OpKind::kReduceScatter: {
      c10d::ReduceScatterOptions options;
      options.reduceOp = c10d_op(call.op);
      return backend._reduce_scatter_base(call.tensor, call.input, options);
    }
    case OpKind::kBroadcast: {
      c10d::BroadcastOptions options;
      options.rootRank = call.peer;
      return backend.broadcast(tensors, options);
    }
    case OpKind::kAllToAll: {
      std::vector<int64_t> even_split{};  // empty: dim 0 in equal parts
      return backend.alltoall_base(call.tensor, call.input, even_split, even_split);
    }
    case OpKind::kSend: return backend.send(tensors, call.peer, /*tag=*/0);
    case OpKind::kReceive: return backend.recv(tensors, call.peer, /*tag=*/0);
    default: LOCKSTEP_CHECK(false, "comm: {} is no call of a transport", op_name(call.kind));
  }
}

}  // namespace

void wait_and_look_around(c10d::Work& work, const std::function<void()>& give_up_check) {
  constexpr std::chrono::milliseconds kPatience{500};
  while (true) {
    try {
      work.wait(kPatience);
      return;
    } catch (const std::exception&) {
      // The end of our patience, or the work's own error. Work that was done in between says which.
      if (work.isCompleted()) {
        work.wait();
        return;
      }
    }
    give_up_check();
  }
}

C10dBackend::C10dBackend(c10::intrusive_ptr<c10d::Backend> backend, at::Device device, bool abandon_on_failure)
    : Backend(backend->getRank(), backend->getSize(), device), backend_(std::move(backend)),
      abandon_on_failure_(abandon_on_failure), exceptions_at_start_(std::uncaught_exceptions()) {}

C10dBackend::~C10dBackend() {
  if (abandon_on_failure_ && std::uncaught_exceptions() > exceptions_at_start_) {
    static_cast<void>(backend_.release());
    return;
  }
  try {
    backend_->shutdown();
  } catch (const std::exception&) {
    // The group is broken already; who noticed has thrown.
  }
}

void C10dBackend::abort() {
  if (device().is_cpu()) return;
  try {
    backend_->abort();
  } catch (const std::exception&) {
    // It has ended by itself.
  }
}

/// The watchdog ends the process a minute after it found something (signal 6); before that there is time to do better.
std::string C10dBackend::find_error() {
  if (device().is_cpu()) return "";
  switch (backend_->getError()) {
    case c10d::ErrorType::TIMEOUT: return "a call takes longer than its time limit";
    case c10d::ErrorType::COMM_ERROR: return fmt::format("{} has noticed an error", backend_->getBackendName());
    default: return "";
  }
}

std::function<void()> C10dBackend::start(Call call) {
  // c10d takes a vector of tensors by reference, which must live until the end of the wait.
  auto kept = std::make_shared<std::pair<Call, std::vector<at::Tensor>>>(std::move(call), std::vector<at::Tensor>{});
  kept->second.push_back(kept->first.tensor);
  const OpKind call_kind = kept->first.kind;
  auto work = start_call(*backend_, kept->first, kept->second);
  const bool can_poll = call_kind != OpKind::kSend &&
                        call_kind != OpKind::kReceive;  // there Gloo drops the connection when a wait times out
  if (!can_poll || !kept->first.give_up_check || !device().is_cpu()) return [kept, work] { work->wait(); };
  return [kept, work] { wait_and_look_around(*work, kept->first.give_up_check); };
}

std::vector<std::function<void()>> C10dBackend::start_together(std::vector<Call> calls) {
  if (device().is_cpu()) return Backend::start_together(std::move(calls));
  auto kept = std::make_shared<std::pair<std::vector<Call>, std::vector<std::vector<at::Tensor>>>>();
  kept->first = std::move(calls);
  for (const Call& call : kept->first) kept->second.push_back({call.tensor});
  backend_->startCoalescing();
  for (size_t i = 0; i < kept->first.size(); ++i) start_call(*backend_, kept->first[i], kept->second[i]);
  const auto work = backend_->endCoalescing();
  return std::vector<std::function<void()>>(kept->first.size(), [kept, work] { work->wait(); });
}

std::unique_ptr<Backend> make_gloo_backend(const Store& store, int rank, int size, const GlooOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  const auto make = [&](const std::string& prefix) {
    auto gloo_options = Gloo::Options::create(options.timeout);
    gloo_options->devices.push_back(options.interface.empty() ? Gloo::createDeviceForHostname(options.address)
                                                              : Gloo::createDeviceForInterface(options.interface));
    return c10::make_intrusive<Gloo>(store.under(prefix).impl().store, rank, size, gloo_options);
  };
  c10::intrusive_ptr<c10d::Backend> backend = make("data");
  if (options.check_collectives) {
    backend->setSequenceNumberForGroup();
    backend = c10::make_intrusive<c10d::ProcessGroupWrapper>(backend, make("check"));
  }
  return std::make_unique<C10dBackend>(std::move(backend), at::Device(at::kCPU), options.abandon_on_failure);
}

}  // namespace lockstep::comm
