#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/shards/sample.h"
#include "data/shards/tar_reader.h"

namespace lockstep::data {

/// Key and extension of a member name by the WebDataset rule: split at the first dot of the base name, the folder stays
/// in the key, the extension is lower-cased. Nothing when the name has no extension or is a hidden file.
std::optional<std::pair<std::string, std::string>> split_member_name(std::string_view name);

/// Where a member of a sample lies in its shard.
struct MemberPlace {
  std::string extension;
  uint64_t offset = 0;  ///< Of the data.
  uint64_t size = 0;
};

/// Consecutive members with one key.
struct TarSample {
  std::string key;
  uint64_t offset = 0;  ///< Header of the first member.
  std::vector<MemberPlace> places;
  std::vector<Member> members;  ///< Data of the wanted members.
};

/// Reads the samples of one shard: groups consecutive regular files by key; a repeated extension starts a new sample.
/// Members that cannot belong to a sample are counted by reason.
class TarSampleReader {
 public:
  /// `wanted`: extensions whose data next() returns; nullptr: all of them.
  TarSampleReader(const std::string& shard, uint64_t start_offset, const std::vector<std::string>* wanted,
                  const std::atomic<bool>* stop);
  TarSampleReader(std::unique_ptr<ByteStream> stream, const std::string& shard, uint64_t start_offset,
                  const std::vector<std::string>* wanted);

  /// The next sample; data is left out where `with_data` is false.
  std::optional<TarSample> next(bool with_data);
  /// Where the sample after the last one begins; a reader opened there continues with it.
  uint64_t next_offset() const { return next_offset_; }
  const std::map<std::string, int64_t>& skipped() const { return skipped_; }
  bool has_global_overrides() const { return tar_.has_global_overrides(); }

 private:
  struct Part {
    std::string key, extension;
    TarEntry entry;
  };
  std::optional<Part> next_part();
  void take(TarSample& sample, const Part& part, bool with_data);

  TarReader tar_;
  const std::vector<std::string>* wanted_;
  std::optional<Part> ahead_;  // first member of the next sample; its data is unread
  bool is_started_ = false;
  uint64_t next_offset_;
  std::map<std::string, int64_t> skipped_;
};

/// Which samples a run can use.
struct SampleFilter {
  std::vector<std::string> image_keys;       ///< Empty: no image needed.
  std::vector<std::string> audio_keys = {};  ///< Empty: no audio needed.
  std::vector<std::string> text_keys;        ///< Empty: no text needed.
  bool need_label = false;
  int64_t num_classes = 0;  ///< Larger labels are bad samples; 0: any.
  /// Extensions whose data is read: all of the above and "cls".
  std::vector<std::string> wanted() const;
  /// "" when usable, else the reason, for example "sample without image (jpg, png)".
  std::string reason_against(const std::vector<std::string>& extensions) const;
  /// What to do where no sample of `shards` is usable: names the flags that choose the members needed here.
  std::string hint(const std::string& shards) const;
};

}  // namespace lockstep::data
