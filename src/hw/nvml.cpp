#include "hw/nvml.h"

#include <dlfcn.h>

namespace lockstep::hw {

template <typename Function> bool Nvml::find(const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library_, symbol));
  return function != nullptr;
}

/// False: a driver without what the counters need. The rest is asked only where it is there.
bool Nvml::find_all() {
  find("nvmlErrorString", describe_);
  find("nvmlDeviceGetUUID", uuid_);
  find("nvmlDeviceGetComputeMode", compute_mode_);
  find("nvmlDeviceGetCudaComputeCapability", capability_);
  find("nvmlDeviceGetMigMode", mig_mode_);
  find("nvmlDeviceGetMaxMigDeviceCount", most_mig_parts_);
  find("nvmlDeviceGetMigDeviceHandleByIndex", mig_part_);
  find("nvmlSystemGetDriverVersion", driver_version_);
  find("nvmlSystemGetCudaDriverVersion_v2", cuda_version_);
  return find("nvmlInit_v2", init_) && find("nvmlShutdown", shutdown_) && find("nvmlDeviceGetCount_v2", count_) &&
         find("nvmlDeviceGetHandleByIndex_v2", handle_) && find("nvmlDeviceGetTotalEnergyConsumption", energy_mj_) &&
         find("nvmlDeviceGetName", name_);
}

std::unique_ptr<Nvml> Nvml::open(std::string* problem) {
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml->library_ == nullptr || !nvml->find_all()) return nullptr;
  const int failure = nvml->init_();
  nvml->is_open_ = failure == 0;
  unsigned num_devices = 0;
  if (failure != 0 || nvml->count_(&num_devices) != 0) {
    if (problem != nullptr && failure != 0)
      *problem = nvml->describe_ != nullptr ? nvml->describe_(failure) : "NVML error " + std::to_string(failure);
    return nullptr;
  }
  for (unsigned i = 0; i < num_devices; ++i) {
    Device device = nullptr;
    if (nvml->handle_(i, &device) == 0) nvml->devices_.push_back(device);
  }
  return nvml;
}

Nvml::~Nvml() {
  if (is_open_) shutdown_();
  if (library_ != nullptr) ::dlclose(library_);
}

std::string Nvml::text(Text function, size_t device) const {
  char text[128] = "";
  return function != nullptr && function(devices_.at(device), text, sizeof text) == 0 ? std::string(text) : "";
}

double Nvml::energy_j(size_t device) const {
  unsigned long long energy_mj = 0;
  return energy_mj_(devices_.at(device), &energy_mj) == 0 ? static_cast<double>(energy_mj) / 1e3 : -1;
}

double Nvml::compute_capability(size_t device) const {
  int major = 0, minor = 0;
  const bool is_known = capability_ != nullptr && capability_(devices_.at(device), &major, &minor) == 0;
  return is_known ? major + minor / 10.0 : 0;
}

int Nvml::compute_mode(size_t device) const {
  int mode = 0;
  return compute_mode_ != nullptr && compute_mode_(devices_.at(device), &mode) == 0 ? mode : -1;
}

int Nvml::num_mig_parts(size_t device) const {
  unsigned now = 0, pending = 0, most = 0;
  if (mig_mode_ == nullptr || mig_mode_(devices_.at(device), &now, &pending) != 0 || now == 0) return -1;
  int count = 0;
  if (most_mig_parts_ == nullptr || mig_part_ == nullptr || most_mig_parts_(devices_.at(device), &most) != 0) return 0;
  for (unsigned i = 0; i < most; ++i) {
    Device part = nullptr;
    count += mig_part_(devices_.at(device), i, &part) == 0;
  }
  return count;
}

std::string Nvml::driver_version() const {
  char version[96] = "";
  return driver_version_ != nullptr && driver_version_(version, sizeof version) == 0 ? std::string(version) : "";
}

int Nvml::cuda_version() const {
  int version = 0;
  return cuda_version_ != nullptr && cuda_version_(&version) == 0 ? version : -1;
}

}  // namespace lockstep::hw
