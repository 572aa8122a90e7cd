#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"
#include "optim/optimizer.h"

namespace lockstep::parallel {

/// What this rank updates.
struct Partition {
  /// In the order of the parameters; decay groups and bounds are the caller's to fill in.
  std::vector<optim::Segment> segments{};
  comm::Comm* shards = nullptr;  ///< The axis whose ranks hold a part each; nullptr: every rank holds all.
};

/// Averages gradients over the data axis while backward is still running.
///
/// Per step: begin_step, then begin_micro + backward for each micro-batch, then finish, then the optimiser on
/// partition(), then publish_params. finish() orders the compute stream after the last collective; on CUDA it does not
/// block the host. Gradients are views into bucket memory (they keep the parameter's strides); never replace
/// param.grad(). With fp32 gradients of 16-bit parameters param.grad() is undefined outside backward: what counts lies
/// in the segments.
class GradSync {
 public:
  virtual ~GradSync() = default;
  /// Gradients become zero; waits for the parameters, but for those that wait_where_used() took over.
  virtual void begin_step() = 0;
  virtual void begin_micro(bool is_last) = 0;  ///< Only the last micro-batch's backward communicates.
  virtual void finish() = 0;  ///< The partition's gradients are the mean over the data axis afterwards.
  /// After the update, and after master copies were loaded: parameters take the values of their masters; zero1 begins
  /// to gather them.
  virtual void publish_params() = 0;
  virtual void wait_params() = 0;  ///< Before anybody reads parameters outside a step. Cheap when nothing is under way.
  /// From now on begin_step() does not wait for these parameters: whoever reads them calls the result before (see
  /// nn::Module::declare_unit), so that they are gathered while earlier layers run. finish() waits for those nobody
  /// read. Must not be called after the GradSync's end.
  virtual std::function<void()> wait_where_used(const std::vector<comm::NamedTensor>& parameters) = 0;
  virtual int64_t num_buckets() const = 0;

  const Partition& partition() const { return partition_; }

 protected:
  Partition partition_;
};

/// How 16-bit parameters are trained.
struct MasterOptions {
  /// The partition's segments of 16-bit parameters are fp32 copies; the parameters are those, rounded.
  bool has_masters = false;
  /// Gradients of 16-bit parameters are accumulated over micro-batches and reduced in fp32.
  bool fp32_gradients = false;
};

/// Each leaves out parameters that do not require a gradient.
/// "none": nothing is reduced and no buckets exist (gradients are released in begin_step); for one rank without master
/// copies.
std::unique_ptr<GradSync> make_grad_sync_none(std::vector<comm::NamedTensor> parameters);
/// "ddp": flat buckets of at most `bucket_bytes` of gradients, last parameter first, all-reduced while backward runs.
/// Built after parameters have their final values, type, device
/// and memory format; `data_axis` must outlive it. Within the last micro-batch each parameter must receive its gradient
/// in one backward pass. With master copies parameters move into flat memory, and every rank holds all masters.
std::unique_ptr<GradSync> make_grad_sync_ddp(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                             int64_t bucket_bytes, const MasterOptions& masters = {});
/// "zero1" (ZeRO stage 1, Rajbhandari et al. 2020): the same buckets, padded to equal shards; a bucket is
/// reduce-scattered, its rank's shard is updated, then all ranks gather the parameters, in place and into flat memory
/// that the parameters are views of. The result is that of ddp; moments and masters exist once over the axis. On one
/// rank the shard is the bucket.
std::unique_ptr<GradSync> make_grad_sync_zero1(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                               int64_t bucket_bytes, const MasterOptions& masters = {});

}  // namespace lockstep::parallel
