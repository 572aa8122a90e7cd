#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/epoch_size.h"
#include "data/shards/source.h"
#include "data/shards/source_config.h"

namespace lockstep::data {

/// What a sample holds beside its caption.
enum class Media { kPictures, kSounds };

/// A kind of data: as tasks name it, and what it is also called where it holds sounds ("": nothing).
struct DatasetName {
  std::string name, alias;
};

/// The kinds of data with captions, but for "auto".
std::vector<DatasetName> captioned_datasets(Media media);

/// The kinds of pictures with classes, but for "auto". For them SourceConfig has need_label and not need_text.
std::vector<DatasetName> labelled_datasets();

/// Can its samples be had in any order (a table, class folders, an LMDB), or only as a stream (shards)?
bool is_made_of_rows(const SourceConfig& config);

/// Is it made up: without files, and without a size of its own?
bool is_made_up(const std::string& type);

/// The classes of data of this kind (a name of DatasetType) that name them, in the order of their numbers: class
/// folders, and an LMDB of such. Empty for all other data, and where there are none.
std::vector<std::string> class_names_of(const std::string& type, const std::string& spec);

/// "auto", "webdataset", ...; UsageError with the known names. "webdataset-audio" is WebDataset: what a sample needs is
/// said apart.
std::string parse_dataset_type(const std::string& name);
DataOrder parse_data_order(const std::string& name);

/// The size of an epoch. OpenCLIP's rule: --train-num-samples, else the index, else sizes.json or __len__ beside the
/// first shard, rounded up to whole global batches. Where the exact number is known by index or by the kind of source
/// and no number was asked for, the epoch is rounded down instead, so that no sample appears twice. DataError when the
/// size cannot be found.
EpochSize epoch_size(const SourceConfig& config);
/// A sentence for the log where --train-num-samples, or a file beside shards, tells more samples than there are; ""
/// where not, or where nobody knows.
std::string size_warning(const SourceConfig& config);

/// Endless stream of one rank for training.
std::unique_ptr<SampleSource> open_train_source(const SourceConfig& config);

/// A position for checkpoints of other programs, which tell how many epochs were trained, and no more.
core::Json position_after_epochs(int64_t num_epochs, int64_t num_samples);
/// Seeks to a position of the source's own, or to one of position_after_epochs: there the pass that a run of this
/// program would be in (with --data-order openclip: the epoch). A stream whose size nobody knows begins anew.
void seek_source(SampleSource& source, const core::Json& position);

/// Each sample exactly once over all ranks, in the order given, then the end: rank r gets samples r, r + world_size,
/// ... (RawSample::id is the sample's number). The numbers of samples per rank differ by one at most.
std::unique_ptr<SampleSource> open_eval_source(const SourceConfig& config);

/// Makes the missing side-cars where that is allowed without being asked (fewer than 1,000 shards, all local, folder
/// writable). One process calls it before any rank opens the source. Returns whether the data has a complete index
/// afterwards. A damaged shard throws DataError.
bool prepare_index(const SourceConfig& config, int64_t num_threads);
/// DataError when shards of the list are not there, with their number; nothing happens for other kinds of data.
void refuse_missing_shards(const SourceConfig& config, int64_t num_threads);

}  // namespace lockstep::data
