// Convolutions without padding, each followed by a ReLU, forward and backward, on the cores of a CPU.
//
// Images lie as [height, width, channels], weights as [kernel, kernel, channels, filters]. Then a line of a kernel is one
// run of memory, and so is the part of the image that it meets: every pass is a product of matrices that are already
// there, some of them with overlapping rows. Nothing is copied into patches, and one image after the other is made of
// its screens and goes through all layers while it is in the cache. `native.py` compiles this file on the machine that
// trains.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
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

// --- screens ---------------------------------------------------------------------------------------------------------

constexpr float BRIGHTEST = 255;

// How many screens an observation has, and how many values of each; one image has all of them as channels.
struct Screens {
  long stack, pixels, colours;
  long bytes() const { return stack * pixels * colours; }
};

template <int STACK>
static void interleave(const Screens& s, const uint8_t* bytes, float* image) {
  for (long pixel = 0; pixel < s.pixels; pixel++)
    for (int screen = 0; screen < STACK; screen++)
      image[pixel * STACK + screen] = bytes[screen * s.pixels + pixel] * (1 / BRIGHTEST);
}

static void make_image(const Screens& s, const uint8_t* bytes, float* image) {
  if (s.stack == 4 && s.colours == 1) return interleave<4>(s, bytes, image);  // a constant: several times as fast
  for (long screen = 0; screen < s.stack; screen++)
    for (long pixel = 0; pixel < s.pixels; pixel++)
      for (long colour = 0; colour < s.colours; colour++)
        image[(pixel * s.stack + screen) * s.colours + colour] =
            bytes[(screen * s.pixels + pixel) * s.colours + colour] * (1 / BRIGHTEST);
}

// --- threads ---------------------------------------------------------------------------------------------------------

// Does `work(k)` for every k below `count`: in this thread, and in those of XLA's that come in time. Nobody waits for a
// thread that has not begun, because it may be waiting itself, in another call.
template <typename Work>
static void share_out(ffi::ThreadPool& pool, long count, const Work& work) {
  struct Tally {
    std::atomic<long> begun{0}, done{0};
  };
  auto tally = std::make_shared<Tally>();  // a thread may come when everything is long over
  auto take_part = [tally, count, &work] {
    for (long k; (k = tally->begun++) < count; tally->done++) work(k);
  };
  const long helpers = std::min<long>(pool.num_threads(), count) - 1;
  for (long k = 0; k < helpers; k++) pool.Schedule(std::function<void()>(take_part));
  take_part();
  for (long spins = 0; tally->done < count; spins++)
    if (spins > 1000) std::this_thread::yield();
}

// --- what XLA calls --------------------------------------------------------------------------------------------------

using Array = ffi::Buffer<ffi::F32>;
using Observation = ffi::Buffer<ffi::U8>;  // [n, stack, height, width], or [n, stack, height, width, colours]
using Sizes = ffi::Span<const int64_t>;

// The shapes of everything; no layers if there is one that cannot be done.
struct Plan {
  Screens screens;
  std::vector<Layer> layers;
};

static Plan plan_of(Sizes observation, const std::vector<Array>& weights, Sizes strides) {
  long height = observation[2], width = observation[3];
  const Screens screens{observation[1], height * width, observation.size() > 4 ? observation[4] : 1};
  long channels = screens.stack * screens.colours;
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
  return {screens, layers};
}

static ffi::Error unusable() { return ffi::Error::InvalidArgument("these convolutions cannot be done natively"); }

// (observation, weight and bias of each layer) -> map of each layer
static ffi::Error Forward(ffi::ThreadPool pool, Observation observation, ffi::RemainingArgs arguments,
                          ffi::RemainingRets results, Sizes strides) {
  std::vector<Array> weights, biases;
  std::vector<float*> maps;
  for (size_t k = 0; k < strides.size(); k++) {
    weights.push_back(*arguments.get<Array>(2 * k));
    biases.push_back(*arguments.get<Array>(2 * k + 1));
    maps.push_back((*results.get<Array>(k))->typed_data());
  }
  const Plan plan = plan_of(observation.dimensions(), weights, strides);
  if (plan.layers.empty()) return unusable();
  share_out(pool, observation.dimensions()[0], [&](long n) {
    std::vector<float> first(plan.layers[0].inputs());
    make_image(plan.screens, observation.typed_data() + n * plan.screens.bytes(), first.data());
    const float* image = first.data();
    for (size_t k = 0; k < plan.layers.size(); k++) {
      float* map = maps[k] + n * plan.layers[k].outputs();
      forward(plan.layers[k], image, weights[k].typed_data(), biases[k].typed_data(), map);
      image = map;
    }
  });
  return ffi::Error::Success();
}

// Images are added up in parts, so that the sums do not depend on how many threads there are.
constexpr long IMAGES_OF_A_PART = 4, MOST_PARTS = 16;

// (gradient of the last map in all steps, weight of each layer, observation and map of each layer in every step)
// -> gradient of weight and bias of each layer
static ffi::Error Backward(ffi::ThreadPool pool, Array gradient, ffi::RemainingArgs arguments,
                           ffi::RemainingRets results, Sizes strides) {
  const size_t depth = strides.size(), steps = (arguments.size() - depth) / (1 + depth);
  std::vector<Array> weights;
  for (size_t k = 0; k < depth; k++) weights.push_back(*arguments.get<Array>(k));
  const auto sizes = (*arguments.get<Observation>(depth)).dimensions();
  const Plan plan = plan_of(sizes, weights, strides);
  if (plan.layers.empty()) return unusable();
  const auto& layers = plan.layers;
  std::vector<const uint8_t*> seen;
  std::vector<std::vector<const float*>> maps(steps);
  for (size_t step = 0; step < steps; step++) {
    const size_t place = depth + step * (1 + depth);
    seen.push_back((*arguments.get<Observation>(place)).typed_data());
    for (size_t k = 0; k < depth; k++) maps[step].push_back((*arguments.get<Array>(place + 1 + k)).typed_data());
  }
  std::vector<std::vector<float>> turned_weights;
  std::vector<size_t> weight_at, bias_at;  // in the sums of a part
  size_t size = 0;
  for (size_t k = 0; k < depth; k++) {
    turned_weights.push_back(k > 0 ? turned(layers[k], weights[k].typed_data()) : std::vector<float>());
    weight_at.push_back(size), size += weights[k].element_count();
    bias_at.push_back(size), size += layers[k].filters;
  }
  const long images = steps * sizes[0];
  const long parts = std::clamp(images / IMAGES_OF_A_PART, 1L, MOST_PARTS);
  std::unique_ptr<float[]> sums(new float[parts * size]);
  share_out(pool, parts, [&](long part) {
    float* sum = sums.get() + part * size;
    std::fill_n(sum, size, 0.0f);
    std::vector<float> first(layers[0].inputs());
    std::vector<std::vector<float>> gradients;
    for (const Layer& l : layers) gradients.emplace_back(l.outputs());
    for (long image = images * part / parts; image < images * (part + 1) / parts; image++) {
      const long step = image / sizes[0], n = image % sizes[0], last = layers.back().outputs();
      make_image(plan.screens, seen[step] + n * plan.screens.bytes(), first.data());
      std::memcpy(gradients.back().data(), gradient.typed_data() + image * last, last * sizeof(float));
      for (size_t k = depth; k-- > 0;) {
        const Layer& l = layers[k];
        const float* input = k > 0 ? maps[step][k - 1] + n * l.inputs() : first.data();
        rectify(l.outputs(), maps[step][k] + n * l.outputs(), gradients[k].data());
        add_weight_gradient(l, input, gradients[k].data(), sum + weight_at[k], sum + bias_at[k]);
        if (k > 0) image_gradient(l, turned_weights[k].data(), gradients[k].data(), gradients[k - 1].data());
      }
    }
  });
  for (size_t k = 0; k < 2 * depth; k++) {
    auto result = *results.get<Array>(k);
    const size_t at = k % 2 ? bias_at[k / 2] : weight_at[k / 2];
    float* out = result->typed_data();
    std::copy_n(sums.get() + at, result->element_count(), out);
    for (long part = 1; part < parts; part++)
      for (size_t i = 0; i < result->element_count(); i++) out[i] += sums[part * size + at + i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(convolutions_forward, Forward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Observation>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<Sizes>("strides"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    convolutions_backward, Backward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().RemainingArgs().RemainingRets().Attr<Sizes>("strides"));
