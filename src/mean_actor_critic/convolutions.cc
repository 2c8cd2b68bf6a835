// Convolutions without padding, each followed by a ReLU, forward and backward, on one core of a CPU.
//
// Images lie as [height, width, channels], weights as [kernel, kernel, channels, filters]. Then a line of a kernel is one
// run of memory, and so is the part of the image that it meets: every pass is a product of matrices that are already
// there, some of them with overlapping rows. Nothing is copied into patches, and one image after the other goes through
// all layers while it is in the cache. `native.py` compiles this file on the machine that trains.

#include <cstdint>
#include <cstring>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// A block of sums has two vectors to a row and as many rows as leave some of the registers free.
#if defined(__AVX512F__)
constexpr int LANES = 16, TALLEST = 12;
#elif defined(__AVX__)
constexpr int LANES = 8, TALLEST = 6;
#else
constexpr int LANES = 4, TALLEST = 12;
#endif
constexpr int WIDTH = 2 * LANES;
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// --- products --------------------------------------------------------------------------------------------------------

// Where the factors and sums of a product lie, in floats: sum[r, c] += Σ_o Σ_i left[r, o, i] · right[o, i, c].
struct Product {
  long rows, columns, outer, inner;
  long left_row, left_outer, left_inner;
  long right_outer, right_inner;
  long sum_row;
};

template <int ROWS>
static inline void multiply_block(const Product& p, const float* left, const float* right, float* sum) {
  Vector sums[ROWS][2];
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < 2; v++) sums[r][v] = *(const Vector*)(sum + r * p.sum_row + v * LANES);
  for (long o = 0; o < p.outer; o++) {
    const float* x = left + o * p.left_outer;
    const float* y = right + o * p.right_outer;
    for (long i = 0; i < p.inner; i++, x += p.left_inner, y += p.right_inner) {
      const Vector first = *(const Vector*)y, second = *(const Vector*)(y + LANES);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; r++) {
        const float factor = x[r * p.left_row];
        sums[r][0] += first * factor;
        sums[r][1] += second * factor;
      }
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < 2; v++) *(Vector*)(sum + r * p.sum_row + v * LANES) = sums[r][v];
}

// The block of the size that is asked for: its rows are a constant for the compiler.
template <int ROWS>
static inline void multiply_rows(long rows, const Product& p, const float* left, const float* right, float* sum) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS) return multiply_block<ROWS>(p, left, right, sum);
    multiply_rows<ROWS - 1>(rows, p, left, right, sum);
  }
}

static void multiply(const Product& p, const float* left, const float* right, float* sum) {
  const long blocks = (p.rows + TALLEST - 1) / TALLEST;
  for (long column = 0; column < p.columns; column += WIDTH)
    for (long block = 0; block < blocks; block++) {
      const long from = p.rows * block / blocks, to = p.rows * (block + 1) / blocks;
      multiply_rows<TALLEST>(to - from, p, left + from * p.left_row, right + column, sum + from * p.sum_row + column);
    }
}

// --- layers ----------------------------------------------------------------------------------------------------------

struct Layer {
  long height, width, channels, kernel, stride, rows, columns, filters;
  long inputs() const { return height * width * channels; }
  long outputs() const { return rows * columns * filters; }
  long line() const { return width * channels; }  // of the image
  long run() const { return kernel * channels; }  // of a line, under the kernel
};

static void rectify(long count, const float* of, float* x) {
  for (long k = 0; k < count; k++) x[k] = of[k] > 0 ? x[k] : 0;
}

static void forward(const Layer& l, const float* image, const float* weight, const float* bias, float* map) {
  const Product p{l.columns, l.filters, l.kernel, l.run(), l.stride * l.channels, l.line(), 1,
                  l.run() * l.filters, l.filters, l.filters};
  for (long row = 0; row < l.rows; row++) {
    float* out = map + row * l.columns * l.filters;
    for (long column = 0; column < l.columns; column++)
      std::memcpy(out + column * l.filters, bias, l.filters * sizeof(float));
    multiply(p, image + row * l.stride * l.line(), weight, out);
    rectify(l.columns * l.filters, out, out);
  }
}

static void add_weight_gradient(const Layer& l, const float* image, const float* gradient, float* weight, float* bias) {
  const Product p{l.run(), l.filters, l.rows, l.columns, 1, l.stride * l.line(), l.stride * l.channels,
                  l.columns * l.filters, l.filters, l.filters};
  for (long ky = 0; ky < l.kernel; ky++)
    multiply(p, image + ky * l.line(), gradient, weight + ky * l.run() * l.filters);
  for (long pixel = 0; pixel < l.rows * l.columns; pixel++)
    for (long f = 0; f < l.filters; f++) bias[f] += gradient[pixel * l.filters + f];
}

// `turned` holds the weights as [kernel, kernel, filters, channels].
static void image_gradient(const Layer& l, const float* turned, const float* gradient, float* image) {
  const Product p{l.columns, l.channels, 1, l.filters, l.filters, 0, 1, 0, l.channels, l.stride * l.channels};
  std::memset(image, 0, l.inputs() * sizeof(float));
  for (long ky = 0; ky < l.kernel; ky++)
    for (long kx = 0; kx < l.kernel; kx++)
      for (long row = 0; row < l.rows; row++)
        multiply(p, gradient + row * l.columns * l.filters, turned + (ky * l.kernel + kx) * l.channels * l.filters,
                 image + (row * l.stride + ky) * l.line() + kx * l.channels);
}

static std::vector<float> turned(const Layer& l, const float* weight) {
  std::vector<float> found(l.kernel * l.run() * l.filters);
  for (long tap = 0; tap < l.kernel * l.kernel; tap++)
    for (long f = 0; f < l.filters; f++)
      for (long c = 0; c < l.channels; c++)
        found[(tap * l.filters + f) * l.channels + c] = weight[(tap * l.channels + c) * l.filters + f];
  return found;
}

// --- what XLA calls --------------------------------------------------------------------------------------------------

using Array = ffi::Buffer<ffi::F32>;
using Sizes = ffi::Span<const int64_t>;

// All layers, of images of a size and weights; an empty list if there is one that cannot be done.
static std::vector<Layer> layers_of(Sizes images, const std::vector<Array>& weights, Sizes strides) {
  long height = images[1], width = images[2], channels = images[3];
  std::vector<Layer> layers;
  for (size_t k = 0; k < weights.size(); k++) {
    const auto weight = weights[k].dimensions();
    const long kernel = weight[0], filters = weight[3], stride = strides[k];
    const bool narrow = filters % WIDTH || (k > 0 && channels % WIDTH);  // the first layer's image needs no gradient
    if (narrow || weight[2] != channels || height < kernel || width < kernel) return {};
    const long rows = (height - kernel) / stride + 1, columns = (width - kernel) / stride + 1;
    layers.push_back({height, width, channels, kernel, stride, rows, columns, filters});
    height = rows, width = columns, channels = filters;
  }
  return layers;
}

static ffi::Error unusable() { return ffi::Error::InvalidArgument("these convolutions cannot be done natively"); }

// (images, weight and bias of each layer) -> map of each layer
static ffi::Error Forward(Array images, ffi::RemainingArgs arguments, ffi::RemainingRets results, Sizes strides) {
  std::vector<Array> weights, biases;
  std::vector<float*> maps;
  for (size_t k = 0; k < strides.size(); k++) {
    weights.push_back(*arguments.get<Array>(2 * k));
    biases.push_back(*arguments.get<Array>(2 * k + 1));
    maps.push_back((*results.get<Array>(k))->typed_data());
  }
  const auto layers = layers_of(images.dimensions(), weights, strides);
  if (layers.empty()) return unusable();
  for (long n = 0; n < images.dimensions()[0]; n++) {
    const float* image = images.typed_data() + n * layers[0].inputs();
    for (size_t k = 0; k < layers.size(); k++) {
      float* map = maps[k] + n * layers[k].outputs();
      forward(layers[k], image, weights[k].typed_data(), biases[k].typed_data(), map);
      image = map;
    }
  }
  return ffi::Error::Success();
}

// (images, gradient of the last map, weight and map of each layer) -> gradient of weight and bias of each layer
static ffi::Error Backward(Array images, Array gradient, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                           Sizes strides) {
  std::vector<Array> weights;
  std::vector<const float*> maps;
  std::vector<float*> of_weights, of_biases;
  for (size_t k = 0; k < strides.size(); k++) {
    weights.push_back(*arguments.get<Array>(2 * k));
    maps.push_back((*arguments.get<Array>(2 * k + 1)).typed_data());
    of_weights.push_back((*results.get<Array>(2 * k))->typed_data());
    of_biases.push_back((*results.get<Array>(2 * k + 1))->typed_data());
  }
  const auto layers = layers_of(images.dimensions(), weights, strides);
  if (layers.empty()) return unusable();
  std::vector<std::vector<float>> turned_weights, gradients;
  for (size_t k = 0; k < layers.size(); k++) {
    std::memset(of_weights[k], 0, weights[k].size_bytes());
    std::memset(of_biases[k], 0, layers[k].filters * sizeof(float));
    turned_weights.push_back(k > 0 ? turned(layers[k], weights[k].typed_data()) : std::vector<float>());
    gradients.emplace_back(layers[k].outputs());
  }
  for (long n = 0; n < images.dimensions()[0]; n++) {
    const long last = layers.back().outputs();
    std::memcpy(gradients.back().data(), gradient.typed_data() + n * last, last * sizeof(float));
    for (size_t k = layers.size(); k-- > 0;) {
      const Layer& l = layers[k];
      const float* image = (k > 0 ? maps[k - 1] : images.typed_data()) + n * l.inputs();
      rectify(l.outputs(), maps[k] + n * l.outputs(), gradients[k].data());
      add_weight_gradient(l, image, gradients[k].data(), of_weights[k], of_biases[k]);
      if (k > 0) image_gradient(l, turned_weights[k].data(), gradients[k].data(), gradients[k - 1].data());
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(convolutions_forward, Forward,
                              ffi::Ffi::Bind().Arg<Array>().RemainingArgs().RemainingRets().Attr<Sizes>("strides"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    convolutions_backward, Backward,
    ffi::Ffi::Bind().Arg<Array>().Arg<Array>().RemainingArgs().RemainingRets().Attr<Sizes>("strides"));
