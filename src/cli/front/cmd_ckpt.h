#pragma once
#include <span>
#include <string>

namespace lockstep::cli {

/// `lockstep ckpt list|verify`: what needs no tensors. `args` follow the word "ckpt". Returns the exit code.
int cmd_ckpt(std::span<const std::string> args);

}  // namespace lockstep::cli
