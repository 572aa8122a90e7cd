#include "record/openclip_log.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "core/strings.h"

namespace lockstep::record {
namespace {

/// First letter upper, the rest lower, as Python's str.capitalize on ASCII.
std::string capitalize(const std::string& text) {
  std::string result = core::to_lower_ascii(text);
  if (!result.empty() && result[0] >= 'a' && result[0] <= 'z') result[0] = static_cast<char>(result[0] - 'a' + 'A');
  return result;
}

/// Python's '#g' with `precision` digits: trailing zeros stay, NaN has no sign. By its definition, since fmt 9 writes
/// "41907.0" for "41907." and glibc's printf "1.e+06" for "1.00000e+06" (its bug 23432).
std::string general(double value, int precision) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{:.{}e}", value, precision - 1);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);  // after rounding to `precision` digits
  if (exponent < -4 || exponent >= precision) return text;
  text = fmt::format("{:.{}f}", value, precision - 1 - exponent);
  return exponent == precision - 1 ? text + "." : text;
}

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  return fmt::format("{:.{}f}", value, decimals);
}

/// Width of the sample counter: ceil(log10(n + 1)), computed as OpenCLIP computes it.
int sample_digits(int64_t samples_per_epoch) {
  return static_cast<int>(std::ceil(std::log(static_cast<double>(samples_per_epoch) + 1.0) / std::log(10.0)));
}

}  // namespace

void AverageMeter::update(double value, double weight) {
  last_ = value;
  sum_ += value * weight;
  weight_ += weight;
  average_ = sum_ / weight_;
}

std::string format_train_line(const OpenClipTrainLine& line) {
  constexpr int kDefaultPrecision = 6;
  std::string text = fmt::format(
      "Train Epoch: {} [{:>{}}/{} ({}%)] Data (t): {} Batch (t): {}, {}/s, {}/s/gpu LR: {:>5} Logit Scale: {} ",
      line.epoch, line.samples_in_epoch, sample_digits(line.samples_per_epoch), line.samples_per_epoch,
      fixed(line.percent_of_epoch, 0), fixed(line.data_s, 3), fixed(line.batch_s, 3),
      general(line.samples_per_s, kDefaultPrecision), general(line.samples_per_s_per_rank, kDefaultPrecision),
      fixed(line.lr, 6), fixed(line.logit_scale, 3));
  for (size_t index = 0; index < line.losses.size(); ++index) {
    const OpenClipTrainLine::Loss& loss = line.losses[index];
    text += fmt::format("{}{}: {} ({})", index == 0 ? "" : " ", capitalize(loss.name), general(loss.last, 5),
                        general(loss.average, 5));
  }
  return text;
}

std::string format_eval_summary(int64_t epoch, const NamedNumbers& metrics) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : metrics) parts.push_back(fmt::format("{}: {}", name, fixed(value, 4)));
  return fmt::format("Eval Epoch: {} {}", epoch, core::join(parts, "\t"));
}

NamedNumbers openclip_train_scalars(const OpenClipTrainLine& line, double last_data_s, double last_batch_s) {
  NamedNumbers scalars{{"train/data_time", last_data_s},
                       {"train/batch_time", last_batch_s},
                       {"train/samples_per_second", line.samples_per_s},
                       {"train/samples_per_second_per_gpu", line.samples_per_s_per_rank},
                       {"train/scale", line.logit_scale},
                       {"train/lr", line.lr}};
  for (const OpenClipTrainLine::Loss& loss : line.losses) scalars.emplace_back("train/" + loss.name, loss.last);
  return scalars;
}

}  // namespace lockstep::record
