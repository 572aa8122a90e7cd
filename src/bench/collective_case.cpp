#include "bench/collective_case.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>

#include "bench/collective_kinds.h"
#include "bench/sample_stats.h"
#include "bench/sample_timer.h"
#include "config/option_checks.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/units.h"

namespace lockstep::bench {
namespace {

at::ScalarType parse_type(const std::string& name) {
  if (name == "half") return at::kHalf;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "double") return at::kDouble;
  if (name == "int32") return at::kInt;
  if (name == "int64") return at::kLong;
  return name == "uint8" ? at::kByte : at::kFloat;
}

comm::ReduceOp parse_op(const std::string& name) {
  if (name == "avg") return comm::ReduceOp::kAverage;
  if (name == "max") return comm::ReduceOp::kMax;
  return name == "min" ? comm::ReduceOp::kMin : comm::ReduceOp::kSum;
}

class CollectiveCase final : public BenchCase {
 public:
  explicit CollectiveCase(const BenchContext& context)
      : context_(context), type_(parse_type(context.options.data_type)) {
    if (options().mode == "list") return;
    if (world().size() == 1)
      throw UsageError("bench: one rank alone sends nothing",
                       "start two or more: lockstep launch --nproc-per-node 2 -- bench ...");
    if (options().root >= world().size())
      throw UsageError(fmt::format("bench: --root {} is none of the {} ranks", options().root, world().size()),
                       "ranks count from 0");
  }

  std::vector<core::Json> points() override {
    std::vector<core::Json> out;
    const int64_t element_bytes = static_cast<int64_t>(c10::elementSize(type_));
    const auto min = static_cast<double>(config::parse_bytes(options().min_bytes, "--minbytes"));
    const auto max = static_cast<double>(config::parse_bytes(options().max_bytes, "--maxbytes"));
    for (const std::string& name : options().collectives) {
      const CollectiveKind kind = parse_collective(name);
      int64_t last_count = 0;
      for (double bytes = min; bytes <= max; bytes *= options().step_factor) {
        const int64_t count = count_of_size(kind, static_cast<int64_t>(bytes), element_bytes, world().size());
        if (count == last_count) continue;  // small sizes are rounded to whole elements of each rank
        last_count = count;
        const int64_t size = size_in_elements({.kind = kind, .count = count}, world().size()) * element_bytes;
        out.push_back({{"part", name},
                       {"bytes", size},
                       {"count", count},
                       {"type", options().data_type},
                       {"redop", has_reduction(kind) ? options().reduce_op : "none"},
                       {"root", kind == CollectiveKind::kBroadcast ? options().root : -1}});
      }
    }
    return out;
  }

  std::vector<std::string> preamble() override {
    const auto& o = options();
    return {fmt::format("lockstep bench collective: {} on {}", core::counted(world().size(), "rank"),
                        context_.device.str()),
            fmt::format("minBytes {} maxBytes {} step: {}(factor) warmup iters: {} iters: {} validation: {}",
                        config::parse_bytes(o.min_bytes, "--minbytes"), config::parse_bytes(o.max_bytes, "--maxbytes"),
                        o.step_factor, o.num_warmup, o.num_iterations, o.num_checks),
            fmt::format("time: median of the iterations; of one iteration: {} over the ranks. algbw = size / time, "
                        "busbw = algbw x factor",
                        o.average == "rank0" ? "rank 0's, not" : o.average),
            ""};
  }

  std::vector<TableColumn> columns() override {
    std::vector<TableColumn> columns = {{.key = "bytes", .title = "size", .unit = "B", .width = 12},
                                        {.key = "count", .title = "count", .unit = "elements", .width = 13},
                                        {.key = "type", .title = "type", .width = 9},
                                        {.key = "redop", .title = "redop", .width = 7},
                                        {.key = "root", .title = "root", .width = 7}};
    for (const bool is_in_place : {false, true}) {
      const std::string prefix = is_in_place ? "in_place_" : "";
      const std::string group = is_in_place ? "in-place" : "out-of-place";
      columns.push_back({.key = prefix + "time_us", .title = "time", .unit = "us", .width = 9, .group = group});
      columns.push_back(
          {.key = prefix + "algbw_gbytes_per_s", .title = "algbw", .unit = "GB/s", .width = 7, .group = group});
      columns.push_back(
          {.key = prefix + "busbw_gbytes_per_s", .title = "busbw", .unit = "GB/s", .width = 7, .group = group});
      columns.push_back({.key = prefix + "wrong", .title = "#wrong", .width = 7, .group = group});
    }
    return columns;
  }

  int64_t verify(core::Json& row) override {
    int64_t total = 0;
    for_each_place(row, [&](const CollectiveCall& call, const CollectiveBuffers& buffers, const std::string& prefix) {
      const at::Tensor wrong = at::zeros({1}, at::TensorOptions(context_.device).dtype(at::kLong));
      for (int64_t number = 0; number < options().num_checks; ++number) {
        fill_buffers(call, world(), buffers, number);
        run_collective(call, world(), buffers);
        wrong.add_(count_wrong(buffers.receive, expected_runs(call, world()), call.op, number));
      }
      world().all_reduce(wrong).wait();
      row[prefix + "wrong"] = wrong.item<int64_t>();  // sync: a check, nothing is timed
      total += row[prefix + "wrong"].get<int64_t>();
    });
    return total;
  }

  void time(core::Json& row) override {
    for_each_place(row, [&](const CollectiveCall& call, const CollectiveBuffers& buffers, const std::string& prefix) {
      fill_buffers(call, world(), buffers, 0);
      if (call.op == comm::ReduceOp::kSum && at::isFloatingType(call.type))
        buffers.send.zero_();  // repeated sums in place would overflow
      world().barrier();
      const auto mine_us = time_samples(context_.device, options().num_warmup, options().num_iterations,
                                        [&] { run_collective(call, world(), buffers); });
      const auto samples_us = combine_ranks(world(), mine_us, options().average);
      const auto statistics = statistics_of(samples_us);
      const double algbw = row["bytes"].get<double>() / statistics["median"].get<double>() / 1e3;
      row[prefix + "time_us"] = statistics["median"];
      row[prefix + "algbw_gbytes_per_s"] = algbw;
      row[prefix + "busbw_gbytes_per_s"] = algbw * bus_factor(call.kind, world().size());
      row[prefix + "statistics_us"] = statistics;
      row[prefix + "samples_us"] = samples_us;
    });
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) override {
    std::vector<SummaryItem> items;
    for (const std::string& name : options().collectives) {
      double total = 0;
      int count = 0;
      for (const auto& row : rows)
        for (const char* key : {"busbw_gbytes_per_s", "in_place_busbw_gbytes_per_s"})
          if (row["part"] == name && row.contains(key)) {
            total += row[key].get<double>();
            ++count;
          }
      if (count == 0) continue;
      const std::string suffix = options().collectives.size() > 1 ? " " + name : "";
      items.push_back({.key = "average_busbw_gbytes_per_s" + suffix,
                       .label = "Avg bus bandwidth" + suffix,
                       .value = total / count,
                       .text = fmt::format("{:.6g}", total / count)});
    }
    return items;
  }

 private:
  const commands::BenchOptions& options() const { return context_.options; }
  comm::Comm& world() const { return context_.world; }

  /// Runs `body` out of place and in place, where the collective of the row has these forms.
  template <typename Body> void for_each_place(const core::Json& row, const Body& body) {
    CollectiveCall call{.kind = parse_collective(row["part"]),
                        .op = parse_op(options().reduce_op),
                        .root = static_cast<int>(options().root),
                        .count = row["count"],
                        .type = type_};
    if (!has_reduction(call.kind)) call.op = comm::ReduceOp::kSum;
    for (const bool is_in_place : {false, true}) {
      if (!(is_in_place ? has_in_place(call.kind) : has_out_of_place(call.kind))) continue;
      body(call, buffers_for(call, is_in_place), is_in_place ? "in_place_" : "");
    }
  }

  CollectiveBuffers buffers_for(const CollectiveCall& call, bool is_in_place) {
    try {
      return make_buffers(call, world(), context_.device, is_in_place);
    } catch (const c10::Error&) {  // LibTorch's way to say that memory is short
      throw EnvironmentError(fmt::format("bench: no memory for buffers of {} elements on {}",
                                         size_in_elements(call, world().size()), context_.device.str()),
                             "choose a smaller --maxbytes");
    }
  }

  BenchContext context_;
  at::ScalarType type_;
};

}  // namespace

std::unique_ptr<BenchCase> make_collective_case(const BenchContext& context) {
  return std::make_unique<CollectiveCase>(context);
}

}  // namespace lockstep::bench
