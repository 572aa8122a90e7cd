#include "config/retrieve_options.h"

#include "config/inference_options.h"
#include "config/option_checks.h"

namespace lockstep::config {

core::OptionSet declare_retrieve_options(RetrieveOptions& options) {
  core::OptionSet set("infer retrieve", "Find the nearest embeddings of each query, exactly.");
  set.group("Input and output");
  set.add("embeddings", &options.embeddings,
          {.help = "What is searched: a folder or file of `infer embed`.", .metavar = "DIR|FILE"});
  set.add("queries", &options.queries, {.help = "Likewise, what is looked for.", .metavar = "DIR|FILE"});
  const std::vector<std::string> towers = {"image", "audio", "text"};
  set.add("key", &options.key, {.help = "Which embeddings of --embeddings.", .choices = towers});
  set.add("query-key", &options.query_key, {.help = "Which embeddings of --queries.", .choices = towers});
  set.add("top-k", &options.top_k,
          {.help = "Results of a query.", .unit = "results", .min = 1, .max = 1e6, .aliases = {"k"}});
  set.add("output", &options.output,
          {.help = "Result as JSON Lines, one object per query.",
           .metavar = "FILE",
           .unset_text = "standard output",
           .aliases = {"o", "out"}});
  set.group("Speed");
  set.add("tile-rows", &options.tile_rows,
          {.help = "Rows of --embeddings in one product; scores of one tile are in memory at a time.",
           .unit = "rows",
           .min = 1,
           .max = 1e9});
  declare_threads_option(set, &options.threads);
  return set;
}

void check_retrieve_options(const RetrieveOptions& options, const core::OptionSet& set) {
  need_flag(set, options.embeddings.empty(), "--embeddings DIR", "give what `lockstep infer embed` wrote");
  need_flag(set, options.queries.empty(), "--queries DIR", "give what `lockstep infer embed` wrote");
  need_place_of(options.output);
}

}  // namespace lockstep::config
