#pragma once
#include <span>
#include <string>
#include <vector>

#include "cli/front/commands.h"

namespace lockstep::cli {

int run_to_lmdb(std::span<const std::string> args);
/// Does every name stand for an LMDB? UsageError where only some do.
bool are_lmdbs(const std::vector<std::string>& names);
/// `data verify` of LMDBs.
int verify_lmdbs(const std::vector<std::string>& names, int64_t num_threads, bool as_json);

void visit_lmdb_options(const OptionVisitor& visit);

}  // namespace lockstep::cli
