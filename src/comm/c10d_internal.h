#pragma once
// For the c10d units of this folder only: this header costs 8 s to compile.
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/backend.h"

namespace lockstep::comm {

/// A c10d backend (Gloo or NCCL) as our transport.
class C10dBackend final : public Backend {
 public:
  /// `abandon_on_failure`: an exception on its way through the destructor leaves the group as it is (GlooOptions).
  C10dBackend(c10::intrusive_ptr<c10d::Backend> backend, at::Device device, bool abandon_on_failure);
  ~C10dBackend() override;
  std::function<void()> start(Call call) override;
  std::vector<std::function<void()>> start_together(std::vector<Call> calls) override;  ///< NCCL: as one group.
  void abort() override;              ///< Of a device's collectives; Gloo cannot call off what is under way.
  std::string find_error() override;  ///< Of a device's collectives: what c10d's watchdog has found.

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  bool abandon_on_failure_;
  int exceptions_at_start_;
};

/// Blocks until the work is done; now and then calls `give_up_check`, which throws when there is a reason to give up.
/// Throws the work's own error. For work whose wait may time out without harm: not Gloo's send and receive.
void wait_and_look_around(c10d::Work& work, const std::function<void()>& give_up_check);

}  // namespace lockstep::comm
