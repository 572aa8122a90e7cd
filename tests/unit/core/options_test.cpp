#include "core/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "core/strings.h"
#include "support/error_text.h"

namespace lockstep::core {
namespace {

using tests::holds;
using Args = std::vector<std::string>;

struct Fields {
  int64_t batch = 64;
  double rate = 0.2;
  bool local = false;
  std::string model = "RN50", precision = "amp";
  std::optional<int64_t> samples;
  std::optional<double> clip;
  std::optional<std::string> resume;
  std::vector<std::string> pairs;
  std::vector<double> mean;
  std::vector<int64_t> sizes;
};

OptionSet declare(Fields& f) {
  OptionSet set("demo", "A demo.");
  set.group("First");
  set.add_config_option();
  set.add("batch-size", &f.batch,
          {.help = "Samples.", .unit = "samples per rank", .min = 1, .aliases = {"b", "per-rank"}});
  set.add("wd", &f.rate, {.help = "Decay.", .min = 0, .max = 1, .is_max_excluded = true});
  set.add("local-loss", &f.local, {.help = "Local."});
  set.group("Second");
  set.add("model", &f.model, {.help = "Model.", .metavar = "NAME"});
  set.add("precision", &f.precision,
          {.help = "Numbers.",
           .choices = {"amp", "amp_bf16", "fp32"},
           .choice_aliases = {{"amp_bfloat16", "amp_bf16"}},
           .refused_choices = {{"fp16", "use amp"}}});
  set.add("train-num-samples", &f.samples, {.help = "Samples of an epoch.", .unset_text = "counted"});
  set.add("grad-clip-norm", &f.clip, {.help = "Clip."});
  set.add("resume", &f.resume, {.help = "Resume."});
  set.add("aug-cfg", &f.pairs, {.help = "Pairs."});
  set.add("image-mean", &f.mean, {.help = "Mean."});
  set.add("sizes", &f.sizes, {.help = "Sizes.", .max = 100});
  set.refuse("horovod", "one runtime is built in", "use lockstep launch");
  set.refuse("context-parallel-size", "there is none", "drop it", {"1"});
  set.ignore("transformer-impl", "one is built in", true);
  set.ignore("no-fusion", "fused where that is faster", false);
  return set;
}

Fields parsed(const Args& args) {
  Fields fields;
  declare(fields).parse(args);
  return fields;
}

/// Message and hint of the UsageError that these arguments give; "" if there is none.
std::string error_of(const Args& args) {
  try {
    parsed(args);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

std::string write_recipe(const TempDir& folder, const std::string& text) {
  const auto path = folder.path() / "recipe.toml";
  std::ofstream(path) << text;
  return path.string();
}

TEST(Options, BothSpellingsAndBothFormsOfValues) {
  for (const Args& args : {Args{"--batch-size", "8"}, Args{"--batch_size", "8"}, Args{"--batch-size=8"},
                           Args{"--batch_size=8"}, Args{"-b", "8"}, Args{"-b=8"}, Args{"--per_rank", "8"}})
    EXPECT_EQ(parsed(args).batch, 8) << args[0];
}

TEST(Options, TheLastOfARepeatedFlagWins) {
  EXPECT_EQ(parsed({"--batch-size", "8", "--batch_size=9"}).batch, 9);
  EXPECT_EQ(parsed({"--aug-cfg", "a=1", "b=2", "--aug-cfg", "c=3"}).pairs, Args{"c=3"});
}

TEST(Options, NegativeNumbersAreValues) {
  EXPECT_EQ(parsed({"--image-mean", "-0.5", "1e-3", "-2"}).mean, (std::vector<double>{-0.5, 1e-3, -2}));
  EXPECT_EQ(parsed({"--sizes", "-4", "--model", "x"}).sizes, std::vector<int64_t>{-4});
  EXPECT_EQ(parsed({"--model=-x"}).model, "-x");
}

TEST(Options, FlagsAreSetAndCleared) {
  EXPECT_TRUE(parsed({"--local-loss"}).local);
  EXPECT_FALSE(parsed({"--local-loss", "--no-local_loss"}).local);
  EXPECT_TRUE(holds(error_of({"--local-loss=true"}), "--local-loss takes no value, got 'true'"));
  EXPECT_TRUE(holds(error_of({"--no-model"}), "--no-model is unknown"));
}

TEST(Options, EmptyOptionals) {
  const Fields fields = parsed(
      {"--grad-clip-norm", "1", "--grad-clip-norm", "none", "--resume", "x", "--resume=", "--train-num-samples", "5"});
  EXPECT_FALSE(fields.clip);
  EXPECT_FALSE(fields.resume);
  EXPECT_EQ(fields.samples, 5);
}

TEST(Options, ChoicesAliasesAndRefusedChoices) {
  EXPECT_EQ(parsed({"--precision", "amp_bfloat16"}).precision, "amp_bf16");
  EXPECT_TRUE(holds(error_of({"--precision", "fp16"}), "--precision 'fp16' is not supported\n  hint: use amp"));
  EXPECT_TRUE(holds(error_of({"--precision", "fp23"}),
                    "got 'fp23', expected amp, amp_bf16 or fp32\n  hint: did you mean 'fp32'?"));
}

TEST(Options, BadValuesNameFlagValueRangeAndUnit) {
  EXPECT_TRUE(
      holds(error_of({"--batch-size", "0"}), "--batch-size got '0', expected an integer >= 1 (samples per rank)"));
  for (const char* bad : {"1.5", "x", "", "1e3", "99999999999999999999", "8 ", "+8"})
    EXPECT_TRUE(holds(error_of({"--batch-size", bad}), std::string("got '") + bad + "'")) << bad;
  EXPECT_TRUE(holds(error_of({"--wd", "1"}), "--wd got '1', expected a number >= 0 and < 1"));
  for (const char* bad : {"nan", "inf", "-0.1", "0,5"}) EXPECT_NE(error_of({"--wd=" + std::string(bad)}), "") << bad;
  EXPECT_TRUE(holds(error_of({"--sizes", "5", "101"}), "got '101', expected one or more integers <= 100"));
  EXPECT_TRUE(holds(error_of({"--batch-size"}), "--batch-size needs a value, got the end of the command line"));
  EXPECT_TRUE(holds(error_of({"--model", "--local-loss"}), "needs a value, got the flag '--local-loss'"));
}

TEST(Options, OtherBytesThanUtf8AreRefused) {
  EXPECT_TRUE(holds(error_of({"--model", "caf\xe9"}), "the value of --model is no UTF-8: \"caf\\ufffd\""));
  EXPECT_EQ(parsed({"--model", "caf\xc3\xa9"}).model, "caf\xc3\xa9");
}

TEST(Options, UnknownFlagsNameTheNearest) {
  EXPECT_TRUE(
      holds(error_of({"--bacth-size", "8"}), "--bacth-size is unknown to 'demo'\n  hint: did you mean --batch-size?"));
  EXPECT_TRUE(holds(error_of({"--train"}), "did you mean --train-num-samples?"));
  EXPECT_TRUE(holds(error_of({"-x"}), "-x is unknown"));
  EXPECT_TRUE(holds(error_of({"-model", "x"}), "-model is unknown"));
  EXPECT_TRUE(holds(error_of({"stray"}), "'demo' does not take the argument 'stray'"));
  EXPECT_TRUE(holds(error_of({"--", "--model"}), "does not take the argument '--model'"));
}

TEST(Options, RefusedFlagsSayWhatToUse) {
  for (const char* flag : {"--horovod", "--horovod=1"})
    EXPECT_TRUE(
        holds(error_of({flag}), "--horovod is not supported: one runtime is built in\n  hint: use lockstep launch"));
}

TEST(Options, EverythingWrongIsToldAtOnce) {
  const std::string error = error_of({"--horovod", "--bacth-size", "8", "--model", "x", "--precision", "fp16",
                                      "--context-parallel-size", "2", "--wd", "7"});
  EXPECT_EQ(error,
            "options: 5 things are wrong:\n"
            "  --horovod is not supported: one runtime is built in\n    hint: use lockstep launch\n"
            "  --bacth-size is unknown to 'demo'\n    hint: did you mean --batch-size? `lockstep demo --help` lists "
            "every flag\n"
            "  --context-parallel-size is not supported: there is none\n    hint: drop it\n"
            "  --precision 'fp16' is not supported\n    hint: use amp\n"
            "  --wd got '7', expected a number >= 0 and < 1\n    hint: --wd: Decay.");
  const TempDir folder;
  core::write_file_atomic(folder.path() / "r.toml", "horovod = true\nmodel = 3\nnope = 1\n");
  const std::string recipe = error_of({"--config", (folder.path() / "r.toml").string()});
  for (const char* part : {"3 things are wrong", ":1: key 'horovod' is not supported", ":2: key 'model' got '3'",
                           ":3: key 'nope' is unknown"})
    EXPECT_TRUE(holds(recipe, part)) << recipe;
}

TEST(Options, ValuesThatMeanOffAreTaken) {
  EXPECT_EQ(error_of({"--context-parallel-size", "1", "--model", "x"}), "");
  EXPECT_EQ(error_of({"--context_parallel_size=1"}), "");
  EXPECT_TRUE(holds(error_of({"--context-parallel-size"}), "--context-parallel-size is not supported"));
  Fields fields;
  OptionSet set = declare(fields);
  set.apply_recipe("context-parallel-size = 1\nhorovod = false\n", "r.toml");
  EXPECT_EQ(set.ignored_warning(), "");
}

TEST(Options, FlagsOfOtherImplementationsAreTakenAndNamedInOneLine) {
  Fields fields;
  OptionSet set = declare(fields);
  set.parse(Args{"--transformer_impl", "local", "--no-fusion", "--batch-size", "8", "--transformer-impl=x"});
  EXPECT_EQ(fields.batch, 8);
  EXPECT_EQ(set.ignored_warning(),
            "--transformer-impl, --no-fusion change nothing here; `lockstep config reference` says why");
  EXPECT_TRUE(holds(error_of({"--no-fusion", "stray"}), "does not take the argument 'stray'"));
  Fields other;
  OptionSet by_recipe = declare(other);
  by_recipe.apply_recipe("no-fusion = true\ntransformer-impl = \"local\"\n", "r.toml");
  EXPECT_TRUE(holds(by_recipe.ignored_warning(), "--no-fusion")) << by_recipe.ignored_warning();
  EXPECT_TRUE(holds(set.markdown(), "- `--no-fusion`: fused where that is faster\n"));
  EXPECT_TRUE(holds(set.markdown(), "- `--context-parallel-size`: there is none. Instead: drop it; taken with `1`\n"));
}

TEST(Options, HelpStopsEverythingElse) {
  Fields fields;
  OptionSet set = declare(fields);
  set.parse(Args{"--bogus", "--help"});
  EXPECT_TRUE(set.wants_help());
}

TEST(Options, RecipesSetValuesAndTheLineWins) {
  const TempDir folder;
  const std::string path =
      write_recipe(folder,
                   "batch_size = 16\nwd = 0\nlocal-loss = true\nmodel = \"ViT-B-32\"\nimage-mean = [0.5, 1]\n"
                   "aug-cfg = [\"scale=1\"]\ntrain-num-samples = 7\n");
  Fields fields;
  OptionSet set = declare(fields);
  set.parse(Args{"--model", "RN101", "--config", path});
  EXPECT_EQ(fields.batch, 16);
  EXPECT_EQ(fields.rate, 0.0);
  EXPECT_TRUE(fields.local);
  EXPECT_EQ(fields.model, "RN101");
  EXPECT_EQ(fields.mean, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(fields.pairs, Args{"scale=1"});
  EXPECT_EQ(fields.samples, 7);
  EXPECT_EQ(set.find("batch-size")->origin.text(), path + ":1");
  EXPECT_EQ(set.find("model")->origin.text(), "command line");
  EXPECT_EQ(set.find("precision")->origin.text(), "default");
  EXPECT_TRUE(set.is_given("wd"));
  EXPECT_FALSE(set.is_given("resume"));
}

TEST(Options, BadRecipesNameFileAndLine) {
  const TempDir folder;
  const auto error_in = [&](const std::string& text) { return error_of({"--config", write_recipe(folder, text)}); };
  EXPECT_TRUE(holds(error_in("\nbacth-size = 3\n"), "recipe.toml:2: key 'bacth-size' is unknown"));
  EXPECT_TRUE(holds(error_in("\nbacth-size = 3\n"), "did you mean --batch-size?"));
  EXPECT_TRUE(
      holds(error_in("batch-size = \"3\"\n"), "recipe.toml:1: key 'batch-size' got '\"3\"', expected an integer >= 1"));
  EXPECT_TRUE(holds(error_in("batch-size = 0\n"), "recipe.toml:1: key 'batch-size' got '0'"));
  EXPECT_NE(error_in("batch-size = 1.0\n"), "");
  EXPECT_NE(error_in("batch-size = [1]\n"), "");
  EXPECT_NE(error_in("local-loss = 1\n"), "");
  EXPECT_NE(error_in("image-mean = []\n"), "");
  EXPECT_NE(error_in("image-mean = [0.5, \"x\"]\n"), "");
  EXPECT_NE(error_in("wd = nan\n"), "");
  EXPECT_NE(error_in("model = 2020-01-01\n"), "");
  EXPECT_TRUE(holds(error_in("batch-size = 1\nbatch_size = 2\n"), "repeats the option --batch-size"));
  EXPECT_TRUE(holds(error_in("horovod = true\n"), "use lockstep launch"));
  EXPECT_TRUE(holds(error_in("config = \"x\"\n"), "key 'config' is unknown"));
  EXPECT_TRUE(holds(error_in("[train]\nwd = 0\n"), "key 'train' is a table"));
  EXPECT_TRUE(holds(error_in("wd = 0\nmodel = = 3\n"), "recipe.toml:2:"));
  EXPECT_TRUE(
      holds(error_in("[model]\nwd = 0\n"), "recipe.toml:1: key 'model' is a table\n  hint: recipes have no tables"));
  write_file_atomic(folder.path() / "r.yaml", "model: ViT\n");
  const std::string yaml = error_of({"--config", (folder.path() / "r.yaml").string()});
  EXPECT_TRUE(holds(yaml, "hint: recipes are TOML: a recipe has lines such as")) << yaml;
  EXPECT_TRUE(holds(error_of({"--config", "/nonexistent.toml"}), "'/nonexistent.toml' does not exist"));
}

TEST(Options, DamagedRecipesAreUsageErrorsOrRead) {
  const std::string whole =
      "batch_size = 16\nwd = 0.5\nlocal-loss = true\nmodel = \"ViT-B-32\"\nimage-mean = [0.5, 1]\naug-cfg = "
      "['''a''']\n";
  CounterRng rng(stream_key({3, 9}));
  int num_refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = whole;
    for (uint64_t i = 0; i <= rng.below(3); ++i) text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    if (trial % 3 == 0) text.resize(rng.below(text.size()));
    Fields fields;
    OptionSet set = declare(fields);
    try {
      set.apply_recipe(text, "recipe.toml");
    } catch (const UsageError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
}

TEST(Options, RandomCommandLinesAreUsageErrorsOrRead) {
  const Args words = {
      "--batch-size", "8",         "--", "-",  "--config", "--local-loss", "--no-local-loss", "=",   "--=",
      "--wd=",        "--aug-cfg", "-b", "-1", "",         "--model=",     "--no-",           "---", "-=",
      "--resume"};
  CounterRng rng(stream_key({3, 10}));
  int num_refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    Args args;
    for (uint64_t i = 0; i < 1 + rng.below(5); ++i) args.push_back(words[rng.below(words.size())]);
    num_refused += error_of(args).empty() ? 0 : 1;
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_LT(num_refused, 5000);
}

TEST(Options, PositionalsAreTakenInOrder) {
  std::string in, out = "default";
  Args rest;
  OptionSet set("copy", "Copies.");
  set.add_positional("in", &in, {.help = "Input.", .metavar = "IN"});
  set.add_positional("out", &out, {.help = "Output.", .metavar = "OUT"});
  EXPECT_THROW(set.parse(Args{}), UsageError);
  set.parse(Args{"a"});
  EXPECT_EQ(in + out, "adefault");
  set.parse(Args{"a", "--", "--b"});
  EXPECT_EQ(out, "--b");
  EXPECT_THROW(set.parse(Args{"a", "b", "c"}), UsageError);
  OptionSet list("list", "Lists.");
  list.add_positional("files", &rest, {.help = "Files.", .metavar = "FILE"});
  EXPECT_THROW(list.parse(Args{}), UsageError);
  list.parse(Args{"a", "b"});
  EXPECT_EQ(rest, (Args{"a", "b"}));
}

TEST(Options, ListingsShowPresentValues) {
  Fields fields;
  OptionSet set = declare(fields);
  set.parse(Args{"--image-mean", "1", "--aug-cfg", "a=1", "--local-loss"});
  fields.clip = 0.5;
  set.mark_derived("grad-clip-norm", "a rule");
  const OptionSet moved = std::move(set);
  std::set<std::string> texts;
  for (const Option& option : moved.options()) texts.insert(option.name + ": " + option.value_text());
  EXPECT_EQ(texts, (std::set<std::string>{"aug-cfg: ['a=1']", "batch-size: 64", "config: ", "grad-clip-norm: 0.5",
                                          "image-mean: [1.0]", "local-loss: True", "model: RN50", "precision: amp",
                                          "resume: None", "sizes: []", "train-num-samples: None", "wd: 0.2"}));
  const Json json = moved.values_json();
  EXPECT_EQ(json["image_mean"], Json::array({1.0}));
  EXPECT_EQ(json["resume"], nullptr);
  EXPECT_EQ(json["local_loss"], true);
  EXPECT_EQ(moved.find("grad_clip_norm")->origin.text(), "from a rule");
}

TEST(Options, HelpIsGroupedAndNarrow) {
  Fields fields;
  const std::string help = declare(fields).help_text(60);
  for (const std::string& line : split(help, "\n")) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_LT(help.find("\nFirst\n"), help.find("\nSecond\n"));
  EXPECT_TRUE(holds(help, "-b, --batch-size N"));
  EXPECT_TRUE(holds(help, "Samples. (also --per-rank;"));
  EXPECT_TRUE(holds(help, "Samples of an epoch. (default\n                          counted)"));
  EXPECT_TRUE(holds(help, "  --local-loss            Local.\n"));
  EXPECT_FALSE(holds(help, "horovod"));
}

TEST(Options, MarkdownListsOptionsAndRefusals) {
  Fields fields;
  const std::string text = declare(fields).markdown();
  EXPECT_TRUE(holds(text, "- `-b, --batch-size N` (default 64; samples per rank): Samples. Also `--per-rank`.\n"));
  EXPECT_TRUE(holds(text, "- `--horovod`: one runtime is built in. Instead: use lockstep launch\n"));
}

TEST(Options, DeclaringTwiceIsAProgrammingError) {
  Fields fields;
  OptionSet set = declare(fields);
  EXPECT_THROW(set.add("model", &fields.model, {.help = "Again."}), Error);
  EXPECT_THROW(set.add("horovod", &fields.model, {.help = "Again."}), Error);
  EXPECT_THROW(set.refuse("model", "x", "y"), Error);
  EXPECT_THROW(set.add("under_score", &fields.model, {.help = "Bad name."}), Error);
}

}  // namespace
}  // namespace lockstep::core
