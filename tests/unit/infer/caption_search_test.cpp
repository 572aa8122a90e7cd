// Captions of small CoCa models against OpenCLIP's own generate() (ref/make_caption_goldens.py).
#include "infer/caption_search.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "core/json.h"
#include "support/clip_golden.h"

namespace lockstep::infer {
namespace {

core::Json caption_cases() {
  return core::parse_json(core::read_file(tests::golden_path("clip/captions.json")), "captions.json");
}

/// Without what stands behind its end.
std::vector<int32_t> ended(std::vector<int32_t> ids, int32_t end) {
  const auto found = std::find(ids.begin(), ids.end(), end);
  if (found != ids.end()) ids.erase(found + 1, ids.end());
  return ids;
}

TEST(CaptionSearch, CaptionsAreThoseOfOpenClip) {
  const at::NoGradGuard no_gradients;
  size_t num_beam_cases = 0, num_different = 0;
  for (const core::Json& one : caption_cases()) {
    const std::string model_name = one.at("model");
    SCOPED_TRACE(one.dump().substr(0, 160));
    const auto golden = tests::load_golden(tests::file_of(model_name));
    auto model = tests::golden_model(model_name, golden);
    model->set_training(false);
    const at::Tensor picture_BSD = model->image_features(golden.at("input/image").to(at::kFloat)).tokens_BTD;
    CaptionSearch search{.longest = one.at("seq_len"), .shortest = one.at("min_seq_len"), .start_id = 62, .end_id = 63};
    search.is_beam_search = one.at("generation_type") == "beam_search";
    if (search.is_beam_search) {
      search.num_beams = one.at("num_beams").get<int64_t>() / one.at("num_beam_groups").get<int64_t>();
      ++num_beam_cases;
    }
    const auto captions = search_captions(
        [&](const at::Tensor& picture_N, const at::Tensor& ids_NT) {
          return model->next_token_logits(picture_BSD.index_select(0, picture_N), ids_NT);
        },
        picture_BSD.size(0), search);
    for (size_t picture = 0; picture < captions.size(); ++picture) {
      EXPECT_EQ(captions[picture], ended(one.at("ids").at(picture).get<std::vector<int32_t>>(), 63)) << picture;
      if (captions[picture] != captions[0]) ++num_different;
    }
  }
  EXPECT_GE(num_beam_cases, 4u);
  EXPECT_GT(num_different, 4u) << "all pictures have one caption";
}

/// Logits that want the end at once, and then token 5.
at::Tensor eager_logits(const at::Tensor&, const at::Tensor& ids_NT) {
  at::Tensor logits = at::zeros({ids_NT.size(0), 8});
  logits.select(1, 7).fill_(2.0);
  logits.select(1, 5).fill_(1.0);
  return logits;
}

TEST(CaptionSearch, NoCaptionIsShorterOrLongerThanAsked) {
  for (const bool is_beam_search : {false, true}) {
    CaptionSearch search{.is_beam_search = is_beam_search, .longest = 9, .shortest = 4, .start_id = 6, .end_id = 7};
    const auto captions = search_captions(eager_logits, 2, search);
    ASSERT_EQ(captions.size(), 2u);
    for (const auto& caption : captions) {
      EXPECT_GE(caption.size(), 5u);
      EXPECT_LE(caption.size(), 9u);
      EXPECT_EQ(caption.back(), 7);
    }
  }
}

TEST(CaptionSearch, DrawsFollowTheSeed) {
  const auto even = [](const at::Tensor&, const at::Tensor& ids_NT) { return at::zeros({ids_NT.size(0), 50}); };
  CaptionSearch search{.is_beam_search = false, .longest = 12, .start_id = 48, .end_id = 49};
  search.choice.is_greedy = false;
  search.seed = 1;
  const auto first = search_captions(even, 3, search);
  EXPECT_EQ(search_captions(even, 3, search), first);
  EXPECT_NE(first[0], first[1]);
  search.seed = 2;
  EXPECT_NE(search_captions(even, 3, search), first);
}

}  // namespace
}  // namespace lockstep::infer
