#include "config/inference_options.h"

namespace lockstep::config {

void declare_device_option(core::OptionSet& set, std::string* device) {
  set.add("device", device,
          {.help = "auto: CUDA where a GPU is visible, else the CPU.",
           .choices = {"auto", "cuda", "cpu"},
           .choice_aliases = {{"gpu", "cuda"}}});
}

void declare_threads_option(core::OptionSet& set, int64_t* threads) {
  set.add("threads", threads,
          {.help = "Compute threads; 0: the cores of this process.", .unit = "threads", .min = 0, .max = 4096});
}

void declare_cuda_graphs_option(core::OptionSet& set, std::string* cuda_graphs) {
  set.add("cuda-graphs", cuda_graphs,
          {.help = "auto: on CUDA the forward pass of a shape that comes again is recorded and launched as one graph, "
                   "where a batch has at most 32 samples: the host is what such a call waits for. off: kernel by "
                   "kernel. The numbers are the same.",
           .choices = {"auto", "off"}});
}

}  // namespace lockstep::config
