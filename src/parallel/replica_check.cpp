#include "parallel/replica_check.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "core/error.h"
#include "core/hash.h"

namespace lockstep::parallel {
namespace {

constexpr size_t kHexDigits = 32;  // of one hash

std::string hash_of(const at::Tensor& parameter) {
  const at::Tensor host = parameter.detach().contiguous().cpu();  // sync: the check is a pause by nature
  return core::xxh3_hex(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()));
}

/// Group ranks whose text is not the most frequent one (of equals: the one of the lowest rank).
std::vector<int> minority(const std::vector<std::string>& texts) {
  std::map<std::string, int> votes;
  for (const auto& text : texts) ++votes[text];
  const auto best =
      std::max_element(texts.begin(), texts.end(), [&](const auto& a, const auto& b) { return votes[a] < votes[b]; });
  std::vector<int> out;
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i] != *best) out.push_back(static_cast<int>(i));
  return out;
}

[[noreturn]] void throw_difference(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis,
                                   size_t index, const std::vector<int>& odd) {
  std::vector<int> odd_ranks;
  for (const int rank : odd) odd_ranks.push_back(data_axis.global_ranks()[static_cast<size_t>(rank)]);
  const bool is_tie = odd.size() * 2 >= static_cast<size_t>(data_axis.size());
  throw CommError(
      fmt::format(
          "parallel: copies of the parameters differ along axis '{}': rank {} is not like the other {} in '{}'{}",
          data_axis.axis(), fmt::join(odd_ranks, ","), data_axis.size() - static_cast<int>(odd.size()),
          parameters[index].name, is_tie ? " (no majority: either side may be the wrong one)" : ""),
      "a step was not the same on all ranks (faulty hardware, or an update that depends on the rank); resume from the "
      "last "
      "checkpoint, without the node of that rank if it happens again");
}

}  // namespace

void check_replicas(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis) {
  if (data_axis.size() == 1) return;
  std::string hashes;  // kHexDigits for each parameter
  for (const auto& parameter : parameters) hashes += hash_of(*parameter.tensor);
  if (minority(data_axis.gather_strings(core::xxh3_hex(hashes))).empty()) return;
  const auto all = data_axis.gather_strings(hashes);
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::string> of_ranks;
    for (const auto& text : all)
      of_ranks.push_back(i * kHexDigits < text.size() ? text.substr(i * kHexDigits, kHexDigits) : "");
    const auto odd = minority(of_ranks);
    if (!odd.empty()) throw_difference(parameters, data_axis, i, odd);
  }
  throw CommError(fmt::format("parallel: ranks of axis '{}' hold different numbers of parameters", data_axis.axis()));
}

}  // namespace lockstep::parallel
