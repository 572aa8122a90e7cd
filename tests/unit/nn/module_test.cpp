#include "nn/module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/layers.h"

namespace lockstep::nn {
namespace {

class Leaf : public Module {
 public:
  Leaf() {
    register_parameter("first", first_);
    register_buffer("count", count_);
    register_parameter("absent", absent_);
  }
  at::Tensor first_ = at::zeros({1}), count_ = at::zeros({2}), absent_;
};

class Tree : public Module {
 public:
  Tree() {
    register_parameter("before", before_);
    register_child("left.0", left_);
    register_parameter("between", between_);
    register_child("", flat_);
  }
  at::Tensor before_ = at::zeros({3}), between_ = at::zeros({4});
  Leaf left_, flat_;
};

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& entry : tensors) names.push_back(entry.name);
  return names;
}

TEST(Module, NamesFollowRegistrationOrder) {
  Tree tree;
  EXPECT_EQ(names_of(tree.named_parameters()),
            (std::vector<std::string>{"before", "left.0.first", "between", "first"}));
  EXPECT_EQ(names_of(tree.named_buffers()), (std::vector<std::string>{"left.0.count", "count"}));
}

TEST(Module, HandlesAreTheModulesOwn) {
  Tree tree;
  *tree.named_parameters()[1].tensor = at::ones({5});
  EXPECT_EQ(tree.left_.first_.numel(), 5);
}

TEST(Module, TrainingFlagReachesChildren) {
  Tree tree;
  EXPECT_TRUE(tree.left_.is_training());
  tree.set_training(false);
  EXPECT_FALSE(tree.is_training() || tree.left_.is_training() || tree.flat_.is_training());
}

}  // namespace
}  // namespace lockstep::nn
