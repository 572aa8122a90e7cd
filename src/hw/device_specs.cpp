#include "hw/device_specs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::hw {
namespace {

using enum ComputeType;

constexpr double kTolerance = 0.02;

constexpr std::string_view kNvidia = "NVIDIA data sheet, dense";
constexpr std::string_view kAmd = "AMD data sheet, dense matrix";
constexpr std::string_view kSparse = "data sheets lead with the peak for 2:4 sparsity, which is twice as high";

/// More special names stand before the general ones. Words are compared with the printed name in lower case.
const std::vector<DeviceSpec>& table() {
  static const std::vector<DeviceSpec> specs{
      {.name = "V100 SXM2 16GB",
       .words = "v100 16gb",
       .memory_gbytes = 16,
       .memory_tbytes_per_s = 0.90,
       .peaks = {{kFp32, 15.7}, {kFp16, 125}},
       .link_gbytes_per_s = 150,
       .board_watts = 300,
       .source = kNvidia,
       .trap = "no bf16"},
      {.name = "V100 SXM2 32GB",
       .words = "v100",
       .memory_gbytes = 32,
       .memory_tbytes_per_s = 0.90,
       .peaks = {{kFp32, 15.7}, {kFp16, 125}},
       .link_gbytes_per_s = 150,
       .board_watts = 300,
       .source = kNvidia,
       .trap = "no bf16"},
      {.name = "P100 SXM2 16GB",
       .words = "p100 sxm",
       .memory_gbytes = 16,
       .memory_tbytes_per_s = 0.73,
       .peaks = {{kFp32, 10.6}, {kFp16, 21.2}},
       .link_gbytes_per_s = 80,
       .board_watts = 300,
       .source = kNvidia,
       .trap = "no bf16"},
      {.name = "A100 SXM 64GB",
       .words = "a100 64gb",
       .memory_gbytes = 64,
       .memory_tbytes_per_s = 1.64,
       .peaks = {{kTf32, 179}, {kFp16, 358}, {kBf16, 358}},
       .link_gbytes_per_s = 300,
       .source = "312 TFLOP/s x 124/108 multiprocessors",
       .trap = "custom board of Leonardo with more multiprocessors than the A100 of the data sheet: 312 is too low",
       .is_certain = false},
      {.name = "A100 PCIe 80GB",
       .words = "a100 80gb pcie|a100-pcie-80gb",
       .memory_gbytes = 80,
       .memory_tbytes_per_s = 1.94,
       .peaks = {{kFp32, 19.5}, {kTf32, 156}, {kFp16, 312}, {kBf16, 312}},
       .board_watts = 300,
       .source = kNvidia,
       .trap = "same peak as the SXM board but 300 W: less is delivered"},
      {.name = "A100 PCIe 40GB",
       .words = "a100 pcie",
       .memory_gbytes = 40,
       .memory_tbytes_per_s = 1.555,
       .peaks = {{kFp32, 19.5}, {kTf32, 156}, {kFp16, 312}, {kBf16, 312}},
       .board_watts = 250,
       .source = kNvidia,
       .trap = "same peak as the SXM board but 250 W: less is delivered"},
      {.name = "A100 SXM 80GB",
       .words = "a100 80gb",
       .memory_gbytes = 80,
       .memory_tbytes_per_s = 2.04,
       .peaks = {{kFp32, 19.5}, {kTf32, 156}, {kFp16, 312}, {kBf16, 312}},
       .link_gbytes_per_s = 300,
       .board_watts = 400,
       .source = kNvidia,
       .trap = kSparse},
      {.name = "A100 SXM 40GB",
       .words = "a100",
       .memory_gbytes = 40,
       .memory_tbytes_per_s = 1.555,
       .peaks = {{kFp32, 19.5}, {kTf32, 156}, {kFp16, 312}, {kBf16, 312}},
       .link_gbytes_per_s = 300,
       .board_watts = 400,
       .source = kNvidia,
       .trap = kSparse},
      {.name = "L40S",
       .words = "l40s",
       .memory_gbytes = 48,
       .memory_tbytes_per_s = 0.864,
       .peaks = {{kFp32, 91.6}, {kTf32, 183}, {kFp16, 362.05}, {kBf16, 362.05}},
       .board_watts = 350,
       .source = kNvidia,
       .trap = kSparse},
      {.name = "GH200 96GB",
       .words = "gh200",
       .memory_gbytes = 96,
       .memory_tbytes_per_s = 4.0,
       .peaks = {{kFp32, 67}, {kTf32, 494.5}, {kFp16, 989}, {kBf16, 989}, {kFp8, 1979}},
       .link_gbytes_per_s = 450,
       .board_watts = 900,
       .source = kNvidia,
       .trap = "the module's power limit, processor included, lowers what it delivers; 1979 TFLOP/s is fp8, or bf16 "
               "with sparsity"},
      {.name = "H100 NVL 94GB",
       .words = "h100 nvl",
       .memory_gbytes = 94,
       .memory_tbytes_per_s = 3.9,
       .peaks = {{kFp32, 60}, {kTf32, 417.5}, {kFp16, 835}, {kBf16, 835}, {kFp8, 1671}},
       .board_watts = 400,
       .source = kNvidia,
       .trap = "not the SXM board: 835, not 989 TFLOP/s"},
      {.name = "H100 PCIe 80GB",
       .words = "h100 pcie",
       .memory_gbytes = 80,
       .memory_tbytes_per_s = 2.0,
       .peaks = {{kFp32, 51}, {kTf32, 378}, {kFp16, 756}, {kBf16, 756}, {kFp8, 1513}},
       .board_watts = 350,
       .source = kNvidia,
       .trap = "not the SXM board: 756, not 989 TFLOP/s"},
      {.name = "H100 SXM 64GB",
       .words = "h100 64gb",
       .memory_gbytes = 64,
       .memory_tbytes_per_s = 1.8,
       .peaks = {{kFp16, 880}, {kBf16, 880}},
       .link_gbytes_per_s = 450,
       .source = "middle of the 800 to 960 TFLOP/s that are reported",
       .trap = "custom board of MareNostrum 5: do not assume 989 TFLOP/s, measure",
       .is_certain = false},
      {.name = "H100 SXM 80GB",
       .words = "h100",
       .memory_gbytes = 80,
       .memory_tbytes_per_s = 3.35,
       .peaks = {{kFp32, 67}, {kTf32, 494.5}, {kFp16, 989}, {kBf16, 989}, {kFp8, 1979}},
       .link_gbytes_per_s = 450,
       .board_watts = 700,
       .source = kNvidia,
       .trap = "1979 TFLOP/s is fp8, or bf16 with sparsity; boards limited to 500 W deliver less"},
      {.name = "H200",
       .words = "h200",
       .memory_gbytes = 141,
       .memory_tbytes_per_s = 4.8,
       .peaks = {{kFp32, 67}, {kTf32, 494.5}, {kFp16, 989}, {kBf16, 989}, {kFp8, 1979}},
       .link_gbytes_per_s = 450,
       .board_watts = 700,
       .source = kNvidia,
       .trap = "1979 TFLOP/s is fp8, or bf16 with sparsity"},
      {.name = "GB300",
       .words = "gb300",
       .memory_gbytes = 288,
       .memory_tbytes_per_s = 8,
       .peaks = {{kFp16, 2450}, {kBf16, 2450}, {kFp8, 4900}},
       .link_gbytes_per_s = 900,
       .board_watts = 1400,
       .source = "recipes use 2450 and 4900; data sheets up to 2500 and 5000",
       .trap = kSparse,
       .is_certain = false},
      {.name = "B300",
       .words = "b300",
       .memory_gbytes = 270,
       .memory_tbytes_per_s = 8,
       .peaks = {{kFp16, 2250}, {kBf16, 2250}, {kFp8, 4500}},
       .link_gbytes_per_s = 900,
       .board_watts = 1100,
       .source = kNvidia,
       .trap = kSparse},
      {.name = "GB200",
       .words = "gb200",
       .memory_gbytes = 186,
       .memory_tbytes_per_s = 8,
       .peaks = {{kTf32, 1250}, {kFp16, 2450}, {kBf16, 2450}, {kFp8, 4900}},
       .link_gbytes_per_s = 900,
       .board_watts = 1200,
       .source = "recipes use 2450 and 4900; data sheets up to 2500 and 5000",
       .trap = kSparse,
       .is_certain = false},
      {.name = "B200",
       .words = "b200",
       .memory_gbytes = 180,
       .memory_tbytes_per_s = 7.7,
       .peaks = {{kTf32, 1125}, {kFp16, 2250}, {kBf16, 2250}, {kFp8, 4500}},
       .link_gbytes_per_s = 900,
       .board_watts = 1000,
       .source = kNvidia,
       .trap = kSparse},
      {.name = "MI250X GCD",
       .words = "mi250x|gfx90a",
       .memory_gbytes = 64,
       .memory_tbytes_per_s = 1.64,
       .peaks = {{kFp32, 47.9}, {kFp16, 191.5}, {kBf16, 191.5}},
       .link_gbytes_per_s = 200,
       .board_watts = 280,
       .source = kAmd,
       .trap = "one rank drives a GCD, half a module: 191.5, not the module's 383 TFLOP/s"},
      {.name = "MI300X",
       .words = "mi300x",
       .memory_gbytes = 192,
       .memory_tbytes_per_s = 5.3,
       .peaks = {{kFp32, 163.4}, {kTf32, 653.7}, {kFp16, 1307}, {kBf16, 1307}, {kFp8, 2614}},
       .link_gbytes_per_s = 448,
       .board_watts = 750,
       .source = kAmd,
       .trap = "about half of the peak is delivered in large matrix products"},
      {.name = "2x EPYC 7763",
       .words = "2x epyc 7763",
       .memory_gbytes = 256,
       .memory_tbytes_per_s = 0.4096,
       .peaks = {{kFp32, 10.0}},
       .board_watts = 560,
       .source = "AMD data sheet: 128 cores x 2.45 GHz x 32 FLOP of fp32 (two AVX2 FMA), 16 channels of DDR4-3200",
       .trap = "processors: fp32 alone, no peak for 16 bits",
       .is_processor = true},
  };
  return specs;
}

/// Words of a printed name: lower case, separated at all that is neither letter nor digit; "80 GB" becomes "80gb".
std::string normalised(std::string_view name) {
  std::string text = " ";
  for (const char c : core::to_lower_ascii(name)) text += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : ' ';
  return core::replace_all(text + " ", " gb ", "gb ");
}

bool holds_words(const std::string& printed, std::string_view alternatives) {
  for (const std::string& alternative : core::split(alternatives, "|")) {
    bool holds_all = true;
    for (const std::string& word : core::split(core::trim(normalised(alternative)), " "))
      holds_all = holds_all && (word.empty() || printed.find(" " + word) != std::string::npos);
    if (holds_all) return true;
  }
  return false;
}

/// Drivers tell the memory in GiB and keep a part for themselves: a board sold with 80 GB shows 79 to 80 GiB, one with
/// 96 GB 94 to 96.
bool fits_memory(const DeviceSpec& spec, double memory_gib) {
  return std::fabs(memory_gib / spec.memory_gbytes - 0.97) < 0.08;
}

bool is_same_chip(const DeviceSpec& a, const DeviceSpec& b) {
  return core::split(a.name, " ")[0] == core::split(b.name, " ")[0];
}

std::string type_list(const DeviceSpec& spec, double tflops) {
  std::string names;
  for (const Peak& peak : spec.peaks)
    if (std::fabs(peak.tflops / tflops - 1) <= kTolerance)
      names += fmt::format("{}{}", names.empty() ? "" : " and ", compute_type_name(peak.type));
  return names;
}

}  // namespace

std::string_view compute_type_name(ComputeType type) {
  constexpr std::array<std::string_view, 5> kNames{"fp32", "tf32", "fp16", "bf16", "fp8"};
  return kNames.at(static_cast<size_t>(type));
}

std::optional<ComputeType> compute_type_of_precision(std::string_view precision, bool has_tf32) {
  const std::string name = normalised(core::replace_all(std::string(precision), "_", "-"));
  const auto holds = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (holds("fp8") || holds("float8") || holds("e4m3")) return kFp8;
  if (holds("bf16") || holds("bfloat16")) return kBf16;
  if (holds("fp16") || holds("float16") || holds(" 16 ") || holds("amp") || holds("half")) return kFp16;
  if (holds("tf32")) return kTf32;
  if (holds("fp32") || holds("float32") || holds(" 32 ")) return has_tf32 ? kTf32 : kFp32;
  return std::nullopt;
}

std::span<const DeviceSpec> device_specs() { return table(); }

double usable_memory_bytes(double memory_gbytes) {
  constexpr double kUsableGibPerGbyte = 0.97, kGiB = 1 << 30;
  return memory_gbytes * kUsableGibPerGbyte * kGiB;
}

DeviceMatch find_device(std::string_view printed_name, std::optional<double> memory_gib) {
  const std::string printed = normalised(printed_name);
  const auto& specs = table();
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const DeviceSpec& spec) { return holds_words(printed, spec.words); });
  if (found == specs.end()) return {};
  DeviceMatch match{.spec = &*found};
  if (memory_gib && !fits_memory(*found, *memory_gib)) {
    // Boards of the same chip that the printed name does not tell apart: "NVIDIA H100" with 64 GB.
    const auto other = std::find_if(specs.begin(), specs.end(), [&](const DeviceSpec& spec) {
      return is_same_chip(spec, *found) && fits_memory(spec, *memory_gib);
    });
    if (other != specs.end()) match.spec = &*other;
    match.warning =
        other == specs.end()
            ? fmt::format("'{}' with {:.0f} GiB is none of the boards in the table; the peak of {} is taken",
                          printed_name, *memory_gib, found->name)
            : fmt::format("taken for {} because of its {:.0f} GiB", other->name, *memory_gib);
  }
  if (!match.spec->is_certain)
    match.warning += fmt::format("{}the peak of {} is not certain ({}): measure it", match.warning.empty() ? "" : "; ",
                                 match.spec->name, match.spec->source);
  return match;
}

std::optional<double> peak_tflops(const DeviceSpec& spec, ComputeType type) {
  for (const Peak& peak : spec.peaks)
    if (peak.type == type) return peak.tflops;
  return std::nullopt;
}

std::string explain_peak_mismatch(const DeviceSpec& spec, ComputeType type, double tflops) {
  const auto dense = peak_tflops(spec, type);
  if (!dense || std::fabs(tflops / *dense - 1) <= kTolerance) return "";
  const std::string head =
      fmt::format("{} TFLOP/s is not the dense {} peak of {} ({})", tflops, compute_type_name(type), spec.name, *dense);
  if (std::fabs(tflops / *dense / 2 - 1) <= kTolerance) {
    if (spec.name.find("GCD") != std::string_view::npos)
      return head + ": it is that of the whole module of two devices";
    const std::string others = type_list(spec, tflops);
    return head + ": it is the one with sparsity" + (others.empty() ? "" : ", or that of " + others);
  }
  if (const std::string others = type_list(spec, tflops); !others.empty()) return head + ": it is that of " + others;
  return head;
}

}  // namespace lockstep::hw
