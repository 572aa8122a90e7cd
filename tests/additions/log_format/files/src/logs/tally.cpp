// tally: step=12 seconds=0.250 samples=64 loss=1.5, perhaps behind a time stamp
//
// One line for each step, counted from 1, with its own time and all its samples.
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

class TallyParser : public LogParser {
 public:
  using LogParser::LogParser;

  static bool is_step_line(std::string_view line) { return line.find("tally: step=") != std::string_view::npos; }

  LineUse read(const LogLine& line) override {
    if (!is_step_line(line.text)) return LineUse::kOther;
    const auto step = count_after(line.text, "step=");
    const auto seconds = number_after(line.text, "seconds="), samples = number_after(line.text, "samples=");
    if (!step || *step == 0 || !seconds || !samples) return LineUse::kRejected;
    return add(line, {.step = *step - 1,
                      .num_steps = 1,
                      .step_ms = *seconds * kMsPerSecond,
                      .samples = *samples,
                      .loss = number_after(line.text, "loss=").value_or(record::kUnknown)});
  }
};

}  // namespace

LogReader tally_reader() {
  return {.is_own_line = TallyParser::is_step_line, .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<TallyParser>(builder);
          }};
}

}  // namespace lockstep::logs
