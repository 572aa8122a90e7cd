#include "comm/comm.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/backend.h"
#include "comm/error_text.h"
#include "comm/progress.h"
#include "comm/recorder.h"
#include "core/clock.h"
#include "core/env.h"
#include "core/error.h"

namespace lockstep::comm {
namespace {

using core::Clock;

bool is_reduction(OpKind kind) { return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter; }

bool is_transfer(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kReceive; }

bool can_reduce(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
    case at::kDouble:
    case at::kLong:
    case at::kInt:
    case at::kByte: return true;
    default: return false;
  }
}

void check_tensor(const at::Tensor& tensor, OpKind kind, at::Device device, const char* what) {
  LOCKSTEP_CHECK(tensor.defined(), "comm: {} of an undefined {} tensor", op_name(kind), what);
  LOCKSTEP_CHECK(tensor.is_non_overlapping_and_dense(),
                 "comm: {} needs a dense {} tensor (clone a slice with gaps first)", op_name(kind), what);
  LOCKSTEP_CHECK(tensor.device().type() == device.type(), "comm: {} tensor of {} lies on {}, expected={}", what,
                 op_name(kind), tensor.device().str(), device.str());
}

/// The memory of a dense tensor as one row, cut off from autograd; types that not every transport knows become bytes
/// where nothing is added.
at::Tensor flatten(const at::Tensor& tensor, OpKind kind) {
  const at::Tensor flat = tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
  if (is_reduction(kind) || can_reduce(tensor.scalar_type())) return flat;
  return flat.view(at::kByte);
}

std::vector<int64_t> layout_of(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? std::vector<int64_t>{} : tensor.strides().vec();
}

std::string bytes_text(int64_t bytes) {
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{} bytes", bytes);
}

std::string list_of(const std::vector<int>& ranks) {
  if (ranks.size() > 16) return fmt::format("{} ranks from {} to {}", ranks.size(), ranks.front(), ranks.back());
  return fmt::format("ranks {}", fmt::join(ranks, ","));
}

}  // namespace

std::string_view op_name(OpKind kind) {
  constexpr std::array<std::string_view, kNumOpKinds> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "receive", "barrier"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view reduce_name(ReduceOp op) {
  constexpr std::array<std::string_view, 4> kNames = {"sum", "average", "max", "min"};
  return kNames[static_cast<size_t>(op)];
}

std::string describe(const Call& call) {
  std::string detail;
  if (is_reduction(call.kind)) detail = fmt::format("({})", reduce_name(call.op));
  if (call.kind == OpKind::kBroadcast) detail = fmt::format("(root {})", call.peer);
  if (call.kind == OpKind::kSend) detail = fmt::format("(to {})", call.peer);
  if (call.kind == OpKind::kReceive) detail = fmt::format("(from {})", call.peer);
  const at::Tensor& counted = call.input.defined() ? call.input : call.tensor;
  const std::string layout = call.layout.empty() ? "" : fmt::format(" with strides [{}]", fmt::join(call.layout, ","));
  return fmt::format("{}{} of {} x {}{}", op_name(call.kind), detail, counted.numel(),
                     c10::toString(counted.scalar_type()), layout);
}

void Work::wait() {
  if (!wait_) return;
  wait_();
  wait_ = nullptr;
}

struct Comm::State {
  std::shared_ptr<Backend> backend;  // none: a group of one
  /// What pending Work needs; it may outlive the Comm.
  struct Shared {
    std::shared_ptr<Recorder> recorder;
    std::string axis;
    std::shared_ptr<Progress> progress;
    std::vector<int> global_ranks;
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  int64_t sequence = 0;
  std::array<int64_t, kNumOpKinds> counts{};
  bool in_barrier = false;
};

namespace {

/// Rethrows what a transport threw as a CommError that says where the job stands.
[[noreturn]] void rethrow(const std::shared_ptr<Progress>& progress, const std::vector<int>& ranks,
                          const CallMark& mark, double waited_ms) {
  std::string reason;
  // `launch` names that rank itself.
  std::string hint = core::env("LOCKSTEP_RUN_FOLDER_FILE")
                         ? ""
                         : "look for the first rank that reports another error: this one is often its consequence";
  try {
    throw;
  } catch (const CommError& error) {
    if (progress == nullptr) throw;  // the local backend says everything itself
    reason = error.what();
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // no fault of the other ranks
  } catch (const std::exception& error) {
    reason = error_text(error);
  }
  std::string who = progress == nullptr ? "" : progress->diagnose(mark, ranks);
  const std::string told_by_transport = who.find(reason) == std::string::npos ? " [transport: " + reason + "]" : "";
  if (!who.empty()) who = "; " + who;
  const std::string number = mark.sequence > 0 ? fmt::format(" #{}", mark.sequence) : "";
  throw CommError(
      fmt::format("comm: {}{} of {} on axis '{}' ({}) failed after {:.1f} s{}{}", mark.kind, number,
                  bytes_text(mark.bytes), mark.axis, list_of(ranks), waited_ms / 1000.0, who, told_by_transport),
      hint);
}

}  // namespace

Comm::Comm() : state_(std::make_unique<State>()) {
  state_->shared->recorder = std::make_shared<Recorder>();
  state_->shared->axis = "alone";
  state_->shared->global_ranks = {0};
}

Comm::Comm(std::shared_ptr<Backend> backend, std::shared_ptr<Recorder> recorder, std::string axis,
           std::shared_ptr<Progress> progress, std::vector<int> global_ranks)
    : state_(std::make_unique<State>()) {
  state_->backend = std::move(backend);
  auto& shared = *state_->shared;
  shared.recorder = recorder ? std::move(recorder) : std::make_shared<Recorder>();
  shared.axis = std::move(axis);
  shared.progress = std::move(progress);
  shared.global_ranks = std::move(global_ranks);
  if (shared.global_ranks.empty())
    for (int i = 0; i < size(); ++i) shared.global_ranks.push_back(i);
  LOCKSTEP_CHECK(static_cast<int>(shared.global_ranks.size()) == size(), "ranks={} size={}", shared.global_ranks.size(),
                 size());
}

Comm::Comm(Comm&&) noexcept = default;
Comm& Comm::operator=(Comm&&) noexcept = default;
Comm::~Comm() = default;

int Comm::rank() const { return state_->backend ? state_->backend->rank() : 0; }
int Comm::size() const { return state_->backend ? state_->backend->size() : 1; }
const std::string& Comm::axis() const { return state_->shared->axis; }
const std::vector<int>& Comm::global_ranks() const { return state_->shared->global_ranks; }
Recorder& Comm::recorder() { return *state_->shared->recorder; }

int64_t Comm::count(std::string_view kind) const {
  for (int i = 0; i < kNumOpKinds; ++i)
    if (op_name(static_cast<OpKind>(i)) == kind) return state_->counts[static_cast<size_t>(i)];
  LOCKSTEP_CHECK(false, "comm: no collective is called '{}'", kind);
}

/// Notes a call that is about to be handed to the transport.
CallMark Comm::announce(Call& call, int64_t bytes) {
  const auto& shared = state_->shared;
  const std::string_view kind = state_->in_barrier ? op_name(OpKind::kBarrier) : op_name(call.kind);
  const int64_t sequence = is_transfer(call.kind) ? 0 : ++state_->sequence;
  CallMark mark{.axis = shared->axis, .kind = std::string(kind), .sequence = sequence, .bytes = bytes};
  shared->recorder->add_call(mark.axis, static_cast<int>(shared->global_ranks.size()), mark.kind, bytes);
  if (!shared->progress) return mark;
  shared->progress->begin(mark);
  call.give_up_check = [progress = shared->progress] {
    const std::string failure = progress->failure_elsewhere();
    if (!failure.empty()) throw CommError(failure);
  };
  return mark;
}

/// Work for a call that the transport has taken, which took the host start_ms.
Work Comm::under_way(const CallMark& mark, Clock::time_point begin, double start_ms, std::function<void()> wait) {
  return Work([shared = state_->shared, mark, begin, start_ms, wait = std::move(wait)] {
    at::RecordFunction wait_scope(at::RecordScope::USER_SCOPE);
    if (wait_scope.isActive()) wait_scope.before(fmt::format("wait {} {} {} bytes", mark.kind, mark.axis, mark.bytes));
    const auto wait_begin = Clock::now();
    try {
      wait();
    } catch (...) {
      rethrow(shared->progress, shared->global_ranks, mark, core::ms_since(begin));
    }
    if (shared->progress) shared->progress->end(mark);
    shared->recorder->add_time(mark.axis, static_cast<int>(shared->global_ranks.size()), mark.kind, mark.bytes,
                               core::ms_since(begin), start_ms + core::ms_since(wait_begin));
  });
}

/// Hands a call to the transport; counting is the caller's.
Work Comm::start(Call call, int64_t bytes) {
  const std::string_view kind = state_->in_barrier ? op_name(OpKind::kBarrier) : op_name(call.kind);
  at::RecordFunction scope(at::RecordScope::USER_SCOPE);
  if (scope.isActive()) scope.before(fmt::format("{} {} {} bytes", kind, axis(), bytes));
  const auto begin = Clock::now();
  const CallMark mark = announce(call, bytes);
  std::function<void()> wait;
  try {
    if (call.give_up_check) call.give_up_check();
    wait = state_->backend->start(std::move(call));
  } catch (...) {
    rethrow(state_->shared->progress, global_ranks(), mark, core::ms_since(begin));
  }
  return under_way(mark, begin, core::ms_since(begin), std::move(wait));
}

std::vector<Work> Comm::exchange(const std::vector<Transfer>& transfers) {
  if (transfers.empty()) return {};
  std::vector<Call> calls;
  std::vector<CallMark> marks;
  at::RecordFunction scope(at::RecordScope::USER_SCOPE);
  if (scope.isActive()) scope.before(fmt::format("exchange {} {} messages", axis(), transfers.size()));
  const auto begin = Clock::now();
  for (const auto& [is_send, tensor, peer] : transfers) {
    LOCKSTEP_CHECK(peer >= 0 && peer < size() && peer != rank(), "comm: rank {} of {} exchanges with {}", rank(),
                   size(), peer);
    const OpKind kind = is_send ? OpKind::kSend : OpKind::kReceive;
    check_tensor(tensor, kind, state_->backend->device(), is_send ? "sent" : "received");
    LOCKSTEP_CHECK(tensor.numel() > 0, "comm: an exchange of nothing with rank {}", peer);
    ++state_->counts[static_cast<size_t>(kind)];
    calls.push_back({.kind = kind, .tensor = flatten(tensor, kind), .peer = peer, .layout = layout_of(tensor)});
    marks.push_back(announce(calls.back(), static_cast<int64_t>(tensor.nbytes())));
  }
  std::vector<std::function<void()>> waits;
  try {
    if (calls[0].give_up_check) calls[0].give_up_check();
    waits = state_->backend->start_together(std::move(calls));
  } catch (...) {
    rethrow(state_->shared->progress, global_ranks(), marks[0], core::ms_since(begin));
  }
  const double start_ms = core::ms_since(begin);  // the first message's; the others cost nothing more
  std::vector<Work> works;
  for (size_t i = 0; i < waits.size(); ++i)
    works.push_back(under_way(marks[i], begin, i == 0 ? start_ms : 0, std::move(waits[i])));
  return works;
}

Work Comm::start_unless_alone(Call call, int64_t bytes) {
  ++state_->counts[static_cast<size_t>(call.kind)];
  if (size() == 1 || bytes == 0) return {};
  return start(std::move(call), bytes);
}

Work Comm::all_reduce(at::Tensor tensor, ReduceOp op) {
  const at::Device device = state_->backend ? state_->backend->device() : tensor.device();
  check_tensor(tensor, OpKind::kAllReduce, device, "reduced");
  LOCKSTEP_CHECK(can_reduce(tensor.scalar_type()), "comm: all_reduce of {}", c10::toString(tensor.scalar_type()));
  LOCKSTEP_CHECK(op != ReduceOp::kAverage || tensor.is_floating_point(), "comm: average of {}",
                 c10::toString(tensor.scalar_type()));
  return start_unless_alone({.kind = OpKind::kAllReduce,
                             .tensor = flatten(tensor, OpKind::kAllReduce),
                             .op = op,
                             .layout = layout_of(tensor)},
                            static_cast<int64_t>(tensor.nbytes()));
}

Work Comm::all_gather_into(at::Tensor output, const at::Tensor& input) {
  const at::Device device = state_->backend ? state_->backend->device() : input.device();
  check_tensor(input, OpKind::kAllGather, device, "input");
  check_tensor(output, OpKind::kAllGather, device, "output");
  LOCKSTEP_CHECK(input.is_contiguous() && output.is_contiguous(), "comm: all_gather needs row-major tensors");
  LOCKSTEP_CHECK(output.scalar_type() == input.scalar_type() && output.numel() == size() * input.numel(),
                 "comm: all_gather output {} x {}, expected={} x {}", output.numel(),
                 c10::toString(output.scalar_type()), size() * input.numel(), c10::toString(input.scalar_type()));
  const at::Tensor flat_output = flatten(output, OpKind::kAllGather);
  const at::Tensor flat_input = flatten(input, OpKind::kAllGather);
  if (size() == 1 && flat_output.data_ptr() != flat_input.data_ptr()) flat_output.copy_(flat_input);
  return start_unless_alone({.kind = OpKind::kAllGather, .tensor = flat_output, .input = flat_input},
                            static_cast<int64_t>(output.nbytes()));
}

Work Comm::reduce_scatter_into(at::Tensor output, const at::Tensor& input, ReduceOp op) {
  const at::Device device = state_->backend ? state_->backend->device() : input.device();
  check_tensor(input, OpKind::kReduceScatter, device, "input");
  check_tensor(output, OpKind::kReduceScatter, device, "output");
  LOCKSTEP_CHECK(input.is_contiguous() && output.is_contiguous(), "comm: reduce_scatter needs row-major tensors");
  LOCKSTEP_CHECK(can_reduce(input.scalar_type()), "comm: reduce_scatter of {}", c10::toString(input.scalar_type()));
  LOCKSTEP_CHECK(op != ReduceOp::kAverage || input.is_floating_point(), "comm: average of {}",
                 c10::toString(input.scalar_type()));
  LOCKSTEP_CHECK(output.scalar_type() == input.scalar_type() && input.numel() == size() * output.numel(),
                 "comm: reduce_scatter input {} x {}, expected={} x {}", input.numel(),
                 c10::toString(input.scalar_type()), size() * output.numel(), c10::toString(output.scalar_type()));
  const at::Tensor flat_output = flatten(output, OpKind::kReduceScatter);
  const at::Tensor flat_input = flatten(input, OpKind::kReduceScatter);
  if (size() == 1 && flat_output.data_ptr() != flat_input.data_ptr()) flat_output.copy_(flat_input);
  return start_unless_alone({.kind = OpKind::kReduceScatter, .tensor = flat_output, .input = flat_input, .op = op},
                            static_cast<int64_t>(input.nbytes()));
}

Work Comm::broadcast(at::Tensor tensor, int root) {
  const at::Device device = state_->backend ? state_->backend->device() : tensor.device();
  check_tensor(tensor, OpKind::kBroadcast, device, "broadcast");
  LOCKSTEP_CHECK(root >= 0 && root < size(), "comm: broadcast root={} size={}", root, size());
  return start_unless_alone({.kind = OpKind::kBroadcast,
                             .tensor = flatten(tensor, OpKind::kBroadcast),
                             .peer = root,
                             .layout = layout_of(tensor)},
                            static_cast<int64_t>(tensor.nbytes()));
}

Work Comm::all_to_all_into(at::Tensor output, const at::Tensor& input) {
  const at::Device device = state_->backend ? state_->backend->device() : input.device();
  check_tensor(input, OpKind::kAllToAll, device, "input");
  check_tensor(output, OpKind::kAllToAll, device, "output");
  LOCKSTEP_CHECK(input.is_contiguous() && output.is_contiguous(), "comm: all_to_all needs row-major tensors");
  LOCKSTEP_CHECK(
      output.scalar_type() == input.scalar_type() && output.numel() == input.numel() && input.numel() % size() == 0,
      "comm: all_to_all output {} x {}, input {} x {}, ranks={}", output.numel(), c10::toString(output.scalar_type()),
      input.numel(), c10::toString(input.scalar_type()), size());
  LOCKSTEP_CHECK(input.numel() == 0 || output.data_ptr() != input.data_ptr(), "comm: all_to_all in place");
  const at::Tensor flat_output = flatten(output, OpKind::kAllToAll);
  const at::Tensor flat_input = flatten(input, OpKind::kAllToAll);
  if (size() == 1) flat_output.copy_(flat_input);
  return start_unless_alone({.kind = OpKind::kAllToAll, .tensor = flat_output, .input = flat_input},
                            static_cast<int64_t>(input.nbytes()));
}

Work Comm::send(const at::Tensor& tensor, int to) {
  LOCKSTEP_CHECK(to >= 0 && to < size() && to != rank(), "comm: rank {} of {} sends to {}", rank(), size(), to);
  check_tensor(tensor, OpKind::kSend, state_->backend->device(), "sent");
  return start_unless_alone(
      {.kind = OpKind::kSend, .tensor = flatten(tensor, OpKind::kSend), .peer = to, .layout = layout_of(tensor)},
      static_cast<int64_t>(tensor.nbytes()));
}

Work Comm::receive(at::Tensor tensor, int from) {
  LOCKSTEP_CHECK(from >= 0 && from < size() && from != rank(), "comm: rank {} of {} receives from {}", rank(), size(),
                 from);
  check_tensor(tensor, OpKind::kReceive, state_->backend->device(), "received");
  return start_unless_alone({.kind = OpKind::kReceive,
                             .tensor = flatten(tensor, OpKind::kReceive),
                             .peer = from,
                             .layout = layout_of(tensor)},
                            static_cast<int64_t>(tensor.nbytes()));
}

void Comm::check_alive() const {
  const auto& progress = state_->shared->progress;
  const std::string failure = progress ? progress->failure_elsewhere() : "";
  if (!failure.empty())
    throw CommError("comm: this rank gives up: " + failure, "the first failing rank tells the cause");
}

void Comm::barrier() {
  ++state_->counts[static_cast<size_t>(OpKind::kBarrier)];
  if (size() == 1) return;
  const at::Tensor flag = at::ones({1}, at::TensorOptions(state_->backend->device()).dtype(at::kInt));
  state_->in_barrier = true;
  Work work;
  try {
    work = start({.kind = OpKind::kAllReduce, .tensor = flag}, static_cast<int64_t>(flag.nbytes()));
  } catch (...) {
    state_->in_barrier = false;
    throw;
  }
  state_->in_barrier = false;
  work.wait();
  const int present = flag.item<int>();  // sync: a barrier is one
  check_alive();
  LOCKSTEP_CHECK(present == size(), "comm: barrier of {} ranks counted {}", size(), present);
}

/// `text` as bytes where the transport wants them, padded with zeros.
at::Tensor Comm::host_bytes(const std::string& text, int64_t padded_bytes) const {
  const at::Tensor bytes = at::zeros({padded_bytes}, at::TensorOptions().dtype(at::kByte));
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes.to(state_->backend->device());
}

std::vector<std::string> Comm::gather_strings(const std::string& mine) {
  if (size() == 1) return {mine};
  const auto count_type = at::TensorOptions(state_->backend->device()).dtype(at::kLong);
  const at::Tensor my_length = at::full({1}, static_cast<int64_t>(mine.size()), count_type);
  at::Tensor lengths = at::empty({size()}, count_type);
  start({.kind = OpKind::kAllGather, .tensor = lengths, .input = my_length}, static_cast<int64_t>(lengths.nbytes()))
      .wait();
  lengths = lengths.cpu();  // sync: the lengths size the next call
  check_alive();
  const auto* length = lengths.const_data_ptr<int64_t>();
  const int64_t longest = *std::max_element(length, length + size());
  std::vector<std::string> out(static_cast<size_t>(size()));
  if (longest == 0) return out;
  const at::Tensor input = host_bytes(mine, longest);
  at::Tensor all = at::empty({size() * longest}, input.options());
  start({.kind = OpKind::kAllGather, .tensor = all, .input = input}, static_cast<int64_t>(all.nbytes())).wait();
  all = all.cpu();  // sync: strings live on the host
  check_alive();
  const auto* text = reinterpret_cast<const char*>(all.const_data_ptr<uint8_t>());
  for (int i = 0; i < size(); ++i)
    out[static_cast<size_t>(i)].assign(text + i * longest, static_cast<size_t>(length[i]));
  return out;
}

std::string Comm::broadcast_string(const std::string& text, int root) {
  LOCKSTEP_CHECK(root >= 0 && root < size(), "comm: broadcast root={} size={}", root, size());
  if (size() == 1) return text;
  const bool is_root = rank() == root;
  const auto count_type = at::TensorOptions(state_->backend->device()).dtype(at::kLong);
  const at::Tensor length = at::full({1}, is_root ? static_cast<int64_t>(text.size()) : 0, count_type);
  start({.kind = OpKind::kBroadcast, .tensor = length, .peer = root}, static_cast<int64_t>(length.nbytes())).wait();
  const auto num_bytes = length.item<int64_t>();  // sync: it sizes the next call
  check_alive();
  if (num_bytes == 0) return "";
  at::Tensor bytes = host_bytes(is_root ? text : "", num_bytes);
  start({.kind = OpKind::kBroadcast, .tensor = bytes, .peer = root}, num_bytes).wait();
  bytes = bytes.cpu();  // sync: strings live on the host
  check_alive();
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()), static_cast<size_t>(num_bytes)};
}

}  // namespace lockstep::comm
