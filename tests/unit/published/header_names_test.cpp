// What headers of published tables mean, in the spellings of papers, blogs, READMEs and user guides.
#include <gtest/gtest.h>

#include "core/files.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "published/columns.h"
#include "published/rate_names.h"

namespace lockstep::published {
namespace {

/// A header, the name under which formulas know it ("": it is left as it was), and a field of 512 in its unit.
struct Spelling {
  const char* header;
  const char* known;
  double value = 512;
};

constexpr Spelling kSpellings[] = {
    // Times of a step.
    {"Iteration (s)", "step_time_s"},
    {"Iteration (ms)", "step_time_s", 0.512},
    {"Iter (ms)", "step_time_s", 0.512},
    {"Iter [s]", "step_time_s"},
    {"iter_s", "step_time_s"},
    {"iter_ms", "step_time_s", 0.512},
    {"avg step (s)", "step_time_s"},
    {"avg step (ms)", "step_time_s", 0.512},
    {"Train step (ms)", "step_time_s", 0.512},
    {"median step ms", "step_time_s", 0.512},
    {"Per iteration (s)", "step_time_s"},
    {"Step (ms)", "step_time_s", 0.512},
    {"time/iter (s)", "step_time_s"},
    {"ms/iter", "step_time_s", 0.512},
    {"s/it", "step_time_s"},
    {"sec/batch", "step_time_s"},
    {"Time (ms/step)", "step_time_s", 0.512},
    {"seconds per training step", "step_time_s"},
    {"Wall-clock time per iteration (s)", "step_time_s"},
    {"Iteration latency (us)", "step_time_s", 0.000512},
    {"stepTime (ms)", "step_time_s", 0.512},
    {"IterTime(ms)", "step_time_s", 0.512},
    {"itertime_ms", "step_time_s", 0.512},
    {"Step time / s", "step_time_s"},
    {"Minutes per step", "step_time_s", 30720},
    {"Elapsed time per iteration (ms)", "step_time_s", 0.512},
    {"mean iteration duration [sec]", "step_time_s"},
    {"Batch time (s)", "step_time_s"},
    // Rates of steps, which formulas do not know, and what may be either.
    {"iterations/s", ""},
    {"Step/s", ""},
    {"it/s", ""},
    {"Iterations (s)", ""},
    {"it_s", ""},
    {"Forward step (ms)", ""},
    {"Image (ms)", ""},
    {"steps to converge", ""},
    // Rates of samples and tokens.
    {"img/s", "samples_per_s"},
    {"imgs/sec", "samples_per_s"},
    {"FPS", "samples_per_s"},
    {"Throughput (images/s)", "samples_per_s"},
    {"sequences/second/GPU", "samples_per_s_per_gpu"},
    {"wps", "tokens_per_s"},
    {"Tokens/sec/GPU", "tokens_per_s_per_gpu"},
    {"TPS/GPU", "tokens_per_s_per_gpu"},
    {"tok/s/device", "tokens_per_s_per_gpu"},
    {"Throughput (k tokens/s)", "tokens_per_s", 512e3},
    // Batches.
    {"Batch (global)", "global_batch"},
    {"global batch (sequences)", "global_batch"},
    {"Global mini-batch size", "global_batch"},
    {"GBS", "global_batch"},
    {"Effective batch size", "global_batch"},
    {"samples/step", "global_batch"},
    {"Global batch (k)", "global_batch", 512e3},
    {"per_device_train_batch_size", "local_batch"},
    {"batch size per worker", "local_batch"},
    {"samples/GPU", "local_batch"},
    {"GPU batch size", "local_batch"},
    {"images per device", "local_batch"},
    {"Local BS", "local_batch"},
    {"train_batch_size", ""},
    {"mini-batch", ""},
    {"Batch per node", ""},
    {"Global batch size (M tokens)", ""},
    {"batches", ""},
    {"batch norm", ""},
    // Sizes.
    {"H100s", "gpus"},
    {"# A100", "gpus"},
    {"GPUs used", "gpus"},
    {"Workers", "devices"},
    {"num_workers", ""},
    {"#Nodes", "nodes"},
    {"GPU hours", ""},
    // What follows from others, and whole times.
    {"Model FLOPS utilization (%)", "mfu_pct"},
    {"MFU %", "mfu_pct"},
    {"Scaling efficiency (%)", "efficiency_pct"},
    {"days", "time_to_solution"},
};

TEST(HeaderNames, SpellingsOfPeopleMeanOneThing) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  for (const Spelling& one : kSpellings) {
    const std::string other = logs::known_column(one.header) == "nodes" ? "loss" : "nodes";
    core::write_file_atomic(path, other + ",\"" + one.header + "\"\n1,512\n2,520\n");
    const ResultTable result = read_result_table(path);
    ASSERT_EQ(result.given.at(1), one.header);
    const std::string known = *one.known == '\0' ? one.header : one.known;
    EXPECT_EQ(result.table.columns.at(1), known) << one.header;
    EXPECT_NEAR(result.table.number(0, result.table.columns.at(1)), one.value, 1e-9 * one.value) << one.header;
  }
}

TEST(HeaderNames, WhoseBatchItIsAndInWhatUnit) {
  struct Batch {
    const char* header;
    BatchOf of;
    bool is_in_tokens = false;
    double scale = 1;
  };
  for (const Batch& one :
       {Batch{"mini-batch", BatchOf::kUnsaid}, Batch{"train_batch_size", BatchOf::kUnsaid},
        Batch{"bs", BatchOf::kUnsaid}, Batch{"Batch per node", BatchOf::kNode},
        Batch{"micro-batch size", BatchOf::kMicro}, Batch{"MBS", BatchOf::kMicro},
        Batch{"train_micro_batch_size_per_gpu", BatchOf::kMicro},
        Batch{"Global batch size (M tokens)", BatchOf::kAll, true, 1e6},
        Batch{"Batch size (Mtokens)", BatchOf::kUnsaid, true, 1e6}, Batch{"GBS (k tokens)", BatchOf::kAll, true, 1e3},
        Batch{"batch (millions of tokens)", BatchOf::kUnsaid, true, 1e6}, Batch{"tokens/step", BatchOf::kAll, true},
        Batch{"Tokens/Batch", BatchOf::kUnsaid, true}, Batch{"batch per GPU (tokens)", BatchOf::kDevice, true},
        Batch{"total batch per GPU", BatchOf::kNone}, Batch{"batch time (s)", BatchOf::kNone},
        Batch{"tokens/s", BatchOf::kNone}, Batch{"samples", BatchOf::kNone}}) {
    const BatchName batch = read_batch_name(one.header);
    EXPECT_EQ(batch.of, one.of) << one.header;
    if (one.of == BatchOf::kNone) continue;
    EXPECT_EQ(batch.is_in_tokens, one.is_in_tokens) << one.header;
    EXPECT_EQ(batch.scale, one.scale) << one.header;
  }
}

TEST(HeaderNames, TimesOfOneAreNoRates) {
  struct Speed {
    const char* header;
    Counted counted;
    ToldSpeed told;
    double unit_s = 0;
  };
  for (const Speed& one :
       {Speed{"Image (ms)", Counted::kSample, ToldSpeed::kTime, 1e-3},
        Speed{"time per sample (s)", Counted::kSample, ToldSpeed::kTime, 1},
        Speed{"ms/token", Counted::kToken, ToldSpeed::kTime, 1e-3},
        Speed{"Step time", Counted::kStep, ToldSpeed::kTime}, Speed{"steps/sec", Counted::kStep, ToldSpeed::kRate},
        Speed{"Training speed (it/s)", Counted::kStep, ToldSpeed::kRate},
        Speed{"it_s", Counted::kStep, ToldSpeed::kUnclear}, Speed{"Steps (s)", Counted::kStep, ToldSpeed::kUnclear},
        Speed{"img_s", Counted::kNone, ToldSpeed::kNone}, Speed{"tokens/s", Counted::kNone, ToldSpeed::kNone},
        Speed{"time step", Counted::kNone, ToldSpeed::kNone},
        Speed{"backward step (ms)", Counted::kNone, ToldSpeed::kNone}}) {
    const SpeedName speed = read_speed_name(one.header);
    EXPECT_EQ(speed.counted, one.counted) << one.header;
    EXPECT_EQ(speed.told, one.told) << one.header;
    EXPECT_DOUBLE_EQ(speed.unit_s, one.unit_s) << one.header;
    if (one.told == ToldSpeed::kTime) {
      EXPECT_FALSE(parse_rate_name(one.header).has_period) << one.header;
    }
  }
}

}  // namespace
}  // namespace lockstep::published
