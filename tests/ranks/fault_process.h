#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::tests {

/// Starts the process from which rank processes are forked: one that has loaded LibTorch but has never called it, so
/// that a rank costs milliseconds. Call first thing in main, before any thread exists.
void start_rank_server();

/// Starts one rank (world_child_test.cpp says what the words mean); its output goes to a file. It is a child of this
/// process: waitpid works.
pid_t spawn_rank(const std::vector<std::string>& words, const std::filesystem::path& output);

}  // namespace lockstep::tests
