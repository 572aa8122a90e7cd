// Takes the place of src/comm/backend_nccl_cuda.cpp in programs that are linked with it.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <exception>
#include <stdexcept>

#include "comm/backend_gloo.h"
#include "comm/backend_nccl.h"
#include "comm/store_internal.h"
#include "support/accelerator/stream_backend.h"

namespace lockstep::comm {
namespace {

/// By which c10d's watchdog of a rank that saw a failure tells all processes of the job. It is written past prefixes,
/// and each process that finds it ends after some minutes.
constexpr const char* kSignal = "exception_dump";

c10::intrusive_ptr<c10d::Store> store_without_prefixes(const Store& store) {
  auto* with_prefix = dynamic_cast<c10d::PrefixStore*>(store.impl().store.get());
  return with_prefix == nullptr ? store.impl().store : with_prefix->getUnderlyingNonPrefixStore();
}

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(const Store& store, int rank, int size, const NcclOptions& options) {
  const auto job_store = store_without_prefixes(store);
  if (job_store->check({kSignal})) throw std::runtime_error("c10d would end this process: a rank has seen a failure");
  const auto tell_job = [job_store] {
    try {
      job_store->set(kSignal, std::vector<uint8_t>{1});
    } catch (const std::exception&) {  // the store went before
    }
  };
  return tests::accelerator::make_stream_backend(
      make_gloo_backend(store, rank, size, {.timeout = options.timeout, .abandon_on_failure = true}),
      options.device_index, {.name = options.group_name, .timeout = options.timeout, .on_abort = tell_job});
}

}  // namespace lockstep::comm
