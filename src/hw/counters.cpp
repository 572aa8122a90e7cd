#include "hw/counters.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "hw/nvml.h"

namespace lockstep::hw {
namespace fs = std::filesystem;
namespace {

std::optional<double> number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? std::optional<double>(value) : std::nullopt;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Lines "  eth0: received packets errs drop fifo frame compressed multicast sent ..." after two lines of titles.
void read_interfaces(const fs::path& table, Counters& counters) {
  std::ifstream in(table);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.rfind(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(' ');
    const std::string name = line.substr(begin, colon - begin);
    std::istringstream fields(line.substr(colon + 1));
    double received = 0, skipped = 0, sent = 0;
    fields >> received;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    if (fields >> sent) counters.received_bytes[name] = received, counters.sent_bytes[name] = sent;
  }
}

void add_growth(const std::map<std::string, double>& before, const std::map<std::string, double>& after,
                std::map<std::string, double>& growth) {
  for (const auto& [name, value] : after) {
    const auto start = before.find(name);
    if (start != before.end() && value >= start->second) growth[name] = value - start->second;
  }
}

}  // namespace

CounterReader::CounterReader(fs::path proc, fs::path sys)
    : proc_(std::move(proc)), sys_(std::move(sys)), nvml_(Nvml::open()) {
  find_rapl_meters();
}

CounterReader::~CounterReader() = default;

void CounterReader::find_rapl_meters() {
  for (const auto& folder : entries_of(sys_ / "class/powercap")) {
    const std::string zone = folder.filename();
    const auto depth = std::count(zone.begin(), zone.end(), ':');
    std::string name = first_line(folder / "name");
    if (depth == 2 && name == "dram")
      name += "-" + zone.substr(zone.find(':') + 1,
                                zone.rfind(':') - zone.find(':') - 1);  // memory of a package, which does not count it
    else if (depth != 1)
      continue;  // the other parts of a package are counted in it
    if (number_in(folder / "energy_uj"))
      rapl_.push_back({.name = "rapl-" + name,
                       .file = folder / "energy_uj",
                       .range_j = number_in(folder / "max_energy_range_uj").value_or(0) / 1e6});
  }
}

void CounterReader::read_infiniband(Counters& counters) const {
  for (const auto& device : entries_of(sys_ / "class/infiniband"))
    for (const auto& port : entries_of(device / "ports")) {
      const std::string name = device.filename().string() + "/" + port.filename().string();
      const auto received = number_in(port / "counters/port_rcv_data"),
                 sent = number_in(port / "counters/port_xmit_data");
      if (received && sent)
        counters.received_bytes[name] = 4 * *received,
        counters.sent_bytes[name] = 4 * *sent;  // counted in words of 4 bytes
    }
}

Counters CounterReader::read() const {
  Counters counters;
  read_interfaces(proc_ / "self/net/dev", counters);
  read_infiniband(counters);
  for (const auto& meter : rapl_)
    if (const auto energy_uj = number_in(meter.file)) counters.energy_j[meter.name] = *energy_uj / 1e6;
  for (size_t i = 0; nvml_ && i < nvml_->num_devices(); ++i)
    if (const double energy_j = nvml_->energy_j(i); energy_j >= 0)
      counters.energy_j["nvml-" + std::to_string(i)] = energy_j;
  return counters;
}

Counters CounterReader::growth(const Counters& before, const Counters& after) const {
  Counters unwrapped = after;
  for (const auto& meter : rapl_) {
    const auto start = before.energy_j.find(meter.name);
    const auto end = unwrapped.energy_j.find(meter.name);
    if (start != before.energy_j.end() && end != unwrapped.energy_j.end() && end->second < start->second)
      end->second += meter.range_j;
  }
  Counters growth;
  add_growth(before.received_bytes, after.received_bytes, growth.received_bytes);
  add_growth(before.sent_bytes, after.sent_bytes, growth.sent_bytes);
  add_growth(before.energy_j, unwrapped.energy_j, growth.energy_j);
  return growth;
}

std::vector<std::string> CounterReader::gpu_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; nvml_ && i < nvml_->num_devices(); ++i)
    if (std::string name = nvml_->name(i); !name.empty()) names.push_back(std::move(name));
  return names;
}

}  // namespace lockstep::hw
