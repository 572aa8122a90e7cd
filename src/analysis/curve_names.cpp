#include "analysis/curve_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/strings.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kRoomForNumber = 5;  // " (12)"

struct CurveName {
  std::string base{};                 ///< "ViT-B-32, bf16"
  std::vector<std::string> traits{};  ///< "workers 8"
  size_t num_hidden = 0;              ///< Traits that it has no room for.

  std::string text() const {
    std::string text = base;
    for (const std::string& trait : traits) text += ", " + trait;
    return num_hidden > 0 ? fmt::format("{}, {} more", text, num_hidden) : text;
  }
};
using Names = std::vector<CurveName>;

/// A text without its middle, where it has more bytes; whole characters of UTF-8 stay.
std::string cut(const std::string& text, size_t length) {
  constexpr std::string_view kBetween = "...";
  if (text.size() <= length) return text;
  const auto is_inside_character = [&](size_t place) {
    return place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;
  };
  size_t end = (length - kBetween.size()) / 2, begin = text.size() - (length - kBetween.size() - end);
  while (end > 0 && is_inside_character(end)) --end;
  while (is_inside_character(begin)) ++begin;
  return text.substr(0, end) + std::string(kBetween) + text.substr(begin);
}

std::string base_of(const Curve& curve, const RunSummary& run) {
  const record::RunSetup& setup = curve.points.front().setup;
  size_t num_runs = 0;
  for (const Point& point : curve.points) num_runs += point.runs.size();
  const std::string unknown =
      num_runs > 1 ? run.format + " runs (model unknown)" : run.name;  // one file's name would stand for all
  std::string base = !setup.model.empty() ? setup.model : !setup.task.empty() ? setup.task : unknown;
  if (!setup.precision.empty()) base += ", " + setup.precision;
  if (!setup.system.empty()) base += " on " + setup.system;
  return base;
}

/// "local batch 16, accumulation 4" or "global batch 256": what is the same at all sizes.
std::string batch_text(const Curve& curve) {
  const record::RunSetup& first = curve.points.front().setup;
  const auto is_same = [&](auto count) {
    return (first.*count).has_value() && std::all_of(curve.points.begin(), curve.points.end(), [&](const Point& point) {
             return point.setup.*count == first.*count;
           });
  };
  using Setup = record::RunSetup;
  std::string text;
  if (is_same(&Setup::global_batch))
    text = fmt::format("global batch {}", *first.global_batch);
  else if (is_same(&Setup::samples_per_device))
    text = fmt::format("local batch {}", *first.samples_per_device);
  return text.empty() || !is_same(&Setup::accum) || *first.accum == 1
             ? text
             : fmt::format("{}, accumulation {}", text, *first.accum);
}

/// Indices of names by their text.
std::map<std::string, std::vector<size_t>> by_text(const Names& names) {
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < names.size(); ++i) groups[names[i].text()].push_back(i);
  return groups;
}

using Fact = std::function<std::string(const Curve&)>;

/// Which program, task or device it is, where curves that begin alike differ in one: it parts them whatever else does.
void name_origins(const std::vector<Curve>& curves, const std::vector<Fact>& facts, Names& names) {
  std::vector<std::string> begins;  // what they have in common so far
  for (const CurveName& name : names) begins.push_back(name.base);
  std::vector<size_t> places(names.size(), 0);
  for (const Fact& fact : facts) {
    std::map<std::string, std::vector<size_t>> groups;
    for (size_t i = 0; i < names.size(); ++i) groups[begins[i]].push_back(i);
    for (const auto& [begin, members] : groups) {
      std::set<std::string> values;
      for (const size_t i : members) values.insert(fact(curves[i]));
      if (values.size() < 2) continue;
      for (const size_t i : members) {
        const std::string value = fact(curves[i]);
        begins[i] += ", " + value;
        if (!value.empty())
          names[i].traits.insert(names[i].traits.begin() + static_cast<ptrdiff_t>(places[i]++), value);
      }
    }
  }
}

/// Tells curves of equal names apart by what else is known of them: one fact after another until none is left.
void tell_apart(const std::vector<Curve>& curves, const std::vector<Fact>& facts, Names& names) {
  for (const Fact& fact : facts)
    for (const auto& [text, members] : by_text(names)) {
      std::set<std::string> values;
      for (const size_t i : members) values.insert(fact(curves[i]));
      if (values.size() < 2) continue;
      for (const size_t i : members)
        if (const std::string value = fact(curves[i]); !value.empty()) names[i].traits.push_back(value);
    }
}

/// Leaves out traits from the end, as long as the name stays too long and unlike all others; then cuts.
void shorten(Names& names) {
  constexpr size_t kMaxTrait = 28;
  for (CurveName& name : names) {
    if (name.text().size() <= kMaxNameLength) continue;
    for (std::string& trait : name.traits) trait = cut(trait, kMaxTrait);
    for (size_t i = name.traits.size(); i-- > 0 && name.text().size() > kMaxNameLength;) {
      CurveName shorter = name;
      shorter.traits.erase(shorter.traits.begin() + static_cast<ptrdiff_t>(i));
      ++shorter.num_hidden;
      const bool is_taken = std::any_of(names.begin(), names.end(), [&](const CurveName& other) {
        return &other != &name && other.base == name.base && other.traits == shorter.traits;
      });
      if (!is_taken) name = std::move(shorter);
    }
    if (name.text().size() > kMaxNameLength) name = {.base = cut(name.text(), kMaxNameLength - kRoomForNumber)};
  }
}
}  // namespace

std::string without_name(const std::string& text, const std::string& name) {
  if (core::ends_with(text, ": " + name)) return text.substr(0, text.size() - name.size() - 2);
  for (const char* between : {": ", ", "})
    if (core::starts_with(text, name + between)) return text.substr(name.size() + 2);
  return text;
}

void name_curves(std::vector<Curve>& curves, const std::vector<RunSummary>& runs) {
  Names names;
  for (const Curve& curve : curves)
    names.push_back({.base = base_of(curve, runs[curve.points.front().runs.front()]), .traits = curve.traits});
  for (size_t i = 0; i < names.size(); ++i) {
    std::erase(names[i].traits, names[i].base);  // a run's name may be both
    if (const std::string& precision = curves[i].points.front().setup.precision; !precision.empty())
      std::erase(names[i].traits, "precision " + precision);  // as the base tells
  }
  const auto run_of = [&](const Curve& curve) -> const RunSummary& { return runs[curve.points.front().runs.front()]; };
  name_origins(curves,
               {[&](const Curve& curve) { return run_of(curve).format; },
                [](const Curve& curve) { return curve.points.front().setup.task; },
                [](const Curve& curve) { return curve.points.front().setup.device; }},
               names);
  tell_apart(curves, {batch_text, [&](const Curve& curve) { return run_of(curve).name; }}, names);
  const Names whole = names;
  shorten(names);
  std::set<std::string> taken;
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string name = names[i].text();
    curves[i].name = name;
    for (int count = 2; !taken.insert(curves[i].name).second; ++count)
      curves[i].name = fmt::format("{} ({})", cut(name, kMaxNameLength - kRoomForNumber), count);
    if (name != whole[i].text())
      curves[i].remarks.push_back(fmt::format("The whole name of this configuration: {}.", whole[i].text()));
  }
}

}  // namespace lockstep::analysis
