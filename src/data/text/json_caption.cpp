#include "data/text/json_caption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/bad_sample_hint.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxJsonBytes = 16 << 20;

/// Indices of the keys in the order in which they are tried.
std::vector<size_t> drawn_order(const JsonCaptionKeys& keys, uint64_t draw_key) {
  std::vector<size_t> order(keys.keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (keys.weights.empty()) return order;
  std::vector<double> weights = keys.weights;
  weights.resize(order.size(), 0.0);
  core::CounterRng rng(draw_key);
  const auto weight_of = [&](size_t index) { return std::max(0.0, weights[index]); };
  for (auto next = order.begin(); next != order.end(); ++next) {
    const double total =
        std::accumulate(next, order.end(), 0.0, [&](double sum, size_t index) { return sum + weight_of(index); });
    if (!(total > 0)) break;  // those of weight 0 keep their order
    double place = rng.uniform() * total;
    auto chosen = next;
    for (auto one = next; one != order.end(); ++one) {
      if (weight_of(*one) == 0) continue;
      chosen = one;
      place -= weight_of(*one);
      if (place < 0) break;
    }
    std::rotate(next, chosen, chosen + 1);
  }
  return order;
}

/// The text with zeros for the bare words NaN, Infinity and -Infinity, which Python's json.dumps writes and JSON has
/// not; as long as before, so that places in messages stay. What stands in strings is kept.
std::string with_zeros_for_no_numbers(std::string text) {
  constexpr std::array<std::string_view, 2> kWords{"NaN", "Infinity"};
  bool is_in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') is_in_string = !is_in_string;
    if (is_in_string && text[at] == '\\') ++at;
    if (is_in_string) continue;
    for (const std::string_view word : kWords)
      if (text.compare(at, word.size(), word) == 0)
        text.replace(at, word.size(), "0" + std::string(word.size() - 1, ' '));
  }
  return text;
}

/// JSON, or what Python reads as such.
core::Json parse_as_python(const std::string& bytes) {
  try {
    return core::parse_json(bytes, "its .json");
  } catch (const DataError&) {
    const std::string numbers = with_zeros_for_no_numbers(bytes);
    if (numbers == bytes) throw;
    return core::parse_json(numbers, "its .json");
  }
}

}  // namespace

void throw_no_json_caption(const std::string& what) {
  throw DataError(
      fmt::format("data: no caption in its .json: {}", what),
      "it must hold \"text\" (or \"caption\"): a string or a list of them; or name other members with --text-key");
}

core::Json read_sample_json(const std::string& bytes) {
  if (bytes.size() > kMaxJsonBytes)
    throw_no_json_caption(fmt::format("it has {} bytes, expected at most {}", bytes.size(), kMaxJsonBytes));
  core::Json json;
  try {
    json = parse_as_python(bytes);
  } catch (const DataError& error) {
    throw_no_json_caption(fmt::format("it is no valid JSON ({})", error.what()));
  }
  if (!json.is_object()) throw_no_json_caption(fmt::format("it is {}, expected an object", json.type_name()));
  return json;
}

std::string json_caption(const std::string& bytes, const JsonCaptionKeys& keys, uint64_t draw_key) {
  const core::Json json = read_sample_json(bytes);
  for (const size_t index : drawn_order(keys, draw_key)) {
    const auto found = json.find(keys.keys[index]);
    if (found == json.end() || !found->is_string()) continue;
    std::string text(core::trim(found->get_ref<const std::string&>()));
    if (!text.empty()) return text;
  }
  throw DataError(fmt::format("data: no caption in its .json: none of [{}] is a text that is not empty",
                              core::join(keys.keys, ", ")),
                  or_leave_out("name other keys with --json-text-key"));
}

}  // namespace lockstep::data
