// Against OpenCLIP (ref/make_position_goldens.py).
#include "models/position_resize.h"

#include <ATen/ATen.h>

#include "core/strings.h"
#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

at::Tensor made_positions(int64_t rows) {
  return at::sin(0.7 * at::arange(rows * 3, at::kDouble)).reshape({rows, 3}).to(at::kFloat);
}

TEST(PositionResize, EqualsOpenClip) {
  int num_changed = 0;
  for (const auto& [name, want] : tests::load_golden("clip/resized_positions.safetensors")) {
    const auto parts = core::split(name, "/");
    const bool is_picture = parts.at(0) == "picture";
    const std::string key = is_picture ? "visual.positional_embedding" : "positional_embedding";
    const int64_t old_size = core::parse_int(parts.at(1)).value(), new_size = core::parse_int(parts.at(2)).value();
    const auto value = made_positions(is_picture ? old_size * old_size + 1 : old_size);
    NamedValues weights{{"other", at::ones({2, 3})}, {key, value}};
    const auto told = resize_positions({{"other", at::empty({5, 3})}, {key, at::empty_like(want)}}, weights);
    EXPECT_TRUE(at::allclose(weights[1].second, want, 1e-6, 1e-6)) << name;
    EXPECT_TRUE(weights[0].second.equal(at::ones({2, 3})));
    EXPECT_EQ(told.size(), old_size == new_size ? 0u : 1u) << name;
    num_changed += static_cast<int>(told.size());
  }
  EXPECT_EQ(num_changed, 5);
}

TEST(PositionResize, TakesHalfPrecisionAndLeavesWhatIsNoGridOfPatches) {
  NamedValues weights{{"positional_embedding", made_positions(4).to(at::kHalf)},
                      {"visual.positional_embedding", made_positions(4)},  // 3 patches
                      {"visual.proj", made_positions(4)}};
  const auto told = resize_positions({{"text.positional_embedding", at::empty({8, 3})},
                                      {"visual.positional_embedding", at::empty({10, 3})},
                                      {"visual.proj", at::empty({8, 3})}},
                                     weights);
  EXPECT_EQ(told, std::vector<std::string>{"position embeddings of texts resized from 4 to 8 tokens (linear)"});
  EXPECT_EQ(weights[0].second.sizes(), (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(weights[1].second.size(0), 4);
  EXPECT_EQ(weights[2].second.size(0), 4);
}

}  // namespace
}  // namespace lockstep::models
