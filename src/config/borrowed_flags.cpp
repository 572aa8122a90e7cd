#include "config/borrowed_flags.h"

#include "core/error.h"

namespace lockstep::config {

void borrow_train_flags(core::OptionSet& set, TrainOptions& train, std::initializer_list<BorrowedFlag> flags) {
  const core::OptionSet all = declare_train_options(train);
  for (const BorrowedFlag& flag : flags) {
    const core::Option* option = all.find(flag.name);
    LOCKSTEP_CHECK(option != nullptr, "'train clip' has no --{}", flag.name);
    core::OptionSpec spec = option->spec;
    spec.group.clear();
    spec.aliases.insert(spec.aliases.end(), flag.aliases.begin(), flag.aliases.end());
    set.add(option->name, option->target, std::move(spec));
  }
}

}  // namespace lockstep::config
