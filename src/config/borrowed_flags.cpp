#include "config/borrowed_flags.h"

#include "core/error.h"

namespace lockstep::config {

void borrow_flags(core::OptionSet& set, const core::OptionSet& from, std::initializer_list<BorrowedFlag> flags) {
  for (const BorrowedFlag& flag : flags) {
    const core::Option* option = from.find(flag.name);
    LOCKSTEP_CHECK(option != nullptr, "'{}' has no --{}", from.command(), flag.name);
    core::OptionSpec spec = option->spec;
    spec.group.clear();
    spec.aliases.insert(spec.aliases.end(), flag.aliases.begin(), flag.aliases.end());
    if (!flag.help.empty()) spec.help = flag.help;
    if (!flag.unset_text.empty()) spec.unset_text = flag.unset_text;
    set.add(option->name, option->target, std::move(spec));
  }
}

}  // namespace lockstep::config
