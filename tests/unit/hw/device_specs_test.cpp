#include "hw/device_specs.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::hw {
namespace {

using enum ComputeType;

TEST(DeviceSpecs, NamesAsDriversPrintThem) {
  struct Case {
    const char* printed;
    std::optional<double> memory_gib;
    const char* expected;
  };
  for (const Case& c : {Case{"NVIDIA A100-SXM4-40GB", 39.4, "A100 SXM 40GB"},
                        Case{"NVIDIA A100-SXM4-80GB", 79.1, "A100 SXM 80GB"},
                        Case{"NVIDIA A100-SXM-64GB", 63.4, "A100 SXM 64GB"},
                        Case{"NVIDIA A100-PCIE-40GB", 39.4, "A100 PCIe 40GB"},
                        Case{"NVIDIA A100 80GB PCIe", 79.2, "A100 PCIe 80GB"},
                        Case{"NVIDIA H100 80GB HBM3", 79.1, "H100 SXM 80GB"},
                        Case{"NVIDIA H100 PCIe", 79.1, "H100 PCIe 80GB"},
                        Case{"NVIDIA H100 NVL", 93.1, "H100 NVL 94GB"},
                        Case{"NVIDIA H100", 63.4, "H100 SXM 64GB"},
                        Case{"NVIDIA H200", 139.8, "H200"},
                        Case{"NVIDIA L40S", 44.5, "L40S"},
                        Case{"NVIDIA GH200 120GB", 94.5, "GH200 96GB"},
                        Case{"NVIDIA GH200 480GB", std::nullopt, "GH200 96GB"},
                        Case{"NVIDIA B200", 178.4, "B200"},
                        Case{"NVIDIA GB200", 184, "GB200"},
                        Case{"NVIDIA GB300", 277, "GB300"},
                        Case{"Tesla P100-SXM2-16GB", 15.9, "P100 SXM2 16GB"},
                        Case{"Tesla V100-SXM2-16GB", 15.8, "V100 SXM2 16GB"},
                        Case{"Tesla V100-SXM2-32GB", 31.7, "V100 SXM2 32GB"},
                        Case{"AMD Instinct MI250X", 64, "MI250X GCD"},
                        Case{"AMD Instinct MI300X", 191.5, "MI300X"}}) {
    const DeviceMatch match = find_device(c.printed, c.memory_gib);
    ASSERT_NE(match.spec, nullptr) << c.printed;
    EXPECT_EQ(match.spec->name, c.expected) << c.printed;
  }
  EXPECT_EQ(find_device("NVIDIA GeForce RTX 4090").spec, nullptr);
  EXPECT_EQ(find_device("cpu").spec, nullptr);
  EXPECT_EQ(find_device("").spec, nullptr);
}

TEST(DeviceSpecs, ANodeOfProcessorsIsADevice) {
  const SystemSpec* lumi_c = find_system("LUMI-C");
  ASSERT_NE(lumi_c, nullptr);
  const DeviceSpec& node = device_of(*lumi_c);
  EXPECT_TRUE(node.is_processor);
  EXPECT_NEAR(*peak_tflops(node, kFp32), 2 * 64 * 2.45e9 * 32 / 1e12, 0.05);
  EXPECT_NEAR(*node.memory_tbytes_per_s, 2 * 8 * 3.2e9 * 8 / 1e12, 1e-9);
  EXPECT_FALSE(peak_tflops(node, kBf16));
  EXPECT_EQ(find_device("AMD EPYC 7763 64-Core Processor").spec, nullptr) << "one socket is not this node";
  EXPECT_EQ(find_system("lumi")->name, "LUMI-G");
}

TEST(DeviceSpecs, DoubtfulMatchesSaySo) {
  EXPECT_EQ(find_device("NVIDIA H100 80GB HBM3", 79.1).warning, "");
  EXPECT_NE(find_device("NVIDIA H100", 63.4).warning.find("because of its 63 GiB"), std::string::npos);
  EXPECT_NE(find_device("NVIDIA A100-SXM-64GB").warning.find("not certain"), std::string::npos);
  EXPECT_NE(find_device("NVIDIA H200", 44).warning.find("none of the boards"), std::string::npos) << "a slice of a GPU";
}

TEST(DeviceSpecs, DensePeaksAndTheirTraps) {
  const DeviceSpec& h100 = *find_device("NVIDIA H100 80GB HBM3").spec;
  EXPECT_EQ(peak_tflops(h100, kBf16), 989);
  EXPECT_EQ(peak_tflops(h100, kFp8), 1979);
  EXPECT_EQ(explain_peak_mismatch(h100, kBf16, 989.5), "");
  EXPECT_NE(explain_peak_mismatch(h100, kBf16, 1979).find("with sparsity, or that of fp8"), std::string::npos);
  EXPECT_NE(explain_peak_mismatch(h100, kFp8, 3958).find("with sparsity"), std::string::npos);
  EXPECT_NE(explain_peak_mismatch(h100, kFp8, 989).find("that of fp16 and bf16"), std::string::npos);
  EXPECT_EQ(explain_peak_mismatch(h100, kBf16, 312), "312 TFLOP/s is not the dense bf16 peak of H100 SXM 80GB (989)");
  const DeviceSpec& gcd = *find_device("AMD Instinct MI250X").spec;
  EXPECT_EQ(peak_tflops(gcd, kBf16), 191.5);
  EXPECT_NE(explain_peak_mismatch(gcd, kBf16, 383).find("whole module"), std::string::npos);
  EXPECT_EQ(peak_tflops(*find_device("Tesla V100-SXM2-32GB").spec, kBf16), std::nullopt);
  EXPECT_EQ(peak_tflops(*find_device("NVIDIA H100 PCIe").spec, kBf16), 756);
}

TEST(DeviceSpecs, TheTableIsConsistent) {
  std::set<std::string_view> names;
  for (const DeviceSpec& spec : device_specs()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_FALSE(spec.source.empty()) << spec.name;
    EXPECT_FALSE(spec.peaks.empty()) << spec.name;
    const auto bf16 = peak_tflops(spec, kBf16), fp8 = peak_tflops(spec, kFp8), tf32 = peak_tflops(spec, kTf32);
    if (spec.is_processor) continue;
    const double before_bf16 = spec.name.starts_with("P100") ? 21.2 : 125;
    EXPECT_EQ(peak_tflops(spec, kFp16).value(), bf16.value_or(before_bf16)) << spec.name;
    EXPECT_NEAR(fp8.value_or(2) / (fp8 ? *bf16 : 1), 2, 0.01) << spec.name << ": dense fp8 is twice dense bf16";
    EXPECT_NEAR((tf32 ? *bf16 : 2) / tf32.value_or(1), 2, 0.05) << spec.name;
  }
}

TEST(DeviceSpecs, PrecisionNamesOfOurAndOtherPrograms) {
  for (const char* name : {"amp_bf16", "amp_bfloat16", "bf16", "pure_bf16", "bf16-mixed", "bf16 (O2)"})
    EXPECT_EQ(compute_type_of_precision(name), kBf16) << name;
  for (const char* name : {"amp", "fp16", "16-mixed", "float16", "AMP"})
    EXPECT_EQ(compute_type_of_precision(name), kFp16) << name;
  EXPECT_EQ(compute_type_of_precision("fp8"), kFp8);
  EXPECT_EQ(compute_type_of_precision("fp32"), kFp32);
  EXPECT_EQ(compute_type_of_precision("fp32", /*has_tf32=*/true), kTf32);
  EXPECT_EQ(compute_type_of_precision("amp_bf16", /*has_tf32=*/true), kBf16);
  EXPECT_EQ(compute_type_of_precision("tf32"), kTf32);
  EXPECT_EQ(compute_type_of_precision("int8"), std::nullopt);
  EXPECT_EQ(compute_type_of_precision(""), std::nullopt);
}

TEST(SystemSpecs, SystemsAreFoundAndTheirNumbersFit) {
  EXPECT_EQ(find_system("jupiter")->name, "JUPITER Booster");
  EXPECT_EQ(find_system("LUMI-G")->devices_per_node, 8);
  EXPECT_EQ(find_system("MareNostrum5")->device, "H100 SXM 64GB");
  EXPECT_EQ(find_system("moon"), nullptr);
  EXPECT_EQ(find_system(""), nullptr);
  std::set<std::string_view> names;
  for (const SystemSpec& system : system_specs()) {
    EXPECT_TRUE(names.insert(system.name).second);
    EXPECT_GT(device_of(system).peaks.size(), 0u);
    EXPECT_NEAR(system.num_nics * system.nic_gbits_per_s / 8, system.injection_gbytes_per_s, 1e-9) << system.name;
    EXPECT_GE(system.devices_per_node, device_of(system).is_processor ? 1 : 4) << system.name;
    EXPECT_TRUE(system.environment.empty() || !system.aliases.empty()) << system.name << " cannot be known by its name";
  }
  EXPECT_GE(names.size(), 15u);
}

}  // namespace
}  // namespace lockstep::hw
