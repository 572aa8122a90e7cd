#include <map>

#include "config/clip_list.h"
#include "config/pretrained_weights.h"
#include "core/strings.h"
#include "tasks/contrastive/front/contrastive_front.h"
#include "tasks/contrastive/front/contrastive_layouts.h"
#include "tasks/gpt/front/gpt_front.h"
#include "tasks/gpt/front/gpt_layouts.h"
#include "tasks/imagenet/front/classifier_config.h"
#include "tasks/imagenet/front/imagenet_front.h"
#include "tasks/imagenet/front/imagenet_layouts.h"
#include "tasks/imagenet/front/recorded_classifier.h"
#include "tasks/tasks.h"

namespace lockstep::tasks {

std::span<const FrontTaskRow> front_tasks() {
  static const std::vector<FrontTaskRow> rows = {
      {.name = "clip",
       .summary = "train a CLIP model on pictures and captions",
       .make = make_contrastive_front,
       .programs = {"open_clip_train.main", "open_clip_train/main.py", "training.main", "training/main.py"},
       .list_models = config::openclip_models_page,
       .list_models_on_terminal = config::openclip_models_list,
       .list_pretrained = config::pretrained_list,
       .layouts = contrastive_layouts},
      {.name = "clap",
       .summary = "train a CLAP model on sounds and captions",
       .make = make_contrastive_front,
       .programs = {"laion_clap.training.main", "laion_clap/training/main.py"},
       .layouts = contrastive_layouts},
      {.name = "gpt",
       .summary = "train a GPT model",
       .make = make_gpt_front,
       .programs = {"pretrain_gpt.py"},
       .layouts = gpt_layouts},
      {.name = "imagenet",
       .summary = "train a ResNet or ViT on labelled pictures",
       .make = make_imagenet_front,
       .programs = {"imagenet/main.py"},
       .take_recorded_classifier = take_recorded_classifier,
       .weights_config = classifier_config,
       .layouts = imagenet_layouts},
      {.name = "resnet",
       .summary = "the other name of train imagenet",
       .make = make_imagenet_front,
       .layouts = imagenet_layouts},
  };
  return rows;
}

std::string task_of_program(const std::string& word) {
  std::string task;
  size_t best = 0;  // laion_clap/training/main.py is CLAP's, though it ends as OpenCLIP's does
  for (const FrontTaskRow& row : front_tasks())
    for (const std::string& program : row.programs) {
      if ((word != program && !core::ends_with(word, "/" + program)) || program.size() <= best) continue;
      best = program.size();
      task = row.name;
    }
  return task;
}

namespace {
using Roles = std::map<std::string, core::OptionRole, std::less<>>;

Roles roles_of(const FrontTaskRow& row) {
  Roles roles;
  const std::unique_ptr<FrontTask> task = row.make(row.name);
  const core::OptionSet set = task->declare();
  for (const core::Option& option : set.options()) {
    roles.emplace(option.name, *option.spec.role);
    for (const std::string& alias : option.spec.aliases) roles.emplace(alias, *option.spec.role);
  }
  return roles;
}
}  // namespace

std::optional<core::OptionRole> option_role(const std::string& task, const std::string& flag) {
  static const std::map<std::string, Roles, std::less<>> all = [] {
    std::map<std::string, Roles, std::less<>> of_tasks;
    for (const FrontTaskRow& row : front_tasks()) of_tasks.emplace(row.name, roles_of(row));
    return of_tasks;
  }();
  const auto look_up = [&](const Roles& roles) -> std::optional<core::OptionRole> {
    const auto found = roles.find(flag);
    return found == roles.end() ? std::nullopt : std::optional(found->second);
  };
  if (const auto own = all.find(task); own != all.end()) return look_up(own->second);
  for (const FrontTaskRow& row : front_tasks())
    if (const auto role = look_up(all.at(row.name))) return role;
  return std::nullopt;
}

}  // namespace lockstep::tasks
