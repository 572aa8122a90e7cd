#include "infer/retrieve.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/safetensors.h"
#include "support/error_text.h"

namespace lockstep::infer {
namespace {

/// Rows of whole numbers: every order of summing gives the same scores, and many are equal.
at::Tensor whole_numbers(int64_t rows, int64_t width, uint64_t seed) {
  return at::randint(-2, 3, {rows, width}, at::make_generator<at::CPUGeneratorImpl>(seed)).to(at::kFloat);
}

TEST(NearestSearch, EqualsASortOfAllScoresWhateverTheTile) {
  const at::Tensor query_QE = whole_numbers(23, 6, 1), rows_NE = whole_numbers(157, 6, 2);
  const auto [score, order] = query_QE.matmul(rows_NE.t()).sort(/*stable=*/true, 1, /*descending=*/true);
  for (const int64_t tile : {1, 7, 64, 1000})
    for (const int64_t top_k : {1, 5, 157}) {
      NearestSearch search(query_QE, top_k, tile);
      search.add(rows_NE.narrow(0, 0, 40));  // rows come in parts
      search.add(rows_NE.narrow(0, 40, 117));
      const auto hits = search.hits();
      ASSERT_EQ(hits.size(), 23u);
      for (int64_t q = 0; q < 23; ++q) {
        ASSERT_EQ(std::ssize(hits[static_cast<size_t>(q)]), top_k);
        for (int64_t k = 0; k < top_k; ++k) {
          EXPECT_EQ(hits[static_cast<size_t>(q)][static_cast<size_t>(k)].row, order[q][k].item<int64_t>())
              << "tile " << tile << " query " << q << " place " << k;
          EXPECT_EQ(hits[static_cast<size_t>(q)][static_cast<size_t>(k)].score, score[q][k].item<float>());
        }
      }
    }
}

TEST(NearestSearch, FewerRowsThanAskedForGiveFewerHits) {
  NearestSearch search(whole_numbers(2, 4, 3), 10, 8);
  EXPECT_TRUE(search.hits().at(0).empty());
  search.add(whole_numbers(3, 4, 4));
  EXPECT_EQ(search.hits().at(1).size(), 3u);
}

TEST(Retrieve, QueriesOfSeveralWidthsAreRefused) {
  const core::TempDir folder;
  for (const int64_t width : {3, 4}) {
    const at::Tensor rows = at::zeros({2, width});
    const std::vector<core::SafetensorsEntry> entries{
        {.name = "text",
         .dtype = "F32",
         .shape = {2, width},
         .bytes = std::as_bytes(std::span(rows.data_ptr<float>(), static_cast<size_t>(rows.numel())))}};
    core::write_safetensors(folder.path() / (std::to_string(width) + ".safetensors"), entries, {});
  }
  config::RetrieveOptions options;
  options.embeddings = options.queries = folder.path().string();
  const std::string text = tests::message_of<DataError>([&] { retrieve(options); });
  EXPECT_TRUE(tests::holds(text, "4.safetensors' are 4 wide, those of '")) << text;
  EXPECT_TRUE(tests::holds(text, "3.safetensors' 3")) << text;
}

}  // namespace
}  // namespace lockstep::infer
