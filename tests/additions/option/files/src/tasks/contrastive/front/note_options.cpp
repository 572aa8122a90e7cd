#include "tasks/contrastive/front/note_options.h"

#include "config/option_checks.h"

namespace lockstep::tasks {

void NoteOptions::declare(core::OptionSet& set, const std::string&) {
  set.group("Note");
  set.add("note", &note,
          {.role = core::OptionRole::kNoInfluence,
           .help = "One line that the record of the run keeps.",
           .metavar = "TEXT"});
}

void NoteOptions::check(const core::OptionSet&, const std::string&) const {
  config::refuse_if(note.find('\n') != std::string::npos, "--note has more than one line", "write one line");
}

}  // namespace lockstep::tasks
