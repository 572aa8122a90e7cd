#pragma once
#include <ATen/core/TensorBody.h>

#include <map>
#include <string>
#include <vector>

#include "plan/gpt_layout.h"
#include "support/ranks/run_ranks.h"
#include "tasks/gpt/engine/gpt_training.h"

namespace lockstep::tests {

/// One way to lay a small GPT out.
struct MeshCase {
  int tp = 1, pp = 1, dp = 1;
  int chunks = 1;  ///< Virtual stages.
  int micro = 1;   ///< Micro-batches of a data rank and step.
  bool splits_tokens = false;
  bool is_gpipe = false;
  bool is_tied = true;
  bool is_sharded = false;         ///< ZeRO-1.
  std::string precision = "fp32";  ///< Or bf16, fp16; with masters.
  std::string fp8 = {};            ///< "", or a recipe of --fp8-recipe.
  std::string model = {};          ///< "": the parts of GPT-2; "llama", "nemotron": theirs.
  std::string recompute = {};      ///< "", "selective", "uniform", "block".
  std::string stages = {};         ///< "", or a --pipeline-model-parallel-layout.
  bool is_tp_pp_dp = false;        ///< The other order of ranks.
  bool is_per_token = false;       ///< --calculate-per-token-loss.
  /// One per stage and virtual stage where `stages` says nothing.
  int num_layers() const;
  int num_ranks() const { return tp * pp * dp; }
  std::string name() const;
};

/// The flags of `train gpt` that ask for it.
tasks::GptOptions options_of(const MeshCase& mesh);

/// Every legal mesh of up to `max_ranks` ranks: tp x pp x dp, 1 to 3 virtual stages, sequence parallelism, schedules, 1
/// to 6 micro-batches, tied or not, ZeRO-1 where there are data ranks; in fp32.
std::vector<MeshCase> legal_meshes(int max_ranks);

/// So few of them that every pair of values that occurs in one of all occurs in one of the few.
std::vector<MeshCase> pairwise_cover(const std::vector<MeshCase>& all);

/// What three steps of training leave on a rank; tensors whole, vocabulary tables without padding.
struct MeshTrace {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> gradients, parameters, changes;  ///< changes: of the parameters.
  std::map<std::string, at::Tensor> moments;  ///< Means of gradients and roots of means of squares.
};

/// Largest relative differences over all ranks.
struct MeshDeviation {
  double loss = 0, tensor = 0,
         change = 0;  ///< tensor: norms, gradients, moments, parameters; change: of parameters, by norm.
};

/// Three steps of `mesh` on ranks that are threads against the same on one rank: losses, norms, gradients, moments,
/// parameters, and the collectives of a step against plan::predict_gpt_traffic. Copies of a parameter on several ranks
/// must be equal bit for bit. "" where all agree, else what does not.
std::string compare_with_one_rank(const MeshCase& mesh, ThreadBackend backend = ThreadBackend::kLocal,
                                  MeshDeviation* largest = nullptr);

/// Parameters, or gradients as the optimiser takes them, of all chunks of a stage: whole, vocabulary tables without
/// padding. Collective over the tensor and data axes.
std::map<std::string, at::Tensor> whole_parameters(const tasks::GptTraining& training);
std::map<std::string, at::Tensor> whole_gradients(const tasks::GptTraining& training);

/// "" where each tensor equals that of the same name in `want`, relative to its largest value; else a line for each
/// that does not. Raises `largest`.
std::string compare_tensors(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& want,
                            const std::string& what, double tolerance, double* largest = nullptr);

}  // namespace lockstep::tests
