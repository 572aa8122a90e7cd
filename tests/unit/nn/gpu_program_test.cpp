#ifdef USE_C10D_NCCL  // else the build has no kernels for GPUs
#include "nn/gpu_program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep::nn::internal {
namespace {

/// One instance of each kernel, of types that differ.
const std::vector<std::string> kInstances = {
    "layer_norm_forward<float,BFloat16,BFloat16,float,true>",
    "layer_norm_forward<Half,Half,Half,float,false>",
    "layer_norm_backward<float,BFloat16,BFloat16,float,true,true>",
    "layer_norm_backward<BFloat16,BFloat16,BFloat16,BFloat16,false,false>",
    "column_sums<Half,Half>",
    "column_sums<float,float>",
    "bias_activation<BFloat16,float,kQuickGelu>",
    "bias_activation_backward<Half,float,kGeluTanh>",
    "bias_activation_backward<float,float,kGelu>",
    "layer_norm_forward<Half,Half,Half,Half,true,true>",
    "layer_norm_backward<Half,Half,Half,Half,true,false,true>",
    "swiglu<BFloat16>",
    "swiglu_backward<Half>",
    "dropout<BFloat16,true>",
    "dropout<Half,false>",
    "copy_rows",
    "rotate<BFloat16>",
    "softmax_stats<Half>",
    "softmax_gradient<BFloat16>",
};

/// NVRTC needs no GPU: what would fail on a user's machine fails here.
TEST(GpuProgram, EachKernelCompilesForEachGpu) {
  for (const int capability : {80, 90, 100, 120})
    for (const std::string& instance : kInstances) {
      const GpuCode found = compile_gpu_kernel(instance, capability);
      EXPECT_EQ(found.code.substr(1, 3), "ELF") << instance << " for " << capability;
      EXPECT_NE(found.symbol.find(instance.substr(0, instance.find('<'))), std::string::npos) << found.symbol;
    }
  for (const int capability : {89, 90, 100})
    EXPECT_EQ(compile_gpu_kernel("fp8_quantize<BFloat16,kE5M2>", capability).code.substr(1, 3), "ELF") << capability;
}

/// The driver compiles PTX further.
TEST(GpuProgram, AGpuThatNvrtcDoesNotKnowYetGetsPtx) {
  EXPECT_NE(compile_gpu_kernel("column_sums<float,float>", 999).code.find(".target sm_"), std::string::npos);
}

TEST(GpuProgram, WhatDoesNotCompileSaysWhy) {
  try {
    compile_gpu_kernel("column_sums<Quarter,float>", 90);
    FAIL() << "it compiled";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("Quarter"), std::string::npos) << error.what();
  }
}

TEST(GpuProgram, TheEnvironmentSaysAutoOrOff) {
  EXPECT_TRUE(wants_gpu_kernels("auto"));
  EXPECT_FALSE(wants_gpu_kernels("off"));
  for (const char* word : {"OFF", "0", "false", "on"}) EXPECT_THROW(wants_gpu_kernels(word), UsageError) << word;
}

TEST(GpuProgram, InstancesAreNamedAsInCpp) {
  EXPECT_EQ(KernelInstance("copy_rows").name(), "copy_rows");
  EXPECT_EQ(KernelInstance("column_sums").type(at::kBFloat16).type(at::kFloat).name(), "column_sums<BFloat16,float>");
  EXPECT_EQ(KernelInstance("swiglu").type(at::kHalf).flag(false), KernelInstance("swiglu").type(at::kHalf).flag(false));
  EXPECT_NE(KernelInstance("swiglu").type(at::kHalf), KernelInstance("swiglu").type(at::kFloat));
}

}  // namespace
}  // namespace lockstep::nn::internal
#endif
