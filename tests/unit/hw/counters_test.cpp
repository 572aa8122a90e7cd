#include "hw/counters.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"

namespace lockstep::hw {
namespace {
namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void write_machine(const fs::path& root, int received, int words, int energy_uj) {
  write(root / "proc/self/net/dev",
        "Inter-|   Receive                      |  Transmit\n face |bytes    packets errs drop fifo frame compressed "
        "multicast|bytes\n"
        "    lo:      10       1    0    0    0     0          0         0      10       1    0    0    0     0       "
        "0          0\n"
        "  ib0:" +
            std::to_string(received) +
            "       2    0    0    0     0          0         0      70       1    0    0    0     0       0          "
            "0\n");
  write(root / "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", std::to_string(words));
  write(root / "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "5");
  write(root / "sys/class/powercap/intel-rapl:0/name", "package-0\n");
  write(root / "sys/class/powercap/intel-rapl:0/energy_uj", std::to_string(energy_uj));
  write(root / "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "10000000");
  write(root / "sys/class/powercap/intel-rapl:0:0/name", "core\n");
  write(root / "sys/class/powercap/intel-rapl:0:0/energy_uj", "1");
  write(root / "sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  write(root / "sys/class/powercap/intel-rapl:0:1/energy_uj", "500000");
}

TEST(Counters, ReadsInterfacesPortsAndMeters) {
  const core::TempDir folder;
  write_machine(folder.path(), 1000, 100, 2000000);
  const CounterReader reader(folder.path() / "proc", folder.path() / "sys");
  const Counters counters = reader.read();
  EXPECT_EQ(counters.received_bytes.at("ib0"), 1000);
  EXPECT_EQ(counters.sent_bytes.at("ib0"), 70);
  EXPECT_EQ(counters.received_bytes.at("mlx5_0/1"), 400);  // words of 4 bytes
  EXPECT_DOUBLE_EQ(counters.energy_j.at("rapl-package-0"), 2);
  EXPECT_DOUBLE_EQ(counters.energy_j.at("rapl-dram-0"), 0.5) << "the package does not count it";
  EXPECT_FALSE(counters.energy_j.contains("rapl-core"));  // part of the package
}

TEST(Counters, GrowthUnwrapsMetersAndDropsWhatWentBack) {
  const core::TempDir folder;
  write_machine(folder.path(), 1000, 100, 9000000);
  const CounterReader reader(folder.path() / "proc", folder.path() / "sys");
  const Counters before = reader.read();
  write_machine(folder.path(), 900, 150, 1000000);  // the interface was reset, the meter wrapped at 10 J
  const Counters growth = reader.growth(before, reader.read());
  EXPECT_FALSE(growth.received_bytes.contains("ib0"));
  EXPECT_EQ(growth.received_bytes.at("lo"), 0);
  EXPECT_EQ(growth.received_bytes.at("mlx5_0/1"), 200);
  EXPECT_DOUBLE_EQ(growth.energy_j.at("rapl-package-0"), 2);
}

TEST(Counters, MissingFilesGiveNothing) {
  const core::TempDir folder;
  const CounterReader reader(folder.path() / "proc", folder.path() / "sys");
  EXPECT_TRUE(reader.read().received_bytes.empty());
}

TEST(Counters, SeesThisMachine) {
  const CounterReader reader;
  EXPECT_FALSE(reader.read().received_bytes.empty());  // at least lo
}

}  // namespace
}  // namespace lockstep::hw
