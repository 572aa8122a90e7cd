#pragma once
#include <span>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "data/pictures/picture_check.h"

namespace lockstep::cli {

int run_to_lmdb(std::span<const std::string> args);
/// Does every name stand for an LMDB or a folder of class folders? UsageError where only some do.
bool are_labelled_sets(const std::vector<std::string>& names);
/// `data verify`, `data inspect` and `data index` of such. Exit code 4 when a picture is bad; an index they need not.
int verify_labelled_sets(const std::vector<std::string>& names, int64_t num_threads, data::PictureDepth depth,
                         bool as_json);
int inspect_labelled_sets(const std::vector<std::string>& names, int64_t num_decoded, bool as_json);
int index_labelled_sets(const std::vector<std::string>& names, bool as_json);
/// Bad pictures below the line that counts them: the first ones, and how many more there are.
void print_bad_pictures(const std::vector<std::string>& messages, int64_t count);

/// How many of the pictures or recordings (`what`) that were seen were not looked into; nothing where that is none.
void print_undecoded(const char* indent, const char* what, int64_t num_seen, int64_t num_decoded, size_t num_bad);

void visit_lmdb_options(const OptionVisitor& visit);

}  // namespace lockstep::cli
