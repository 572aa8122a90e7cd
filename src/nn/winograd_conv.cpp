// Letters: B pictures, C input and O output channels, Y, X pixels, F the 16 frequencies of a tile.
#include "nn/winograd_conv.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "nn/parallel_for.h"
#include "nn/winograd_kernel.h"

namespace lockstep::nn {
namespace {

using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
constexpr int64_t kLeastTiles = 128;  // of all pictures; with fewer, filters cost more to transform
constexpr int64_t kBlockTiles = 192;  // that a thread transforms and multiplies at once: read the filters once
constexpr int64_t kChunkTiles = 256;  // of a filter's gradient between reading and writing the sums once

WinogradShape shape_of(const at::Tensor& x, const at::Tensor& weight) {
  return {.pictures = x.size(0),
          .rows = x.size(2),
          .columns = x.size(3),
          .inputs = weight.size(1),
          .outputs = weight.size(0),
          .lanes = winograd_lanes()};
}

/// x convolved with `weight` into y; is_turned: the gradient y of the inputs from that of the outputs, x.
void convolve(const WinogradShape& shape, const at::Tensor& x, const at::Tensor& weight, bool is_turned,
              const at::Tensor& y) {
  const WinogradShape own = is_turned ? shape.turned() : shape;
  const at::Tensor packed = at::empty({kWinogradFrequencies * shape.inputs * shape.outputs}, weight.options());
  const auto *from = x.const_data_ptr<float>(), *filters = weight.const_data_ptr<float>();
  auto *to = y.mutable_data_ptr<float>(), *panels = packed.mutable_data_ptr<float>();
  parallel_for(0, own.outputs / own.lanes, 1,
               [&](int64_t first, int64_t last) { winograd_filters(shape, filters, is_turned, first, last, panels); });
  const int64_t num_tiles = own.num_tiles(), num_threads = at::get_num_threads();
  const int64_t rounds = (num_tiles + kBlockTiles * num_threads - 1) / (kBlockTiles * num_threads);
  const int64_t block = (num_tiles + rounds * num_threads - 1) / (rounds * num_threads);
  parallel_for(0, (num_tiles + block - 1) / block, 1, [&](int64_t first, int64_t last) {
    const at::Tensor scratch = at::empty({winograd_scratch(own, block)}, at::kFloat);
    for (int64_t i = first; i < last; ++i)
      winograd_tiles(own, from, panels, i * block, std::min(num_tiles, (i + 1) * block),
                     scratch.mutable_data_ptr<float>(), to);
  });
}

at::Tensor filter_gradient(const WinogradShape& shape, const at::Tensor& x, const at::Tensor& dout) {
  const int64_t num_tiles = shape.num_tiles(), chunk_tiles = std::min(num_tiles, kChunkTiles);
  const at::Tensor sums_FCO = at::zeros({kWinogradFrequencies, shape.inputs, shape.outputs}, at::kFloat);
  const at::Tensor transformed =
      at::empty({chunk_tiles * kWinogradFrequencies * (shape.inputs + shape.outputs)}, at::kFloat);
  auto *sums = sums_FCO.mutable_data_ptr<float>(), *inputs = transformed.mutable_data_ptr<float>(),
       *gradients = inputs + chunk_tiles * kWinogradFrequencies * shape.inputs;
  const int64_t num_panels = shape.inputs / shape.lanes;
  for (int64_t begin = 0; begin < num_tiles; begin += chunk_tiles) {
    const WinogradChunk chunk{begin, std::min(chunk_tiles, num_tiles - begin)};
    parallel_for(begin, begin + chunk.num_tiles, kWinogradRows, [&](int64_t first, int64_t last) {
      winograd_transform(shape, x.const_data_ptr<float>(), /*is_gradient=*/false, chunk, first, last, inputs);
      winograd_transform(shape, dout.const_data_ptr<float>(), /*is_gradient=*/true, chunk, first, last, gradients);
    });
    parallel_for(0, kWinogradFrequencies * num_panels, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        winograd_add_products(shape, inputs, gradients, chunk.num_tiles, i / num_panels, i % num_panels, sums);
    });
  }
  at::Tensor gradient = at::empty({shape.outputs, shape.inputs, 3, 3}, at::kFloat);
  parallel_for(0, shape.outputs / shape.lanes, 1, [&](int64_t first, int64_t last) {
    winograd_filter_gradient(shape, sums, first, last, gradient.mutable_data_ptr<float>());
  });
  return gradient;
}

struct WinogradConv : torch::autograd::Function<WinogradConv> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return winograd_forward(x, weight);
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto [dx, dweight] =
        winograd_backward(gradients[0], saved[0], saved[1], context->needs_input_grad(0), context->needs_input_grad(1));
    return {dx, dweight};
  }
};

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.dim() == 4;
}

}  // namespace

bool has_winograd_kernel(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t lanes = winograd_lanes();
  return lanes != 0 && is_plain(x) && is_plain(weight) && weight.size(2) == 3 && weight.size(3) == 3 &&
         weight.size(0) % lanes == 0 && weight.size(1) % lanes == 0 && x.size(1) == weight.size(1) &&
         x.is_contiguous(kChannelsLast) && shape_of(x, weight).num_tiles() >= kLeastTiles;
}

at::Tensor winograd_forward(const at::Tensor& x, const at::Tensor& weight) {
  const WinogradShape shape = shape_of(x, weight);
  at::Tensor y = at::empty({shape.pictures, shape.outputs, shape.rows, shape.columns}, x.options(), kChannelsLast);
  convolve(shape, x, weight.contiguous(), /*is_turned=*/false, y);
  return y;
}

std::pair<at::Tensor, at::Tensor> winograd_backward(const at::Tensor& dout, const at::Tensor& x,
                                                    const at::Tensor& weight, bool needs_x, bool needs_weight) {
  const WinogradShape shape = shape_of(x, weight);
  const at::Tensor gradient = dout.contiguous(kChannelsLast);
  std::pair<at::Tensor, at::Tensor> found;
  if (needs_x) {
    found.first = at::empty_like(x);
    convolve(shape, gradient, weight.contiguous(), /*is_turned=*/true, found.first);
  }
  if (needs_weight) found.second = filter_gradient(shape, x, gradient);
  return found;
}

bool has_winograd_conv(const at::Tensor& x, const at::Tensor& weight) {
  return has_winograd_kernel(x, weight) && !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor winograd_conv(const at::Tensor& x, const at::Tensor& weight) { return WinogradConv::apply(x, weight); }

}  // namespace lockstep::nn
