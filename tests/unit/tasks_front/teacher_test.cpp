// --distill-model: the teacher must read what the student reads, and its weights must be here.
#include "tasks/contrastive/front/teacher.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"
#include "support/error_text.h"
#include "tasks/contrastive/front/contrastive_dry_run.h"
#include "tasks/tasks.h"

namespace lockstep::tasks {
namespace {

using tests::holds;

ContrastiveOptions student_of(const std::string& teacher, const std::string& weights = "/no/teacher.pt") {
  ContrastiveOptions options;
  options.model = "ViT-B-32";
  options.distill_model = teacher;
  options.distill_pretrained = weights;
  return options;
}

/// Text of the UsageError; "" if there is none.
std::string refusal(const ContrastiveOptions& options) {
  try {
    check_teacher(options, *contrastive_shape_of(options).clip());
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

TEST(Teacher, OneThatReadsTheSameIsTaken) {
  EXPECT_EQ(refusal(student_of("ViT-B-16")), "");
  EXPECT_EQ(refusal(student_of("RN50")), "");
  EXPECT_EQ(refusal(student_of("ViT-L-14", "laion400m_e32")), "");
}

TEST(Teacher, OtherPicturesAndTextsAreRefused) {
  EXPECT_TRUE(holds(refusal(student_of("ViT-L-14-336")), "pictures of 336 x 336 pixels, --model ViT-B-32 of 224 x"));
  EXPECT_TRUE(holds(refusal(student_of("ViT-L-14-336")), "--force-image-size 336"));
  EXPECT_TRUE(holds(refusal(student_of("ViT-B-16-SigLIP")), "takes texts of 64 tokens, --model ViT-B-32 of 77"));
  EXPECT_TRUE(holds(refusal(student_of("roberta-ViT-B-32")), "different tokenizers"));
  ContrastiveOptions shorter = student_of("ViT-B-16");
  shorter.force_context_length = 40;
  EXPECT_TRUE(holds(refusal(shorter), "takes texts of 77 tokens, --model ViT-B-32 of 40"));
}

TEST(Teacher, ASmallerVocabularyIsRefused) {
  const core::TempDir folder;
  const std::string file = folder.path() / "small.json";
  std::ofstream(file) << R"({"embed_dim": 32, "vision_cfg": {"image_size": 224, "layers": 1, "width": 32,
    "head_width": 16, "patch_size": 32}, "text_cfg": {"context_length": 77, "vocab_size": 1000, "width": 32,
    "heads": 2, "layers": 1}})";
  EXPECT_TRUE(holds(refusal(student_of(file)), "knows 1000 token ids, --model ViT-B-32 has 49408"));
}

TEST(Teacher, WeightsThatWantOtherPicturesAreRefused) {
  ContrastiveOptions options = student_of("ViT-L-14", "laion2b_s32b_b82k");
  const std::string error = refusal(options);
  EXPECT_TRUE(holds(error, "wants pictures of mean 0.5 0.5 0.5 and standard deviation 0.5 0.5 0.5")) << error;
  EXPECT_TRUE(holds(error, "give --image-mean 0.5 0.5 0.5 --image-std 0.5 0.5 0.5")) << error;
  options.image_mean = {0.5};
  options.image_std = {0.5, 0.5, 0.5};
  EXPECT_EQ(refusal(options), "");
  options.distill_pretrained = "laion400m_e32";
  EXPECT_TRUE(holds(refusal(options), "wants pictures of mean 0.48145466"));
  options.distill_pretrained = "/no/teacher.pt";  // a file does not tell
  EXPECT_EQ(refusal(options), "");
}

TEST(Teacher, TheTaskItselfAsks) {
  const auto& row = front_tasks().front();
  const auto task = row.make("clip");
  core::OptionSet set = task->declare();
  set.parse(std::vector<std::string>{"--model", "ViT-B-32", "--distill-model", "ViT-L-14-336", "--distill-pretrained",
                                     "/no/teacher.pt"});
  EXPECT_THROW(task->batch_plan(set, 1), UsageError);
  EXPECT_THROW(task->dry_run(set, {}), UsageError);
}

TEST(Teacher, ADryRunNamesWeightsThatAreNotHere) {
  const auto task = front_tasks().front().make("clip");
  core::OptionSet set = task->declare();
  set.parse(std::vector<std::string>{"--model", "ViT-B-32", "--dataset-type", "synthetic", "--train-num-samples", "8",
                                     "--distill-model", "ViT-B-16", "--distill-pretrained", "/no/teacher.pt"});
  const auto missing = task->dry_run(set, {}).missing;
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_TRUE(holds(missing[0], "--distill-pretrained '/no/teacher.pt'")) << missing[0];
}

}  // namespace
}  // namespace lockstep::tasks
