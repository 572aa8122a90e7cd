#include "bench/find_batch.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

#include "bench/process_memory.h"
#include "core/error.h"
#include "core/process.h"
#include "core/units.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

/// Reads what is there within `patience`; false once the stream has ended.
bool drain(core::Fd& stream, std::string& text, std::chrono::milliseconds patience) {
  pollfd waiting{.fd = stream.get(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return true;
  char buffer[65536];
  const ssize_t count = ::read(stream.get(), buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<size_t>(count));
  return count > 0;
}

struct ChildEnd {
  core::ExitStatus status;
  std::string out, err;
  int64_t peak_bytes = 0;
  bool is_over_limit = false;
};

/// Watches the child's memory while it works, so that a size that does not fit costs the machine no swapping.
ChildEnd watch(core::Process& child, const ProbeLimits& limits) {
  ChildEnd end;
  bool is_out_open = true, is_err_open = true;
  while (is_out_open || is_err_open) {
    if (is_out_open) is_out_open = drain(child.out(), end.out, 10ms);
    if (is_err_open) is_err_open = drain(child.err(), end.err, is_out_open ? 0ms : 10ms);
    end.peak_bytes = std::max(end.peak_bytes, anonymous_bytes(child.pid()));
    if (limits.memory_bytes > 0 && end.peak_bytes > limits.memory_bytes) {
      end.is_over_limit = true;
      child.kill_group();
      break;
    }
  }
  end.status = child.wait();
  return end;
}

bool tells_of_memory(const ChildEnd& end) {
  if (end.status.signal == SIGKILL) return true;                                 // the kernel's out-of-memory killer
  if (end.status.code == static_cast<int>(ExitCode::kEnvironment)) return true;  // its plan is beyond the memory
  for (const char* sign : {"out of memory", "can't allocate memory", "bad_alloc"})
    if (end.err.find(sign) != std::string::npos) return true;
  return false;
}

}  // namespace

BatchSearch find_largest_batch(int64_t multiple, int64_t most,
                               const std::function<BatchProbe(int64_t samples)>& probe) {
  LOCKSTEP_CHECK(multiple >= 1, "multiple={}", multiple);
  BatchSearch search;
  const auto fits = [&](int64_t count) {
    search.probes.push_back(probe(count * multiple));
    return search.probes.back().fits;
  };
  const int64_t most_count = most / multiple;
  int64_t good = 0, bad = most_count + 1;  // in multiples
  for (int64_t count = 1; count < bad; count = std::min(2 * count, std::max(most_count, count + 1))) {
    if (!fits(count)) {
      bad = count;
      break;
    }
    good = count;
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  search.best = good * multiple;
  return search;
}

BatchProbe probe_in_child(const std::vector<std::string>& args, int64_t samples, const ProbeLimits& limits) {
  core::ProcessOptions options{.argv = {"/proc/self/exe"},
                               .out = core::ProcessOptions::Stream::kPipe,
                               .err = core::ProcessOptions::Stream::kPipe};
  options.argv.insert(options.argv.end(), args.begin(), args.end());
  auto child = core::Process::spawn(options);
  const ChildEnd end = watch(child, limits);
  BatchProbe probe{.samples = samples, .peak_bytes = end.peak_bytes};
  if (end.is_over_limit) {
    probe.reason = fmt::format("held more than {}", core::format_bytes(static_cast<double>(limits.memory_bytes)));
    return probe;
  }
  // Wrong values are a matter of the measurement, which checks them once more: the size has shown what it holds.
  const bool has_row =
      end.status.ok() || (end.status.code == static_cast<int>(ExitCode::kInternal) && !end.out.empty());
  if (has_row) {
    const auto row = core::parse_json(end.out, "result of a probe").at("rows").at(0);
    probe.peak_bytes = row.at("peak_memory_bytes");
    probe.fits = limits.memory_bytes == 0 || probe.peak_bytes <= limits.memory_bytes;
    if (!probe.fits)
      probe.reason =
          fmt::format("peak {} is above the limit", core::format_bytes(static_cast<double>(probe.peak_bytes)));
    return probe;
  }
  if (!tells_of_memory(end))
    throw Error(ExitCode::kInternal, fmt::format("bench: the attempt with {} samples ended with {}: {}", samples,
                                                 end.status.text(), end.err));
  probe.reason = "out of memory";
  return probe;
}

}  // namespace lockstep::bench
