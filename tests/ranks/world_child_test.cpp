// What the child processes of world_test.cpp do: one rank each, which comes to grief in the way its scenario says.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include "comm/world.h"
#include "core/error.h"
#include "core/strings.h"
#include "ranks/fault_process.h"
#include "support/ranks/world_mesh.h"

namespace lockstep::tests {
namespace {

using comm::World;
using comm::WorldOptions;

void check(bool is_right, const char* what) {
  if (!is_right) throw std::runtime_error(what);
}

void sum_once(World& world) {
  const at::Tensor ones = at::ones({1000});
  world.comm().all_reduce(ones).wait();
  check(ones.sum().item<double>() == 1000.0 * world.size(), "all_reduce: wrong values");
}

/// Three good steps, then rank `odd` does `what`, then everyone sums on.
void steps_with_accident(World& world, int odd, const std::function<void()>& what) {
  for (int i = 0; i < 3; ++i) sum_once(world);
  if (world.rank() == odd) what();
  for (int i = 0; i < 3; ++i) sum_once(world);
}

void sleep_for_ever() {
  while (true) pause();
}

void run_mesh(World& world) {
  const plan::MeshLayout layout(world.size(), {.pp = 1, .dp = 2, .tp = 2});
  comm::Mesh mesh = mesh_of(world, layout);
  check(mesh.pp().size() == 1 && mesh.dp().size() == 2 && mesh.tp().size() == 2, "mesh: wrong sizes");
  for (const plan::Axis axis : {plan::Axis::kPipeline, plan::Axis::kData, plan::Axis::kTensor}) {
    const at::Tensor value = at::full({3}, 1 << world.rank(), at::kLong);
    mesh.axis(axis).all_reduce(value).wait();
    int64_t want = 0;
    for (const int rank : layout.group_of(world.rank(), axis)) want += 1 << rank;
    check(value[0].item<int64_t>() == want, "mesh: wrong sum");
  }
  world.comm().barrier();
}

/// A group fails in which the rank that died is not: rank 3 dies, rank 0 waits for rank 1, which waits for rank 3.
void chain_of_groups(World& world) {
  comm::Mesh mesh = mesh_of(world, plan::MeshLayout(world.size(), {.pp = 1, .dp = 2, .tp = 2}));
  sum_once(world);
  if (world.rank() == 3) throw DataError("data: shard 7 is short");
  const at::Tensor value = at::ones({3});
  if (world.rank() == 1) mesh.dp().all_reduce(value).wait();  // with rank 3
  mesh.tp().all_reduce(value).wait();                         // ranks 0 and 1; 2 and 3
}

void run_scenario(const std::string& scenario, World& world) {
  const std::map<std::string, std::function<void()>> scenarios = {
      {"good", [&] { steps_with_accident(world, -1, [] {}); }},
      {"secret", [&] { steps_with_accident(world, -1, [] {}); }},
      {"wrong_secret", [] { throw std::logic_error("the ranks met"); }},
      {"mesh", [&] { run_mesh(world); }},
      {"kill", [&] { steps_with_accident(world, 1, [] { raise(SIGKILL); }); }},
      {"kill0", [&] { steps_with_accident(world, 0, [] { raise(SIGKILL); }); }},
      {"stop", [&] { steps_with_accident(world, 1, [] { raise(SIGSTOP); }); }},
      {"stop0", [&] { steps_with_accident(world, 0, [] { raise(SIGSTOP); }); }},
      {"stop0_beside_devices",  // hosts that wait for none of their collectives
       [&] {
         sum_once(world);
         if (world.rank() == 0) raise(SIGSTOP);
         for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) world.comm().check_alive();
       }},
      {"absent", [&] { steps_with_accident(world, 1, sleep_for_ever); }},
      {"throw", [&] { steps_with_accident(world, 1, [] { throw DataError("data: shard 7 is short"); }); }},
      {"throw0", [&] { steps_with_accident(world, 0, [] { throw DataError("data: shard 7 is short"); }); }},
      {"throw_pending",
       [&] {
         const at::Tensor pending = at::ones({10});
         comm::Work work = world.rank() == 1 ? world.comm().all_reduce(pending) : comm::Work();
         if (world.rank() == 1) throw DataError("data: shard 7 is short");
         sleep_for_ever();
       }},
      {"chain", [&] { chain_of_groups(world); }},
      {"nodes", [&] { sum_once(world); }},
      {"leave",
       [&] {
         for (int i = 0; i < 3; ++i) sum_once(world);
         if (world.rank() != 1) sum_once(world);
       }},
      {"wait",
       [&] {
         if (world.rank() == 0)
           std::this_thread::sleep_for(std::chrono::seconds(2));  // four times the limit of a collective
         world.wait_for_rank_zero("it sleeps");
         world.wait_for_rank_zero("it is quick");
         sum_once(world);
         if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
         world.wait_for_all("one sleeps");
         sum_once(world);
       }},
      {"wait_throw",
       [&] {
         if (world.rank() == 0) throw DataError("data: shard 7 is short");
         world.wait_for_rank_zero("it reads");
       }},
      {"wait_stop",
       [&] {
         sum_once(world);  // a rank that still joins waits for the time to join
         if (world.rank() == 0) raise(SIGSTOP);
         world.wait_for_rank_zero("it reads");
       }},
      {"endless",
       [&] {
         sum_once(world);
         if (world.rank() == 0) world.wait_for_rank_zero("all have met");  // the test reads of it in the store
         while (true) sum_once(world);
       }},
      {"no_interface", [&] { sum_once(world); }},
      {"uninterruptible",
       [&] {
         for (int i = 0; i < 3; ++i) sum_once(world);
         if (world.rank() == 1) throw DataError("data: shard 7 is short");
         sleep_for_ever();
       }},
      {"endless_end",  // rank 1 fails, and what it would write then never comes back
       [&] {
         for (int i = 0; i < 3; ++i) sum_once(world);
         if (world.rank() == 1) throw DataError("data: shard 7 is short");
         sum_once(world);
       }},
      {"one_gpu", [] { throw std::logic_error("the ranks met"); }},
      {"mismatch", [&] { world.comm().all_reduce(at::ones({world.rank() == 1 ? 5 : 4})).wait(); }},
  };
  scenarios.at(scenario)();
}

/// Arguments: scenario rank world_size port who_serves attempt timeout_ms join_timeout_ms.
int run_rank(const std::vector<std::string>& args) {
  const auto number = [&](size_t i) { return static_cast<int>(core::parse_int(args.at(i)).value()); };
  hw::RankInfo info;
  info.rank = info.local_rank = number(1);
  info.world_size = info.local_world_size = number(2);
  if (args.at(0) == "nodes") {  // of two ranks each
    info.local_world_size = 2;
    info.local_rank = info.rank % 2;
    info.node_rank = info.rank / 2;
  }
  info.master_port = number(3);
  info.store_is_hosted_by_launcher = args.at(4) == "launcher";
  info.attempt = number(5);
  const bool shares_gpu = args.at(0) == "one_gpu" && info.rank != 1;
  const bool has_gpu = args.at(0) == "one_cpu" && info.rank != 1;
  const WorldOptions options{
      .device = at::Device(has_gpu ? at::kCUDA : at::kCPU),
      .device_key = shares_gpu ? "GPU-aaaa 0" : "",
      .timeout = std::chrono::milliseconds(number(6)),
      .join_timeout = std::chrono::milliseconds(number(7)),
      .time_to_leave = std::chrono::milliseconds(args.at(0) == "endless_end" ? 1500 : 60000),
      .notice_times = {.first = std::chrono::milliseconds(300), .distance = std::chrono::milliseconds(500)},
      .report_interval = std::chrono::milliseconds(200),
      .check_collectives = args.at(0) == "mismatch"};
  if (args.at(0) == "no_interface" && info.rank == 1) ::setenv("GLOO_SOCKET_IFNAME", "lockstep-none", 1);
  if (args.at(0) == "secret") ::setenv("LOCKSTEP_STORE_SECRET", "swordfish", 1);
  if (args.at(0) == "wrong_secret") ::setenv("LOCKSTEP_STORE_SECRET", "sword", 1);
  World world = World::join(info, options);
  try {
    run_scenario(args.at(0), world);
  } catch (const Error& error) {
    world.report_failure(error.what(), error.code());
    if (args.at(0) == "endless_end") sleep_for_ever();
    throw;
  }
  return 0;
}

int end_of_rank(const std::vector<std::string>& words) {
  try {
    return run_rank(words);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unexpected: %s\n", error.what());
    return 1;
  }
}

[[noreturn]] void run_child(const std::vector<std::string>& request) {
  const int fd = open(request.at(0).c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  std::exit(end_of_rank({request.begin() + 1, request.end()}));  // as a real program ends: with destructors of statics
}

/// Answers each request with the process id of a new rank, until the other end closes.
[[noreturn]] void serve_ranks(int socket) {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t size = recv(socket, buffer.data(), buffer.size(), 0);
    if (size <= 0) _exit(0);
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) _exit(1);
    const pid_t between = fork();
    if (between == 0) {
      const pid_t rank = fork();  // its parent ends at once, so that the test program, as subreaper, becomes its parent
      if (rank == 0) {
        for (const int fd : {socket, ends[0], ends[1]}) close(fd);
        run_child(core::split({buffer.data(), static_cast<size_t>(size)}, "\n"));
      }
      _exit(write(ends[1], &rank, sizeof rank) == sizeof rank ? 0 : 1);
    }
    waitpid(between, nullptr, 0);  // from now on waitpid of the test program finds the rank
    pid_t pid = -1;
    if (read(ends[0], &pid, sizeof pid) != sizeof pid || send(socket, &pid, sizeof pid, 0) != sizeof pid) _exit(1);
    for (const int fd : ends) close(fd);
  }
}

int& rank_server_socket() {
  static int socket = -1;
  return socket;
}

}  // namespace

void start_rank_server() {
  std::array<int, 2> ends{};
  LOCKSTEP_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, "errno={}", errno);
  LOCKSTEP_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "errno={}", errno);
  if (fork() == 0) {
    close(ends[0]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    serve_ranks(ends[1]);
  }
  close(ends[1]);
  rank_server_socket() = ends[0];
}

pid_t spawn_rank(const std::vector<std::string>& words, const std::filesystem::path& output) {
  std::string request = output.string();
  for (const auto& word : words) request += "\n" + word;
  pid_t pid = -1;
  const int socket = rank_server_socket();
  LOCKSTEP_CHECK(send(socket, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()), "errno={}",
                 errno);
  LOCKSTEP_CHECK(recv(socket, &pid, sizeof pid, 0) == sizeof pid, "errno={}", errno);
  return pid;
}

}  // namespace lockstep::tests
