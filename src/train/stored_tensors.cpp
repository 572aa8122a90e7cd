#include "train/stored_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/strings.h"
#include "models/weights_tensors.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

std::string first_names(const std::set<std::string>& names) {
  constexpr size_t kMost = 10;
  const std::vector<std::string> shown(
      names.begin(), std::next(names.begin(), static_cast<std::ptrdiff_t>(std::min(kMost, names.size()))));
  return fmt::format("{} ({}{})", names.size(), core::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

/// Scales of FP8 layers: a run goes on with and without FP8, from scales of 1 where there are none.
bool is_optional(const std::string& name) { return name.find(".fp8.") != std::string::npos; }

/// What is read before any tensor.
int64_t header_bytes(const core::SafetensorsFile& file) {
  int64_t bytes = file.num_bytes();
  for (const auto& entry : file.entries()) bytes -= std::ssize(entry.bytes);
  return bytes;
}

}  // namespace

StoredTensors::StoredTensors(const fs::path& folder, const std::vector<std::string>& files, const HeldFiles* held)
    : folder_(folder) {
  for (const auto& name : files) {
    const fs::path path = folder / name;
    const core::HashedFile* content = held != nullptr ? held->find(path) : nullptr;
    files_.push_back(content != nullptr ? std::make_unique<core::SafetensorsFile>(path, content->bytes())
                                        : std::make_unique<core::SafetensorsFile>(path));
    add(*files_.back(), path, content == nullptr);
  }
}

void StoredTensors::add(const core::SafetensorsFile& file, const fs::path& path, bool is_mapped) {
  if (is_mapped) counts_.add({.num_files = 1, .num_bytes = header_bytes(file)});
  const auto found = file.metadata().find(kPartsKey);
  const core::Json parts =
      found == file.metadata().end() ? core::Json::object() : core::parse_json(found->second, path.string());
  std::unordered_map<std::string_view, const core::Json*> part_of_name;  // the JSON looks through all keys
  if (parts.is_object())
    for (const auto& [name, said] : parts.get_ref<const core::Json::object_t&>()) part_of_name.emplace(name, &said);
  for (const auto& entry : file.entries()) {
    const at::Tensor tensor = models::borrow_tensor(entry, path.string());
    TensorPart part = part_of(tensor, {}, "");
    try {
      if (const auto said = part_of_name.find(entry.name); said != part_of_name.end())
        part = part_from_json(*said->second);
    } catch (const core::Json::exception& error) {
      throw CheckpointError(fmt::format("train: checkpoint file '{}' does not say where the part '{}' belongs: {}",
                                        path.string(), entry.name, error.what()));
    }
    part.count = tensor.numel();
    if (!is_sound(part, part.count))
      throw CheckpointError(
          fmt::format("train: checkpoint file '{}' holds a part '{}' of {} elements that cannot lie where it says: {}",
                      path.string(), entry.name, tensor.numel(), describe_part(part).dump()));
    pieces_[entry.name].push_back({.flat = tensor.reshape({-1}), .part = std::move(part), .is_mapped = is_mapped});
  }
}

/// The same shape, but for the number of rows of padding.
bool StoredTensors::fits(const TensorPart& wanted, const std::vector<int64_t>& stored) const {
  const auto& whole = wanted.place.whole;
  if (stored == whole) return true;
  const auto rows = wanted.place.num_rows;
  return rows && stored.size() == whole.size() && !stored.empty() && stored[0] >= *rows && whole[0] >= *rows &&
         std::equal(stored.begin() + 1, stored.end(), whole.begin() + 1);
}

void StoredTensors::check(const std::map<std::string, TensorPart>& wanted, const std::set<std::string>& known,
                          const std::vector<std::string>& others) const {
  std::set<std::string> missing, misshaped, unknown;
  for (const auto& [name, part] : wanted) {
    const auto found = pieces_.find(name);
    if (found == pieces_.end() && is_optional(name)) continue;
    if (found == pieces_.end())
      missing.insert(name);
    else if (!std::all_of(found->second.begin(), found->second.end(),
                          [&](const Piece& piece) { return fits(part, piece.part.place.whole); }))
      misshaped.insert(name);
  }
  std::set<std::string> stored(others.begin(), others.end());
  for (const auto& [name, pieces] : pieces_) stored.insert(name);
  for (const auto& name : stored)
    if (!known.contains(name) && !is_optional(name)) unknown.insert(name);
  if (missing.empty() && misshaped.empty() && unknown.empty()) return;
  std::vector<std::string> differences;
  for (const auto& [what, names] : {std::pair("missing", &missing), {"other shape", &misshaped}, {"unknown", &unknown}})
    if (!names->empty()) differences.push_back(fmt::format("{} {}", what, first_names(*names)));
  throw CheckpointError(
      fmt::format("train: checkpoint '{}' is of another model: {}", folder_.string(), core::join(differences, ", ")),
      "resume with the options the run was started with, --model among them; `lockstep config show "
      "RUN` lists those of the folder of a run");
}

/// Elements copied; what several files hold alike (the number of steps) counts once.
int64_t StoredTensors::copy_overlaps(const std::vector<const Piece*>& pieces, int64_t offset,
                                     const at::Tensor& target) {
  int64_t num_copied = 0;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Piece* piece : pieces) {
    if (!seen.emplace(piece->part.offset, piece->flat.numel()).second) continue;
    const int64_t from = std::max(offset, piece->part.offset);
    const int64_t to = std::min(offset + target.numel(), piece->part.offset + piece->flat.numel());
    if (from >= to) continue;
    target.narrow(0, from - offset, to - from).copy_(piece->flat.narrow(0, from - piece->part.offset, to - from));
    num_copied += to - from;
    if (piece->is_mapped) counts_.num_bytes += (to - from) * static_cast<int64_t>(piece->flat.element_size());
  }
  return num_copied;
}

void StoredTensors::read(const std::string& name, const TensorPart& wanted, const at::Tensor& target) {
  if (!pieces_.contains(name) && is_optional(name)) return;
  const c10::NoGradGuard no_grad;
  std::vector<const Piece*> alike;  // cut and laid out as this rank's is
  for (const Piece& piece : pieces_.at(name))
    if (has_same_cut(piece.part, wanted)) alike.push_back(&piece);
  if (copy_overlaps(alike, wanted.offset, target) == target.numel()) return;

  at::Tensor whole = read_whole(name, wanted, target.options().device(at::kCPU));
  const auto& place = wanted.place;
  if (!place.whole.empty() && whole.size(0) != place.whole[0]) {
    const at::Tensor padded = at::zeros(place.whole, whole.options());
    padded.narrow(0, 0, *place.num_rows).copy_(whole.narrow(0, 0, *place.num_rows));
    whole = padded;
  }
  if (!place.whole.empty()) whole = whole.narrow(place.dim, place.begin, wanted.sizes[static_cast<size_t>(place.dim)]);
  const at::Tensor ordered = at::empty_strided(wanted.sizes, wanted.strides, whole.options());
  ordered.copy_(whole);
  target.copy_(flat_memory(ordered).narrow(0, wanted.offset, target.numel()));
}

/// Put together from parts, however they are cut. Where they are cut along the dimension in which a part is wanted,
/// only its rows are there.
at::Tensor StoredTensors::read_whole(const std::string& name, const TensorPart& wanted,
                                     const at::TensorOptions& options) {
  std::map<std::tuple<int64_t, int64_t, std::vector<int64_t>, std::vector<int64_t>>, std::vector<const Piece*>> by_cut;
  for (const Piece& piece : pieces_.at(name))
    by_cut[{piece.part.place.dim, piece.part.place.begin, piece.part.sizes, piece.part.strides}].push_back(&piece);
  const TensorPlace& place = pieces_.at(name).front().part.place;
  const at::Tensor whole = at::empty(place.whole, options);
  const int64_t num_rows = place.whole.empty() ? 1 : place.whole[static_cast<size_t>(place.dim)];
  int64_t first_row = 0, end_row = num_rows;
  if (wanted.place.dim == place.dim && !wanted.sizes.empty()) {
    first_row = std::min(wanted.place.begin, num_rows);
    end_row = std::min(wanted.place.begin + cut_size(wanted), num_rows);
  }
  const int64_t num_wanted = num_rows > 0 ? whole.numel() / num_rows * (end_row - first_row) : 0;
  int64_t num_found = 0;
  for (const auto& [cut, pieces] : by_cut) {
    const auto& [dim, begin, sizes, strides] = cut;
    const int64_t rows = cut_size(pieces.front()->part);
    const int64_t num_shared = std::min(begin + rows, end_row) - std::max(begin, first_row);
    if (num_shared <= 0) continue;
    const at::Tensor written = at::empty_strided(sizes, strides, options);
    if (!written.is_non_overlapping_and_dense()) fail_incomplete(name, num_found, num_wanted);
    const int64_t num_copied = copy_overlaps(pieces, 0, flat_memory(written));
    if (num_copied != written.numel()) fail_incomplete(name, num_found + num_copied, num_wanted);
    (sizes.empty() ? whole : whole.narrow(dim, begin, rows)).copy_(written);
    num_found += num_copied / rows * num_shared;
  }
  if (num_found != num_wanted) fail_incomplete(name, num_found, num_wanted);
  return whole;
}

void StoredTensors::fail_incomplete(const std::string& name, int64_t num_found, int64_t num_wanted) const {
  throw CheckpointError(
      fmt::format("train: the parts of '{}' in checkpoint '{}' do not make a whole: elements={}, expected={}", name,
                  folder_.string(), num_found, num_wanted),
      checkpoint::instead_of_damaged(folder_));
}

}  // namespace lockstep::train
