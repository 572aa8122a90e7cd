#pragma once
#include <memory>
#include <string>
#include <vector>

namespace lockstep::hw {

/// The few functions of NVIDIA's management library that are needed, found at run time. It answers also where CUDA does
/// not: it belongs to the driver.
class Nvml {
 public:
  /// nullptr: no driver, or one that does not answer; `problem`, where given, then says why ("" without a library).
  static std::unique_ptr<Nvml> open(std::string* problem = nullptr);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  size_t num_devices() const { return devices_.size(); }
  /// As long as what is asked is not known: "", -1.
  std::string name(size_t device) const { return text(name_, device); }
  std::string uuid(size_t device) const { return text(uuid_, device); }  ///< "GPU-5f0c..."
  double energy_j(size_t device) const;                                  ///< Since the driver was loaded.
  double compute_capability(size_t device) const;                        ///< 9.0 of an H100; 0: not known.
  int compute_mode(size_t device) const;   ///< 0 default, 2 prohibited, 3 one process at a time.
  int num_mig_parts(size_t device) const;  ///< -1: the GPU is not cut into parts (MIG is off).
  std::string driver_version() const;      ///< "535.104.05"
  int cuda_version() const;                ///< The newest CUDA that the driver serves: 12020 is 12.2.

 private:
  using Device = void*;
  using Text = int (*)(Device, char*, unsigned);
  Nvml() = default;
  template <typename Function> bool find(const char* symbol, Function& function);
  bool find_all();
  std::string text(Text function, size_t device) const;

  void* library_ = nullptr;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  const char* (*describe_)(int) = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, Device*) = nullptr;
  int (*energy_mj_)(Device, unsigned long long*) = nullptr;
  Text name_ = nullptr, uuid_ = nullptr;
  int (*compute_mode_)(Device, int*) = nullptr;
  int (*capability_)(Device, int*, int*) = nullptr;
  int (*mig_mode_)(Device, unsigned*, unsigned*) = nullptr;
  int (*most_mig_parts_)(Device, unsigned*) = nullptr;
  int (*mig_part_)(Device, unsigned, Device*) = nullptr;
  int (*driver_version_)(char*, unsigned) = nullptr;
  int (*cuda_version_)(int*) = nullptr;
  bool is_open_ = false;
  std::vector<Device> devices_;
};

}  // namespace lockstep::hw
