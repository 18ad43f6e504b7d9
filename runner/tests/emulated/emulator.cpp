// SPDX-License-Identifier: Apache-2.0
// The fibers behind kernel_emulator.hpp and the order in which they run.
#include "base/counter_random.hpp"
#include "cuda/kernel_language.hpp"
#include "fiber.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace shardbench::emulator {
namespace {

// Most threads of a block, as in the hardware.
constexpr int thread_limit = 1024;
constexpr unsigned yz_limit = 65535;

struct Thread {
  enum class State { ready, at_block, at_warp, ended };

  State state = State::ready;
  Place place;
  WarpOperation operation = nullptr;
  void* operand = nullptr;
};

struct Block {
  std::vector<Thread> threads;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<std::byte> shared;
  i64 shared_bytes = 0;
  u64 number = 0;
  const std::function<void()>* body = nullptr;
  const char* kernel = "none";
  std::size_t current = 0;
  unsigned turns = 0;  // counts what decides the direction in which threads take turns
};

// A process has one: kernels are run by one thread, one after the other.
Block& block() {
  static Block instance;
  return instance;
}

/// The `__shared__` arrays that kernels have come to so far.
std::vector<std::pair<void*, std::size_t>>& static_shared() {
  static std::vector<std::pair<void*, std::size_t>> arrays;
  return arrays;
}

std::string place_name(const Place& place) {
  const std::string file = place.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line);
}

std::string where(std::size_t thread) {
  const Thread& t = block().threads[thread];
  const std::string name = "thread " + std::to_string(thread);
  switch (t.state) {
    case Thread::State::ended:
      return name + " has returned";
    case Thread::State::at_block:
      return name + " waits for the block at " + place_name(t.place);
    default:
      return name + " waits for the warp at " + place_name(t.place);
  }
}

bool same_wait(const Thread& a, const Thread& b) {
  return a.state == b.state && a.operation == b.operation && a.place.line == b.place.line &&
      std::strcmp(a.place.file, b.place.file) == 0;
}

/// Requires threads [first, last) to wait in one operation, at one place.
void require_together(std::size_t first, std::size_t last) {
  for (std::size_t i = first + 1; i < last; ++i)
    if (!same_wait(block().threads[first], block().threads[i]))
      fail_kernel(where(first) + ", " + where(i));
}

void thread_main() {
  Block& b = block();
  for (;;) {
    (*b.body)();
    b.threads[b.current] = {Thread::State::ended, {}, nullptr, nullptr};
    b.fibers[b.current]->leave();
  }
}

/// Lets every ready thread of [first, last) run until it waits or ends.
void take_turns(std::size_t first, std::size_t last) {
  Block& b = block();
  const bool backwards = b.turns++ % 2 == 1;
  for (std::size_t i = 0; i < last - first; ++i) {
    b.current = backwards ? last - 1 - i : first + i;
    if (b.threads[b.current].state != Thread::State::ready) continue;
    threadIdx = {static_cast<unsigned>(b.current)};
    b.fibers[b.current]->enter();
  }
}

void perform(std::size_t first) {
  Block& b = block();
  std::array<void*, warp_size> operands{};
  for (std::size_t lane = 0; lane < warp_size; ++lane)
    operands[lane] = b.threads[first + lane].operand;
  b.threads[first].operation(operands.data());
  for (std::size_t lane = 0; lane < warp_size; ++lane)
    b.threads[first + lane].state = Thread::State::ready;
}

/// Runs a warp until all lanes have ended or wait for the block.
void run_warp(std::size_t first) {
  const auto waits = [&](std::size_t i) {
    return block().threads[i].state == Thread::State::at_warp;
  };
  for (;;) {
    take_turns(first, first + warp_size);
    bool any = false;
    for (std::size_t i = first; i < first + warp_size; ++i)
      any = any || waits(i);
    if (!any) return;
    require_together(first, first + warp_size);
    perform(first);
  }
}

void run_block() {
  Block& b = block();
  ++b.number;
  std::fill(b.shared.begin(), b.shared.end(), std::byte{0xff});
  for (const auto& [data, bytes] : static_shared())
    std::memset(data, 0xff, bytes);
  for (Thread& thread : b.threads)
    thread.state = Thread::State::ready;
  const std::size_t count = b.threads.size();
  for (;;) {
    const bool backwards = b.turns++ % 2 == 1;
    for (std::size_t i = 0; i < count; i += warp_size)
      run_warp(backwards ? count - warp_size - i : i);
    require_together(0, count);
    if (b.threads[0].state == Thread::State::ended) return;
    for (Thread& thread : b.threads)
      thread.state = Thread::State::ready;
  }
}

void wait(Thread::State state, WarpOperation operation, void* operand, const Place& place) {
  Block& b = block();
  Thread& thread = b.threads[b.current];
  thread = {state, place, operation, operand};
  b.fibers[b.current]->leave();
}

/// Shuffles blocks anew in each launch: the order in which a GPU takes blocks is unknown.
void shuffle(std::vector<Index>& blocks) {
  static u64 launches = 0;
  const u64 launch = ++launches;
  for (std::size_t i = blocks.size(); i > 1; --i)
    std::swap(blocks[i - 1], blocks[mix(launch, i) % i]);
}

void check_shape(const Launch& shape) {
  if (shape.threads <= 0 || shape.threads > thread_limit || shape.threads % warp_size != 0)
    fail_kernel(std::to_string(shape.threads) + " threads are not whole warps of a block");
  if (shape.blocks.x == 0 || shape.blocks.y == 0 || shape.blocks.z == 0 ||
      shape.blocks.y > yz_limit || shape.blocks.z > yz_limit)
    fail_kernel("a grid that the hardware has not");
  if (shape.shared_bytes < 0 || shape.shared_bytes > gpu::most_shared_bytes())
    fail_kernel("more shared memory than a block can have");
}

}  // namespace

void run(const Launch& shape, const std::function<void()>& thread) {
  Block& b = block();
  b.kernel = shape.name;
  check_shape(shape);
  const std::size_t threads = static_cast<std::size_t>(shape.threads);
  b.threads.assign(threads, Thread{});
  while (b.fibers.size() < threads)
    b.fibers.push_back(std::make_unique<Fiber>(thread_main));
  // The alignment that dynamic_shared() promises, by 128 bytes more than asked for.
  b.shared.resize(static_cast<std::size_t>(shape.shared_bytes) + 128);
  b.shared_bytes = shape.shared_bytes;
  b.body = &thread;
  blockDim = {static_cast<unsigned>(shape.threads), 1, 1};
  gridDim = {shape.blocks.x, shape.blocks.y, shape.blocks.z};
  std::vector<Index> blocks;
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x)
        blocks.push_back({x, y, z});
  shuffle(blocks);
  for (const Index& index : blocks) {
    blockIdx = index;
    run_block();
  }
}

SharedArray::SharedArray(void* data, std::size_t bytes) {
  static_shared().emplace_back(data, bytes);
  std::memset(data, 0xff, bytes);
}

void wait_for_block(const Place& place) {
  wait(Thread::State::at_block, nullptr, nullptr, place);
}

void wait_for_warp(WarpOperation operation, void* operand, const Place& place) {
  wait(Thread::State::at_warp, operation, operand, place);
}

std::byte* shared_memory() {
  void* start = block().shared.data();
  std::size_t space = block().shared.size();
  return static_cast<std::byte*>(std::align(128, 0, start, space));
}

i64 shared_bytes() {
  return block().shared_bytes;
}

u64 block_number() {
  return block().number;
}

void fail_kernel(const std::string& message) {
  fail(ErrorClass::internal, std::string("kernel ") + block().kernel + ": " + message);
}

void Vote::perform(void* const* operands) {
  bool any = false;
  for (int lane = 0; lane < warp_size; ++lane)
    any = any || static_cast<Vote*>(operands[lane])->value;
  for (int lane = 0; lane < warp_size; ++lane)
    static_cast<Vote*>(operands[lane])->any = any;
}

}  // namespace shardbench::emulator
