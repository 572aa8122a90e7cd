#include "config/inference_options.h"

namespace lockstep::config {

void declare_device_option(core::OptionSet& set, std::string* device) {
  set.add("device", device,
          {.help = "auto: CUDA where a GPU is visible, else the CPU.", .choices = {"auto", "cuda", "cpu"}});
}

void declare_threads_option(core::OptionSet& set, int64_t* threads) {
  set.add("threads", threads,
          {.help = "Compute threads; 0: the cores of this process.", .unit = "threads", .min = 0, .max = 4096});
}

}  // namespace lockstep::config
