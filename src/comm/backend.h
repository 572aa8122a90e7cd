#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/reduce_op.h"

namespace lockstep::comm {

enum class OpKind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kSend, kReceive, kBarrier };
inline constexpr int kNumOpKinds = 8;

std::string_view op_name(OpKind kind);      ///< "all_reduce", ...
std::string_view reduce_name(ReduceOp op);  ///< "sum", ...

/// One collective or transfer as a transport sees it. Tensors are flat (one dimension, stride 1), without gradient, not
/// empty, and of a type that every transport moves: reductions have a numeric type, other calls may have been turned
/// into bytes.
struct Call {
  OpKind kind = OpKind::kAllReduce;
  at::Tensor tensor{};  ///< Reduced or broadcast in place, sent, received, or the output of a gather, a scatter or an
                        ///< exchange.
  at::Tensor input{};   ///< Of a gather, a scatter or an exchange; else undefined.
  ReduceOp op = ReduceOp::kSum;
  int peer = -1;                          ///< Root, destination or source, as rank of the group.
  std::function<void()> give_up_check{};  ///< Where set: called now and then while the host waits; throws to give up.
  std::vector<int64_t> layout{};  ///< Strides of the caller's tensor where it is dense but not row-major; else empty.
};

/// "all_reduce(sum) of 1024 x Float": what ranks must agree on, for messages.
std::string describe(const Call& call);

/// One transport of one group of two or more ranks.
class Backend {
 public:
  Backend(int rank, int size, at::Device device) : rank_(rank), size_(size), device_(device) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  at::Device device() const { return device_; }  ///< Where tensors must lie.

  /// Starts a call and returns what waits for it, with the meaning of Work::wait(). Both may throw any std::exception;
  /// the wait function may be called again after a success. All ranks start the same calls in the same order.
  virtual std::function<void()> start(Call call) = 0;

  /// Starts transfers that must not wait for one another, and returns what waits for each. By start(), one after the
  /// other, where a transport's transfers never do.
  virtual std::vector<std::function<void()>> start_together(std::vector<Call> calls) {
    std::vector<std::function<void()>> waits;
    for (Call& call : calls) waits.push_back(start(std::move(call)));
    return waits;
  }

  /// Another rank has failed: device work that waits for it ends at once, with undefined results; later calls throw.
  /// Any thread may call it, at any time. What the host itself waits in is left to Call::give_up_check.
  virtual void abort() {}

  /// What is wrong with device work that the host does not wait for: it takes longer than its time limit, or the
  /// transport has noticed an error. "" where nothing is. Any thread may ask.
  virtual std::string find_error() { return ""; }

 private:
  int rank_;
  int size_;
  at::Device device_;
};

}  // namespace lockstep::comm
