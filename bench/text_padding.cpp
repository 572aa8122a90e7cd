// What padding costs CLAP's text tower: forward and backward of batches of about as many real tokens, whose texts fill
// a smaller and smaller share of their 77 columns, packed as we compute them, in rounds that take the shares in turn.
// Prints one JSON document; tokens are the real ones.
//   bench_text_padding --texts N --rounds N --out RESULT.json
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/options.h"
#include "hw/device.h"
#include "models/clap/roberta.h"
#include "nn/init.h"
#include "stats/statistics.h"

namespace lockstep {
namespace {

struct BenchOptions {
  int64_t texts = 32, rounds = 7, threads = 2;
  std::string out;
};

BenchOptions parse(const std::vector<std::string>& args) {
  BenchOptions options;
  core::OptionSet set("bench_text_padding", "Measures what padding costs the text tower.");
  set.add("texts", &options.texts,
          {.help = "Texts of a batch at full length; shorter ones come in larger numbers.", .min = 1});
  set.add("rounds", &options.rounds, {.help = "Measured rounds.", .min = 3});
  set.add("threads", &options.threads, {.help = "Compute threads.", .min = 1});
  set.add("out", &options.out, {.help = "Result file."});
  set.parse(args);
  return options;
}

/// `texts` texts of `tokens` real tokens in `columns` columns.
at::Tensor make_texts(const config::RobertaShape& shape, int64_t texts, int64_t tokens) {
  auto text_BT = at::full({texts, shape.context_length}, shape.pad_id, at::kLong);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(tokens));
  text_BT.narrow(1, 0, tokens).copy_(at::randint(3, shape.vocab_size, {texts, tokens}, generator, at::kLong));
  return text_BT;
}

double step_ms(models::RobertaTower& tower, const at::Tensor& text_BT) {
  const auto begin = std::chrono::steady_clock::now();
  tower.forward(text_BT, {}).square().sum().backward();
  for (const auto& parameter : tower.named_parameters()) parameter.tensor->mutable_grad().reset();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

int run(const BenchOptions& options) {
  at::set_num_threads(static_cast<int>(options.threads));
  const config::RobertaShape shape = config::resolve_clap_shape("HTSAT-tiny-Roberta-base").text;
  models::RobertaTower tower(shape, /*exact_shortcuts=*/true, {});
  for (const auto& parameter : tower.named_parameters()) parameter.tensor->detach().normal_(0, 0.02);
  const std::vector<int64_t> lengths = {77, 58, 39, 19, 10};
  std::vector<std::vector<double>> times(lengths.size());
  const auto num_texts = [&](size_t i) {
    return options.texts * shape.context_length / lengths[i];
  };                                                         // about as many real tokens in each batch
  for (int64_t round = -1; round < options.rounds; ++round)  // the first warms up
    for (size_t i = 0; i < lengths.size(); ++i) {
      const double ms = step_ms(tower, make_texts(shape, num_texts(i), lengths[i]));
      if (round >= 0) times[i].push_back(ms);
    }
  core::Json document{
      {"benchmark", "text tower of CLAP (RoBERTa-base), fp32, forward and backward, over the share of padding"},
      {"processor", hw::cpu_name()},
      {"threads", options.threads},
      {"command", fmt::format("build/bench_text_padding --texts {} --rounds {} --threads {}", options.texts,
                              options.rounds, options.threads)},
      {"columns", shape.context_length},
      {"rows", core::Json::array()}};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const double median_ms = stats::percentile(times[i], 50);
    const double tokens = static_cast<double>(num_texts(i) * lengths[i]);
    document["rows"].push_back({{"texts", num_texts(i)},
                                {"real_tokens_per_text", lengths[i]},
                                {"padding_percent", 100.0 * static_cast<double>(shape.context_length - lengths[i]) /
                                                        static_cast<double>(shape.context_length)},
                                {"step_ms", median_ms},
                                {"real_tokens_per_s", 1e3 * tokens / median_ms},
                                {"samples_ms", times[i]}});
  }
  fmt::print("{}\n", document.dump(2));
  if (!options.out.empty()) core::write_file_atomic(options.out, document.dump(2) + "\n");
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::run(lockstep::parse({argv + 1, argv + argc}));
  } catch (const lockstep::Error& error) {
    fmt::print(stderr, "{}\n", error.text());
    return static_cast<int>(error.code());
  }
}
