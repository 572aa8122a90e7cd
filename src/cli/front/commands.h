#pragma once
#include <functional>
#include <span>
#include <string>

#include "core/options.h"

namespace lockstep::cli {

/// Commands that run inside the front program. `args` is what follows the command's words; the result is the exit code;
/// errors are thrown.
int cmd_data(std::span<const std::string> args);
int cmd_report(std::span<const std::string> args);
int cmd_report_compare(std::span<const std::string> args);
int cmd_launch(std::span<const std::string> args);
int cmd_sweep(std::span<const std::string> args);
int cmd_config_show(std::span<const std::string> args);
int cmd_config_compare(std::span<const std::string> args);
int cmd_config_reference(std::span<const std::string> args);

/// The options of launch, and of each command of data, for the reference. A set holds only during the call.
using OptionVisitor = std::function<void(const core::OptionSet&)>;
void visit_launch_options(const OptionVisitor& visit);
void visit_data_options(const OptionVisitor& visit);

}  // namespace lockstep::cli
