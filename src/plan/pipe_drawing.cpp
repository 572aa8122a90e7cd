// The time table of a schedule in characters.
#include <algorithm>

#include "core/error.h"
#include "plan/pipe_schedule.h"

namespace lockstep::plan {
namespace {

constexpr int kMostRows = 16;

/// "f3", "B3"; with several chunks a letter for each: forward "c3", backward "C3".
std::string cell_text(const PipeShape& shape, const PipePass& pass) {
  const bool has_chunks = shape.num_chunks > 1;
  const char letter = has_chunks ? static_cast<char>('a' + pass.chunk % 26) : pass.is_forward ? 'f' : 'b';
  return fmt::format("{}{}", pass.is_forward ? letter : static_cast<char>(letter - 'a' + 'A'), pass.micro);
}

struct Grid {
  std::vector<std::vector<std::string>> rows;  ///< By stage and slot; empty: waits.
  size_t num_slots = 0, cell_width = 0;
};

Grid fill_grid(const PipeSchedule& schedule) {
  const PipeTimes times = time_passes(schedule, 1.0, 1.0);
  Grid grid{.rows = {},
            .num_slots = static_cast<size_t>(times.total),
            .cell_width = fmt::format("{}", schedule.shape.num_micro_batches - 1).size() + 2};
  for (int stage = 0; stage < schedule.shape.num_stages; ++stage) {
    auto& row = grid.rows.emplace_back(grid.num_slots);
    const auto passes = schedule.passes_of(stage);
    for (size_t i = 0; i < passes.size(); ++i)
      row[static_cast<size_t>(times.start[static_cast<size_t>(stage)][i])] = cell_text(schedule.shape, passes[i]);
  }
  return grid;
}

/// Slots [begin, end) of the stages that are shown.
std::string draw_slots(const Grid& grid, size_t begin, size_t end) {
  std::string text;
  const size_t num_rows = grid.rows.size();
  const size_t num_head = num_rows <= kMostRows ? num_rows : kMostRows / 2,
               first_tail = num_rows <= kMostRows ? num_rows : num_rows - kMostRows / 2;
  for (size_t stage = 0; stage < num_rows; ++stage) {
    if (stage == num_head && first_tail > num_head)
      text += fmt::format("  ... {} stages in between\n", first_tail - num_head);
    if (stage >= num_head && stage < first_tail) continue;
    std::string line = fmt::format("{:>4} |", stage);
    for (size_t slot = begin; slot < end; ++slot)
      line += fmt::format("{:<{}}", grid.rows[stage][slot].empty() ? "." : grid.rows[stage][slot], grid.cell_width);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string draw_schedule(const PipeSchedule& schedule, size_t width) {
  const Grid grid = fill_grid(schedule);
  const size_t columns = std::max<size_t>(1, (width - std::min<size_t>(width, 6)) / grid.cell_width);
  const bool has_chunks = schedule.shape.num_chunks > 1;
  std::string text = has_chunks ? "stage: a0 is micro-batch 0 forward through chunk a, A0 the same backward\n"
                                : "stage: f0 is micro-batch 0 forward, B0 backward\n";
  const size_t num_blocks = (grid.num_slots + columns - 1) / columns;
  if (num_blocks <= 3) {
    for (size_t begin = 0; begin < grid.num_slots; begin += columns)
      text += (begin > 0 ? "\n" : "") + draw_slots(grid, begin, std::min(begin + columns, grid.num_slots));
    return text;
  }
  const size_t middle = (grid.num_slots - columns) / 2;
  const auto gap = [](size_t num_slots) { return fmt::format("  ... {} slots later\n", num_slots); };
  text += draw_slots(grid, 0, columns) + gap(middle - columns);
  text += draw_slots(grid, middle, middle + columns) + gap(grid.num_slots - middle - 2 * columns);
  return text + draw_slots(grid, grid.num_slots - columns, grid.num_slots);
}

}  // namespace lockstep::plan
