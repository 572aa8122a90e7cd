// An object of this makes any program work with simulated devices: LOCKSTEP_TEST_DEVICES of them,
// each with LOCKSTEP_TEST_DEVICE_BYTES. What the detector
// found is told at the end, which is then one with exit code 70.
#include <ATen/Context.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/accelerator/install.h"
#include "support/accelerator/runtime.h"

namespace lockstep::tests::accelerator {
namespace {

constexpr int kFoundMistakes = 70;

void tell_reports() {
  Runtime& runtime = Runtime::get();
  if (const auto touched = runtime.touched_devices(); touched.size() > 1)
    runtime.races().report("device: this process uses " + std::to_string(touched.size()) + " devices");
  const auto reports = runtime.races().take_reports();
  for (const auto& report : reports) fprintf(stderr, "simulated accelerator: %s\n", report.c_str());
  fprintf(stderr, "simulated accelerator: %zu mistakes, the host waited %ld times\n", reports.size(),
          static_cast<long>(runtime.num_host_waits()));
  const at::Context& context = at::globalContext();
  fprintf(stderr, "simulated accelerator: tf32 %d, cudnn tf32 %d, cudnn benchmark %d\n", context.allowTF32CuBLAS(),
          context.allowTF32CuDNN(), context.benchmarkCuDNN());
  if (!reports.empty()) _exit(kFoundMistakes);
}

__attribute__((constructor)) void start() {
  const char* count = std::getenv("LOCKSTEP_TEST_DEVICES");
  if (count == nullptr) return;
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  install(std::atoi(count));
  if (const char* bytes = std::getenv("LOCKSTEP_TEST_DEVICE_BYTES"))
    Runtime::get().set_bytes_of_a_device(std::strtoull(bytes, nullptr, 10));
  if (const char* bytes = std::getenv("LOCKSTEP_TEST_DEVICE_BYTES_TAKEN_LATER"))
    Runtime::get().set_bytes_taken_later(std::strtoull(bytes, nullptr, 10));
  at::globalContext();  // made before, so that it is still there in tell_reports
  std::atexit(&tell_reports);
}

}  // namespace
}  // namespace lockstep::tests::accelerator
