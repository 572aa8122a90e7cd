#include "train/parts_index.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace lockstep::train {
namespace {

constexpr const char* kIndexKey = "parts";

/// Along the dimension in which the tensor is cut. Where all rows that are wanted are padding that the stored table
/// does not have, its last part tells that there is such a table.
bool shares_rows(const TensorPart& wanted, const TensorPart& held) {
  if (wanted.place.dim != held.place.dim || wanted.sizes.empty() || held.sizes.empty()) return true;
  const int64_t held_end = held.place.begin + cut_size(held);
  const int64_t num_rows = held.place.whole[static_cast<size_t>(held.place.dim)];
  if (wanted.place.begin >= num_rows) return held_end == num_rows;
  return wanted.place.begin < held_end && held.place.begin < wanted.place.begin + cut_size(wanted);
}

bool shares_range(const TensorPart& wanted, int64_t offset, int64_t count) {
  return wanted.offset < offset + count && offset < wanted.offset + wanted.count;
}

size_t number_of(const std::string& key, std::map<std::string, size_t>& numbers) {
  return numbers.emplace(key, numbers.size()).first->second;
}

}  // namespace

core::Json describe_parts(const FileParts& parts) {
  core::Json out = core::Json::object();
  for (const auto& [name, part] : parts) {
    out[name] = describe_part(part);
    out[name]["count"] = part.count;
  }
  return out;
}

FileParts parts_from_json(const core::Json& said) {
  FileParts parts;
  for (const auto& [name, description] : said.items()) {
    TensorPart part = part_from_json(description);
    part.count = whole_number(description.at("count"));
    parts.emplace(name, std::move(part));
  }
  return parts;
}

void PartsIndex::add(const std::string& file, const FileParts& parts) {
  std::vector<Range>& ranges = files_[file];
  for (const auto& [name, part] : parts) {
    TensorPart cut = part;
    cut.offset = cut.count = 0;
    const size_t name_number = number_of(name, name_numbers_);
    const size_t cut_number = number_of(describe_part(cut).dump(), cut_numbers_);
    if (name_number == names_.size()) names_.push_back(name);
    if (cut_number == cuts_.size()) cuts_.push_back(std::move(cut));
    ranges.push_back({.name = name_number, .cut = cut_number, .offset = part.offset, .count = part.count});
  }
}

void PartsIndex::add_to_manifest(core::Json& extra) const {
  core::Json cuts = core::Json::array(), files = core::Json::object();
  for (const TensorPart& cut : cuts_) cuts.push_back(describe_part(cut));
  for (const auto& [file, ranges] : files_) {
    core::Json& list = files[file] = core::Json::array();
    for (const Range& range : ranges)
      list.push_back(core::Json::array({range.name, range.cut, range.offset, range.count}));
  }
  extra[kIndexKey] = {{"names", names_}, {"cuts", std::move(cuts)}, {"files", std::move(files)}};
}

PartsIndex PartsIndex::of_manifest(const core::Json& extra) {
  if (!extra.is_object() || !extra.contains(kIndexKey)) return {};
  PartsIndex index;
  try {
    const core::Json& said = extra.at(kIndexKey);
    index.names_ = said.at("names").get<std::vector<std::string>>();
    for (const core::Json& cut : said.at("cuts")) {
      index.cuts_.push_back(part_from_json(cut));
      if (!is_sound(index.cuts_.back(), 0))
        throw CheckpointError(
            fmt::format("train: a part of a tensor cannot lie where the manifest says: {}", cut.dump()));
    }
    for (const auto& [file, ranges] : said.at("files").items())
      for (const core::Json& range : ranges) {
        index.files_[file].push_back({.name = static_cast<size_t>(whole_number(range.at(0))),
                                      .cut = static_cast<size_t>(whole_number(range.at(1))),
                                      .offset = whole_number(range.at(2)),
                                      .count = whole_number(range.at(3))});
        const Range& last = index.files_[file].back();
        if (last.name >= index.names_.size() || last.cut >= index.cuts_.size() ||
            !is_within(last.offset, last.count, index.cuts_[last.cut].sizes))
          throw CheckpointError(fmt::format("train: '{}' holds a part that has no name or place", file));
      }
  } catch (const core::Json::exception& error) {
    throw CheckpointError(fmt::format("train: the manifest does not say which file holds what: {}", error.what()));
  }
  return index;
}

PartsIndex::Wanted PartsIndex::look_up(const FileParts& wanted) const {
  Wanted out{.parts = std::vector<const TensorPart*>(names_.size(), nullptr),
             .is_cut_alike = std::vector<bool>(names_.size(), false)};
  for (size_t i = 0; i < names_.size(); ++i)
    if (const auto found = wanted.find(names_[i]); found != wanted.end()) out.parts[i] = &found->second;
  for (const auto& [file, ranges] : files_)
    for (const Range& range : ranges)
      if (out.parts[range.name] != nullptr && has_same_cut(cuts_[range.cut], *out.parts[range.name]))
        out.is_cut_alike[range.name] = true;
  return out;
}

bool PartsIndex::has_some(const Range& range, const Wanted& wanted) const {
  const TensorPart* part = wanted.parts[range.name];
  if (part == nullptr) return false;
  const TensorPart& cut = cuts_[range.cut];
  if (wanted.is_cut_alike[range.name])
    return has_same_cut(cut, *part) && shares_range(*part, range.offset, range.count);
  return shares_rows(*part, cut);
}

std::vector<std::string> PartsIndex::files_with(const FileParts& wanted, const std::vector<std::string>& files) const {
  const Wanted found = look_up(wanted);
  std::vector<bool> is_complete(names_.size(), false);
  const auto is_needed = [&](const Range& range) { return !is_complete[range.name] && has_some(range, found); };
  const auto has_all_of = [&](const Range& range) {
    const TensorPart* part = found.parts[range.name];
    return part != nullptr && has_same_cut(cuts_[range.cut], *part) && range.offset <= part->offset &&
           range.offset + range.count >= part->offset + part->count;
  };
  // Numbers of steps lie in every file that has a part of their tensor: they are taken from files opened anyhow.
  const auto is_scalar = [&](const Range& range) { return cuts_[range.cut].sizes.empty(); };
  std::set<std::string> chosen;
  for (const bool of_scalars : {false, true})
    for (const std::string& file : files) {
      const auto known = files_.find(file);
      if (known == files_.end() || std::any_of(known->second.begin(), known->second.end(), [&](const Range& range) {
            return is_scalar(range) == of_scalars && is_needed(range);
          }))
        chosen.insert(file);
      if (known == files_.end() || !chosen.contains(file)) continue;
      for (const Range& range : known->second)
        if (has_all_of(range)) is_complete[range.name] = true;
    }
  std::vector<std::string> out;
  for (const std::string& file : files)
    if (chosen.contains(file)) out.push_back(file);
  return out;
}

std::map<std::string, double> PartsIndex::shares_of(const FileParts& wanted,
                                                    const std::vector<std::string>& files) const {
  const Wanted found = look_up(wanted);
  std::map<std::string, double> shares;
  for (const std::string& file : files_with(wanted, files)) {
    const auto known = files_.find(file);
    if (known == files_.end()) continue;
    int64_t num_wanted = 0, num_all = 0;
    for (const Range& range : known->second) {
      num_all += range.count;
      if (!has_some(range, found)) continue;
      const TensorPart& part = *found.parts[range.name];
      num_wanted += found.is_cut_alike[range.name] ? std::min(part.offset + part.count, range.offset + range.count) -
                                                         std::max(part.offset, range.offset)
                                                   : range.count;
    }
    shares[file] = static_cast<double>(num_wanted) / static_cast<double>(std::max<int64_t>(num_all, 1));
  }
  return shares;
}

std::vector<std::string> PartsIndex::names_in(const std::vector<std::string>& files) const {
  std::set<std::string> names;
  for (const std::string& file : files)
    if (const auto known = files_.find(file); known != files_.end())
      for (const Range& range : known->second) names.insert(names_[range.name]);
  return {names.begin(), names.end()};
}

}  // namespace lockstep::train
