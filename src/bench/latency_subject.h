#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_case.h"
#include "core/clock.h"
#include "data/batch.h"
#include "data/pictures/image.h"
#include "data/pictures/transform.h"

namespace lockstep::bench {

/// Where a measured call begins, what it computes, and with how much of it.
struct LatencyPoint {
  std::string from;       ///< "pictures", "pixels", "tokens": see docs/inference.md.
  std::string precision;  ///< "fp32", "bf16", "fp16"
  std::string tower;      ///< "both", "image", "text"; of GPTs "text", of classifiers "image".
  int64_t batch = 1;
};

/// Tells how long the stages of a call took: each lasts from the mark before to its own. On an accelerator a mark waits
/// for the device, so that calls with one are no measurement of the whole.
class StageClock {
 public:
  explicit StageClock(at::Device device) : device_(device) {}
  void begin() { last_ = core::Clock::now(); }
  void mark(const char* stage);
  /// Milliseconds in the order of the marks.
  const std::vector<std::pair<std::string, double>>& stages() const { return stages_; }

 private:
  at::Device device_;
  core::Clock::time_point last_;
  std::vector<std::pair<std::string, double>> stages_;
};

/// A model whose calls are measured.
class LatencySubject {
 public:
  virtual ~LatencySubject() = default;
  /// Starting points and towers that this kind of model has, the default one first.
  virtual std::vector<std::string> froms() const = 0;
  virtual std::vector<std::string> towers() const = 0;
  /// Loads the weights of the point's precision, where they are not there, and makes its inputs. Whether it loaded any.
  virtual bool prepare(const LatencyPoint& point) = 0;
  /// Elements of one call's result that are not what the plain computation gives.
  virtual int64_t count_wrong() = 0;
  /// One call; its results are on the host afterwards. `clock` may be nullptr.
  virtual void run(StageClock* clock) = 0;
  /// What else a row tells: "text_tokens", ...
  virtual core::Json facts() const = 0;
};

/// CLIP, CLAP.
std::unique_ptr<LatencySubject> make_contrastive_subject(const BenchContext& context);
/// ResNet and ViT of `train imagenet`.
std::unique_ptr<LatencySubject> make_classifier_subject(const BenchContext& context);
/// Continues prompts; a call ends with the first token, and the stage "next_tokens" is that of the others.
std::unique_ptr<LatencySubject> make_gpt_subject(const BenchContext& context);

/// The --precision of train::Precision in which every parameter and input has that type.
std::string precision_name(const std::string& type);
/// Elements further apart than `tolerance`, or that are no numbers.
int64_t count_apart(const at::Tensor& got, const at::Tensor& expected, double tolerance);
/// What rounding of the precision explains, of rows of length 1.
double feature_tolerance(const std::string& precision);

/// Encoded pictures to decode: those of --images, else made ones, over and over.
std::vector<std::string> encoded_pictures(const commands::BenchOptions& options, int64_t count);

/// Memory that reading pictures uses again.
struct PictureScratch {
  std::vector<data::Image> images;
  std::vector<data::TransformScratch> resize;
};

/// Decodes and resizes the first host.num_samples of `files` into `host`, in as many threads as compute. `clock` may be
/// nullptr; its stages are "decode" and "resize".
void read_pictures(std::span<const std::string> files, const data::TransformConfig& transform, data::HostBatch& host,
                   PictureScratch& scratch, StageClock* clock);

}  // namespace lockstep::bench
