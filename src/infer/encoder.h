#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/contrastive_shape.h"
#include "config/infer_options.h"
#include "core/json.h"
#include "data/loader.h"
#include "data/pictures/transform.h"
#include "data/text/text_encoder.h"
#include "hw/ranks.h"
#include "infer/bad_samples.h"
#include "models/clip/clip_model.h"
#include "tasks/contrastive/engine/embedding_engine.h"
#include "tasks/contrastive/engine/evaluator.h"

namespace lockstep::infer {

/// A loaded CLIP or CLAP model with all that feeds it. Ranks do not talk: each has one of its own.
class Encoder {
 public:
  /// `options` outlive it. The ranks of a node share its cores and devices.
  Encoder(const config::InferOptions& options, const hw::RankInfo& ranks);

  bool is_audio() const { return shape_.clap() != nullptr; }
  const char* what() const { return is_audio() ? "sounds" : "pictures"; }

  /// Features on the CPU, row by row, with progress on the terminal. Rows of files in `bad` mean nothing.
  at::Tensor files(const std::vector<std::filesystem::path>& files, BadSamples& bad);
  at::Tensor texts(const std::vector<std::string>& lines);
  /// Places (from 0) of the texts that are longer than the context, and so are cut.
  std::vector<size_t> cut_texts(const std::vector<std::string>& lines) const;
  /// [K, E], see tasks::zero_shot_classifier.
  at::Tensor classes(const std::vector<std::string>& names, const std::vector<std::string>& templates);
  /// The caption of each picture, in order. UsageError unless the model makes captions in CLIP's tokens.
  /// Those of files in `bad` mean nothing.
  std::vector<std::string> captions(const std::vector<std::filesystem::path>& files, BadSamples& bad);
  double scale();  ///< exp of the logit scale.
  int64_t embed_dim() const;
  at::Device device() const { return device_; }

  const tasks::EmbeddingEngine& engine() const { return *engine_; }
  const config::ContrastiveShape& shape() const { return shape_; }
  /// Of samples with what the towers asked for read.
  data::SampleDecoder make_decoder() const;
  /// Members of a shard's sample that hold its picture, recording or caption, the preferred one first.
  std::vector<std::string> image_keys() const;
  std::vector<std::string> audio_keys() const;
  std::vector<std::string> text_keys() const;
  data::LoaderConfig loader_config(bool has_other, bool has_text) const;
  data::TransformConfig make_transform() const;
  /// What embeddings depend on whatever they are of: "weights" (a hash of all parameters and buffers as they compute),
  /// "shape", "preparation" of pictures or sounds and, with texts, "vocabulary" (a hash of its files).
  core::Json origin(bool has_text) const;

 private:
  std::string weights_hash() const;
  std::string vocabulary_hash() const;
  core::Json preparation() const;
  models::ClipModel& captioning_model();
  tasks::EncoderContext context(const std::string& what, int64_t total);

  const config::InferOptions& options_;
  at::Device device_;
  train::Precision precision_;
  config::ContrastiveShape shape_;
  data::TextEncoder encoder_;
  std::unique_ptr<models::TwoTowers> model_;
  std::optional<train::BatchMover> mover_;
  std::optional<tasks::EmbeddingEngine> engine_;  // behind what it refers to
  comm::Comm one_rank_;
};

}  // namespace lockstep::infer
