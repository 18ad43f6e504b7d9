// SPDX-License-Identifier: Apache-2.0
// The emulator finds what a GPU would leave undefined.
#include "cuda/gpu.hpp"
#include "cuda/kernel_language.hpp"
#include "emulated_gpu.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace shardbench;

__global__ void reverse_block(int* values) {
  SHARDBENCH_SHARED(int, copy, 64);
  copy[threadIdx.x] = values[threadIdx.x];
  sync_block();
  values[threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
}

__global__ void sums(float* of_warp, float* of_block, float* largest) {
  const float value = static_cast<float>(threadIdx.x + blockIdx.x);
  of_warp[global_thread()] = warp_sum(value);
  of_block[global_thread()] = block_sum(value);
  largest[global_thread()] = block_max(-value);
}

__global__ void half_waits(int* /*unused*/) {
  if (threadIdx.x < 32) sync_block();
}

__global__ void waits_at_two_places(int* /*unused*/) {
  if (threadIdx.x < 32)  // NOLINT(bugprone-branch-clone): two places
    sync_block();
  else
    sync_block();
}

__global__ void lane_missing(int* values) {
  if (threadIdx.x != 7) values[threadIdx.x] = shuffle_xor(values[threadIdx.x], 1);
}

__global__ void forgets_to_wait(int* values) {
  int* copy = dynamic_shared<int>();
  copy[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
}

/// The first block fills the array, the others find it.
__global__ void relies_on_another_block(float* values) {
  SHARDBENCH_SHARED(float, left, 32);
  values[global_thread()] = left[threadIdx.x];
  left[threadIdx.x] = 1;
}

/// Writes the order in which blocks came.
__global__ void depends_on_order(int* values) {
  if (threadIdx.x == 0) values[1 + values[0]++] = static_cast<int>(blockIdx.x);
}

__global__ void misaligned(float* values) {
  store_vector(values + 1, load_vector(values));
}

/// Messages on stderr of a child process that runs `work`.
template <typename Work>
std::string complaint(Work work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

template <typename T>
std::string complaint_of(void (*kernel)(T*)) {
  T values[64] = {};
  return complaint([&] { launch(kernel, {"wrong", {}, 1, 64}, &values[0]); });
}

}  // namespace

TEST_CASE("threads of a block exchange values through shared memory") {
  int values[64];
  for (int i = 0; i < 64; ++i)
    values[i] = i;
  launch(reverse_block, {"reverse", {}, 1, 64}, &values[0]);
  CHECK(values[0] == 63);
  CHECK(values[63] == 0);
}

TEST_CASE("sums over warp and block reach every thread") {
  float of_warp[192];
  float of_block[192];
  float largest[192];
  launch(sums, {"sums", {}, 2, 96}, &of_warp[0], &of_block[0], &largest[0]);
  CHECK(of_warp[0] == 496);
  CHECK(of_warp[95] == 496 + 64 * 32);
  CHECK(of_block[5] == 95 * 48);
  CHECK(of_block[191] == 95 * 48 + 96);
  CHECK(largest[100] == -1);
}

TEST_CASE("what not every thread reaches is told with the kernel's name") {
  CHECK(complaint_of(half_waits)
            .find("kernel wrong: thread 0 waits for the block at "
                  "test_emulator.cpp:") != std::string::npos);
  CHECK(complaint_of(half_waits).find("thread 32 has returned") != std::string::npos);
  CHECK(complaint_of(waits_at_two_places).find("thread 32 waits for the block at") !=
      std::string::npos);
  CHECK(complaint_of(lane_missing).find("thread 7 has returned") != std::string::npos);
}

TEST_CASE("a result that depends on who is first shows") {
  int values[64];
  for (int& value : values)
    value = 1;
  launch(forgets_to_wait, {"race", {}, 1, 64, sizeof values}, &values[0]);
  int wrong = 0;
  for (const int value : values)
    wrong += value != 1 ? 1 : 0;
  CHECK(wrong > 0);
}

TEST_CASE("what another block left in shared memory is not there") {
  float values[128] = {};
  launch(relies_on_another_block, {"stale", {}, 4, 32}, &values[0]);
  for (const float value : values)
    CHECK(std::isnan(value));
}

TEST_CASE("blocks come in another order each time, all of them") {
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 5; ++i) {
    std::vector<int> came(9);
    launch(depends_on_order, {"order", {}, 8, 32}, came.data());
    orders.insert(came);
    std::sort(came.begin() + 1, came.end());
    CHECK(came == std::vector<int>{8, 0, 1, 2, 3, 4, 5, 6, 7});
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("accesses that the hardware refuses are told") {
  CHECK(complaint_of(misaligned).find("not aligned") != std::string::npos);
}

TEST_CASE("the emulated GPU's memory ends where it is set to") {
  emulator::set_gpu_memory(1000);
  std::byte* first = gpu::allocate(600);
  CHECK(first != nullptr);
  CHECK(gpu::allocate(600) == nullptr);
  CHECK(gpu::memory_state().free_bytes == 400);
  gpu::release(first);
  CHECK(gpu::memory_state().free_bytes == 1000);
}
