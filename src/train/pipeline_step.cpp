#include "train/pipeline_step.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::train {
namespace {

/// Those that count in the loss, 0-dim fp64.
at::Tensor num_tokens_of(const models::Batch& batch) {
  if (batch.loss_weight_BT.defined()) return batch.loss_weight_BT.sum(at::kDouble);
  return at::full({}, static_cast<double>(batch.target_BT.numel()), batch.target_BT.options().dtype(at::kDouble));
}

/// Mean over the data axis, for every rank. `loss` is undefined where the last part is not.
at::Tensor loss_of_all(const PipelineParts& pipeline, const at::Tensor& loss) {
  const c10::NoGradGuard no_grad;
  const at::Tensor value = loss.defined() && pipeline.reports_loss
                               ? loss.to(at::kDouble).div(pipeline.data_axis.size())
                               : at::zeros({}, pipeline.boundary.dtype(at::kDouble));
  pipeline.world.all_reduce(value).wait();
  return value;
}

class PipelineStep final : public StepRunner {
 public:
  PipelineStep(const StepRunnerParts& parts, PipelineParts pipeline) : parts_(parts), pipeline_(std::move(pipeline)) {
    LOCKSTEP_CHECK(pipeline_.stages.size() == pipeline_.schedule.shape.num_stages, "{} ranks, {} stages",
                   pipeline_.stages.size(), pipeline_.schedule.shape.num_stages);
  }

  StepOutcome run(std::span<models::Batch> micro_batches, uint64_t step_key) override {
    LOCKSTEP_CHECK(std::ssize(micro_batches) == num_micro_batches(), "{} micro-batches, the schedule has {}",
                   micro_batches.size(), num_micro_batches());
    StepOutcome outcome;
    batches_ = micro_batches;
    loss_ = at::Tensor();
    for (int64_t micro = 0; micro < num_micro_batches(); ++micro) {
      auto& batch = micro_batches[static_cast<size_t>(micro)];
      const int64_t place = micro * pipeline_.data_axis.size() + parts_.data_rank;
      batch.context = {.random_key = core::stream_key({step_key, 0, static_cast<uint64_t>(place)})};
      outcome.num_samples += batch.num_samples;
    }
    parts_.sync.begin_step();
    count_tokens();
    for (const plan::PipeAction& action : pipeline_.schedule.stages.at(static_cast<size_t>(stage()))) {
      if (action.is_exchange)
        exchange(action.transfers);
      else if (action.pass.is_forward)
        forward(action.pass);
      else
        backward(action.pass);
    }
    finish_sends(0);
    LOCKSTEP_CHECK(flights_.empty(), "{} passes forward did not come back", flights_.size());
    parts_.sync.finish();
    pipeline_.stage.finish_step();
    outcome.scalars.emplace_back("loss", loss_of_all(pipeline_, loss_));
    parts_.mark(Phase::kExposedComm);
    batches_ = {};
    return outcome;
  }

 private:
  /// A micro-batch on its way through a chunk.
  struct Flight {
    at::Tensor input_TBD;        // undefined for the part with the embedding
    torch::autograd::Edge root;  // of the output: backward needs the graph, not the values
    at::Tensor gradient_TBD;     // of the output; undefined for the loss
    comm::Work input_arrives, gradient_arrives;
  };
  using Key = std::pair<int64_t, int>;  // micro-batch, chunk

  int stage() const { return pipeline_.stages.rank(); }
  int64_t num_micro_batches() const { return pipeline_.schedule.shape.num_micro_batches; }
  const models::Batch& batch_of(int64_t micro) const { return batches_[static_cast<size_t>(micro)]; }

  /// Begins to add up the tokens of all data ranks, on the stage with the loss.
  void count_tokens() {
    if (!pipeline_.is_mean_over_tokens || stage() + 1 != pipeline_.stages.size()) return;
    num_tokens_ = at::zeros({}, pipeline_.boundary.dtype(at::kDouble));
    for (const models::Batch& batch : batches_) num_tokens_.add_(num_tokens_of(batch));
    num_tokens_arrives_ = pipeline_.data_axis.all_reduce(num_tokens_);
    token_weight_ = at::Tensor();
  }

  /// Weight of a token in this rank's loss: the mean of the data ranks' losses is that over all tokens.
  const at::Tensor& token_weight() {
    if (token_weight_.defined()) return token_weight_;
    num_tokens_arrives_.wait();
    token_weight_ = num_tokens_.clamp_min(1).reciprocal().mul(pipeline_.data_axis.size()).to(at::kFloat);
    return token_weight_;
  }

  at::Tensor make_boundary(int64_t micro) const {
    return at::empty(pipeline_.stage.boundary_shape(batch_of(micro).num_samples), pipeline_.boundary);
  }

  /// The messages of one exchange leave and come at once, each direction of the pipeline in a group of its own.
  void exchange(const std::vector<plan::PipeTransfer>& transfers) {
    constexpr size_t kMostSends = 4;
    finish_sends(kMostSends);
    for (const bool is_activation : {true, false}) {
      std::vector<comm::Transfer> messages;
      std::vector<comm::Work*> arrivals;  // nullptr: sent
      for (const plan::PipeTransfer& transfer : transfers) {
        if (transfer.is_activation != is_activation) continue;
        messages.push_back(
            {transfer.is_send, transfer.is_send ? take_result(transfer) : make_target(transfer), transfer.peer});
        Flight* flight = transfer.is_send ? nullptr : &flights_[{transfer.micro, transfer.chunk}];
        arrivals.push_back(flight == nullptr ? nullptr
                           : is_activation   ? &flight->input_arrives
                                             : &flight->gradient_arrives);
      }
      std::vector<comm::Work> works = (is_activation ? pipeline_.stages : pipeline_.back).exchange(messages);
      for (size_t i = 0; i < works.size(); ++i)
        (arrivals[i] == nullptr ? sends_.emplace_back() : *arrivals[i]) = std::move(works[i]);
    }
  }

  at::Tensor take_result(const plan::PipeTransfer& transfer) {
    auto& outbox = transfer.is_activation ? activations_ : gradients_;
    auto found = outbox.extract({transfer.micro, transfer.chunk});
    LOCKSTEP_CHECK(!found.empty(), "stage {} has nothing to send of micro-batch {}, chunk {}", stage(), transfer.micro,
                   transfer.chunk);
    return found.mapped();
  }

  at::Tensor make_target(const plan::PipeTransfer& transfer) {
    Flight& flight = flights_[{transfer.micro, transfer.chunk}];
    return (transfer.is_activation ? flight.input_TBD : flight.gradient_TBD) = make_boundary(transfer.micro);
  }

  /// Until at most so many messages are on their way. The other side comes to each of them without waiting for this
  /// one's later passes.
  void finish_sends(size_t most) {
    for (; sends_.size() > most; sends_.pop_front()) sends_.front().wait();
  }

  void forward(const plan::PipePass& pass) {
    RECORD_USER_SCOPE("forward");
    Flight& flight = flights_[{pass.micro, pass.chunk}];
    flight.input_arrives.wait();
    if (flight.input_TBD.defined()) flight.input_TBD.requires_grad_(true);
    const auto autocast = parts_.precision.autocast();
    const models::Outputs outputs = pipeline_.stage.forward_chunk(pass.chunk, flight.input_TBD, batch_of(pass.micro));
    const bool is_last_part = !outputs.boundary_TBD.defined();
    const at::Tensor root = is_last_part ? loss_of(outputs) : outputs.boundary_TBD;
    flight.root = torch::autograd::impl::gradient_edge(root);
    LOCKSTEP_CHECK(flight.root.is_valid(), "chunk {} of stage {} has nothing to train", pass.chunk, stage());
    if (is_last_part)
      flight.gradient_TBD = at::ones_like(root);
    else
      activations_[{pass.micro, pass.chunk}] = root.detach().contiguous();
    parts_.mark(Phase::kForward);
  }

  at::Tensor loss_of(const models::Outputs& outputs) {
    const at::Tensor loss = pipeline_.is_mean_over_tokens
                                ? outputs.loss_sum.mul(token_weight())
                                : parts_.task.loss(outputs).loss.div(static_cast<double>(num_micro_batches()));
    loss_ = loss_.defined() ? loss_.add(loss.detach()) : loss.detach();
    return parts_.scaler != nullptr ? parts_.scaler->scaled(loss) : loss;
  }

  void backward(const plan::PipePass& pass) {
    RECORD_USER_SCOPE("backward");
    auto found = flights_.extract({pass.micro, pass.chunk});
    LOCKSTEP_CHECK(!found.empty(), "stage {} goes back before forward: micro-batch {}, chunk {}", stage(), pass.micro,
                   pass.chunk);
    Flight& flight = found.mapped();
    flight.gradient_arrives.wait();
    parts_.sync.begin_micro(pass.micro + 1 == num_micro_batches());
    torch::autograd::Engine::get_default_engine().execute({flight.root}, {flight.gradient_TBD}, /*keep_graph=*/false,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
    if (flight.input_TBD.defined())  // autograd gives a leaf's gradient the leaf's strides: rows, as they are sent
      gradients_[{pass.micro, pass.chunk}] = flight.input_TBD.grad();
    parts_.mark(Phase::kBackward);
  }

  StepRunnerParts parts_;
  PipelineParts pipeline_;
  // Of the step under way:
  std::span<models::Batch> batches_;
  std::map<Key, Flight> flights_;
  std::map<Key, at::Tensor> activations_, gradients_;  // made, not yet sent
  std::deque<comm::Work> sends_;
  at::Tensor loss_;                       // of the micro-batches so far; only where the last part is
  at::Tensor num_tokens_, token_weight_;  // of a mean over tokens; likewise
  comm::Work num_tokens_arrives_;
};

}  // namespace

LossSum pipeline_loss(const PipelineParts& pipeline, const Precision& precision,
                      std::span<models::Batch> micro_batches) {
  const c10::NoGradGuard no_grad;
  const auto autocast = precision.autocast();
  const int stage = pipeline.stages.rank(), num_stages = pipeline.stages.size(),
            num_chunks = pipeline.schedule.shape.num_chunks;
  std::vector<comm::Work> sends;
  at::Tensor sum = at::zeros({}, pipeline.boundary.dtype(at::kDouble)), weight = sum.clone();
  for (const models::Batch& batch : micro_batches)
    for (int chunk = 0; chunk < num_chunks; ++chunk) {
      at::Tensor input_TBD;
      if (stage > 0 || chunk > 0) {
        input_TBD = at::empty(pipeline.stage.boundary_shape(batch.num_samples), pipeline.boundary);
        const int from = (stage + num_stages - 1) % num_stages;
        for (comm::Work& work : pipeline.stages.exchange({{.is_send = false, .tensor = input_TBD, .peer = from}}))
          work.wait();
      }
      const models::Outputs outputs = pipeline.stage.forward_chunk(chunk, input_TBD, batch);
      if (outputs.boundary_TBD.defined()) {
        const comm::Transfer to_next{.tensor = outputs.boundary_TBD.contiguous(), .peer = (stage + 1) % num_stages};
        for (comm::Work& work : pipeline.stages.exchange({to_next})) sends.push_back(std::move(work));
      } else {
        sum.add_(pipeline.is_mean_over_tokens ? outputs.loss_sum : pipeline.stage.loss(outputs).loss);
        weight.add_(pipeline.is_mean_over_tokens ? num_tokens_of(batch) : at::ones_like(weight));
      }
    }
  for (comm::Work& work : sends) work.wait();
  const at::Tensor both = pipeline.reports_loss
                              ? at::stack({sum, weight})
                              : at::zeros({2}, sum.options());  // zeros on all stages but the last, too
  pipeline.world.all_reduce(both).wait();
  const at::Tensor host = both.cpu();  // sync: an evaluation waits for each of its batches
  return {.sum = host.const_data_ptr<double>()[0], .weight = host.const_data_ptr<double>()[1]};
}

std::unique_ptr<StepRunner> make_pipeline_step(const StepRunnerParts& parts, PipelineParts pipeline) {
  return std::make_unique<PipelineStep>(parts, std::move(pipeline));
}

}  // namespace lockstep::train
