#include "train/fault_injection.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

class FaultyTask final : public models::Task {
 public:
  FaultyTask(models::Task& task, const Fault& fault) : task_(task), fault_(fault) {}
  nn::Module& network() override { return task_.network(); }
  models::Outputs forward(const models::Batch& batch) override {
    const int64_t step = num_forwards_++;
    if (step >= fault_.first_step && step < fault_.end_step) happen();
    return task_.forward(batch);
  }
  models::LossReport loss(const models::Outputs& outputs) override { return task_.loss(outputs); }

 private:
  void happen() const {
    switch (fault_.kind) {
      case Fault::Kind::kSlowCompute:
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(fault_.ms));
        return;
      case Fault::Kind::kThrow: throw Error(ExitCode::kInternal, "train: an error was asked for by LOCKSTEP_FAULT");
      case Fault::Kind::kDie: ::kill(::getpid(), SIGKILL); return;
      case Fault::Kind::kHang:
        while (true) ::pause();
    }
  }

  models::Task& task_;
  Fault fault_;
  int64_t num_forwards_ = 0;
};

[[noreturn]] void refuse(const std::string& text) {
  throw UsageError(
      fmt::format("train: LOCKSTEP_FAULT '{}' is not understood", text),
      "write KIND [rank=R] [from=STEP] [to=STEP] [ms=T] with KIND slow-compute, throw, die or hang; or unset it");
}

}  // namespace

std::optional<Fault> parse_fault(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Fault fault;
  const auto words = core::split(text, " ");
  if (words[0] == "throw")
    fault.kind = Fault::Kind::kThrow;
  else if (words[0] == "die")
    fault.kind = Fault::Kind::kDie;
  else if (words[0] == "hang")
    fault.kind = Fault::Kind::kHang;
  else if (words[0] != "slow-compute")
    refuse(text);
  for (size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const auto value = equals == std::string::npos ? std::nullopt : core::parse_double(words[i].substr(equals + 1));
    if (!value || *value < 0) refuse(text);
    if (key == "rank")
      fault.rank = static_cast<int>(*value);
    else if (key == "from")
      fault.first_step = static_cast<int64_t>(*value);
    else if (key == "to")
      fault.end_step = static_cast<int64_t>(*value);
    else if (key == "ms")
      fault.ms = *value;
    else
      refuse(text);
  }
  return fault;
}

std::unique_ptr<models::Task> with_fault(models::Task& task, const std::optional<Fault>& fault, int rank) {
  return fault && fault->rank == rank ? std::make_unique<FaultyTask>(task, *fault) : nullptr;
}

}  // namespace lockstep::train
