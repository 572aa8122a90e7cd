#include "logs/failure.h"

#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "core/strings.h"

namespace lockstep::logs {
namespace {

constexpr std::streamoff kTailBytes = 64 << 10;
constexpr size_t kMaxMessage = 300;
constexpr std::string_view kTraceback = "Traceback (most recent call last)";
constexpr std::array<std::string_view, 3> kStops{"DUE TO TIME LIMIT", "CANCELLED AT", "DUE TO PREEMPTION"};
constexpr std::array<std::string_view, 7> kFailures{"OutOfMemoryError",  "CUDA out of memory", "slurmstepd: error",
                                                    "srun: error",       "NCCL error",         "ncclSystemError",
                                                    "Segmentation fault"};

std::string tail_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::streamoff size = in.tellg();
  if (size <= 0) return "";
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::string text(static_cast<size_t>(std::min(size, kTailBytes)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

template <size_t N> bool has_any(std::string_view line, const std::array<std::string_view, N>& marks) {
  for (const std::string_view mark : marks)
    if (line.find(mark) != std::string_view::npos) return true;
  return false;
}

}  // namespace

void note_failure_of_log(const std::filesystem::path& file, record::RunData& run) {
  const auto note = [&run](const char* state, std::string_view text) {
    run.state = state;
    run.message = text.substr(0, kMaxMessage);
  };
  bool in_traceback = false;
  for (const std::string& line : core::split(tail_of(file), "\n")) {
    const std::string_view text = core::trim(line);
    const bool is_exception =
        in_traceback && !text.empty() && !core::starts_with(line, " ");  // its own line ends the traceback
    if (text.find(kTraceback) != std::string_view::npos) {
      in_traceback = true;
      if (run.state.empty()) note("failed", text);
    } else if (in_traceback && !is_exception) {
      continue;  // calls and their source, which may quote anything
    } else {
      in_traceback = false;
      if (has_any(text, kStops))
        note("stopped", text);
      else if (run.state != "stopped" && (is_exception || has_any(text, kFailures)))
        note("failed", text);
    }
  }
}

}  // namespace lockstep::logs
