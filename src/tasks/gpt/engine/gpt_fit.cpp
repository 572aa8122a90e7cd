#include "tasks/gpt/engine/gpt_fit.h"

#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tasks {

train::PlannedMemory planned_gpt_memory(GptOptions options, const plan::GptLayout& layout, at::Device device) {
  options.device = device.is_cpu() ? "cpu" : "cuda";
  const plan::GptMemoryInput input = train_gpt_memory(options);
  const plan::PipeSchedule schedule = plan::make_pipe_schedule(layout.pipe);
  train::PlannedMemory planned{
      .model = layout.shape.name,
      .bytes_of_ranks = {},
      .hint =
          "share it among more ranks (--tensor-model-parallel-size, --pipeline-model-parallel-size, "
          "--use-distributed-optimizer), keep less (--recompute-activations, --micro-batch-size), or use --bf16"};
  std::vector<plan::GptMemory> of_stages;
  for (int stage = 0; stage < layout.pp(); ++stage)
    of_stages.push_back(plan::plan_gpt_memory(layout, schedule, stage, input));
  const plan::GptMemory* fullest = &of_stages.front();
  for (const plan::GptMemory& memory : of_stages)
    if (memory.total() > fullest->total()) fullest = &memory;
  planned.parts_of_fullest = {{"parameters", fullest->parameters}, {"gradients", fullest->gradients},
                              {"optimizer", fullest->optimizer},   {"activations", fullest->activations},
                              {"recomputed", fullest->recomputed}, {"logits", fullest->logits}};
  for (int rank = 0; rank < layout.mesh.world_size(); ++rank)
    planned.bytes_of_ranks.push_back(of_stages[static_cast<size_t>(layout.mesh.point_of(rank).pp)].total());
  return planned;
}

}  // namespace lockstep::tasks
