#include "data/order/lane_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "data/shards/class_label.h"
#include "data/shards/shard_index.h"
#include "data/shards/shard_list.h"
#include "data/shards/warn_once.h"

namespace lockstep::data {
namespace {

constexpr uint64_t kPurposeWindow = 0x57494e444f57ull;
constexpr uint64_t kPurposeSubstitute = 0x535542ull;
constexpr int64_t kMaxBarren = 16;  // shards in a row without a usable sample: then something is wrong with all of them

RawSample make_sample(const std::string& shard, TarSample&& read, bool need_label, int64_t num_classes,
                      bool keep_lost) {
  RawSample sample;
  sample.key = std::move(read.key);
  sample.shard = shard;
  sample.offset = read.offset;
  sample.members = std::move(read.members);
  const Member* label = need_label ? sample.find("cls") : nullptr;
  try {
    if (label != nullptr)
      sample.label =
          parse_class_label(label->bytes, num_classes, fmt::format("data: {}: the class in '.cls'", sample.place()));
  } catch (const DataError& error) {
    if (!keep_lost) throw;
    sample.damage = std::make_shared<const DataError>(error);
  }
  return sample;
}

bool is_power_of_ten(int64_t count) {
  while (count > 1 && count % 10 == 0) count /= 10;
  return count == 1;
}

/// Not damage: an index of other data. It stops the run in any case.
struct StaleIndex : DataError {
  using DataError::DataError;
};

[[noreturn]] void throw_stale(const std::string& shard, const std::string& what) {
  throw StaleIndex(fmt::format("data: the index of shard '{}' does not fit it: {}", shard, what),
                   "index it again with `lockstep data index --force`, or check it with `lockstep data verify`");
}

std::vector<uint64_t> indexed_offsets(const ShardSet& set, const std::string& shard) {
  const std::filesystem::path side_car = side_car_path(shard, set.index_dir);
  return parse_shard_index(core::read_file(side_car), side_car.string()).usable_offsets(set.filter);
}

/// A sample of an indexed set, drawn from all of them.
RawSample draw_sample(const ShardSet& set, core::CounterRng&& rng) {
  auto ordinal = static_cast<int64_t>(rng.below(static_cast<uint64_t>(set.num_samples())));
  size_t shard = 0;
  while (ordinal >= set.samples[shard]) ordinal -= set.samples[shard++];
  const std::string& name = set.shards[shard];
  const std::vector<uint64_t> offsets = indexed_offsets(set, name);
  if (static_cast<size_t>(ordinal) >= offsets.size()) throw_stale(name, "its header counts more samples");
  TarSampleReader reader(name, offsets[static_cast<size_t>(ordinal)], &set.wanted, nullptr);
  std::optional<TarSample> read = reader.next(true);
  if (!read) throw_stale(name, fmt::format("it ends before sample {}", ordinal));
  return make_sample(name, std::move(*read), set.filter.need_label, set.filter.num_classes,
                     /*keep_lost=*/false);
}

}  // namespace

void PieceWalker::begin(std::vector<ShardPiece> pieces, const Place& place) {
  close();
  pieces_ = std::move(pieces);
  place_ = place;
}

void PieceWalker::close() {
  if (!reader_) return;
  for (const auto& [reason, count] : reader_->skipped()) context_.report.skipped[reason] += count;
  reader_.reset();
}

void PieceWalker::next_piece() {
  close();
  place_ = {.piece = place_.piece + 1, .taken = 0, .offset = 0};
}

void PieceWalker::throw_unusable() const {
  std::string reasons;
  for (const auto& [reason, count] : barren_reasons_)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", reason, count);
  const std::string& last = context_.set->shards[static_cast<size_t>(pieces_[place_.piece].shard)];
  throw DataError(fmt::format("data: no usable sample in {} shards in a row, the last was '{}' ({})", num_barren_, last,
                              reasons.empty() ? "they are empty" : reasons),
                  context_.set->filter.hint(last));
}

/// The present piece held no usable sample.
void PieceWalker::count_barren() {
  ++num_barren_;
  if (reader_)
    for (const auto& [reason, count] : reader_->skipped()) barren_reasons_[reason] += count;
  if (num_barren_ >= std::min<int64_t>(kMaxBarren, static_cast<int64_t>(context_.set->shards.size()))) throw_unusable();
}

void PieceWalker::open() {
  const ShardPiece& piece = pieces_[place_.piece];
  const auto shard_index = static_cast<size_t>(piece.shard);
  const ShardSet& set = *context_.set;
  const std::string& shard = set.shards[shard_index];
  if (set.has_index()) {
    std::error_code code;
    const uint64_t bytes = std::filesystem::file_size(shard, code);
    const bool is_cut = bytes < set.bytes[shard_index];  // damage, which shows where it lies
    if (!code && bytes != set.bytes[shard_index] && !(is_cut && context_.keep_lost))
      throw_stale(shard, fmt::format("bytes={}, expected={}", bytes, set.bytes[shard_index]));
  }
  const auto target = static_cast<uint64_t>(piece.first + place_.taken);
  uint64_t start = place_.offset, num_before = 0;
  if (start == 0 && target > 0) {
    if (set.has_index()) {
      start = offset_of(target);
    } else {
      num_before = target;
    }
  }
  reader_.emplace(shard, start, &set.wanted, &context_.is_interrupted);
  ++context_.report.num_shards;
  for (; num_before > 0; --num_before)
    if (!next_in_shard(false)) throw_stale(shard, "it has fewer samples than when the position was written");
}

/// Where a usable sample of the present shard begins, by the index.
uint64_t PieceWalker::offset_of(uint64_t ordinal) {
  const int64_t index = pieces_[place_.piece].shard;
  const std::string& shard = context_.set->shards[static_cast<size_t>(index)];
  if (offsets_shard_ != index) {
    offsets_ = indexed_offsets(*context_.set, shard);
    offsets_shard_ = index;
  }
  if (ordinal >= offsets_.size())
    throw_stale(shard, fmt::format("usable samples={}, wanted number {}", offsets_.size(), ordinal));
  return offsets_[ordinal];
}

/// The present sample as a lost one. Stands behind it afterwards.
RawSample PieceWalker::take_lost(const DataError& damage) {
  const ShardPiece& piece = pieces_[place_.piece];
  RawSample sample;
  sample.shard = context_.set->shards[static_cast<size_t>(piece.shard)];
  num_barren_ = 0;
  if (piece.count >= 0) {
    sample.damage = std::make_shared<const DataError>(damage);
    sample.offset = offset_of(static_cast<uint64_t>(piece.first + place_.taken));
    close();
    place_ = {.piece = place_.piece, .taken = place_.taken + 1, .offset = 0};  // the next one may be whole
  } else {
    sample.damage = std::make_shared<const DataError>(
        fmt::format("{}; every sample behind it is lost as well, and counted as this one", damage.what()),
        "lockstep data index tells how many samples a shard has: then each lost one is counted and replaced by itself");
    sample.offset = reader_ ? reader_->next_offset() : place_.offset;
    context_.known_samples[static_cast<size_t>(piece.shard)] = place_.taken + 1;
    next_piece();
  }
  return sample;
}

/// An index tells at the start what is left out; without one it shows only now: the first sample of each reason, and
/// how many they have become.
void PieceWalker::count_left_out(const std::string& reason, const std::string& key) {
  const int64_t count = ++context_.report.skipped[reason];
  if (context_.set->has_index()) return;
  if (count == 1)
    warn_once(
        fmt::format("data: sample '{}' of shard '{}' is left out: {}; how many such samples there are shows only while "
                    "they are read, since the shards have no index",
                    key, context_.set->shards[static_cast<size_t>(pieces_[place_.piece].shard)], reason));
  else if (is_power_of_ten(count))
    warn_once(fmt::format("data: {} samples read so far were left out: {}", count, reason));
}

std::optional<RawSample> PieceWalker::next_in_shard(bool with_data) {
  const ShardSet& set = *context_.set;
  while (std::optional<TarSample> read = reader_->next(with_data)) {
    std::vector<std::string> extensions;
    for (const MemberPlace& place : read->places) extensions.push_back(place.extension);
    const std::string reason = set.filter.reason_against(extensions);
    if (reason.empty())
      return make_sample(set.shards[static_cast<size_t>(pieces_[place_.piece].shard)], std::move(*read),
                         set.filter.need_label && with_data, set.filter.num_classes, context_.keep_lost);
    count_left_out(reason, read->key);
    if (num_barren_ > 0 || place_.taken == 0) ++barren_reasons_[reason];
  }
  return std::nullopt;
}

std::optional<RawSample> PieceWalker::next() { return next(true); }

std::optional<RawSample> PieceWalker::next(bool with_data) {
  while (place_.piece < pieces_.size()) {
    const ShardPiece& piece = pieces_[place_.piece];
    if (piece.count < 0 || place_.taken < piece.count) {
      try {
        if (!reader_) open();
        if (auto sample = next_in_shard(with_data)) {
          ++place_.taken;
          place_.offset = reader_->next_offset();
          num_barren_ = 0;
          barren_reasons_.clear();
          return sample;
        }
      } catch (const StaleIndex&) {
        throw;
      } catch (const DataError& damage) {
        if (!context_.keep_lost || context_.is_interrupted.load()) throw;
        return take_lost(damage);
      }
      const std::string& shard = context_.set->shards[static_cast<size_t>(piece.shard)];
      if (piece.count >= 0)
        throw_stale(shard, fmt::format("it ends after {} of {} samples", piece.first + place_.taken,
                                       piece.first + piece.count));
      context_.known_samples[static_cast<size_t>(piece.shard)] = place_.taken;
      if (place_.taken == 0) count_barren();
    } else if (piece.count == 0) {
      count_barren();
    }
    next_piece();
  }
  return std::nullopt;
}

int64_t PieceWalker::pass_over(int64_t count) {
  int64_t done = 0;
  while (done < count && place_.piece < pieces_.size()) {
    const ShardPiece& piece = pieces_[place_.piece];
    const int64_t known = piece.count >= 0 ? piece.count : context_.known_samples[static_cast<size_t>(piece.shard)];
    if (known >= 0 && known - place_.taken <= count - done) {
      done += known - place_.taken;
      if (known == 0) {
        count_barren();
      } else {
        num_barren_ = 0;
      }
      next_piece();
    } else if (known >= 0 && context_.set->has_index()) {
      close();
      place_.taken += count - done;
      place_.offset = 0;
      done = count;
    } else if (next(false)) {
      ++done;
    }
  }
  return done;
}

core::Json LaneMark::to_json() const {
  return core::Json::array({lane, taken, pass, window, place.piece, place.taken, place.offset});
}

LaneMark LaneMark::from_json(const core::Json& json) {
  LaneMark mark;
  try {
    if (json.size() != 7) throw DataError(fmt::format("data: a lane mark of {} numbers, expected 7", json.size()));
    mark.lane = json.at(0).get<int64_t>();
    mark.taken = json.at(1).get<int64_t>();
    mark.pass = json.at(2).get<uint64_t>();
    mark.window = json.at(3).get<uint64_t>();
    mark.place = {
        .piece = json.at(4).get<uint64_t>(), .taken = json.at(5).get<int64_t>(), .offset = json.at(6).get<uint64_t>()};
  } catch (const core::Json::exception& error) {
    throw DataError(fmt::format("data: malformed lane mark: {}", error.what()));
  }
  if (mark.lane < 0 || mark.taken < 0 || mark.place.taken < 0)
    throw DataError("data: a lane mark with a negative number");
  return mark;
}

void LaneStream::begin_pass(uint64_t pass) {
  pass_ = pass;
  next_window_ = 0;
  walker_.begin(lane_pieces(*context_.set, context_.order, pass, lane_), {});
  is_pass_open_ = true;
}

void LaneStream::restore(const LaneMark& mark) {
  begin_pass(mark.pass);
  walker_.begin(lane_pieces(*context_.set, context_.order, mark.pass, lane_), mark.place);
  next_window_ = mark.window;
  taken_ = mark.taken;
  window_.reset();
  previous_.reset();
  window_mark_ = previous_mark_ = mark;
  cursor_ = 0;
}

LaneMark LaneStream::mark_here() const { return {lane_, taken_, pass_, next_window_, walker_.place()}; }

/// Fills the next window of the pass, or, without data, only passes over it; false at the end of the pass.
bool LaneStream::fill(bool with_data) {
  if (!is_pass_open_) begin_pass(pass_);
  const LaneMark mark = mark_here();
  const int64_t wanted = context_.order.window_samples(lane_, next_window_);
  auto window = std::make_shared<Window>();
  int64_t count = 0;
  if (with_data) {
    while (count < wanted) {
      std::optional<RawSample> sample = walker_.next();
      if (!sample) break;
      window->push_back(std::move(*sample));
      ++count;
    }
  } else {
    count = walker_.pass_over(wanted);
  }
  if (count == 0) return false;
  // A short window at the end of a pass borrows the substitutes for its bad samples from the window before.
  previous_ = mark.window > 0 && 2 * count < wanted ? window_ : nullptr;
  previous_mark_ = window_mark_;
  window_ = std::move(window);
  window_mark_ = mark;
  window_key_ =
      core::stream_key({context_.order.seed, kPurposeWindow, static_cast<uint64_t>(lane_), pass_, next_window_});
  taken_ += count;
  ++next_window_;
  cursor_ = 0;
  return true;
}

RawSample LaneStream::next(uint64_t id) {
  while (!window_ || cursor_ == static_cast<int64_t>(window_->size()))
    if (!fill(true)) begin_pass(pass_ + 1);
  const auto size = static_cast<uint64_t>(window_->size());
  const auto at = static_cast<uint64_t>(cursor_);
  const uint64_t own = context_.order.shuffle ? core::Permutation(size, window_key_)(at) : at;
  ++cursor_;
  RawSample sample = (*window_)[own];  // a copy: the window's samples stay as substitutes for each other
  sample.id = id;
  sample.substitute = [window = std::shared_ptr<const Window>(window_),
                       previous = std::shared_ptr<const Window>(previous_), set = context_.set, own, id,
                       seed = context_.order.seed](int attempt) {
    core::CounterRng rng(core::stream_key({seed, kPurposeSubstitute, id, static_cast<uint64_t>(attempt)}));
    const uint64_t num_others = window->size() - 1 + (previous ? previous->size() : 0);
    uint64_t pick = own;
    if (num_others > 0) {
      pick = rng.below(num_others);
      if (pick >= own) ++pick;
    }
    const RawSample& other = pick < window->size() ? (*window)[pick] : (*previous)[pick - window->size()];
    // Damage takes whole neighbourhoods: what is lost, too, is drawn from all the data.
    return other.damage && set->has_index() ? draw_sample(*set, std::move(rng)) : other;
  };
  return sample;
}

void LaneStream::pass_to(int64_t number) {
  while (true) {
    const int64_t position = window_ ? window_mark_.taken + cursor_ : taken_;
    LOCKSTEP_CHECK(position <= number, "lane {} stands at sample {}, behind {}", lane_, position, number);
    if (position == number) return;
    if (window_ && cursor_ < std::ssize(*window_)) {
      cursor_ += std::min(number - position, std::ssize(*window_) - cursor_);
    } else if (!fill(true)) {
      begin_pass(pass_ + 1);
    }
  }
}

/// With an index: the beginning of the window before the one that holds sample number `taken`.
LaneMark LaneStream::start_of_known(int64_t taken) const {
  const LaneOrder& order = context_.order;
  const int64_t length = order.lane_samples(lane_);
  const int64_t in_pass = taken % length, first = order.window_samples(lane_, 0);
  int64_t number = in_pass < first ? 0 : 1 + (in_pass - first) / order.window;
  number = std::max<int64_t>(0, number - 1);
  const int64_t begin = number == 0 ? 0 : first + (number - 1) * order.window;
  LaneMark mark{.lane = lane_,
                .taken = taken - in_pass + begin,
                .pass = static_cast<uint64_t>(taken / length),
                .window = static_cast<uint64_t>(number),
                .place = {}};
  int64_t left = begin;
  for (const ShardPiece& piece : lane_pieces(*context_.set, order, mark.pass, lane_)) {
    if (left < piece.count) break;
    left -= piece.count;
    ++mark.place.piece;
  }
  mark.place.taken = left;
  return mark;
}

void LaneStream::seek(int64_t taken, const LaneMark* mark) {
  if (context_.order.pass_samples > 0) {
    restore(start_of_known(taken));
  } else if (mark != nullptr) {
    if (mark->taken > taken || mark->lane != lane_)
      throw DataError(fmt::format("data: the mark of lane {} lies at sample {}, behind the position {}", mark->lane,
                                  mark->taken, taken));
    restore(*mark);
  } else {
    restore({.lane = lane_, .taken = 0, .pass = 0, .window = 0, .place = {}});
    while (taken_ < taken)
      if (!fill(false)) begin_pass(pass_ + 1);
    restore(this->mark());
  }
  while (taken_ < taken)
    if (!fill(true)) begin_pass(pass_ + 1);
  cursor_ = window_ ? taken - window_mark_.taken : 0;
}

LaneMark LaneStream::mark() const {
  if (!window_) return mark_here();
  const bool has_previous = window_mark_.window > 0 && previous_mark_.pass == window_mark_.pass &&
                            previous_mark_.window + 1 == window_mark_.window;
  return has_previous ? previous_mark_ : window_mark_;
}

}  // namespace lockstep::data
