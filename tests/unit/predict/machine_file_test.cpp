// Systems of the table and of users' files: what is taken, what is refused and how it is said.
#include "predict/machine_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "draw/render.h"

namespace lockstep::predict {
namespace {

constexpr const char* kGood =
    "name = \"mine\"\ndevice = \"H100 SXM 80GB\"\ndevices-per-node = 4\nnum-nics = 4\nnic-gbits-per-s = 200\n"
    "fabric = \"fat tree\"\nsource = \"site page\"\n";

std::string refusal(const std::string& text) {
  try {
    parse_machine(text, "mine.toml");
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

void expect_refused(const std::string& text, const std::vector<std::string>& words) {
  const std::string said = refusal(text);
  for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << word << " in:\n" << said;
}

TEST(MachineFile, TakesTheDeviceOfTheTableAndTheFilesNumbers) {
  const Machine machine = parse_machine(kGood, "mine.toml");
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.devices_per_node, 4);
  EXPECT_DOUBLE_EQ(machine.node_gbytes_per_s.value, 100);
  EXPECT_EQ(machine.node_gbytes_per_s.source, "mine.toml (site page)");
  EXPECT_DOUBLE_EQ(machine.memory_gbytes.value, 80);
  EXPECT_EQ(machine.peak_tflops(hw::ComputeType::kBf16), 989);
  EXPECT_DOUBLE_EQ(machine.network_efficiency.value, 0.9);
}

TEST(MachineFile, ADeviceOutsideTheTableNeedsMemoryAndAPeak) {
  const std::string base = "devices-per-node = 8\nnode-gbytes-per-s = 200\n";
  expect_refused(base, {"memory-gbytes", "peak-bf16-tflops"});
  const Machine machine = parse_machine(base + "memory-gbytes = 96\npeak-bf16-tflops = 500\n", "mine.toml");
  EXPECT_EQ(machine.peak_tflops(hw::ComputeType::kBf16), 500);
  EXPECT_EQ(machine.peak_tflops(hw::ComputeType::kFp8), std::nullopt);
  EXPECT_TRUE(machine.device.empty());
}

TEST(MachineFile, MissingContradictingAndMixedUnitsAreSaid) {
  expect_refused("name = \"x\"\n", {"devices-per-node", "node-gbytes-per-s", "peak"});
  expect_refused(std::string(kGood) + "node-gbytes-per-s = 800\n", {"800", "100 GB/s", "Gbit/s"});
  expect_refused(std::string(kGood) + "node-gbytes-per-s = 60\n", {"60", "100 GB/s"});
  expect_refused(std::string(kGood) + "memory-gbytes = 40\n", {"memory-gbytes", "80"});
  expect_refused(std::string(kGood) + "peak-bf16-tflops = 1979\n", {"1979", "sparsity"});
  expect_refused(std::string(kGood) + "network-efficiency = 90\n", {"mine.toml:8", "90"});
  expect_refused(std::string(kGood) + "devices-per-nod = 4\n", {"mine.toml:8", "devices-per-node"});
  expect_refused("device = \"H999\"\n", {"H999"});
  expect_refused("num-nics = 4\ndevices-per-node = 4\ndevice = \"H200\"\n", {"nic-gbits-per-s"});
  expect_refused("devices-per-node = \"four\"\n", {"mine.toml:1"});
}

/// System files have neither flags nor a command whose help lists their keys.
TEST(MachineFile, HintsAreThoseOfSystemFiles) {
  for (const std::string& text :
       {std::string(kGood) + "nam = \"x\"\n", std::string(kGood) + "nam = 1\nnetwork = 2\ngroup-nodes = 0\n",
        std::string(kGood) + "num-nodes = = 3\n", std::string(kGood) + "network-efficiency = 90\n"}) {
    const std::string said = refusal(text);
    EXPECT_EQ(said.find("--"), std::string::npos) << said;
    EXPECT_EQ(said.find("recipe"), std::string::npos) << said;
  }
  expect_refused(std::string(kGood) + "nam = \"x\"\n", {"did you mean name? docs/predict.md lists the keys"});
  expect_refused(std::string(kGood) + "nam = 1\nnetwork = 2\n", {"did you mean name? docs/predict.md", "mine.toml:9"});
  expect_refused(std::string(kGood) + "num-nodes = = 3\n", {"mine.toml:8", "devices-per-node = 4", "docs/predict.md"});
  try {
    find_machine("no_such_system.toml");
    FAIL() << "a missing file was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(error.text().find("'no_such_system.toml' does not exist"), std::string::npos) << error.text();
    EXPECT_NE(error.hint().find("docs/predict.md"), std::string::npos) << error.hint();
  }
}

TEST(MachineFile, NumbersThatCannotBeAreRefused) {
  const std::string good = kGood;
  expect_refused(good + "num-nodes = 16\ngroup-nodes = 17\n", {"group-nodes is 17", "num-nodes = 16"});
  expect_refused(good + "network-efficiency = 0.5\nnetwork-efficiency-sd = 0.6\n",
                 {"0.6", "network-efficiency of 0.5"});
  expect_refused(good + "network-efficiency-sd = 0.95\n", {"0.95", "network-efficiency of 0.9"});
  expect_refused(good + "link-gbytes-per-s = 900\n", {"link-gbytes-per-s is 900", "has 450", "one direction"});
  expect_refused(good + "memory-tbytes-per-s = 33.5\n", {"memory-tbytes-per-s is 33.5", "H100"});
  expect_refused(good + "link-gbytes-per-s = 900\ngroup-nodes = 9\nnum-nodes = 8\n", {"2 things", "900", "9"});
  EXPECT_EQ(refusal(good + "num-nodes = 16\ngroup-nodes = 16\nlink-gbytes-per-s = 500\nmemory-tbytes-per-s = 3\n"
                           "network-efficiency = 0.1\n"),
            "");
}

TEST(MachineFile, ADoubtIsAShareOfTheEfficiencyThatIsGiven) {
  const auto machine = [](const std::string& more) {
    return parse_machine(
        "devices-per-node = 4\nmemory-gbytes = 80\nnode-gbytes-per-s = 100\npeak-bf16-tflops = 900\n" + more,
        "mine.toml");
  };
  const Machine usual = machine(""), slow = machine("network-efficiency = 0.001\n");
  EXPECT_NEAR(slow.network_efficiency_sd.value / slow.network_efficiency.value,
              usual.network_efficiency_sd.value / usual.network_efficiency.value, 1e-12);
  const double of_fat_tree = machine("fabric = \"fat tree\"\n").network_efficiency.value;
  EXPECT_NE(of_fat_tree, usual.network_efficiency.value);
  for (const char* name : {"fat-tree", "fattree", "InfiniBand NDR Fat-Tree"})
    EXPECT_EQ(machine(std::string("fabric = \"") + name + "\"\n").network_efficiency.value, of_fat_tree) << name;
}

TEST(MachineFile, NumbersThatAreProbablySlipsAreRemarkedOn) {
  const auto remarks = [](const std::string& more) {
    const Machine machine = parse_machine("devices-per-node = 4\nmemory-gbytes = 80\n" + more, "mine.toml");
    return core::join(machine.remarks, "\n");
  };
  EXPECT_EQ(remarks("node-gbytes-per-s = 400\npeak-fp32-tflops = 60\npeak-bf16-tflops = 900\n"), "");
  EXPECT_NE(remarks("node-gbytes-per-s = 1600\npeak-bf16-tflops = 900\n").find("400 a device"), std::string::npos);
  const std::string swapped = "node-gbytes-per-s = 100\npeak-fp32-tflops = 900\npeak-bf16-tflops = 60\n";
  EXPECT_NE(remarks(swapped).find("bf16 (60 TFLOP/s) is below that of fp32 (900)"), std::string::npos);
  EXPECT_NE(remarks("node-gbytes-per-s = 100\npeak-bf16-tflops = 900\npeak-fp8-tflops = 450\n").find("fp8 (450"),
            std::string::npos);
  EXPECT_EQ(remarks(swapped + "devices-at-a-time = 8\n"), "") << "a processor's, as measured";
}

TEST(MachineFile, NumbersFarBelowThoseOfTheDeviceAreRemarkedOn) {
  const auto remarks = [](const std::string& more) {
    const Machine machine = parse_machine("devices-per-node = 8\n" + more, "mine.toml");
    return core::join(machine.remarks, "\n");
  };
  const std::string board = "device = \"H100 SXM 80GB\"\n", cards = "num-nics = 8\nnic-gbits-per-s = 400\n";
  const std::string of_table = remarks(board + cards);
  EXPECT_EQ(remarks(board + cards + "link-gbytes-per-s = 200\nnode-watts = 7000\n"), of_table);
  EXPECT_EQ(remarks(board + "num-nics = 8\nnic-gbits-per-s = 100\n"), of_table) << "what clouds give";
  EXPECT_NE(remarks(board + cards + "link-gbytes-per-s = 0.001\n").find("have 450: is it in another unit"),
            std::string::npos);
  EXPECT_NE(remarks(board + "num-nics = 8\nnic-gbits-per-s = 50\n").find("6.25 a device"), std::string::npos);
  EXPECT_NE(remarks(board + cards + "node-watts = 10.2\n").find("is it in kW"), std::string::npos);
  const std::string other = remarks("device = \"H100X\"\n" + cards);
  EXPECT_NE(other.find("\"H100X\" is not in the table: it is taken as H100 SXM 80GB"), std::string::npos) << other;
  EXPECT_EQ(remarks("device = \"NVIDIA H100 80GB HBM3\"\n" + cards), of_table);
}

// Devices that take turns are slower by their number: more is refused, but for what other work may have added.
TEST(MachineFile, ContentionsBeyondTurnsAreRefused) {
  const std::string cores =
      "devices-per-node = 1\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 0.1\n"
      "devices-at-a-time = 2\n";
  for (const std::string key : {"product-contention", "memory-contention"}) {
    expect_refused(cores + key + " = 4\n", {key + " is 4", "2 devices compute at a time", "even turns"});
    expect_refused(std::string(kGood) + key + " = 9\n", {key + " is 9", "devices compute at a time"});
    expect_refused(
        "devices-per-node = 1\nnode-gbytes-per-s = 2\nmemory-gbytes = 12\npeak-fp32-tflops = 1\n" + key + " = 1.2\n",
        {key + " is 1.2", "one device computes at a time"});
    const Machine measured = parse_machine(cores + key + " = 2.1\n", "mine.toml");
    EXPECT_NE(core::join(measured.remarks, " ").find(key + " is 2.1, more than 2 devices"), std::string::npos);
    EXPECT_TRUE(parse_machine(cores + key + " = 1.9\n", "mine.toml").remarks.empty());
  }
}

TEST(MachineFile, SlipsInsideANodeAreRemarkedOn) {
  const std::string good =
      "device = \"H100 SXM 80GB\"\ndevices-per-node = 8\nnode-gbytes-per-s = 400\nfabric = \"fat tree\"\n";
  const auto remarks = [&](const std::string& more) {
    return core::join(parse_machine(good + more, "mine.toml").remarks, " ");
  };
  EXPECT_EQ(remarks("link-latency-us = 12\nmemory-tbytes-per-s = 2.9\ndevices-at-a-time = 8\n"), remarks(""));
  EXPECT_NE(remarks("memory-tbytes-per-s = 0.00335\n").find("memory-tbytes-per-s is 0.00335, the memory of a H100"),
            std::string::npos);
  EXPECT_NE(remarks("link-latency-us = 500000\n").find("inside a node would take 500 ms"), std::string::npos);
  EXPECT_NE(remarks("devices-at-a-time = 1\n").find("devices-at-a-time is 1, a node has 8 devices"), std::string::npos);
}

TEST(MachineFile, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  expect_refused(key + " = 1\n", {"mine.toml:1", "more than 64 parts"});
  expect_refused("[" + key + "]\n", {"mine.toml:1", "more than 64 parts"});
}

TEST(MachineFile, SeveralContradictionsAreToldAtOnce) {
  expect_refused(std::string(kGood) + "node-gbytes-per-s = 60\nmemory-gbytes = 40\n",
                 {"node-gbytes-per-s", "memory-gbytes"});
}

TEST(MachineFile, DamagedFilesNeverDoMoreThanThrow) {
  core::CounterRng rng(3);
  int num_taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = kGood;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
      const size_t at = rng.below(text.size());
      if (rng.below(2) == 0)
        text[at] = static_cast<char>(rng.below(256));
      else
        text.erase(at, 1 + rng.below(9));
      if (text.empty()) text = "\n";
    }
    try {
      parse_machine(text, "mine.toml");
      ++num_taken;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(num_taken, 0);
  EXPECT_LT(num_taken, 3000);
}

// The source of a peak is none of the links and of the memory.
TEST(Machines, NumbersOfADeviceNameTheTableAndPeaksTheirOwnSource) {
  const core::Json json = machine_json(find_machine("leonardo"));
  for (const char* number : {"link_gbytes_per_s", "memory_gbytes", "memory_tbytes_per_s"})
    EXPECT_EQ(json.at(number).at("source").get<std::string>().rfind("table of devices, ", 0), 0u) << number;
  EXPECT_NE(json.at("peak_source").get<std::string>().find("124/108"), std::string::npos);
}

TEST(Machines, EveryRowOfTheTableIsComplete) {
  for (const hw::SystemSpec& system : hw::system_specs()) {
    const Machine machine = machine_of(system);
    EXPECT_GT(machine.node_gbytes_per_s.value, 0) << machine.name;
    EXPECT_GT(machine.memory_tbytes_per_s.value, 0) << machine.name;
    EXPECT_GT(machine.node_watts.value, hw::device_of(system).is_processor ? 500 : 1000) << machine.name;
    EXPECT_FALSE(machine.peaks.empty()) << machine.name;
    EXPECT_FALSE(machine.network_efficiency.source.empty()) << machine.name;
    EXPECT_EQ(find_machine(machine.name).name, machine.name);
  }
  EXPECT_THROW(find_machine("jupitre"), UsageError);
}

// 680 W of a module, not the 900 W that its board may draw elsewhere.
TEST(Machine, ThePowerOfASystemHasOneSource) {
  const Machine jupiter = find_machine("jupiter"), alps = find_machine("alps");
  EXPECT_DOUBLE_EQ(jupiter.node_watts.value, alps.node_watts.value - 0.8 * 4 * (900 - 680));
  EXPECT_NE(jupiter.node_watts.source.find("680 W"), std::string::npos) << jupiter.node_watts.source;
  EXPECT_NE(core::join(jupiter.remarks, " ").find("680 W a module"), std::string::npos);
  EXPECT_EQ(core::join(alps.remarks, " ").find("680"), std::string::npos) << "another system's limit";
  const std::string systems = draw::to_text(machines_table());
  EXPECT_NE(systems.find("W a"), std::string::npos) << systems;
  EXPECT_NE(systems.find(fmt::format("{:.0f}", jupiter.node_watts.value)), std::string::npos) << systems;
}

}  // namespace
}  // namespace lockstep::predict
