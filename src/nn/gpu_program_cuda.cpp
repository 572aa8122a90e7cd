#include "nn/gpu_program.h"

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "gpu_kernels_text.h"

namespace lockstep::nn::internal {
namespace {

constexpr const char* kHint = "LOCKSTEP_GPU_KERNELS=off, the same for all ranks, runs without own kernels, slower";

/// NVIDIA's compiler at run time, which LibTorch's wheel brings along; opened when it is needed.
class Nvrtc {
 public:
  static const Nvrtc& get() {
    static const Nvrtc nvrtc;
    return nvrtc;
  }

#define LOCKSTEP_NVRTC(name) decltype(&nvrtc##name) name = find<decltype(&nvrtc##name)>("nvrtc" #name)
  void* library = open();
  LOCKSTEP_NVRTC(GetErrorString);
  LOCKSTEP_NVRTC(GetNumSupportedArchs);
  LOCKSTEP_NVRTC(GetSupportedArchs);
  LOCKSTEP_NVRTC(CreateProgram);
  LOCKSTEP_NVRTC(DestroyProgram);
  LOCKSTEP_NVRTC(AddNameExpression);
  LOCKSTEP_NVRTC(CompileProgram);
  LOCKSTEP_NVRTC(GetProgramLogSize);
  LOCKSTEP_NVRTC(GetProgramLog);
  LOCKSTEP_NVRTC(GetLoweredName);
  LOCKSTEP_NVRTC(GetCUBINSize);
  LOCKSTEP_NVRTC(GetCUBIN);
  LOCKSTEP_NVRTC(GetPTXSize);
  LOCKSTEP_NVRTC(GetPTX);
#undef LOCKSTEP_NVRTC

  void check(nvrtcResult result, const char* what) const {
    if (result != NVRTC_SUCCESS)
      throw EnvironmentError(fmt::format("NVRTC: {}: {}", what, GetErrorString(result)), kHint);
  }

 private:
  Nvrtc() = default;

  /// It lies beside the CUDA runtime, where the wheel is as pip left it, or where the loader looks.
  static void* open() {
    Dl_info runtime{};
    std::string folder;
    if (::dladdr(reinterpret_cast<const void*>(&cudaRuntimeGetVersion), &runtime) != 0 && runtime.dli_fname != nullptr)
      folder = runtime.dli_fname;
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/') + 1);
    for (const std::string& name : {folder + "libnvrtc.so.13", std::string("libnvrtc.so.13")})
      if (void* found = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    throw EnvironmentError(
        fmt::format("libnvrtc.so.13, which compiles kernels for the GPU, cannot be opened: {}", ::dlerror()), kHint);
  }

  template <typename Function> Function find(const char* symbol) const {
    auto function = reinterpret_cast<Function>(::dlsym(library, symbol));
    if (function == nullptr) throw EnvironmentError(fmt::format("libnvrtc.so.13 has no {}", symbol), kHint);
    return function;
  }
};

struct Program {
  explicit Program(const Nvrtc& nvrtc) : api(nvrtc) {
    const std::string source(kGpuKernelsCu);
    api.check(api.CreateProgram(&handle, source.c_str(), "gpu_kernels.cu", 0, nullptr, nullptr), "a new program");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { api.DestroyProgram(&handle); }

  std::string log() const {
    size_t size = 0;
    if (api.GetProgramLogSize(handle, &size) != NVRTC_SUCCESS || size == 0) return "";
    std::string text(size, '\0');
    return api.GetProgramLog(handle, text.data()) == NVRTC_SUCCESS ? text.substr(0, size - 1) : "";
  }

  const Nvrtc& api;
  nvrtcProgram handle = nullptr;
};

/// The newest GPU that NVRTC knows and whose code runs on one of `capability`.
int known_capability(const Nvrtc& nvrtc, int capability) {
  int count = 0;
  nvrtc.check(nvrtc.GetNumSupportedArchs(&count), "the GPUs that it knows");
  std::vector<int> known(static_cast<size_t>(count));
  nvrtc.check(nvrtc.GetSupportedArchs(known.data()), "the GPUs that it knows");
  int best = 0;
  for (const int one : known)
    if (one <= capability) best = std::max(best, one);
  if (best == 0)
    throw EnvironmentError(fmt::format("NVRTC knows no GPU of compute capability {} or less", capability), kHint);
  return best;
}

std::mutex kernels_mutex;

}  // namespace

GpuCode compile_gpu_kernel(const std::string& instance, int capability) {
  const Nvrtc& nvrtc = Nvrtc::get();
  const int known = known_capability(nvrtc, capability);
  const bool is_exact = known == capability;
  Program program(nvrtc);
  nvrtc.check(nvrtc.AddNameExpression(program.handle, instance.c_str()), "the kernel's name");
  const std::string architecture =
      std::string("--gpu-architecture=") + (is_exact ? "sm_" : "compute_") + std::to_string(known);
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  if (const nvrtcResult result = nvrtc.CompileProgram(program.handle, 2, options); result != NVRTC_SUCCESS)
    throw EnvironmentError(fmt::format("gpu_kernels.cu: {} for compute capability {}: {}: {}", instance, capability,
                                       nvrtc.GetErrorString(result), program.log()),
                           kHint);
  GpuCode result;
  const char* symbol = nullptr;
  nvrtc.check(nvrtc.GetLoweredName(program.handle, instance.c_str(), &symbol), "the kernel's symbol");
  result.symbol = symbol;
  size_t size = 0;
  nvrtc.check((is_exact ? nvrtc.GetCUBINSize : nvrtc.GetPTXSize)(program.handle, &size), "the size of the code");
  result.code.resize(size);
  nvrtc.check((is_exact ? nvrtc.GetCUBIN : nvrtc.GetPTX)(program.handle, result.code.data()), "the code");
  return result;
}

bool wants_gpu_kernels(const std::string& word) {
  if (word == "auto" || word == "off") return word == "auto";
  throw UsageError(fmt::format("LOCKSTEP_GPU_KERNELS is '{}', neither auto nor off", word));
}

int gpu_capability() {
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  return properties->major * 10 + properties->minor;
}

KernelInstance& KernelInstance::argument(const char* word) {
  LOCKSTEP_CHECK(count_ < words_.size(), "more than {} arguments of {}", words_.size() - 1, words_[0]);
  words_[count_++] = word;
  return *this;
}

KernelInstance& KernelInstance::type(at::ScalarType type) {
  LOCKSTEP_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "a kernel for {}",
                 c10::toString(type));
  return argument(type == at::kFloat ? "float" : type == at::kHalf ? "Half" : "BFloat16");
}

KernelInstance& KernelInstance::type(const at::Tensor& x) { return type(x.scalar_type()); }

std::string KernelInstance::name() const {
  std::string text = words_[0];
  for (size_t i = 1; i < count_; ++i) text += (i == 1 ? '<' : ',') + std::string(words_[i]);
  return count_ > 1 ? text + ">" : text;
}

size_t KernelInstance::hash() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < count_; ++i) sum = (sum ^ reinterpret_cast<uintptr_t>(words_[i])) * 0x9e3779b97f4a7c15u;
  return sum ^ sum >> 32;
}

namespace {

void check(cudaError_t result, const char* what, const std::string& instance) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next call would report it
  throw EnvironmentError(fmt::format("the GPU kernel {} cannot be {}: {}", instance, what, cudaGetErrorString(result)),
                         kHint);
}

/// Slow, and once for a thread and kernel.
cudaKernel_t compiled_kernel(const std::string& instance) {
  // Never unloaded: the driver may be gone before the destructors of statics.
  static auto& kernels = *new std::map<std::pair<int, std::string>, cudaKernel_t>();
  const int capability = gpu_capability();
  const std::lock_guard lock(kernels_mutex);
  cudaKernel_t& kernel = kernels[{capability, instance}];
  if (kernel == nullptr) {
    const GpuCode compiled = compile_gpu_kernel(instance, capability);
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, compiled.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "loaded",
          instance);
    check(cudaLibraryGetKernel(&kernel, library, compiled.symbol.c_str()), "found", instance);
  }
  return kernel;
}

struct InstanceOnDevice {
  KernelInstance instance;
  c10::DeviceIndex device;
  bool operator==(const InstanceOnDevice&) const = default;
};

struct InstanceHash {
  size_t operator()(const InstanceOnDevice& key) const { return key.instance.hash() + static_cast<size_t>(key.device); }
};

}  // namespace

const void* gpu_kernel(const KernelInstance& instance) {
  thread_local std::unordered_map<InstanceOnDevice, cudaKernel_t, InstanceHash> found;
  cudaKernel_t& kernel = found[{instance, c10::cuda::current_device()}];
  if (kernel == nullptr) kernel = compiled_kernel(instance.name());
  return reinterpret_cast<const void*>(kernel);
}

void launch_with(const KernelInstance& instance, const GpuGrid& grid, void** parameters) {
  const cudaError_t result = cudaLaunchKernel(gpu_kernel(instance), grid.blocks, grid.threads, parameters,
                                              grid.shared_bytes, c10::cuda::getCurrentCUDAStream());
  if (result != cudaSuccess)
    check(result, "started",
          fmt::format("{} of {} x {} blocks of {} x {} threads", instance.name(), grid.blocks.x, grid.blocks.y,
                      grid.threads.x, grid.threads.y));
}

}  // namespace lockstep::nn::internal
