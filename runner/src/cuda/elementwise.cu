// SPDX-License-Identifier: Apache-2.0
// Sums of buffers, SwiGLU, and the rotation of queries and keys by their position.
#include "cuda/eight_bits.hpp"
#include "cuda/kernels.hpp"
#include "cuda/swiglu.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

struct Add {
  Bf16* y;
  const Bf16* a;
  const Bf16* b;

  template <int width>
  __device__ void operator()(i64 i, Width<width>) const {
    Floats<width> sum = load<width>(a + i);
    const Floats<width> other = load<width>(b + i);
    for (int e = 0; e < width; ++e)
      sum.at[e] += other.at[e];
    store(y + i, sum);
  }
};

struct AddTo {
  float* y;
  const float* x;

  template <int width>
  __device__ void operator()(i64 i, Width<width>) const {
    Floats<width> sum = load<width>(y + i);
    const Floats<width> other = load<width>(x + i);
    for (int e = 0; e < width; ++e)
      sum.at[e] += other.at[e];
    store(y + i, sum);
  }
};

/// Where the gate of element i of [tokens, ffn] lies in rows of [gates | up values]. Vectors
/// are counted in 32 bits, whose division is much cheaper.
template <int width>
__device__ i64 gate_of(i64 i, i64 ffn) {
  const auto row = static_cast<unsigned>(i / width) / static_cast<unsigned>(ffn / width);
  return i + static_cast<i64>(row) * ffn;
}

struct Swiglu {
  Bf16* y;
  const Bf16* gate_up;
  i64 ffn;

  template <int width, typename Left>
  __device__ void leave(i64 i, Width<width>, Left& left) const {
    const Bf16* gates = gate_up + gate_of<width>(i, ffn);
    const Floats<width> gate = load<width>(gates);
    const Floats<width> up = load<width>(gates + ffn);
    Floats<width> out;
    for (int e = 0; e < width; ++e)
      out.at[e] = swiglu_of(gate.at[e], up.at[e]);
    store(y + i, out);
    left.take(i, out);
  }
  template <int width>
  __device__ void operator()(i64 i, Width<width> at) const {
    LeavesNothing nothing;
    leave(i, at, nothing);
  }
};

struct SwigluGradient {
  Bf16* gate_up;
  const Bf16* dy;
  i64 ffn;

  template <int width, typename Left>
  __device__ void leave(i64 i, Width<width>, Left& left) const {
    const i64 at = gate_of<width>(i, ffn);
    Bf16* gates = gate_up + at;
    Floats<width> gate = load<width>(gates);
    Floats<width> up = load<width>(gates + ffn);
    const Floats<width> d = load<width>(dy + i);
    for (int e = 0; e < width; ++e) {
      const GateUp gradient = swiglu_gradient(gate.at[e], up.at[e], d.at[e]);
      gate.at[e] = gradient.gate;
      up.at[e] = gradient.up;
    }
    store(gates, gate);
    store(gates + ffn, up);
    left.take(at, gate);
    left.take(at + ffn, up);
  }
  template <int width>
  __device__ void operator()(i64 i, Width<width> at) const {
    LeavesNothing nothing;
    leave(i, at, nothing);
  }
};

template <int width, typename F>
__global__ void for_each_leaving(i64 count, F f, Leaves8Bits left) {
  visit<width>(0, count, Worker{global_thread(), global_threads()},
      [&]<int n>(i64 i, Width<n> at) { f.leave(i, at, left); });
  left.end();
}

/// Blocks few enough that the end of each, which waits for its threads, does not show.
template <typename F>
void for_each_to_8_bits(const char* name, gpu::Stream stream, i64 count, bool vectors, F f,
    const Device::Quantization& q) {
  constexpr int threads = 256;
  constexpr i64 most_blocks = 2048;
  if (count == 0) return;
  const i64 items = vectors ? blocks_for(count, 8) : count;
  const Launch shape{name, stream, std::min(blocks_for(items, threads), most_blocks), threads};
  if (vectors)
    launch(for_each_leaving<8, F>, shape, count, f, Leaves8Bits(q));
  else
    launch(for_each_leaving<1, F>, shape, count, f, Leaves8Bits(q));
}

/// True if rows are made of whole vectors. Checks that 32 bits count them.
bool has_vector_rows(i64 tokens, i64 ffn) {
  const bool vectors = ffn % 8 == 0;
  check(tokens * ffn / (vectors ? 8 : 1) < i64{1} << 32,
      "a matrix of the FFN has fewer than 2^32 vectors");
  return vectors;
}

/// Offset of value i of a matrix's columns, with `row` values from one row to the next. Vectors are
/// counted in 32 bits here, too.
template <int width>
__device__ i64 column_of(i64 i, i64 columns, i64 row) {
  const auto above = static_cast<unsigned>(i / width) / static_cast<unsigned>(columns / width);
  return i + static_cast<i64>(above) * (row - columns);
}

struct MovedColumns {
  Bf16* to;
  i64 to_row;
  const Bf16* from;
  i64 from_row;
  i64 columns;
};

struct CopyColumns {
  MovedColumns c;

  template <int width>
  __device__ void operator()(i64 i, Width<width>) const {
    store(c.to + column_of<width>(i, c.columns, c.to_row),
        load<width>(c.from + column_of<width>(i, c.columns, c.from_row)));
  }
};

struct AddColumns {
  MovedColumns c;

  template <int width>
  __device__ void operator()(i64 i, Width<width>) const {
    Bf16* to = c.to + column_of<width>(i, c.columns, c.to_row);
    Floats<width> sum = load<width>(to);
    const Floats<width> other = load<width>(c.from + column_of<width>(i, c.columns, c.from_row));
    for (int e = 0; e < width; ++e)
      sum.at[e] += other.at[e];
    store(to, sum);
  }
};

template <typename Move>
void move_columns(const char* name, gpu::Stream stream, const Device::Columns& c) {
  const MovedColumns moved{
      static_cast<Bf16*>(c.to), c.to_row, static_cast<const Bf16*>(c.from), c.from_row, c.width};
  const bool vectors =
      c.width % 8 == 0 && c.to_row % 8 == 0 && c.from_row % 8 == 0 && aligned(moved.to, moved.from);
  check(c.rows * c.width / (vectors ? 8 : 1) < i64{1} << 32,
      "a matrix's columns have fewer than 2^32 vectors");
  for_each<8>(name, stream, c.rows * c.width, vectors, Move{moved});
}

Launch over_values(const char* name, gpu::Stream stream, i64 count) {
  constexpr int threads = 256;
  constexpr i64 most_blocks = 4096;
  return {name, stream, std::min(blocks_for(count, threads), most_blocks), threads};
}

/// The heads of a packed row that turn with their position: those of q and k.
struct Turning {
  Bf16* qkv;
  const float* table;  // a row for each position: cosines of all planes, then sines
  i64 row;             // values from one token to the next
  i64 seq_len;
  i64 first;   // position of a sequence's first token here, and of the first one of its second
  i64 second;  // half, less its number
  int heads;
  int half;  // values; plane i of a head is (i, half + i)
  float sign;
};

/// Angle of a plane at a position: position · 10000^(-2·plane/head_dim), less whole turns. In
/// fp64, because fp32 is out by more than bf16 shows if positions are large.
__device__ float angle_of(i64 position, int plane, int half) {
  constexpr double log2_base = 13.287712379549449;
  constexpr double turn = 6.283185307179586;
  const double angle = static_cast<double>(position) * exp2(-log2_base / half * plane);
  return static_cast<float>(angle - turn * rint(angle * (1.0 / turn)));
}

__global__ void fill_angles(float* table, i64 count, int half) {
  for (i64 i = global_thread(); i < count; i += global_threads()) {
    const i64 position = i / half;
    const int plane = static_cast<int>(i % half);
    const float angle = angle_of(position, plane, half);
    table[position * 2 * half + plane] = cosf(angle);
    table[position * 2 * half + half + plane] = sinf(angle);
  }
}

/// Block per token. All heads read the same angles, which stay in the L1 cache.
template <int width>
__global__ void rotate(Turning t) {
  const i64 token = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const i64 number = token % t.seq_len;
  const i64 position = number + (number < t.seq_len / 2 ? t.first : t.second);
  const float* cosines = t.table + position * 2 * t.half;
  const float* sines = cosines + t.half;
  const int vectors = t.half / width;
  for (int i = thread; i < t.heads * vectors; i += threads) {
    const int plane = i % vectors * width;
    Bf16* place = t.qkv + token * t.row + i / vectors * 2 * t.half + plane;
    Floats<width> x = load<width>(place);
    Floats<width> y = load<width>(place + t.half);
    for (int e = 0; e < width; ++e) {
      const float sine = t.sign * sines[plane + e];
      const float turned = x.at[e] * cosines[plane + e] - y.at[e] * sine;
      y.at[e] = x.at[e] * sine + y.at[e] * cosines[plane + e];
      x.at[e] = turned;
    }
    store(place, x);
    store(place + t.half, y);
  }
}

}  // namespace

void add(gpu::Stream stream, Bf16* y, const Bf16* a, const Bf16* b, i64 count) {
  for_each<8>("add", stream, count, aligned(y, a, b), Add{y, a, b});
}

void accumulate(gpu::Stream stream, float* y, const float* x, i64 count) {
  for_each<4>("accumulate", stream, count, aligned(y, x), AddTo{y, x});
}

void swiglu(gpu::Stream stream, Bf16* y, const Bf16* gate_up, i64 tokens, i64 ffn,
    const Device::Quantization* left) {
  const bool vectors = has_vector_rows(tokens, ffn);
  const Swiglu f{y, gate_up, ffn};
  if (left == nullptr)
    for_each<8>("swiglu", stream, tokens * ffn, vectors, f);
  else
    for_each_to_8_bits("swiglu", stream, tokens * ffn, vectors, f, *left);
}

void swiglu_backward(gpu::Stream stream, Bf16* gate_up, const Bf16* dy, i64 tokens, i64 ffn,
    const Device::Quantization* left) {
  const bool vectors = has_vector_rows(tokens, ffn);
  const SwigluGradient f{gate_up, dy, ffn};
  if (left == nullptr)
    for_each<8>("swiglu_backward", stream, tokens * ffn, vectors, f);
  else if (left->limit == nullptr)
    for_each_to_8_bits("swiglu_backward", stream, tokens * ffn, vectors, f, *left);
  else
    swiglu_backward_to_8_bits(stream, dy, *left);
}

void copy_columns(gpu::Stream stream, const Device::Columns& c) {
  move_columns<CopyColumns>("copy_columns", stream, c);
}

void add_columns(gpu::Stream stream, const Device::Columns& c) {
  move_columns<AddColumns>("add_columns", stream, c);
}

void make_rope_table(gpu::Stream stream, float* table, const AttentionShape& s) {
  const i64 count = rope_table_floats(s) / 2;
  if (count == 0) return;
  launch(fill_angles, over_values("rope_table", stream, count), table, count, s.head_dim / 2);
}

void rope(gpu::Stream stream, Bf16* qkv, const float* table, const AttentionShape& s,
    const Positions& positions, Rotation rotation) {
  const i64 half = s.head_dim / 2;
  const i64 heads = s.heads + s.kv_heads;
  if (s.batch * s.seq_len == 0) return;
  const bool vectors = half % 8 == 0;
  const int threads = block_threads(heads * half / (vectors ? 8 : 1), 256);
  launch(vectors ? rotate<8> : rotate<1>, Launch{"rope", stream, s.batch * s.seq_len, threads},
      Turning{.qkv = qkv,
          .table = table,
          .row = s.row(),
          .seq_len = s.seq_len,
          .first = positions.first,
          .second = positions.second - s.seq_len / 2,
          .heads = static_cast<int>(heads),
          .half = static_cast<int>(half),
          .sign = rotation == Rotation::forward ? 1.0F : -1.0F});
}

}  // namespace shardbench::kernels
