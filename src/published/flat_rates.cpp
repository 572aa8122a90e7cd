#include "published/flat_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::published {

std::string flat_rate_text(const FormulaContext& context, const FlatRate& rate, bool is_read_as_device) {
  constexpr double kLittle = 0.25;  // as a power of the devices
  const double growth = context.table.number(rate.last, rate.column) / context.table.number(rate.first, rate.column),
               more = rate.last_size / rate.first_size;
  if (!is_read_as_device && (more <= 1 || growth >= std::pow(more, kLittle))) return "";
  return fmt::format("Column '{}' hardly changes ({} to {}) while the {} grow from {:g} to {:g}: {}",
                     context.given_name(rate.column.c_str()), context.table.text(rate.first, rate.column),
                     context.table.text(rate.last, rate.column), rate.size_name, rate.first_size, rate.last_size,
                     is_read_as_device
                         ? "it was read as the rate of one device ('total' in its name says otherwise)."
                         : "is it the rate of one device ('per GPU' in its name says so)? It was read as that of all.");
}

std::vector<std::string> flat_rate_texts(const FormulaContext& context) {
  std::vector<std::string> texts;
  const char* size = context.size_column();
  if (size == nullptr) return texts;
  std::map<std::string, std::vector<size_t>> curves;
  for (size_t row = 0; row < context.table.rows.size(); ++row) curves[context.groups.at(row)].push_back(row);
  for (const char* column : {"samples_per_s", "tokens_per_s"}) {
    if (!context.has(column)) continue;
    for (const auto& [group, rows] : curves) {
      const auto [first, last] = std::minmax_element(rows.begin(), rows.end(), [&](size_t a, size_t b) {
        return context.at(a, size).value < context.at(b, size).value;
      });
      const FlatRate rate{.column = column,
                          .first = *first,
                          .last = *last,
                          .first_size = context.at(*first, size).value,
                          .last_size = context.at(*last, size).value,
                          .size_name = context.device_column() == nullptr ? "nodes" : "devices"};
      if (std::string text = flat_rate_text(context, rate, false); !text.empty()) texts.push_back(std::move(text));
    }
  }
  return texts;
}

}  // namespace lockstep::published
