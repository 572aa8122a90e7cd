#pragma once
#include <functional>

#include "commands/commands.h"
#include "core/options.h"

namespace lockstep::cli {

/// Commands that run inside the front program. `command` has been parsed and checked where the command has an OptionSet
/// there; the others parse `command.rest`. The result is the exit code; errors are thrown.
int cmd_data(const commands::ParsedCommand& command);
int cmd_ckpt(const commands::ParsedCommand& command);  ///< list and verify: what needs no tensors.
int cmd_report(const commands::ParsedCommand& command);
int cmd_report_compare(const commands::ParsedCommand& command);
int cmd_predict(const commands::ParsedCommand& command);
int cmd_launch(const commands::ParsedCommand& command);
int cmd_doctor(const commands::ParsedCommand& command);
int cmd_sweep(const commands::ParsedCommand& command);
int cmd_config_show(const commands::ParsedCommand& command);
int cmd_config_compare(const commands::ParsedCommand& command);
int cmd_config_reference(const commands::ParsedCommand& command);

/// The options of commands that declare them in this program, for the reference. A set holds only during the call.
using OptionVisitor = std::function<void(const core::OptionSet&)>;
void visit_launch_options(const OptionVisitor& visit);
void visit_data_options(const OptionVisitor& visit);
void visit_doctor_options(const OptionVisitor& visit);
void visit_sweep_options(const OptionVisitor& visit);
void visit_predict_options(const OptionVisitor& visit);

}  // namespace lockstep::cli
