// SPDX-License-Identifier: Apache-2.0
// The layouts are those that cuda/mma.hpp names.
#include "cuda/mma.hpp"

#include <utility>
#include <vector>

namespace shardbench::emulator {
namespace {

constexpr int rows_of_matrix = 8;
constexpr std::uintptr_t row_bytes = 16;
// 32 banks of 4 bytes are 8 rows of 16 bytes.
constexpr std::uintptr_t row_banks = 8;

i64 bank_conflicts = 0;

struct Copy {
  void* to;
  const void* from;
  bool valid;
};

/// Copies of one thread of the block: groups that have ended, and the one that has not.
struct Copies {
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;
};

// Copies by number of thread. A block's copies are cleared before another block can see them.
Copies& copies() {
  static std::vector<Copies> all;
  static u64 block = 0;
  if (std::exchange(block, block_number()) != block_number()) all.clear();
  if (all.size() < blockDim.x) all.resize(blockDim.x);
  return all[threadIdx.x];
}

void check_shared(const void* data) {
  check_aligned(data, row_bytes);
  const auto* start = static_cast<const std::byte*>(data);
  if (start < shared_memory() || start + row_bytes > shared_memory() + shared_bytes())
    fail_kernel("16 bytes that are not within the block's shared memory");
}

void count_conflicts(const std::array<const Bf16*, rows_of_matrix>& rows) {
  unsigned banks = 0;
  for (const Bf16* row : rows)
    banks |= 1U << reinterpret_cast<std::uintptr_t>(row) / row_bytes % row_banks;
  if (banks != 0xffU) ++bank_conflicts;
}

void copy_now(const Copy& copy) {
  if (copy.valid)
    std::memcpy(copy.to, copy.from, row_bytes);
  else
    std::memset(copy.to, 0, row_bytes);
}

}  // namespace

void MultiplyAdd::perform(void* const* operands) {
  float a[16][16];
  float b[16][8];
  for (int lane = 0; lane < warp_size; ++lane) {
    const auto& own = *static_cast<const MultiplyAdd*>(operands[lane]);
    const int g = lane / 4;
    const int t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8;
      const int column = 2 * t + i / 2 * 8;
      a[row][column] = low_half(own.a[i]);
      a[row][column + 1] = high_half(own.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + i * 8][g] = low_half(own.b[static_cast<std::size_t>(i)]);
      b[2 * t + i * 8 + 1][g] = high_half(own.b[static_cast<std::size_t>(i)]);
    }
  }
  float c[16][8] = {};
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 8; ++j)
        c[i][j] += a[i][k] * b[k][j];
  for (int lane = 0; lane < warp_size; ++lane) {
    const auto& own = *static_cast<const MultiplyAdd*>(operands[lane]);
    for (int i = 0; i < 4; ++i)
      own.c[i] += c[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
  }
}

void LoadMatrices::perform(void* const* operands) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::array<const Bf16*, rows_of_matrix> rows{};
    for (int i = 0; i < rows_of_matrix; ++i) {
      const Bf16* row =
          static_cast<const LoadMatrices*>(operands[matrix * rows_of_matrix + i])->row;
      check_shared(row);
      rows[static_cast<std::size_t>(i)] = row;
    }
    count_conflicts(rows);
    for (int lane = 0; lane < warp_size; ++lane) {
      const auto& own = *static_cast<const LoadMatrices*>(operands[lane]);
      const auto g = static_cast<std::size_t>(lane / 4);
      const auto t = static_cast<std::size_t>(lane % 4);
      const Bf16 first = own.transposed ? rows[2 * t][g] : rows[g][2 * t];
      const Bf16 second = own.transposed ? rows[2 * t + 1][g] : rows[g][2 * t + 1];
      own.to[matrix] = static_cast<std::uint32_t>(second.bits) << 16 | first.bits;
    }
  }
}

void copy_later(void* to, const void* from, bool valid) {
  check_shared(to);
  check_aligned(from, row_bytes);
  std::memset(to, 0xff, row_bytes);
  copies().open.push_back({to, from, valid});
}

void end_copy_group() {
  Copies& own = copies();
  own.groups.push_back(std::exchange(own.open, {}));
}

void wait_for_copies(int pending) {
  auto& groups = copies().groups;
  while (groups.size() > static_cast<std::size_t>(pending)) {
    for (const Copy& copy : groups.front())
      copy_now(copy);
    groups.erase(groups.begin());
  }
}

i64 take_bank_conflicts() {
  return std::exchange(bank_conflicts, 0);
}

}  // namespace shardbench::emulator
