#!/usr/bin/env python3
"""Removes single waits, events, copies and settings of devices from the program, and shows that a test fails each time.

    tests/tools/mutate_device_path.py --list
    tests/tools/mutate_device_path.py --scratch FOLDER [--out-of-date | --only NAME...] [--first 5 --count 5]

The sources are copied to the scratch folder, which keeps its build, where each file to be changed is compiled alone: a
mutation costs one file, one link, and the cases that are named beside it; where these pass, all of their program.
All cases that are named pass on the unchanged program first. Results are added to bench/results/device_mutations.json.
Left out is what the simulated device has no part in: C10dBackend's abort and coalesced exchanges on a device
(comm/backend_gloo.cpp) and the making of a communicator (comm/backend_nccl_cuda.cpp), which need NCCL (test_gpu).
A mutation whose text is not found, and one that no test notices, end the script with exit code 1. A row has the commit
on which it was run and a hash of the function around its place; where the function is another now, the row is out of
date. That each text stands once in its file, and that few have no row or one that is out of date, is held by
mutations_test.py.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPT = 'Divisions/GptRanksOnAccelerator.AreAsOnTheCpu/'
CLIP = 'Divisions/ClipRanksOnAccelerator.AreAsOnTheCpu/'
OTHERS = 'OtherRanksOnAccelerator.'
RUNS = 'RunsOnAccelerator.'
FAULTS = 'FaultsOnAccelerator.'
ABORTED_GROUPS = 'AbortedGroups.*'
ABORTED = 'test_comm AbortedCalls.*'
PIPELINE = 'test_ranks_gpt PipelineStep.*'
COLLECTIVES = 'test_ranks Transports/Collectives.*'

# Name, file below src/, text, replacement, the tests that must notice it: of test_accelerator, or behind another
# program's name.
MUTATIONS = [
    ('device-not-current', 'train/device.cpp', '  at::accelerator::setDeviceIndex(index);', '  //', GPT + 'data'),
    ('event-not-recorded', 'train/phase_clock.cpp', '  event->record(', '  static_cast<void>(', RUNS + 'Gpt*'),
    ('event-without-timing', 'train/phase_clock.cpp', ', c10::EventFlag::BACKEND_DEFAULT)', ')', RUNS + 'Gpt*'),
    (
        'step-times-not-awaited',
        'train/phase_clock.cpp',
        'marks_->ends.back().second->synchronize();',
        '{}',
        RUNS + 'Gpt*',
    ),
    (
        'scalars-not-pinned',
        'train/telemetry.cpp',
        'at::TensorOptions(at::kDouble).pinned_memory(true));\n  return',
        'at::TensorOptions(at::kDouble));\n  return',
        RUNS + 'Gpt*',
    ),
    ('scalars-event-not-recorded', 'train/telemetry.cpp', '  event->record(stream);', '  {}', RUNS + 'Gpt*'),
    (
        'scalars-block-the-host',
        'train/telemetry.cpp',
        'host.copy_(stacked, /*non_blocking=*/true)',
        'host.copy_(stacked)',
        RUNS + 'HostWaits*',
    ),
    (
        'scalars-not-awaited',
        'train/numbers_in_flight.cpp',
        'after->block(stream)',
        'static_cast<void>(0)',
        RUNS + 'Gpt*',
    ),
    (
        'maxima-not-pinned-to-device',
        'train/numbers_in_flight.cpp',
        'own.pin_memory().to(',
        'own.to(',
        RUNS + 'Gpt*',
    ),
    (
        'maxima-not-reduced-in-time',
        'train/numbers_in_flight.cpp',
        'start(device_numbers_, device_mine_, gathers).wait();',
        'start(device_numbers_, device_mine_, gathers);',
        GPT + 'data',
    ),
    (
        'maxima-not-pinned-to-host',
        'train/numbers_in_flight.cpp',
        'at::TensorOptions(at::kDouble).pinned_memory(true));',
        'at::TensorOptions(at::kDouble));',
        RUNS + 'Gpt*',
    ),
    ('maxima-read-too-early', 'train/numbers_in_flight.cpp', 'arrival_->synchronize();', '{}', RUNS + 'Gpt*'),
    ('batch-not-pinned', 'train/copy_stream.cpp', 'host.pin_memory().to(', 'host.to(', RUNS + 'Clip*'),
    (
        'batch-blocks-the-host',
        'train/copy_stream.cpp',
        'to(device_, /*non_blocking=*/true)',
        'to(device_)',
        RUNS + 'HostWaits*',
    ),
    ('batch-arrival-not-recorded', 'train/copy_stream.cpp', 'arrival.record(*stream_);', '{}', RUNS + 'Gpt*'),
    ('batch-not-awaited', 'train/copy_stream.cpp', '  arrival.block(computing);', '  {}', RUNS + 'Gpt*'),
    (
        'batch-given-away-too-early',
        'train/copy_stream.cpp',
        '  share_with(batch, computing);',
        '  static_cast<void>(share_with);',
        RUNS + 'Clip*',
    ),
    (
        'text-places-not-pinned',
        'models/clap/text_packing.cpp',
        '.pinned_memory(!device.is_cpu())',
        '',
        'CommandsOnAccelerator.Clap*',
    ),
    (
        'texts-from-the-device',
        'train/batch_mover.cpp',
        'text_place_ == TextPlace::kHost ? host_BT',
        'false ? host_BT',
        RUNS + 'HostWaits*',
    ),
    (
        'checkpoint-not-pinned',
        'train/staging_area.cpp',
        '.pinned_memory(is_pinned)',
        '',
        RUNS + 'Resume*',
    ),
    (
        'checkpoint-not-copied',
        'train/staging_area.cpp',
        'staged.pieces[0].view(from.sizes()).copy_(from, is_async);',
        'static_cast<void>(is_async);',
        RUNS + 'Resume*',
    ),
    (
        'cut-tensors-not-copied',
        'train/staging_area.cpp',
        'piece.copy_(flat.narrow(0, at, piece.numel()), is_async);',
        'static_cast<void>(is_async);',
        'StagingAreaOnAccelerator.*',
    ),
    (
        'checkpoint-written-too-early',
        'train/checkpointer_writer.cpp',
        '  for (const WrittenFile& file : files)\n'
        '    if (wait_for_devices(file.tensors) && config_.check_alive) config_.check_alive();',
        '  static_cast<void>(wait_for_devices);',
        RUNS + 'Resume*',
    ),
    (
        'gradients-not-awaited',
        'parallel/grad_sync_buckets.cpp',
        'for (auto& bucket : buckets_) bucket.reduction.wait();',
        '',
        GPT + 'data',
    ),
    (
        'parameters-not-awaited',
        'parallel/grad_sync_buckets.cpp',
        'for (auto& bucket : buckets_) bucket.gathering.wait();',
        '',
        GPT + 'sharded_optimizer',
    ),
    (
        'parameters-not-awaited-where-used',
        'parallel/grad_sync_buckets.cpp',
        'buckets_[index].gathering.wait();',
        'static_cast<void>(index);',
        GPT + 'sharded_optimizer',
    ),
    (
        'save-before-parameters',
        'train/trainer.cpp',
        '  parts_.training.sync->wait_params();\n  if (parts_.callbacks.save',
        '  if (parts_.callbacks.save',
        GPT + 'sharded_masters',
    ),
    (
        'norm-not-awaited',
        'optim/grad_norm.cpp',
        'shards->all_reduce(squared).wait()',
        'shards->all_reduce(squared)',
        GPT + 'sharded_optimizer',
    ),
    (
        'lengths-not-awaited',
        'comm/comm.cpp',
        'static_cast<int64_t>(lengths.nbytes()))\n      .wait();',
        'static_cast<int64_t>(lengths.nbytes()));',
        GPT + 'data',
    ),
    (
        'strings-not-awaited',
        'comm/comm.cpp',
        'static_cast<int64_t>(all.nbytes())).wait();',
        'static_cast<int64_t>(all.nbytes()));',
        GPT + 'data',
    ),
    ('strings-not-copied', 'comm/comm.cpp', '  all = all.cpu();', '  all = all;', GPT + 'data'),
    ('stage-input-not-awaited', 'train/pipeline_step.cpp', 'flight.input_arrives.wait();', '{}', GPT + 'stages'),
    ('stage-gradient-not-awaited', 'train/pipeline_step.cpp', 'flight.gradient_arrives.wait();', '{}', GPT + 'stages'),
    (
        'stage-loss-not-awaited',
        'train/pipeline_step.cpp',
        'pipeline.world.all_reduce(value).wait();',
        'pipeline.world.all_reduce(value);',
        GPT + 'stages',
    ),
    (
        'token-count-not-awaited',
        'train/pipeline_step.cpp',
        'num_tokens_arrives_.wait();',
        '{}',
        GPT + 'recomputed_stages',
    ),
    (
        'vocabulary-not-awaited',
        'nn/vocab_cross_entropy.cpp',
        'all_gather_into(stats_R3n, own).wait();',
        'all_gather_into(stats_R3n, own);',
        GPT + 'tensors',
    ),
    (
        'features-not-awaited',
        'models/pair_logits.cpp',
        'data_axis.all_gather_into(all_NE, mine_BE).wait();',
        'data_axis.all_gather_into(all_NE, mine_BE);',
        CLIP + 'local_loss',
    ),
    (
        'fp8-scale-not-awaited',
        'nn/fp8_state.cpp',
        'axis->all_reduce(all, comm::ReduceOp::kMax).wait();',
        'axis->all_reduce(all, comm::ReduceOp::kMax);',
        GPT + 'fp8',
    ),
    (
        'fp8-tensor-maxima-not-awaited',
        'nn/fp8_state.cpp',
        'sharers->all_reduce(amax, comm::ReduceOp::kMax).wait();',
        'sharers->all_reduce(amax, comm::ReduceOp::kMax);',
        GPT + 'fp8_tensorwise',
    ),
    # Layers that tensor ranks share.
    (
        'entry-tokens-not-awaited',
        'nn/tensor_parallel.cpp',
        'start_gather(x, shard).wait() : x.view_as(x);',
        'start_gather(x, shard).result : x.view_as(x);',
        GPT + 'tensors_and_tokens',
    ),
    (
        'scattered-sum-not-awaited',
        'nn/tensor_parallel.cpp',
        'return start_scatter(partial, shard).wait();',
        'return start_scatter(partial, shard).result;',
        GPT + 'tensors_and_tokens',
    ),
    (
        'sum-not-awaited',
        'nn/tensor_parallel.cpp',
        'start_sum(partial.clone(at::MemoryFormat::Contiguous), shard).wait();',
        'start_sum(partial.clone(at::MemoryFormat::Contiguous), shard).result;',
        GPT + 'tensors',
    ),
    (
        'leaving-gradient-not-awaited',
        'nn/tensor_parallel.cpp',
        'start_gather(gradients[0], shard).wait()',
        'start_gather(gradients[0], shard).result',
        GPT + 'tensors_and_tokens',
    ),
    (
        'column-input-not-awaited',
        'nn/tensor_parallel.cpp',
        'start_gather(x, shard).wait() : x, typed_weight',
        'start_gather(x, shard).result : x, typed_weight',
        GPT + 'tensors_and_tokens',
    ),
    (
        'column-input-of-backward-not-awaited',
        'nn/tensor_parallel.cpp',
        'as_rows(x.wait())',
        'as_rows(x.result)',
        GPT + 'tensors_and_tokens',
    ),
    (
        'column-gradient-not-awaited',
        'nn/tensor_parallel.cpp',
        'return {x_gradient.wait(),',
        'return {x_gradient.result,',
        GPT + 'tensors',
    ),
    # Norms over ranks.
    (
        'statistics-not-awaited',
        'nn/sync_batch_norm.cpp',
        'comm.all_gather_into(all_RS, mine).wait();',
        'comm.all_gather_into(all_RS, mine);',
        OTHERS + 'SynchronisedNorms*',
    ),
    (
        'sums-of-statistics-not-awaited',
        'nn/sync_batch_norm.cpp',
        'comm.all_reduce(sums).wait();',
        'comm.all_reduce(sums);',
        OTHERS + 'SynchronisedNorms*',
    ),
    # Losses and evaluations of CLIP.
    (
        'distilled-features-not-awaited',
        'models/distillation_loss.cpp',
        'data_axis->all_gather_into(all_NE, mine_BE.contiguous()).wait();',
        'data_axis->all_gather_into(all_NE, mine_BE.contiguous());',
        OTHERS + 'Distillation*',
    ),
    (
        'gradients-of-distilled-features-not-awaited',
        'models/distillation_loss.cpp',
        'data_axis->reduce_scatter_into(mine_BE, all_NE).wait();',
        'data_axis->reduce_scatter_into(mine_BE, all_NE);',
        OTHERS + 'Distillation*',
    ),
    (
        'kept-features-not-pinned',
        'models/feature_cache.cpp',
        'host.pin_memory().to(',
        'host.to(',
        RUNS + 'HostWaits*',
    ),
    (
        'evaluated-counts-not-awaited',
        'tasks/contrastive/engine/evaluator.cpp',
        'comm.all_reduce(most, comm::ReduceOp::kMax).wait();',
        'comm.all_reduce(most, comm::ReduceOp::kMax);',
        CLIP + 'data',
    ),
    (
        'evaluated-places-not-awaited',
        'tasks/contrastive/engine/evaluator.cpp',
        'comm.all_gather_into(gathered, padded.to(device)).wait();',
        'comm.all_gather_into(gathered, padded.to(device));',
        CLIP + 'data',
    ),
    (
        'evaluated-places-not-copied',
        'tasks/contrastive/engine/evaluator.cpp',
        'gathered.to(at::kCPU);',
        'gathered;',
        CLIP + 'data',
    ),
    (
        'evaluated-rows-not-awaited',
        'tasks/contrastive/engine/evaluator.cpp',
        'comm.all_gather_into(gathered, padded).wait();',
        'comm.all_gather_into(gathered, padded);',
        CLIP + 'data',
    ),
    (
        'evaluated-total-not-awaited',
        'tasks/contrastive/engine/evaluator.cpp',
        'comm.all_reduce(sum).wait();',
        'comm.all_reduce(sum);',
        CLIP + 'data',
    ),
    (
        'places-of-pairs-not-awaited',
        'tasks/contrastive/engine/retrieval.cpp',
        'sharers.all_gather_into(all, own_S).wait();',
        'sharers.all_gather_into(all, own_S);',
        CLIP + 'data',
    ),
    (
        'places-of-pairs-not-copied',
        'tasks/contrastive/engine/retrieval.cpp',
        'all.narrow(0, 0, N).to(at::kCPU);',
        'all.narrow(0, 0, N);',
        CLIP + 'data',
    ),
    # Pipelines.
    ('sends-not-awaited', 'train/pipeline_step.cpp', 'sends_.front().wait();', '{}', GPT + 'stages'),
    ('last-sends-not-awaited', 'train/pipeline_step.cpp', '    finish_sends(0);', '', GPT + 'stages'),
    (
        'sends-without-bound',
        'train/pipeline_step.cpp',
        '    finish_sends(kMostSends);',
        '    static_cast<void>(kMostSends);',
        PIPELINE,
    ),
    (
        'boundary-not-in-rows',
        'train/pipeline_step.cpp',
        'root.detach().contiguous();',
        'root.detach();',
        PIPELINE,
    ),
    ('forward-not-marked', 'train/pipeline_step.cpp', 'parts_.mark(Phase::kForward);', '', GPT + 'stages'),
    ('backward-not-marked', 'train/pipeline_step.cpp', 'parts_.mark(Phase::kBackward);', '', GPT + 'stages'),
    ('pipeline-end-not-marked', 'train/pipeline_step.cpp', 'parts_.mark(Phase::kExposedComm);', '', GPT + 'stages'),
    (
        'evaluated-input-not-awaited',
        'train/pipeline_step.cpp',
        '.tensor = input_TBD, .peer = from}}))\n          work.wait();',
        '.tensor = input_TBD, .peer = from}}))\n          static_cast<void>(work);',
        GPT + 'virtual_stages',
    ),
    (
        'evaluation-sends-not-awaited',
        'train/pipeline_step.cpp',
        'for (comm::Work& work : sends) work.wait();',
        '',
        GPT + 'virtual_stages',
    ),
    (
        'evaluation-sum-not-awaited',
        'train/pipeline_step.cpp',
        'pipeline.world.all_reduce(both).wait();',
        'pipeline.world.all_reduce(both);',
        GPT + 'virtual_stages',
    ),
    ('evaluation-sum-not-copied', 'train/pipeline_step.cpp', 'both.cpu();', 'both;', GPT + 'virtual_stages'),
    # Gradients and parameters in buckets.
    (
        'parameters-not-awaited-at-begin',
        'parallel/grad_sync_buckets.cpp',
        '    if (!bucket.is_waited_where_used) bucket.gathering.wait();',
        '    static_cast<void>(bucket);',
        CLIP + 'sharded_masters',
    ),
    (
        'unused-parameters-not-awaited',
        'parallel/grad_sync_buckets.cpp',
        '  wait_params();  // what no module',
        '  // what no module',
        'test_ranks Zero1Shards.*',
    ),
    (
        'parameters-not-placed',
        'parallel/grad_sync_buckets.cpp',
        '    view.copy_(tensor.detach());',
        '',
        GPT + 'sharded_optimizer',
    ),
    (
        'first-gradient-not-copied',
        'parallel/grad_sync_buckets.cpp',
        'parameter.gradient.copy_(parameter.tensor.grad());',
        '{}',
        'test_ranks DdpPrecision.*',
    ),
    (
        'masters-not-copied',
        'parallel/grad_sync_buckets.cpp',
        'own_shard(bucket.parameters).copy_(bucket.masters);',
        '{}',
        'test_ranks MasterCopies.*',
    ),
    (
        'partial-sum-not-awaited',
        'parallel/sum_gradients.cpp',
        'all_reduce(joined).wait();',
        'all_reduce(joined);',
        GPT + 'tensors_and_tokens',
    ),
    (
        'partial-sum-not-copied',
        'parallel/sum_gradients.cpp',
        '      gradient.copy_(',
        '      static_cast<void>(',
        'test_ranks_gpt Shared/GptParallel.*',
    ),
    (
        'waits-where-used-not-passed-on',
        'parallel/grad_sync_summed.cpp',
        'for (const auto& wait : waits) wait();',
        'static_cast<void>(waits);',
        GPT + 'sharded_optimizer',
    ),
    (
        'waits-for-parameters-not-passed-on',
        'parallel/grad_sync_summed.cpp',
        'for (const auto& sync : data_) sync->wait_params();',
        '',
        GPT + 'sharded_optimizer',
    ),
    ('replicas-not-copied', 'parallel/replica_check.cpp', '.contiguous().cpu();', '.contiguous();', GPT + 'data'),
    # Collectives.
    ('work-not-awaited', 'comm/comm.cpp', '      wait();\n', '      static_cast<void>(wait);\n', GPT + 'data'),
    (
        'gather-alone-not-copied',
        'comm/comm.cpp',
        'if (size() == 1 && flat_output.data_ptr() != flat_input.data_ptr()) flat_output.copy_(flat_input);\n'
        '  return start_unless_alone({.kind = OpKind::kAllGather',
        'return start_unless_alone({.kind = OpKind::kAllGather',
        COLLECTIVES,
    ),
    (
        'scatter-alone-not-copied',
        'comm/comm.cpp',
        'if (size() == 1 && flat_output.data_ptr() != flat_input.data_ptr()) flat_output.copy_(flat_input);\n'
        '  return start_unless_alone({.kind = OpKind::kReduceScatter',
        'return start_unless_alone({.kind = OpKind::kReduceScatter',
        COLLECTIVES,
    ),
    (
        'exchange-alone-not-copied',
        'comm/comm.cpp',
        '  if (size() == 1) flat_output.copy_(flat_input);',
        '',
        COLLECTIVES,
    ),
    (
        'barrier-not-awaited',
        'comm/comm.cpp',
        '  work.wait();\n  const int present',
        '  const int present',
        GPT + 'data',
    ),
    ('lengths-not-copied', 'comm/comm.cpp', '  lengths = lengths.cpu();', '', GPT + 'data'),
    (
        'length-of-text-not-awaited',
        'comm/comm.cpp',
        '.tensor = length, .peer = root}, static_cast<int64_t>(length.nbytes())).wait();',
        '.tensor = length, .peer = root}, static_cast<int64_t>(length.nbytes()));',
        GPT + 'data',
    ),
    (
        'text-not-awaited',
        'comm/comm.cpp',
        '.tensor = bytes, .peer = root}, num_bytes).wait();',
        '.tensor = bytes, .peer = root}, num_bytes);',
        GPT + 'data',
    ),
    ('text-not-copied', 'comm/comm.cpp', '  bytes = bytes.cpu();', '', GPT + 'data'),
    ('text-not-sent-to-the-device', 'comm/comm.cpp', 'bytes.to(state_->backend->device());', 'bytes;', GPT + 'data'),
    ('barrier-trusts-a-broken-group', 'comm/comm.cpp', 'barrier is one\n  check_alive();', 'barrier is one', ABORTED),
    (
        'lengths-of-a-broken-group',
        'comm/comm.cpp',
        'size the next call\n  check_alive();',
        'size the next call',
        ABORTED,
    ),
    (
        'strings-of-a-broken-group',
        'comm/comm.cpp',
        '  check_alive();\n  const auto* text',
        '  const auto* text',
        ABORTED,
    ),
    ('length-of-a-broken-group', 'comm/comm.cpp', '  check_alive();\n  if (num_bytes', '  if (num_bytes', ABORTED),
    (
        'text-of-a-broken-group',
        'comm/comm.cpp',
        '  check_alive();\n  return {reinterpret',
        '  return {reinterpret',
        ABORTED,
    ),
    ('calls-into-a-broken-group', 'comm/comm.cpp', '    if (call.give_up_check) call.give_up_check();\n', '', ABORTED),
    (
        'exchanges-in-a-broken-group',
        'comm/comm.cpp',
        '    if (calls[0].give_up_check) calls[0].give_up_check();\n',
        '',
        ABORTED,
    ),
    # Failures of other ranks.
    (
        'failure-elsewhere-aborts-nothing',
        'comm/world.cpp',
        '    Groups::start_abort(groups);',
        '    static_cast<void>(groups);',
        ABORTED_GROUPS,
    ),
    ('troubles-not-looked-for', 'comm/store_progress.cpp', '      look_for_trouble();\n', '', ABORTED_GROUPS),
    (
        'groups-aborted-in-turn',
        'comm/world.cpp',
        'threads.emplace_back([backend] { backend->abort(); });',
        'static_cast<void>(threads), backend->abort();',
        ABORTED_GROUPS,
    ),
    ('signal-for-the-next-attempt', 'comm/world.cpp', '.counted_by(calls)', '', ABORTED_GROUPS),
    ('result-behind-an-abort', 'train/agree.cpp', '  }\n  world.check_alive();\n', '  }\n', ABORTED_GROUPS),
    (
        'copies-behind-an-abort',
        'train/checkpointer_writer.cpp',
        '    if (wait_for_devices(file.tensors) && config_.check_alive) config_.check_alive();',
        '    wait_for_devices(file.tensors);',
        ABORTED_GROUPS,
    ),
    (
        'own-failure-aborts-nothing',
        'comm/world.cpp',
        'aborted = Groups::start_abort(state_->groups);',
        'aborted;',
        ABORTED_GROUPS,
    ),
    (
        'groups-not-known-to-the-abort',
        'comm/world.cpp',
        '  groups->add({.axis = axis, .global_ranks = global_ranks, .backend = backend});',
        '',
        ABORTED_GROUPS,
    ),
    ('nobody-watched', 'comm/store_progress.cpp', '      watch();\n', '', FAULTS + 'RankThatDies*'),
    ('failures-not-looked-for', 'comm/store_progress.cpp', '      look_for_failure();', '', FAULTS + 'RankThatThrows'),
    (
        'lost-store-not-told',
        'comm/store_progress.cpp',
        'tell_lost_store("is lost (" + error_text(error) + ")");',
        'static_cast<void>(error);',
        FAULTS + 'RankZero*',
    ),
    (
        'silent-store-not-told',
        'comm/store_progress.cpp',
        'tell_lost_store("does not answer");',
        '',
        'test_ranks WorldFaults.WhoWaitsForRankZeroLearnsOfItsEnd',
    ),
    (
        'wait-in-store-deaf-to-failures',
        'comm/world.cpp',
        'if (const std::string failure = progress->failure_elsewhere(); !failure.empty())',
        'if (const std::string failure = progress->failure_elsewhere(); false)',
        'test_ranks WorldFaults.WhoWaitsForRankZeroLearnsOfItsEnd',
    ),
    (
        'transfer-not-awaited',
        'comm/backend_gloo.cpp',
        'return [kept, work] { work->wait(); };\n  return [kept',
        'return [kept, work] {};\n  return [kept',
        'test_ranks Transports/Collectives.SendAndReceive*',
    ),
    (
        'host-wait-deaf-to-failures',
        'comm/backend_gloo.cpp',
        '    give_up_check();\n',
        '    static_cast<void>(give_up_check);\n',
        'test_comm WaitAndLookAround.*',
    ),
    (
        'work-behind-a-timeout-not-awaited',
        'comm/backend_gloo.cpp',
        '      if (work.isCompleted()) {\n        work.wait();',
        '      if (work.isCompleted()) {',
        'test_comm WaitAndLookAround.*',
    ),
]


def function_of(text, part):
    """The function or class at top level around `part`, without lines of comments: lines of a file move more often."""
    place = text.index(part)
    before, behind = text.rfind('\n}', 0, place), text.find('\n}', place)
    begin = text.index('\n', before + 1) if before >= 0 else 0
    lines = text[begin : behind if behind >= 0 else len(text)].split('\n')
    return '\n'.join(line for line in lines if line.strip() and not line.strip().startswith('//'))


def code_of(text, part):
    return hashlib.sha256(function_of(text, part).encode()).hexdigest()[:16]


def out_of_date(rows, source=lambda file: (ROOT / 'src' / file).read_text()):
    """Names of mutations that were never run, or on another function than stands there now."""
    codes = {row['name']: row.get('code') for row in rows}
    return [
        name
        for name, file, old, *_ in MUTATIONS
        if old not in source(file) or codes.get(name) != code_of(source(file), old)
    ]


def not_found_once():
    """Names of mutations whose text is not in its file, or is there at several places."""
    return [name for name, file, old, *_ in MUTATIONS if (ROOT / 'src' / file).read_text().count(old) != 1]


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def copy_sources(scratch):
    files = run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT).stdout
    for name in filter(None, files.split('\0')):
        source, target = ROOT / name, scratch / name
        if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())


def program_of(tests):
    return tests.split(' ')[0] if ' ' in tests else 'test_accelerator'


def build(scratch, *targets):
    return run(['ninja', '-C', str(scratch / 'build'), '-j', '2', *targets])


def prepare(scratch, chosen):
    copy_sources(scratch)
    alone = '|'.join(sorted({'/' + file.replace('.', '\\.') + '$' for _, file, *_ in chosen}))
    made = run(
        ['cmake', '-S', str(scratch), '-B', str(scratch / 'build'), '-G', 'Ninja', '-DLOCKSTEP_SINGLE_FILES=' + alone]
    )
    if made.returncode == 0:
        made = build(scratch, *sorted({program_of(m[-1]) for m in chosen}))
    if made.returncode != 0:
        sys.exit('the sources do not build unchanged:\n' + made.stdout[-4000:])


def failed_cases(tests, scratch, limit_s=1800):
    """The cases that fail until the program ends or the limit is over, with the output of all; '(none ended)' where it
    did not come to its end and no case had failed."""
    program, cases = str(scratch / 'build' / program_of(tests)), tests.split(' ')[-1]
    try:
        done = run([program, '--gtest_filter=' + cases], timeout=limit_s)
        output, has_ended_well = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as late:
        output, has_ended_well = (late.stdout or b'').decode(errors='replace'), False
    failed = sorted(set(re.findall(r'^\[  FAILED  \] ([^\s,]+)(?=,| \()', output, re.M)))
    return failed or ([] if has_ended_well else ['(none ended)']), output


def check_unchanged(all_tests, scratch):
    """How long the cases of each program may take in a mutant, which often hangs behind a case that failed."""
    limits_s = {}
    for program in sorted({program_of(tests) for tests in all_tests}):
        tests = sorted({tests.split(' ')[-1] for tests in all_tests if program_of(tests) == program})
        began = time.time()
        failed, output = failed_cases(program + ' ' + ':'.join(tests), scratch)
        limits_s[program] = 60 + 10 * (time.time() - began)
        num_run = re.search(r'\[==========\] (\d+) tests? from .* ran', output)
        if failed or not num_run or int(num_run.group(1)) < len(tests):
            sys.exit(f'the unchanged program does not pass {tests}: {failed}\n{output[-4000:]}')
    return limits_s


def first_mistake(output):
    for mark in ('simulated accelerator: ', 'error: ', ': Failure'):
        for line in output.splitlines():
            if mark in line and ': 0 mistakes' not in line:
                return line.strip()[:160]
    return ''


def mutate(name, file, old, new, tests, scratch, limits_s):
    path = scratch / 'src' / file
    text = path.read_text()
    if old not in text:
        return {'name': name, 'result': 'text not found'}
    result = {
        'name': name,
        'place': f'src/{file}:{text[:text.find(old)].count(chr(10)) + 1}',
        'removed': old.strip(),
        'commit': run(['git', 'rev-parse', '--short=10', 'HEAD'], cwd=ROOT).stdout.strip(),
        'code': code_of(text, old),
    }
    path.write_text(text.replace(old, new, 1))
    try:
        made = build(scratch, program_of(tests))
        if made.returncode != 0:
            return result | {'result': 'does not compile', 'said': made.stdout[-600:]}
        failed, output = failed_cases(tests, scratch, limits_s[program_of(tests)])
        if not failed:
            failed, output = failed_cases(program_of(tests) + ' *', scratch)
    finally:
        path.write_text(text)
    return result | {
        'result': 'noticed' if failed else 'NOT NOTICED',
        'failed': failed,
        'said': first_mistake(output).replace(str(scratch) + '/', '') if failed else '',
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--scratch')
    parser.add_argument('--first', type=int, default=0)
    parser.add_argument('--count', type=int, default=len(MUTATIONS))
    parser.add_argument('--only', nargs='*')
    parser.add_argument('--out-of-date', action='store_true', help='those whose function changed since, and new ones')
    parser.add_argument('--output', default=str(ROOT / 'bench/results/device_mutations.json'))
    options = parser.parse_args()
    output = pathlib.Path(options.output)
    older = json.loads(output.read_text())['mutations'] if output.exists() else []
    only = out_of_date(older) if options.out_of_date else options.only
    chosen = [m for m in MUTATIONS if only is None or m[0] in only][options.first :][: options.count]
    if options.list:
        for name, file, old, _, tests in chosen:
            print(f'{name:36} src/{file:34} {tests}')
        unclear = not_found_once()
        sys.exit('text not found, or more than once: ' + ', '.join(unclear) if unclear else 0)
    if not options.scratch:
        parser.error('--scratch is needed')
    scratch = pathlib.Path(options.scratch).resolve()
    prepare(scratch, chosen)
    limits_s = check_unchanged({m[-1] for m in chosen}, scratch)
    results = {r['name']: r for r in older if r['name'] in [m[0] for m in MUTATIONS]}
    bad = 0
    for mutation in chosen:
        began = time.time()
        result = mutate(*mutation, scratch, limits_s)
        results[result['name']] = result
        bad += result['result'] != 'noticed'
        print(
            f"{result['name']:36} {result['result']:14} {time.time() - began:5.0f} s  {result.get('said', '')}",
            flush=True,
        )
        output.write_text(
            json.dumps(
                {
                    'what': 'tests/tools/mutate_device_path.py: one removal at a time',
                    'mutations': list(results.values()),
                },
                indent=1,
            )
            + '\n'
        )
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
