#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "train/metrics.h"

namespace lockstep::tasks {

/// Rank (from 0) of each row's own column among all columns of rows_NE x columns_NE^T. Columns with an equal score rank
/// by their index. `sharers`, who all have all features, compute a share each, where the features lie; all get all.
/// Computed in chunks of `most_rows` rows, or of fewer where they would take more than 256 MiB. Collective. Letters: N
/// pairs (at least one), E embedding.
std::vector<int64_t> matching_ranks(const at::Tensor& rows_NE, const at::Tensor& columns_NE, comm::Comm& sharers,
                                    int64_t most_rows = 1024);

/// OpenCLIP's names: <prefix>_mean_rank, _median_rank (floor of the median, plus 1), _R@1, _R@5, _R@10.
train::Metrics rank_metrics(const std::string& prefix, const std::vector<int64_t>& ranks);

/// LAION-CLAP's mAP@10 for one match per query: the mean of 1 / (rank + 1), 0 for matches behind the tenth place.
double mean_average_precision_at_10(const std::vector<int64_t>& ranks);

/// image_to_text_* and text_to_image_* for one caption per picture; of sounds ("audio") audio_to_text_* and
/// text_to_audio_* with _mAP@10. Shared out and collective as matching_ranks().
train::Metrics retrieval_metrics(const std::string& modality, const at::Tensor& other_NE, const at::Tensor& text_NE,
                                 comm::Comm& sharers);

/// Mean over consecutive batches of `batch` pairs of the symmetric cross entropy (OpenCLIP's clip_val_loss: it depends
/// on the batch). Shared out and collective likewise.
double batched_contrastive_loss(const at::Tensor& image_NE, const at::Tensor& text_NE, double logit_scale,
                                int64_t batch, comm::Comm& sharers);

}  // namespace lockstep::tasks
