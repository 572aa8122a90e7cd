#include "tasks/contrastive/front/loss_options.h"

#include "config/option_checks.h"

namespace lockstep::tasks {
using core::OptionRole;

void LossOptions::declare(core::OptionSet& set, const std::string& task) {
  set.group("Loss");
  set.add("local-loss", &local_loss,
          {.role = OptionRole::kConfiguration,
           .help = "Each rank computes only its own rows of the logits. Alone, without --gather-with-grad, the "
                   "gradient is biased."});
  set.add("gather-with-grad", &gather_with_grad,
          {.role = OptionRole::kConfiguration, .help = "Let gradients flow through the gather of features."});
  if (task == "clap") {
    set.refuse("siglip", "CLAP models have no logit bias, which the sigmoid loss needs", "drop it");
    for (const char* name : {"coca-caption-loss-weight", "coca-contrastive-loss-weight"})
      set.refuse(name, "captioning models are trained by `train clip`", "drop it");
    set.refuse("loss-dist-impl", "it belongs to --siglip, which `train clap` does not have", "drop it");
    for (const char* name : {"distill-model", "distill-pretrained"})
      set.refuse(name, "distillation is for `train clip`",
                 "drop it, or start from a checkpoint with --pretrained FILE");
    return;
  }
  set.add("siglip", &siglip,
          {.role = OptionRole::kConfiguration,
           .help = "Sigmoid loss of SigLIP over all pairs instead of the softmax loss; the scale begins at 10, the "
                   "bias at -10."});
  set.add("loss-dist-impl", &loss_dist_impl,
          {.role = OptionRole::kNoInfluence,
           .help = "With --siglip: how OpenCLIP exchanges texts between ranks. All four are one sum, which is computed "
                   "here in one way.",
           .unset_text = "bidir",
           .choices = {"bidir", "shift", "reduce", "gather"}});
  set.add("distill-model", &distill_model,
          {.role = OptionRole::kConfiguration,
           .help = "Teacher, a name or file as of --model: its softmax over the pairs is learnt beside the pairs "
                   "themselves. It must take the same pictures and tokens.",
           .metavar = "NAME|FILE.json"});
  declare_captions(set);
  set.add("distill-pretrained", &distill_pretrained,
          {.role = OptionRole::kConfiguration, .help = "Weights of the teacher.", .metavar = "FILE"});
}

void LossOptions::declare_captions(core::OptionSet& set) {
  set.add(
      "coca-caption-loss-weight", &coca_caption_loss_weight,
      {.role = OptionRole::kConfiguration,
       .help = "CoCa models: factor of the caption loss, the mean over the tokens of all ranks. 0: captions are not "
               "computed.",
       .min = 0});
  set.add("coca-contrastive-loss-weight", &coca_contrastive_loss_weight,
          {.role = OptionRole::kConfiguration, .help = "CoCa models: factor of the contrastive loss.", .min = 0});
}

void LossOptions::check(const core::OptionSet&, const std::string&) const {
  config::refuse_if(loss_dist_impl && !siglip, "--loss-dist-impl belongs to --siglip", "add --siglip, or drop it");
  config::refuse_if(distill_model.empty() != distill_pretrained.empty(),
                    "--distill-model and --distill-pretrained belong together",
                    "give the teacher's model and its weights");
  config::refuse_if(siglip && has_teacher(), "--siglip has no softmax from which --distill-model could teach",
                    "drop one of the two");
  config::refuse_if(coca_caption_loss_weight == 0 && coca_contrastive_loss_weight == 0,
                    "--coca-caption-loss-weight 0 and --coca-contrastive-loss-weight 0 leave no loss",
                    "give one of them a weight");
}

}  // namespace lockstep::tasks
