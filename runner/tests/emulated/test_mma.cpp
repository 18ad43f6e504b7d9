// SPDX-License-Identifier: Apache-2.0
// Tensor-core products and asynchronous copies as the emulator does them, and what kernels
// build on them.
#include "cuda/attention_kernels.hpp"
#include "cuda/attention_tiles.hpp"
#include "emulated_gpu.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <set>
#include <vector>

namespace {

using namespace shardbench;

constexpr int tile_rows = 16;
constexpr int tile_values = tile_rows * 16;

/// c[16, 16] = a[16, 16] · b, by way of shared memory; b is [n, k], or [k, n] if transposed.
template <bool a_transposed, bool b_transposed>
__global__ void multiply_tiles(float* c, const Bf16* a, const Bf16* b) {
  Bf16* a_tile = dynamic_shared<Bf16>();
  Bf16* b_tile = a_tile + tile_values;
  load_tile<16, tile_rows, warp_size>(a_tile, a, 16, tile_rows);
  load_tile<16, tile_rows, warp_size>(b_tile, b, 16, tile_rows);
  end_copy_group();
  wait_for_copies<0>();
  sync_block();
  Fragment left;
  Fragment right;
  if (a_transposed)
    load_a_transposed<16>(left, a_tile, beside_first<16>(), 0, 0);
  else
    load_a<16>(left, a_tile, below_first<16>(), 0, 0);
  if (b_transposed)
    load_b_transposed<16>(right, b_tile, below_first<16>(), 0, 0);
  else
    load_b<16>(right, b_tile, beside_first<16>(), 0, 0);
  float sums[2][4] = {};
  multiply_add(sums[0], left, right[0], right[1]);
  multiply_add(sums[1], left, right[2], right[3]);
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i) {
      const int row = lane_index() / 4 + i / 2 * 8;
      c[row * 16 + 8 * n + lane_index() % 4 * 2 + i % 2] = sums[n][i];
    }
}

/// Small whole numbers, which bf16 holds.
std::vector<Bf16> numbers(int stride) {
  std::vector<Bf16> values(tile_values);
  int next = 0;
  for (Bf16& value : values)
    value = to_bf16(static_cast<float>((next += stride) % 13 - 6));
  return values;
}

template <bool a_transposed, bool b_transposed>
int wrong_products() {
  const std::vector<Bf16> a = numbers(5);
  const std::vector<Bf16> b = numbers(7);
  std::vector<float> c(tile_values);
  launch(multiply_tiles<a_transposed, b_transposed>, {"products", {}, 1, 32, 1024}, c.data(),
      a.data(), b.data());
  int wrong = 0;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k)
        sum += to_float(a[a_transposed ? k * 16 + i : i * 16 + k]) *
            to_float(b[b_transposed ? k * 16 + j : j * 16 + k]);
      wrong += c[i * 16 + j] == sum ? 0 : 1;
    }
  return wrong;
}

__global__ void reads_too_early(float* value, const Bf16* from) {
  Bf16* tile = dynamic_shared<Bf16>();
  if (threadIdx.x == 0) {
    copy_async(tile, from, true);
    end_copy_group();
    value[0] = widen(tile[0]);
    wait_for_copies<0>();
    value[1] = widen(tile[0]);
  }
}

template <int dim>
std::size_t places_of_chunks(int rows) {
  std::set<int> places;
  for (int row = 0; row < rows; ++row)
    for (int chunk = 0; chunk < dim / chunk_values; ++chunk)
      places.insert(tile_offset<dim>(row, chunk));
  CHECK(*places.begin() == 0);
  CHECK(*places.rbegin() == rows * dim - chunk_values);
  return places.size();
}

/// Forward and backward of zeros.
void run_attention(i64 head_dim) {
  const AttentionShape s{1, 130, 2, 1, head_dim};
  const auto values = static_cast<std::size_t>(s.seq_len * s.row());
  // Each operand as whole floats of twice the size: aligned as the kernels want it.
  using Operand = std::vector<float>;
  Operand qkv(values), out(values), dqkv(values), dout(values), lse(values);
  Operand workspace(static_cast<std::size_t>(gpu_attention_workspace_bytes(s)) / 4);
  const auto bf16 = [](Operand& operand) { return reinterpret_cast<Bf16*>(operand.data()); };
  kernels::tiled_attention({}, bf16(out), lse.data(), bf16(qkv), s);
  kernels::tiled_attention_backward(
      {}, {bf16(dqkv), bf16(dout), bf16(qkv), bf16(out), lse.data(), workspace.data()}, s);
}

}  // namespace

TEST_CASE("tensor cores multiply tiles in all four orders of storage") {
  CHECK(wrong_products<false, false>() == 0);
  CHECK(wrong_products<false, true>() == 0);
  CHECK(wrong_products<true, false>() == 0);
  CHECK(wrong_products<true, true>() == 0);
}

TEST_CASE("an asynchronous copy that is not waited for shows") {
  const std::vector<Bf16> values(8, to_bf16(3));
  float seen[2] = {};
  launch(reads_too_early, {"early", {}, 1, 32, 16}, &seen[0], values.data());
  CHECK(std::isnan(seen[0]));
  CHECK(seen[1] == 3);
}

TEST_CASE("attention's backward fits the shared memory of every GPU it is built for") {
  constexpr i64 of_8_6 = 99 << 10;
  constexpr i64 of_8_0 = 163 << 10;
  emulator::set_shared_memory(of_8_6);
  emulator::take_bank_conflicts();
  for (const i64 head_dim : {16, 32, 64, 128})
    run_attention(head_dim);
  CHECK(emulator::take_bank_conflicts() == 0);
  emulator::set_shared_memory(of_8_0);
}

TEST_CASE("a tile holds every chunk once, and rows of one load lie in different banks") {
  CHECK(places_of_chunks<16>(64) == 128);
  CHECK(places_of_chunks<32>(64) == 256);
  CHECK(places_of_chunks<64>(64) == 512);
  CHECK(places_of_chunks<128>(64) == 1024);
  emulator::take_bank_conflicts();
  for (const i64 head_dim : {16, 32, 64, 128}) {
    run_attention(head_dim);
    CHECK(emulator::take_bank_conflicts() == 0);
  }
}
