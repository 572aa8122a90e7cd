#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Convolutions of 3x3 filters, stride 1 and padding 1, by minimal filtering F(2x2, 3x3) (S. Winograd; for networks:
/// Lavin and Gray, arXiv:1509.09308): a tile of 2x2 outputs takes 16 products where the plain sum takes 36. Pictures
/// [pictures, rows, columns, channels] and filters [outputs, inputs, 3, 3] are dense fp32.
struct WinogradShape {
  int64_t pictures = 0, rows = 0, columns = 0;
  int64_t inputs = 0, outputs = 0;  ///< channels, multiples of winograd_lanes()
  int64_t lanes = 0;                ///< channels of a panel: winograd_lanes(), or another value that it has elsewhere

  int64_t tiles_down() const { return (rows + 1) / 2; }
  int64_t tiles_across() const { return (columns + 1) / 2; }
  int64_t num_tiles() const { return pictures * tiles_down() * tiles_across(); }
  /// Of the gradient of the inputs: a convolution of the gradient of the outputs.
  WinogradShape turned() const { return {pictures, rows, columns, outputs, inputs, lanes}; }
};

/// 16 with AVX2, 32 with AVX-512, 0 on processors without either: nothing below may run there.
int64_t winograd_lanes();

inline constexpr int64_t kWinogradFrequencies = 16;  // numbers of a transformed 4x4 tile
inline constexpr int64_t kWinogradRows = 6;          // tiles that a product takes at once

/// Transformed filters in panels [16, outputs / lanes, inputs, lanes], of the outputs' panels first_panel to
/// last_panel - 1. With is_turned those of the convolution of shape.turned(): out's panels are then of the inputs.
void winograd_filters(const WinogradShape& shape, const float* filters, bool is_turned, int64_t first_panel,
                      int64_t last_panel, float* packed);

/// Numbers of scratch memory that a call with at most num_tiles tiles needs.
int64_t winograd_scratch(const WinogradShape& shape, int64_t num_tiles);
/// Writes the outputs of tiles first_tile to last_tile - 1 of picture x; calls on disjoint tiles may run side by side.
void winograd_tiles(const WinogradShape& shape, const float* x, const float* packed, int64_t first_tile,
                    int64_t last_tile, float* scratch, float* y);

/// Transformed tiles [16, channels / lanes, num_tiles, lanes] of the chunk of tiles that begins with chunk_tile: those
/// from first_tile to last_tile - 1 are written. Of inputs (is_gradient false) or of the outputs' gradient.
struct WinogradChunk {
  int64_t first_tile = 0, num_tiles = 0;
};
void winograd_transform(const WinogradShape& shape, const float* pictures, bool is_gradient, const WinogradChunk& chunk,
                        int64_t first_tile, int64_t last_tile, float* transformed);
/// Adds to sums [16, inputs, outputs] what a chunk gives to them, for frequency `frequency` and the inputs of panel
/// `panel`.
void winograd_add_products(const WinogradShape& shape, const float* inputs, const float* gradients, int64_t num_tiles,
                           int64_t frequency, int64_t panel, float* sums);
/// The gradient [outputs, inputs, 3, 3] of the filters of the outputs' panels first_panel to last_panel - 1, of the
/// sums of all chunks.
void winograd_filter_gradient(const WinogradShape& shape, const float* sums, int64_t first_panel, int64_t last_panel,
                              float* gradient);

}  // namespace lockstep::nn
