// Every collective, value by value, over both transports of ranks as threads.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/recorder.h"
#include "core/error.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::comm {
namespace {

using tests::run_mesh, tests::run_ranks, tests::ThreadBackend;

struct CollectiveCase {
  ThreadBackend backend;
  int num_ranks;
};

std::string case_name(const ::testing::TestParamInfo<CollectiveCase>& info) {
  return fmt::format("{}{}", info.param.backend == ThreadBackend::kLocal ? "Local" : "Gloo", info.param.num_ranks);
}

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong, at::kInt};

/// Small integers, exact in every type: element i of rank r.
at::Tensor values_of(int rank, int64_t count, at::ScalarType type) {
  return at::arange(count, at::kLong).mul(3).add(rank * 5).remainder(11).add(1).to(type);
}

at::Tensor stacked(int num_ranks, int64_t count, at::ScalarType type) {
  std::vector<at::Tensor> rows;
  for (int rank = 0; rank < num_ranks; ++rank) rows.push_back(values_of(rank, count, type));
  return at::stack(rows);
}

void require_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  if (!at::equal(got, want))
    throw std::runtime_error(fmt::format("{} of {}: wrong values", what, c10::toString(want.scalar_type())));
}

class Collectives : public ::testing::TestWithParam<CollectiveCase> {
 protected:
  void run(const std::function<void(Comm&)>& body) {
    std::atomic<int> num_run = 0;
    run_ranks(
        GetParam().num_ranks,
        [&](Comm& comm) {
          if (comm.size() != GetParam().num_ranks) throw std::runtime_error("wrong world size");
          body(comm);
          ++num_run;
        },
        GetParam().backend);
    EXPECT_EQ(num_run, GetParam().num_ranks);
  }
};

TEST_P(Collectives, AllReduceGivesEveryReductionInEveryType) {
  run([](Comm& comm) {
    for (const at::ScalarType type : kTypes) {
      const at::Tensor all = stacked(comm.size(), 37, type);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage}) {
        if (op == ReduceOp::kAverage && !at::isFloatingType(type)) continue;
        const at::Tensor mine = values_of(comm.rank(), 37, type);
        comm.all_reduce(mine, op).wait();
        const at::Tensor sum = all.to(at::kDouble).sum(0);
        at::Tensor want = op == ReduceOp::kSum ? sum : op == ReduceOp::kAverage ? sum / comm.size() : at::Tensor();
        if (op == ReduceOp::kMax) want = all.amax(0);
        if (op == ReduceOp::kMin) want = all.amin(0);
        if (op == ReduceOp::kAverage) {
          const double eps = type == at::kBFloat16 ? 8e-3
                             : type == at::kHalf   ? 1e-3
                                                   : 2e-7;  // one rounding of the quotient
          if (!at::allclose(mine.to(at::kDouble), want, eps, 0)) throw std::runtime_error("average: wrong values");
        } else {
          require_equal(mine, want.to(type), "all_reduce");
        }
      }
    }
  });
}

TEST_P(Collectives, GatherAndScatterInEveryType) {
  run([](Comm& comm) {
    const int n = comm.size();
    for (const at::ScalarType type : kTypes) {
      const at::Tensor gathered = at::zeros({n * 3, 5}, type);
      comm.all_gather_into(gathered, values_of(comm.rank(), 15, type).view({3, 5})).wait();
      require_equal(gathered, stacked(n, 15, type).view({n * 3, 5}), "all_gather");
      const at::Tensor scattered = at::zeros({7}, type);
      comm.reduce_scatter_into(scattered, values_of(comm.rank(), n * 7, type)).wait();
      const at::Tensor sum = stacked(n, n * 7, type).to(at::kDouble).sum(0).to(type);
      require_equal(scattered, sum.narrow(0, comm.rank() * 7, 7), "reduce_scatter");
    }
  });
}

TEST_P(Collectives, AllToAllTransposesBlocksInEveryType) {
  run([](Comm& comm) {
    const int n = comm.size();
    for (const at::ScalarType type : kTypes) {
      const at::Tensor received = at::zeros({n * 2, 3}, type);
      comm.all_to_all_into(received, values_of(comm.rank(), n * 6, type).view({n * 2, 3})).wait();
      const at::Tensor want = stacked(n, n * 6, type).view({n, n, 2, 3}).select(1, comm.rank()).reshape({n * 2, 3});
      require_equal(received, want, "all_to_all");
    }
    const at::Tensor flags = at::zeros({n}, at::kBool);
    comm.all_to_all_into(flags, at::arange(n).eq(comm.rank())).wait();  // only block r of rank r is set
    require_equal(flags, at::arange(n).eq(comm.rank()), "all_to_all of bool");
    if (comm.count("all_to_all") != 7) throw std::runtime_error("all_to_all: wrong count");
  });
}

TEST_P(Collectives, GatherAndScatterInPlace) {
  run([](Comm& comm) {
    const int n = comm.size();
    const at::Tensor gathered = at::zeros({n * 4}, at::kFloat);
    const at::Tensor own = gathered.narrow(0, comm.rank() * 4, 4);
    own.copy_(values_of(comm.rank(), 4, at::kFloat));
    comm.all_gather_into(gathered, own).wait();
    require_equal(gathered, stacked(n, 4, at::kFloat).view({-1}), "all_gather in place");
    const at::Tensor input = values_of(comm.rank(), n * 4, at::kFloat);
    comm.reduce_scatter_into(input.narrow(0, comm.rank() * 4, 4), input).wait();
    const at::Tensor sum = stacked(n, n * 4, at::kFloat).sum(0);
    require_equal(input.narrow(0, comm.rank() * 4, 4), sum.narrow(0, comm.rank() * 4, 4), "reduce_scatter in place");
  });
}

TEST_P(Collectives, BroadcastFromEveryRootAndOfTypesThatCannotBeAdded) {
  run([](Comm& comm) {
    for (int root = 0; root < comm.size(); ++root)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong, at::kShort, at::kChar, at::kByte}) {
        const at::Tensor mine = values_of(comm.rank(), 9, type);
        comm.broadcast(mine, root).wait();
        require_equal(mine, values_of(root, 9, type), "broadcast");
      }
    const at::Tensor flags = at::arange(6).remainder(comm.rank() + 2).eq(0);
    comm.broadcast(flags, 0).wait();
    require_equal(flags, at::arange(6).remainder(2).eq(0), "broadcast");
    const at::Tensor gathered = at::zeros({comm.size() * 2}, at::kBool);
    comm.all_gather_into(gathered, at::arange(2).ge(comm.rank() == 0 ? 0 : 1)).wait();
    if (gathered.sum().item<int64_t>() != comm.size() + 1) throw std::runtime_error("all_gather of bool: wrong values");
  });
}

TEST_P(Collectives, SendAndReceiveAroundARing) {
  run([](Comm& comm) {
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for (const at::ScalarType type : kTypes) {
      const at::Tensor got = at::zeros({11}, type);
      Work sending = comm.send(values_of(comm.rank(), 11, type), next);
      comm.receive(got, previous).wait();
      sending.wait();
      require_equal(got, values_of(previous, 11, type), "receive");
    }
    const at::Tensor first = at::zeros({2}),
                     second = at::zeros({3});  // two at once arrive in the order in which they were sent
    Work a = comm.send(at::full({2}, comm.rank() + 1.0), next), b = comm.send(at::full({3}, comm.rank() + 10.0), next);
    Work c = comm.receive(first, previous), d = comm.receive(second, previous);
    for (Work* work : {&d, &c, &b, &a}) work->wait();
    require_equal(first, at::full({2}, previous + 1.0), "receive");
    require_equal(second, at::full({3}, previous + 10.0), "receive");
  });
}

TEST_P(Collectives, SeveralAtOnceMayBeWaitedForInAnyOrder) {
  run([](Comm& comm) {
    const at::Tensor a = values_of(comm.rank(), 100, at::kFloat), b = values_of(comm.rank() + 1, 7, at::kFloat);
    Work first = comm.all_reduce(a), second = comm.all_reduce(b);
    second.wait();
    first.wait();
    first.wait();  // again is harmless
    require_equal(a, stacked(comm.size(), 100, at::kFloat).sum(0), "all_reduce");
    if (b.sum().item<double>() == values_of(comm.rank() + 1, 7, at::kFloat).sum().item<double>() && comm.size() > 1)
      throw std::runtime_error("the second all_reduce did nothing");
  });
}

TEST_P(Collectives, DenseTensorsOfAnyLayoutAreReducedWhereTheyLie) {
  run([](Comm& comm) {
    const at::Tensor image =
        values_of(comm.rank(), 2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor want = stacked(comm.size(), 2 * 3 * 4 * 5, at::kFloat).sum(0).view({2, 3, 4, 5});
    comm.all_reduce(image).wait();
    require_equal(image, want, "all_reduce of channels_last");
    const at::Tensor flat = at::zeros({30});  // a narrowed piece of a bucket: its neighbours stay
    const at::Tensor piece = flat.narrow(0, 10, 10);
    piece.copy_(values_of(comm.rank(), 10, at::kFloat));
    comm.all_reduce(piece).wait();
    require_equal(flat.narrow(0, 10, 10), stacked(comm.size(), 10, at::kFloat).sum(0), "all_reduce of a piece");
    if (flat.narrow(0, 0, 10).any().item<bool>() || flat.narrow(0, 20, 10).any().item<bool>())
      throw std::runtime_error("all_reduce of a piece touched its neighbours");
    const at::Tensor scalar = at::full({}, comm.rank() + 1.0);
    comm.all_reduce(scalar).wait();
    if (scalar.item<double>() != comm.size() * (comm.size() + 1) / 2.0)
      throw std::runtime_error("all_reduce of a scalar");
    comm.all_reduce(at::zeros({0})).wait();
  });
}

TEST_P(Collectives, TensorsWithGapsAreRefused) {
  run([](Comm& comm) {
    const at::Tensor gaps = at::ones({10}).slice(0, 0, 10, 2);
    bool is_refused = false;
    try {
      comm.all_reduce(gaps).wait();
    } catch (const Error& error) {
      is_refused = std::string(error.what()).find("dense") != std::string::npos;
    }
    if (!is_refused) throw std::runtime_error("a tensor with gaps was accepted");
  });
}

TEST_P(Collectives, StringsAndBarrier) {
  run([](Comm& comm) {
    comm.barrier();
    const auto texts =
        comm.gather_strings(std::string(static_cast<size_t>(comm.rank() * 3), 'x') + std::string(1, '\0'));
    if (static_cast<int>(texts.size()) != comm.size()) throw std::runtime_error("number of strings");
    for (int i = 0; i < comm.size(); ++i)
      if (texts[static_cast<size_t>(i)] != std::string(static_cast<size_t>(i * 3), 'x') + std::string(1, '\0'))
        throw std::runtime_error("gather_strings: wrong text");
    for (const auto& text : comm.gather_strings(""))
      if (!text.empty()) throw std::runtime_error("gather_strings: not empty");
    const int last = comm.size() - 1;
    if (comm.broadcast_string(comm.rank() == last ? "from the last" : "mine", last) != "from the last")
      throw std::runtime_error("broadcast_string: wrong text");
    if (!comm.broadcast_string(comm.rank() == 0 ? "" : "mine", 0).empty())
      throw std::runtime_error("broadcast_string: not empty");
  });
}

TEST_P(Collectives, CallsAreCountedAndRecorded) {
  run([](Comm& comm) {
    comm.recorder().clear();
    for (int i = 0; i < 3; ++i) comm.all_reduce(at::ones({256})).wait();
    comm.broadcast(at::ones({8}), 0).wait();
    comm.barrier();
    const int64_t counts[] = {comm.count("all_reduce"), comm.count("broadcast"), comm.count("barrier"),
                              comm.count("all_gather")};
    if (counts[0] != 3 || counts[1] != 1 || counts[2] != 1 || counts[3] != 0) throw std::runtime_error("wrong counts");
    const auto entries = comm.recorder().snapshot();
    if (comm.size() == 1) {
      if (!entries.empty()) throw std::runtime_error("a group of one sent something");
      return;
    }
    if (entries.size() != 3) throw std::runtime_error("expected three kinds");
    const RecorderEntry& entry = entries.front();
    if (entry.axis != "world" || entry.kind != "all_reduce" || entry.bytes != 1024 || entry.count != 3 ||
        entry.num_waited != 3)
      throw std::runtime_error("wrong entry");
    if (!(entry.total_ms > 0.0) || entry.blocked_ms > entry.total_ms + 1e-3)
      throw std::runtime_error("times out of order");
  });
}

INSTANTIATE_TEST_SUITE_P(
    Transports, Collectives,
    ::testing::Values(CollectiveCase{ThreadBackend::kLocal, 1}, CollectiveCase{ThreadBackend::kLocal, 2},
                      CollectiveCase{ThreadBackend::kLocal, 3}, CollectiveCase{ThreadBackend::kLocal, 4},
                      CollectiveCase{ThreadBackend::kGloo, 2}, CollectiveCase{ThreadBackend::kGloo, 3},
                      CollectiveCase{ThreadBackend::kGloo, 4}),
    case_name);

/// What run_ranks throws.
std::string failure_of(int num_ranks, const std::function<void(Comm&)>& body,
                       ThreadBackend backend = ThreadBackend::kLocal) {
  try {
    run_ranks(num_ranks, body, backend);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Runs `body`, which must fail with a CommError on every rank, and returns the message, which must be the same
/// everywhere.
std::string common_failure(int num_ranks, const std::function<void(Comm&)>& body) {
  std::vector<std::string> texts(static_cast<size_t>(num_ranks));
  run_ranks(num_ranks, [&](Comm& comm) {
    try {
      body(comm);
    } catch (const CommError& error) {
      texts[static_cast<size_t>(comm.rank())] = error.what();
    }
  });
  for (const auto& text : texts) EXPECT_EQ(text, texts[0]);
  return texts[0];
}

TEST(LocalFaults, DifferentSizesAreRefusedOnAllRanks) {
  const auto text = common_failure(3, [](Comm& comm) { comm.all_reduce(at::ones({comm.rank() == 2 ? 5 : 4})).wait(); });
  EXPECT_NE(text.find("different element counts"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2 calls all_reduce(sum) of 5 x Float"), std::string::npos) << text;
}

TEST(LocalFaults, DifferentOperationsTypesRootsAndLayoutsAreRefused) {
  const auto operations = common_failure(2, [](Comm& comm) {
    if (comm.rank() == 0)
      comm.all_reduce(at::ones({4})).wait();
    else
      comm.broadcast(at::ones({4}), 0).wait();
  });
  EXPECT_NE(operations.find("different operations"), std::string::npos) << operations;
  const auto types = common_failure(
      2, [](Comm& comm) { comm.all_reduce(at::ones({4}, comm.rank() == 0 ? at::kFloat : at::kBFloat16)).wait(); });
  EXPECT_NE(types.find("different types"), std::string::npos) << types;
  const auto roots = common_failure(2, [](Comm& comm) { comm.broadcast(at::ones({4}), comm.rank()).wait(); });
  EXPECT_NE(roots.find("different roots"), std::string::npos) << roots;
  const auto reductions = common_failure(
      2, [](Comm& comm) { comm.all_reduce(at::ones({4}), comm.rank() == 0 ? ReduceOp::kMax : ReduceOp::kSum).wait(); });
  EXPECT_NE(reductions.find("different reductions"), std::string::npos) << reductions;
  const auto layouts = common_failure(2, [](Comm& comm) {
    const at::Tensor matrix = at::ones({3, 2});
    comm.all_reduce(comm.rank() == 0 ? matrix : matrix.t()).wait();
  });
  EXPECT_NE(layouts.find("different memory layouts"), std::string::npos) << layouts;
}

TEST(LocalFaults, TheFirstExceptionComesBackAndUnblocksTheOthers) {
  std::vector<std::string> seen(3);
  const auto text = failure_of(3, [&](Comm& comm) {
    if (comm.rank() == 1) throw DataError("data: shard 7 is short");
    try {
      comm.barrier();
    } catch (const CommError& error) {
      seen[static_cast<size_t>(comm.rank())] = error.what();
      throw;
    }
  });
  EXPECT_EQ(text, "data: shard 7 is short");
  for (const int rank : {0, 2})
    EXPECT_EQ(seen[static_cast<size_t>(rank)], "comm: rank 1 stopped: data: shard 7 is short");
}

TEST(LocalFaults, WaitingForARankThatHasEndedFails) {
  const auto text = failure_of(2, [](Comm& comm) {
    if (comm.rank() == 0) comm.all_reduce(at::ones({4})).wait();
  });
  EXPECT_EQ(text, "comm: rank 0 waits in all_reduce(sum) of 4 x Float #1 of group 'world' for rank 1, which has ended");
}

TEST(LocalFaults, RanksThatWaitForEachOtherFail) {
  const auto text = common_failure(2, [](Comm& comm) {
    const at::Tensor buffer = at::ones({4});
    comm.receive(buffer, 1 - comm.rank()).wait();
    comm.send(buffer, 1 - comm.rank()).wait();
  });
  EXPECT_NE(text.find("all ranks wait for each other: rank 0 in receive(from 1)"), std::string::npos) << text;
}

TEST(LocalMesh, GroupsSumOverTheirOwnRanksOnly) {
  const plan::MeshLayout layout(8, {.pp = 2, .dp = 2, .tp = 2});
  std::atomic<int> num_run = 0;
  run_mesh(layout, [&](Mesh& mesh) {
    const int rank = (mesh.point().pp * 2 + mesh.point().dp) * 2 + mesh.point().tp;
    for (const plan::Axis axis : {plan::Axis::kPipeline, plan::Axis::kData, plan::Axis::kTensor}) {
      int64_t want = 0;
      for (const int other : layout.group_of(rank, axis)) want += int64_t{1} << other;
      const at::Tensor value = at::full({2}, int64_t{1} << rank, at::kLong);
      mesh.axis(axis).all_reduce(value).wait();
      if (value[0].item<int64_t>() != want) throw std::runtime_error("wrong sum");
    }
    ++num_run;
  });
  EXPECT_EQ(num_run, 8);
}

TEST(LocalMesh, AFailureReachesRanksOfOtherGroups) {
  const plan::MeshLayout layout(4, {.pp = 1, .dp = 2, .tp = 2});
  std::string seen;
  try {
    run_mesh(layout, [&](Mesh& mesh) {
      const int rank = mesh.point().dp * 2 + mesh.point().tp;
      if (rank == 3) throw DataError("data: shard 7 is short");
      const at::Tensor value = at::ones({3});
      try {
        if (rank == 1) mesh.dp().all_reduce(value).wait();  // with rank 3
        mesh.tp().all_reduce(value).wait();
      } catch (const CommError& error) {
        if (rank == 0) seen = error.what();
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const DataError&) {
  }
  EXPECT_EQ(seen, "comm: rank 3 stopped: data: shard 7 is short");
}

TEST(GlooFaults, ARankThatThrowsEndsTheOthers) {
  std::atomic<int> num_comm_errors = 0;
  const auto text = failure_of(
      3,
      [&](Comm& comm) {
        try {
          comm.barrier();  // all are connected; rank 1 may be gone before the others are through
          if (comm.rank() == 1) throw DataError("data: shard 7 is short");
          comm.barrier();
        } catch (const CommError& error) {
          if (std::string(error.what()).find("comm: barrier #") == 0) ++num_comm_errors;
          throw;
        }
      },
      ThreadBackend::kGloo);
  EXPECT_EQ(text, "data: shard 7 is short");
  EXPECT_EQ(num_comm_errors, 2);
}

TEST(LocalDeterminism, SumsDoNotDependOnWhoComesLast) {
  const auto run_once = [](int last_rank) {
    at::Tensor result;
    std::atomic<int> num_arrived = 0;
    run_ranks(4, [&](Comm& comm) {
      const at::Tensor mine = at::arange(1000, at::kFloat).add(comm.rank() * 0.37).sin().mul(1e3);
      const at::Tensor half = mine.to(at::kBFloat16);
      while (comm.rank() == last_rank && num_arrived < 3) std::this_thread::yield();
      Work full_sum = comm.all_reduce(mine), half_sum = comm.all_reduce(half);
      ++num_arrived;
      full_sum.wait();
      half_sum.wait();
      if (comm.rank() == last_rank) result = at::cat({mine, half.to(at::kFloat)});
    });
    return result;
  };
  const at::Tensor first = run_once(0);
  for (int rank = 1; rank < 4; ++rank) EXPECT_TRUE(at::equal(run_once(rank), first));
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < 4; ++rank)
    parts.push_back(at::arange(1000, at::kFloat).add(rank * 0.37).sin().mul(1e3).to(at::kBFloat16).to(at::kFloat));
  EXPECT_TRUE(at::equal(first.narrow(0, 1000, 1000),
                        (parts[0] + parts[1] + parts[2] + parts[3]).to(at::kBFloat16).to(at::kFloat)))
      << "16-bit floats must be added in fp32 and rounded once";
}

}  // namespace
}  // namespace lockstep::comm
