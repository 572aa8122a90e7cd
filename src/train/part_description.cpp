#include "train/part_description.h"

#include "core/error.h"

namespace lockstep::train {

int64_t cut_size(const TensorPart& part) {
  return part.sizes.empty() ? 1 : part.sizes[static_cast<size_t>(part.place.dim)];
}

bool has_same_cut(const TensorPart& a, const TensorPart& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.place.whole == b.place.whole &&
         a.place.begin == b.place.begin && (a.place.dim == b.place.dim || b.sizes == b.place.whole);
}

bool is_within(int64_t offset, int64_t count, const std::vector<int64_t>& sizes) {
  int64_t numel = 1;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(numel, size, &numel)) return false;
  return offset >= 0 && count >= 0 && offset <= numel && count <= numel - offset;
}

bool is_sound(const TensorPart& part, int64_t numel) {
  const std::vector<int64_t>& whole = part.place.whole;
  const auto rank = std::ssize(part.sizes);
  const int64_t dim = part.place.dim, begin = part.place.begin;
  if (std::ssize(part.strides) != rank || std::ssize(whole) != rank || (rank > 0 && (dim < 0 || dim >= rank)) ||
      begin < 0)
    return false;
  for (int64_t i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (part.sizes[at] < 0 || part.strides[at] < 0 ||
        (i == dim ? begin > whole[at] || part.sizes[at] > whole[at] - begin : part.sizes[at] != whole[at]))
      return false;
  }
  return is_within(0, 0, whole) && is_within(part.offset, numel, part.sizes);
}

core::Json describe_part(const TensorPart& part) {
  return {{"sizes", part.sizes},       {"strides", part.strides}, {"offset", part.offset},
          {"whole", part.place.whole}, {"dim", part.place.dim},   {"begin", part.place.begin}};
}

int64_t whole_number(const core::Json& said) {
  const auto number = core::integer_of(said);
  if (!number)
    throw CheckpointError(
        fmt::format("train: a checkpoint says {} where it should say a whole number", said.dump().substr(0, 60)));
  return *number;
}

namespace {
std::vector<int64_t> whole_numbers(const core::Json& said) {
  if (!said.is_array())
    throw CheckpointError(
        fmt::format("train: a checkpoint says {} where it should say a list", said.dump().substr(0, 60)));
  std::vector<int64_t> numbers;
  for (const core::Json& number : said) numbers.push_back(whole_number(number));
  return numbers;
}
}  // namespace

TensorPart part_from_json(const core::Json& said) {
  TensorPart part;
  part.sizes = whole_numbers(said.at("sizes"));
  part.strides = whole_numbers(said.at("strides"));
  part.offset = whole_number(said.at("offset"));
  part.place.whole = whole_numbers(said.at("whole"));
  part.place.dim = whole_number(said.at("dim"));
  part.place.begin = whole_number(said.at("begin"));
  return part;
}

}  // namespace lockstep::train
