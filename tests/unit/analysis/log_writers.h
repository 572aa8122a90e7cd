#pragma once
// Logs of other programs, written from runs whose truth is known.
#include <algorithm>

#include "core/strings.h"
#include "unit/analysis/log_intervals.h"

namespace lockstep::analysis::intervals {

inline std::string openclip_log(const Timeline& run) {
  const int64_t in_epoch = run.steps_per_evaluation > 0 ? run.steps_per_evaluation : run.num_steps;
  std::string text;
  for (int64_t first = 0, epoch = 0; first < run.num_steps; first += in_epoch, ++epoch) {
    int64_t before = first;
    const int64_t last = std::min(first + in_epoch, run.num_steps);
    for (int64_t step = first + 1; step <= last; ++step) {
      if ((step - first - 1) % run.steps_per_line != 0 && step != first + in_epoch) continue;
      const double mean_s = run.mean_s(std::exchange(before, step), step),
                   rate = static_cast<double>(run.global_batch()) / run.step_s(step);
      text += fmt::format(
          "{} | INFO | Train Epoch: {} [{}/{} (1%)] Data (t): 0.001 Batch (t): {:.3f}, {:.6g}/s, "
          "{:.6g}/s/gpu LR: 0.000001 Logit Scale: 14.280 Loss: 8.0950 (8.1950)\n",
          stamp(run.end_s[static_cast<size_t>(step)], ",", false), epoch, (step - first) * run.global_batch(),
          in_epoch * run.global_batch(), mean_s, rate, rate / static_cast<double>(run.devices()));
    }
    if (run.is_evaluated_after(last))
      text += fmt::format("{} | INFO | Eval Epoch: {} clip_val_loss: 3.1000\n",
                          stamp(run.end_s[static_cast<size_t>(last)] + run.evaluation_s, ",", false), epoch + 1);
  }
  return text;
}

inline std::string openclip_start(const Timeline& run) {
  const std::string begin = stamp(0, ",", false) + " | INFO | ";
  return fmt::format("{0}Params:\n{0}  accum_freq: 1\n{0}  batch_size: {1}\n{0}  world_size: {2}\n", begin,
                     run.global_batch() / run.devices(), run.devices());
}

inline std::string megatron_log(const Timeline& run) {
  return means(run.lines(), [&](int64_t from, int64_t to) {
    std::string text = fmt::format(
        " [{}] iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
        "global batch size: {} | lm loss: 9.0E+00 | number of skipped iterations: 0 | number of nan "
        "iterations: 0 |\n",
        stamp_after(run, to), run.steps_before + to, run.num_steps, to * run.global_batch(),
        1000 * run.mean_s(from, to), run.global_batch());
    if (run.is_evaluated_after(to))
      text += fmt::format(" validation loss at iteration {} | lm loss value: 3.0E+00 | lm loss PPL: 2.0E+01 | \n", to);
    return text;
  });
}

inline std::string megatron_start(const Timeline& run) {
  return fmt::format(
      "using world size: {0}, data-parallel size: {0}, context-parallel size: 1, tensor-model-parallel size: 1, "
      "pipeline-model-parallel size: 1\n",
      run.devices());
}

/// The time of the step that the line names, not of those before it.
inline std::string deepspeed_log(const Timeline& run) {
  std::string text = fmt::format("[{0}] [INFO] [config.py:1000:print]   train_batch_size ............. {1}\n", stamp(0),
                                 run.global_batch());
  for (const int64_t step : run.lines())
    text += fmt::format(
        "[{}] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec={}, CurrSamplesPerSec={}, MemAllocated=1.25GB, MaxMemAllocated=3.5GB\n",
        stamp_after(run, step), step, run.steps_before + step, static_cast<double>(run.global_batch()) / kStepS,
        static_cast<double>(run.global_batch()) / run.step_s(step));
  return text;
}

inline std::string deepspeed_start(const Timeline& run) {
  return fmt::format("[{}] [INFO] [config.py:1000:print]   world_size ................... {}\n", stamp(0),
                     run.devices());
}

/// A bar that is drawn every k steps and names the last one.
inline std::string nemo_bar_log(const Timeline& run) {
  std::string text;
  for (const int64_t step : run.lines())
    text += fmt::format(
        "[NeMo I {} progress:12] Epoch 0: :  50%|#####     | {}/{} [03:59<03:59, "
        "reduced_train_loss=7.310, global_step={:.2f}, consumed_samples={:.1f}, "
        "train_step_timing in s={:.3f}]\n",
        stamp_after(run, step), step, run.num_steps, static_cast<double>(step - 1),
        static_cast<double>(step * run.global_batch()), run.step_s(step));
  return text;
}

/// Lines of means: consumed_samples is one, too.
inline std::string nemo_lines_log(const Timeline& run) {
  return means(run.lines(), [&](int64_t from, int64_t to) {
    return fmt::format(
        "{} Training epoch 0, iteration {}/{} | lr: 0.0003 | global_batch_size: {} | global_step: {} | "
        "reduced_train_loss: 11.03 | train_step_timing in s: {:.4g} | consumed_samples: {:.4g}\n",
        stamp_after(run, to), to, run.num_steps, run.global_batch(), to - 1, run.mean_s(from, to),
        static_cast<double>((from + 1 + to) * run.global_batch()) / 2);
  });
}

/// Validation has lines of the same kind, and the rate is counted anew behind it.
inline std::string torchtitan_log(const Timeline& run) {
  std::string text = fmt::format(
      "[titan] {0} - root - INFO - Building 1-D device mesh with ['dp_shard'], [{1}]\n"
      "[titan] {0} - root - INFO - Trainer is initialized with local batch size 4, global "
      "batch size {2}, gradient accumulation steps 1, sequence length {3}, total steps 100\n",
      stamp(0), run.devices(), run.global_batch(), kSequence);
  const double tokens_per_device =
      static_cast<double>(run.global_batch() * kSequence) / static_cast<double>(run.devices());
  int64_t before = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    if (step == 1 || step % run.steps_per_line == 0)
      text += fmt::format(
          "[titan] {} - root - INFO - step: {}  loss: 7.1032  grad_norm: 1.9  memory: 41.2GiB(52%)  "
          "tps: {:.0f}  tflops: 281.3  mfu: 28.4%\n",
          stamp_after(run, step), run.steps_before + step,
          tokens_per_device / run.mean_s(std::exchange(before, step), step));
    if (run.is_evaluated_after(step)) {
      before = step;
      text += fmt::format(
          "[titan] {} - root - INFO - validate step: {}  loss: 6.9000  memory: 41.2GiB(52%)  tps: "
          "99,123\n",
          stamp(run.end_s[static_cast<size_t>(step)] + run.evaluation_s), step);
    }
  }
  return text;
}

/// The value is of the step, the mean in parentheses of the epoch.
inline std::string imagenet_log(const Timeline& run) {
  const int64_t in_epoch = run.steps_per_evaluation > 0 ? run.steps_per_evaluation : run.num_steps;
  std::string text;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    const int64_t epoch = (step - 1) / in_epoch, batch = step - epoch * in_epoch;
    if ((batch - 1) % run.steps_per_line == 0)
      text += fmt::format(
          "{} Epoch: [{}][{:3}/{}]\tTime  {:.3f} ( {:.3f})\tData  0.001 ( 0.001)\tLoss 6.9e+00 "
          "(6.9e+00)\tAcc@1   0.39 (  0.20)\tAcc@5   1.50 (  1.10)\n",
          stamp_after(run, step), epoch, batch, in_epoch, run.step_s(step), run.mean_s(epoch * in_epoch, step));
    if (run.is_evaluated_after(step))
      text += fmt::format("{}  * Acc@1 71.123 Acc@5 90.456\n",
                          stamp(run.end_s[static_cast<size_t>(step)] + run.evaluation_s));
  }
  return text;
}

/// The rate is a mean since the start, and that of one worker; batch and total are those of all.
inline std::string tf_cnn_lines(const Timeline& run, int64_t num_workers, bool has_total) {
  std::string text = fmt::format(
      "Model:       resnet50\nBatch size:  {} global\n             {} per device\nDevices:     ['gpu'{}]\nVariables:   "
      "{}\n",
      run.global_batch(), kSamplesPerNode / kDevicesPerNode,
      core::replace_all(std::string(static_cast<size_t>(run.devices() - 1), ','), ",", ", 'gpu'"),
      num_workers > 1 ? "horovod" : "replicated");
  double sum_s = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    sum_s += run.step_s(step);
    if (step == 1 || step % run.steps_per_line == 0)
      text += fmt::format("{} {}\timages/sec: {:.1f} +/- 4.2 (jitter = 21.0)\t7.123\n", stamp_after(run, step), step,
                          static_cast<double>(step * run.global_batch()) / sum_s / static_cast<double>(num_workers));
  }
  if (has_total)
    text += fmt::format("total images/sec: {:.2f}\n", static_cast<double>(run.num_steps * run.global_batch()) / sum_s);
  return text;
}
inline std::string tf_cnn_log(const Timeline& run) { return tf_cnn_lines(run, 1, true); }
inline std::string tf_cnn_horovod_log(const Timeline& run) { return tf_cnn_lines(run, run.devices(), true); }
inline std::string tf_cnn_unfinished_log(const Timeline& run) { return tf_cnn_lines(run, run.devices(), false); }

inline std::string mlperf_event(double at_s, const std::string& key, const std::string& value,
                                const std::string& metadata) {
  return fmt::format(
      ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"POINT_IN_TIME\", \"key\": "
      "\"{}\", \"value\": {}, \"metadata\": {{{}}}}}\n",
      1769860800000 + std::llround(at_s * 1000), key, value, metadata);
}

/// What a submission logs before its steps.
inline std::string mlperf_start(const Timeline& run) {
  return mlperf_event(0, "submission_benchmark", "\"gpt3\"", "") + mlperf_event(0, "init_start", "null", "") +
         mlperf_event(0, "number_of_ranks", std::to_string(run.devices()), "");
}

/// `samples_per_count`: 1: the steps count steps, else the samples so far.
inline std::string mlperf_stats(const Timeline& run, int64_t samples_per_count) {
  std::string text = mlperf_event(0, "global_batch_size", std::to_string(run.global_batch()), "");
  for (const int64_t step : run.lines())
    text += mlperf_event(run.end_s[static_cast<size_t>(step)], "tracked_stats",
                         fmt::format("{{\"train_step_time\": {}, \"reduced_train_loss\": 6.9}}", run.step_s(step)),
                         fmt::format("\"step\": {}", (run.steps_before + step) * samples_per_count));
  return text;
}
/// The means since the line before, as other submissions print them.
inline std::string mlperf_means_log(const Timeline& run) {
  return mlperf_event(0, "global_batch_size", std::to_string(run.global_batch()), "") +
         means(run.lines(), [&](int64_t from, int64_t to) {
           return mlperf_event(run.end_s[static_cast<size_t>(to)], "tracked_stats",
                               fmt::format("{{\"train_step_time\": {}}}", run.mean_s(from, to)),
                               fmt::format("\"step\": {}", to));
         });
}
inline std::string mlperf_steps_log(const Timeline& run) { return mlperf_stats(run, 1); }
inline std::string mlperf_samples_log(const Timeline& run) { return mlperf_stats(run, run.global_batch()); }

/// No step times: blocks of k steps, as long as they have no evaluation within.
inline std::string mlperf_blocks_log(const Timeline& run) {
  std::string text = mlperf_event(0, "global_batch_size", std::to_string(run.global_batch()), "");
  int64_t before = 0;
  for (int64_t step = 1; step <= run.num_steps; ++step) {
    if (step % run.steps_per_line != 0 && !run.is_evaluated_after(step)) continue;
    const auto samples = [&](int64_t done) {
      return fmt::format("\"samples_count\": {}", (run.steps_before + done) * run.global_batch());
    };
    text += mlperf_event(run.begin_s(before + 1), "block_start", "null", samples(before));
    text += mlperf_event(run.end_s[static_cast<size_t>(step)], "block_stop", "null", samples(step));
    before = step;
  }
  return text;
}

inline std::string csv_log(const Timeline& run) {
  return "step,step_time_s,global_batch,unix_time\n" + means(run.lines(), [&](int64_t from, int64_t to) {
           return fmt::format("{},{:.4f},{},{:.3f}\n", to - 1, run.mean_s(from, to), run.global_batch(),
                              1.7e9 + run.end_s[static_cast<size_t>(to)]);
         });
}

inline constexpr Program kPrograms[] = {{"openclip", logs::LogFormat::kOpenClip, openclip_log, openclip_start, true},
                                        {"megatron", logs::LogFormat::kMegatron, megatron_log, megatron_start},
                                        {"deepspeed", logs::LogFormat::kDeepSpeed, deepspeed_log, deepspeed_start},
                                        {"nemo_bar", logs::LogFormat::kNemo, nemo_bar_log},
                                        {"nemo_lines", logs::LogFormat::kNemo, nemo_lines_log},
                                        {"torchtitan", logs::LogFormat::kTorchTitan, torchtitan_log},
                                        {"imagenet", logs::LogFormat::kImageNet, imagenet_log, nullptr, true},
                                        {"tf_cnn", logs::LogFormat::kTfCnn, tf_cnn_log},
                                        {"tf_cnn_horovod", logs::LogFormat::kTfCnn, tf_cnn_horovod_log},
                                        {"tf_cnn_unfinished", logs::LogFormat::kTfCnn, tf_cnn_unfinished_log},
                                        {"mlperf_steps", logs::LogFormat::kMlperf, mlperf_steps_log, mlperf_start},
                                        {"mlperf_means", logs::LogFormat::kMlperf, mlperf_means_log},
                                        {"mlperf_samples", logs::LogFormat::kMlperf, mlperf_samples_log, mlperf_start},
                                        {"mlperf_blocks", logs::LogFormat::kMlperf, mlperf_blocks_log, mlperf_start},
                                        {"csv", logs::LogFormat::kCsv, csv_log}};

}  // namespace lockstep::analysis::intervals
