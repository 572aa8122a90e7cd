#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::hw {

class Nvml;

/// Readings of this machine's counters, or their growth over an interval.
struct Counters {
  std::map<std::string, double> received_bytes{},
      sent_bytes{};                          ///< By network interface; InfiniBand ports as "mlx5_0/1".
  std::map<std::string, double> energy_j{};  ///< By meter: "rapl-package-0", "nvml-0".
};

/// Reads network counters (/proc/self/net/dev: the interfaces of this network namespace; sysfs: InfiniBand) and energy
/// counters (sysfs: RAPL where this user may read it; NVML where a driver is installed). What is not there is left out.
class CounterReader {
 public:
  /// The roots are for tests.
  explicit CounterReader(std::filesystem::path proc = "/proc", std::filesystem::path sys = "/sys");
  ~CounterReader();
  CounterReader(const CounterReader&) = delete;
  CounterReader& operator=(const CounterReader&) = delete;

  Counters read() const;
  /// Growth from `before` to `after`; a meter that wrapped around is unwrapped, one that went back or is new is left
  /// out.
  Counters growth(const Counters& before, const Counters& after) const;
  /// Names of the GPUs as the driver gives them; empty without NVML.
  std::vector<std::string> gpu_names() const;

 private:
  struct Meter {
    std::string name;
    std::filesystem::path file;
    double range_j = 0;  // it wraps to 0 after this much
  };
  void find_rapl_meters();
  void read_infiniband(Counters& counters) const;

  std::filesystem::path proc_, sys_;
  std::vector<Meter> rapl_;
  std::unique_ptr<Nvml> nvml_;  // null without a driver
};

}  // namespace lockstep::hw
