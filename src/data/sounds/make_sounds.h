#pragma once
#include <cstdint>
#include <filesystem>

#include "data/demo_set.h"

namespace lockstep::data {

/// A demo data set: synthesised tones, chords, sweeps, noises, pulses and rhythms (24 classes) with captions.
struct MakeSoundsConfig {
  DemoSetOptions set = {.num_train = 6000, .num_val = 480, .samples_per_shard = 500};
  int64_t sample_rate = 16000;  ///< Hz, 8000 to 192000.
  double seconds = 1.0;         ///< Of each recording, 0.25 to 60.
  int64_t vocab_size = 1000;    ///< At most; of the tokenizer that is trained on the captions.
};

struct MakeSoundsResult {
  DemoSetResult set;
  std::filesystem::path tokenizer = {};  ///< Folder of vocab.json, merges.txt and tokenizer.json.
  int64_t vocab_size = 0;                ///< Tokens that the tokenizer has.
  int64_t sample_rate = 0;               ///< Hz.
  int64_t clip_samples = 0;              ///< Of each recording.
};

core::Json to_json(const MakeSoundsResult& result);

/// make_demo_set with members KEY.flac, KEY.json ("text": a full and a short caption; the class; what was drawn),
/// KEY.cls, and held-out recordings KEY.flac; and tokenizer/: a byte-level BPE with RoBERTa's special tokens, trained
/// on the captions of the training samples, so that nothing needs to be downloaded. Settings out of range throw
/// UsageError.
MakeSoundsResult make_sounds(const MakeSoundsConfig& config);

}  // namespace lockstep::data
