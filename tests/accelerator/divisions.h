#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace lockstep::tests {

/// How several ranks divide the work of one training.
struct Division {
  const char* name;
  int num_ranks;
  std::vector<std::string> flags;
  bool is_narrow = false;  ///< Activations of 16 or 8 bits.
};

/// How far losses may be apart, relative to them, where a GPT's activations are narrow: roundings in another order,
/// which make 1e-4. Without updates the losses of gpt_args differ by 2.7e-2.
inline constexpr double kNarrowGpt = 3e-3;

inline std::ostream& operator<<(std::ostream& out, const Division& division) { return out << division.name; }

/// Flags behind those of AcceleratorFixture::gpt_args.
inline std::vector<Division> gpt_divisions() {
  return {
      {"accumulation_alone", 1, {"--accumulate-allreduce-grads-in-fp32", "--precision", "bf16"}, true},
      {"data", 2, {"--ddp-bucket-size", "4000", "--check-replicas", "2"}},
      {"sharded_optimizer",
       2,
       {"--use-distributed-optimizer", "--overlap-param-gather", "--ddp-bucket-size", "4000", "--save-every-n-steps",
        "3", "--eval-interval", "3", "--eval-iters", "1"}},
      {"sharded_masters", 2, {"--use-distributed-optimizer", "--precision", "bf16", "--save-every-n-steps", "3"}, true},
      {"scaled_loss", 2, {"--precision", "fp16", "--initial-loss-scale", "1024"}, true},
      {"tensors", 2, {"--tensor-model-parallel-size", "2", "--log-params-norm", "--log-num-zeros-in-grad"}},
      {"tensors_and_tokens", 2, {"--tensor-model-parallel-size", "2", "--sequence-parallel"}},
      {"fp8",
       2,
       {"--tensor-model-parallel-size", "2", "--sequence-parallel", "--precision", "bf16", "--fp8-format", "hybrid"},
       true},
      {"fp8_tensorwise",
       2,
       {"--tensor-model-parallel-size", "2", "--sequence-parallel", "--precision", "bf16", "--fp8-format", "hybrid",
        "--fp8-recipe", "tensorwise"},
       true},
      {"stages", 2, {"--pipeline-model-parallel-size", "2", "--global-batch-size", "8"}},
      {"virtual_stages",
       2,
       {"--pipeline-model-parallel-size", "2", "--num-layers", "4", "--num-virtual-stages-per-pipeline-rank", "2",
        "--global-batch-size", "8", "--calculate-per-token-loss", "--eval-interval", "3", "--eval-iters", "1"}},
      {"recomputed_stages",
       4,
       {"--pipeline-model-parallel-size", "2", "--use-distributed-optimizer", "--recompute-granularity", "full",
        "--recompute-method", "uniform", "--recompute-num-layers", "1", "--global-batch-size", "8",
        "--calculate-per-token-loss"}}};
}

/// Flags behind those of AcceleratorFixture::clip_args.
inline std::vector<Division> clip_divisions() {
  return {{"data", 2, {"--check-replicas", "2"}},
          {"local_loss", 2, {"--local-loss", "--gather-with-grad"}},
          {"cached_features", 2, {"--accum-freq", "2", "--local-loss", "--gather-with-grad"}},
          {"autocast", 2, {"--precision", "amp_bf16", "--local-loss", "--gather-with-grad"}, true},
          {"sharded_masters", 2, {"--precision", "bf16_master", "--grad-sync", "zero1"}, true}};
}

/// The name of a parameterized case.
inline constexpr auto kDivisionName = [](const auto& division) { return std::string(division.param.name); };

}  // namespace lockstep::tests
