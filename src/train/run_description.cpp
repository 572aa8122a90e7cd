#include "train/run_description.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <set>
#include <string>

#include "core/host_name.h"
#include "hw/counters.h"
#include "hw/device.h"
#include "hw/device_specs.h"
#include "train/attempt_facts.h"

namespace lockstep::train {
namespace {

/// Of a file of the user's own without folders and ending; of "demo/model.json", whose name says nothing, the folder's.
std::string model_name(const std::string& model) {
  const std::filesystem::path path = model;
  if (path.extension() != ".json") return model;
  const std::string stem = path.stem().string(),
                    folder = std::filesystem::absolute(path).parent_path().filename().string();
  return (stem == "model" || stem == "config") && !folder.empty() ? folder : stem;
}

/// What reports need to know (docs/record.md).
core::Json describe_setup(const RunContext& run) {
  const auto gpus = hw::CounterReader().gpu_names();
  const std::string device = run.ranks.device.is_cpu() ? hw::cpu_name() : gpus.empty() ? "CUDA device" : gpus.front();
  core::Json setup{{"task", run.options().task},
                   {"model", model_name(run.facts().model)},
                   {"precision", run.facts().precision},
                   {"device", device},
                   {"layout", run.task.layout},
                   {"nodes", std::set(run.hosts.begin(), run.hosts.end()).size()},
                   {"devices", run.ranks.info.world_size},
                   {"global_batch", run.batch.global_batch},
                   {"samples_per_device", run.batch.samples_per_replica()},
                   {"accum", run.batch.num_micro_batches},
                   {"sequence_length", run.task.sequence_length},
                   {"sample_unit", run.task.sample_unit},
                   {"forward_gflops_per_sample", run.task.forward.flops / 1e9},
                   {"flops_formula", run.task.forward.formula},
                   {"is_synthetic", run.task.is_synthetic},
                   {"is_profiled", run.options().profile}};
  if (run.task.processed.flops > 0 && run.task.processed.flops < run.task.forward.flops) {
    setup["processed_gflops_per_sample"] = run.task.processed.flops / 1e9;
    setup["processed_formula"] = run.task.processed.formula;
  }
  const auto match = hw::find_device(device);
  const config::GpuMath& math = run.options().gpu_math;
  const bool has_tf32 = !run.ranks.device.is_cpu() && (run.task.is_convolutional ? math.cudnn_tf32 : math.tf32);
  const auto type = hw::compute_type_of_precision(run.facts().precision, has_tf32);
  if (const auto peak = match.spec != nullptr && type ? hw::peak_tflops(*match.spec, *type) : std::nullopt) {
    setup["peak_tflops_per_device"] = *peak;
    setup["peak_source"] =
        fmt::format("{}, dense {}: {}", match.spec->name, hw::compute_type_name(*type), match.spec->source);
  }
  return setup;
}

}  // namespace

core::Json describe_attempt(const RunContext& run, int64_t steps_per_epoch, int64_t num_buckets) {
  core::Json attempt;
  attempt["task"] = run.options().task;
  attempt["options"] = run.request.set.values_json();
  attempt["code_version"] = run.versions.lockstep;
  attempt["world_size"] = run.ranks.info.world_size;
  attempt["ranks_from"] = run.ranks.info.source;
  attempt["device"] = run.ranks.device.str();
  attempt["threads_per_rank"] = at::get_num_threads();
  attempt["host"] = core::host_name();
  attempt["slurm_job_id"] = run.ranks.info.job_id;
  attempt["command"] = command_line();
  attempt["environment"] = environment_facts();
  attempt["software"] = {{"libtorch", run.versions.libtorch}, {"cuda", run.versions.cuda}, {"nccl", run.versions.nccl}};
  attempt["model"] = {{"name", run.facts().model}, {"parameters", run.task.num_parameters}};
  attempt["model"].update(run.task.model);
  attempt["setup"] = describe_setup(run);
  attempt["plan"] = {{"micro_batch_size", run.batch.micro_batch_size},
                     {"accum_freq", run.batch.num_micro_batches},
                     {"global_batch", run.batch.global_batch},
                     {"steps_per_epoch", steps_per_epoch},
                     {"gradient_buckets", num_buckets}};
  return attempt;
}

}  // namespace lockstep::train
