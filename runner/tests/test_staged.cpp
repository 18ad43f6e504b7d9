// SPDX-License-Identifier: Apache-2.0
// The staged communicator does what the sockets do, on a device's memory; and what the sockets
// add up is the sum that one process computes. Eight processes run every operation in groups of
// one to eight, and leave what went wrong in shared memory.
#include "base/counter_random.hpp"
#include "communication/socket_communicator.hpp"
#include "communication/staged_communicator.hpp"
#include "device/bf16.hpp"
#include "device/cpu_device.hpp"
#include "rank_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace shardbench;

namespace {

constexpr double limit_s = 600.0;

using Bytes = std::vector<std::byte>;

struct Shape {
  i64 size;
  i64 count;
  Dtype dtype;
};

/// Element `index` of what `rank` brings; of both signs, with digits that rounding loses.
double brought(i64 rank, i64 index) {
  const u64 bits = mix(static_cast<u64>(rank) + 1, static_cast<u64>(index));
  return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-62;
}

template <typename T>
T as(double value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

double as_double(Bf16 value) {
  return static_cast<double>(to_float(value));
}
double as_double(float value) {
  return static_cast<double>(value);
}
double as_double(double value) {
  return value;
}

template <typename T>
Bytes brought_bytes(i64 rank, i64 count) {
  Bytes bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (i64 i = 0; i < count; ++i) {
    const T value = as<T>(brought(rank, i));
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

Bytes brought_bytes(i64 rank, i64 count, Dtype dtype) {
  if (dtype == Dtype::bf16) return brought_bytes<Bf16>(rank, count);
  return dtype == Dtype::fp32 ? brought_bytes<float>(rank, count)
                              : brought_bytes<double>(rank, count);
}

/// Sum or maximum over the ranks of element `index`, rounded as the format is: bf16 once, at
/// the end.
template <typename T>
T expected(const Shape& s, i64 index, Reduction reduction) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto of = [&](i64 rank) {
    return static_cast<Wide>(as_double(as<T>(brought(rank, index))));
  };
  Wide value = of(0);
  for (i64 rank = 1; rank < s.size; ++rank)
    value = reduction == Reduction::sum ? value + of(rank) : std::max(value, of(rank));
  return as<T>(static_cast<double>(value));
}

template <typename T>
Bytes expected_bytes(const Shape& s, i64 first, i64 count, Reduction reduction) {
  Bytes bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (i64 i = 0; i < count; ++i) {
    const T value = expected<T>(s, first + i, reduction);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

Bytes expected_bytes(const Shape& s, i64 first, i64 count, Reduction reduction) {
  if (s.dtype == Dtype::bf16) return expected_bytes<Bf16>(s, first, count, reduction);
  return s.dtype == Dtype::fp32 ? expected_bytes<float>(s, first, count, reduction)
                                : expected_bytes<double>(s, first, count, reduction);
}

/// One rank's part of every operation, with several under way at a time.
class Exercise {
 public:
  Exercise(Communicator& group, Device& device, Memory& memory, const Shape& shape)
      : group_(group), device_(device), memory_(memory), s_(shape) {}

  /// Results of each operation, in order.
  std::vector<Bytes> run() {
    const i64 own = group_.rank();
    const i64 all = s_.size * s_.count;
    Block sum = input(own, s_.count);
    Block most = input(own, s_.count);
    Block scattered = input(own, all);
    Block part = output(s_.count);
    Block scattered_in_place = input(own, all);
    Block piece = input(own, s_.count);
    Block gathered = output(all);
    Block gathered_in_place = output(all);
    Block told = input(own, s_.count);
    device_.copy(own_part(gathered_in_place), piece.data(), bytes(s_.count));
    const std::vector<Token> tokens{
        group_.all_reduce(sum.data(), s_.count, s_.dtype, Reduction::sum),
        group_.all_reduce(most.data(), s_.count, s_.dtype, Reduction::max),
        group_.reduce_scatter(scattered.data(), part.data(), s_.count, s_.dtype),
        group_.reduce_scatter(
            scattered_in_place.data(), own_part(scattered_in_place), s_.count, s_.dtype),
        group_.all_gather(piece.data(), gathered.data(), s_.count, s_.dtype),
        group_.all_gather(
            own_part(gathered_in_place), gathered_in_place.data(), s_.count, s_.dtype),
        group_.broadcast(told.data(), s_.count, s_.dtype, s_.size - 1)};
    for (std::size_t i = tokens.size(); i-- > 0;)
      group_.wait(tokens[i]);
    group_.wait(tokens.front());  // the operation has ended before
    return {read(sum.data(), s_.count), read(most.data(), s_.count), read(part.data(), s_.count),
        read(own_part(scattered_in_place), s_.count), read(gathered.data(), all),
        read(gathered_in_place.data(), all), read(told.data(), s_.count), around_the_ring()};
  }

 private:
  /// To the next member and from the previous one, two messages each way.
  Bytes around_the_ring() {
    if (s_.size == 1) return {};
    const i64 next = (group_.rank() + 1) % s_.size;
    const i64 previous = (group_.rank() + s_.size - 1) % s_.size;
    Block first = input(group_.rank(), s_.count);
    Block second = input(group_.rank() + s_.size, s_.count);
    Block from_first = output(s_.count);
    Block from_second = output(s_.count);
    const std::vector<Token> tokens{group_.receive(from_first.data(), s_.count, s_.dtype, previous),
        group_.receive(from_second.data(), s_.count, s_.dtype, previous),
        group_.send(first.data(), s_.count, s_.dtype, next),
        group_.send(second.data(), s_.count, s_.dtype, next)};
    for (const Token token : tokens)
      group_.wait(token);
    Bytes both = read(from_first.data(), s_.count);
    const Bytes more = read(from_second.data(), s_.count);
    both.insert(both.end(), more.begin(), more.end());
    return both;
  }

  i64 bytes(i64 count) const { return count * dtype_size(s_.dtype); }
  std::byte* own_part(Block& block) const { return block.data() + group_.rank() * bytes(s_.count); }
  Block input(i64 rank, i64 count) {
    Block block = output(count);
    const Bytes host = brought_bytes(rank, count, s_.dtype);
    if (count > 0) device_.upload(block.data(), host.data(), bytes(count));
    return block;
  }
  Block output(i64 count) {
    Block block = memory_.allocate(MemoryClass::workspace, bytes(count), "test");
    device_.zero(block.data(), block.bytes());
    return block;
  }
  Bytes read(const void* data, i64 count) {
    Bytes host(static_cast<std::size_t>(bytes(count)));
    if (count > 0) device_.download(host.data(), data, bytes(count));
    return host;
  }

  Communicator& group_;
  Device& device_;
  Memory& memory_;
  Shape s_;
};

std::vector<Bytes> expected_results(const Shape& s, i64 rank) {
  Bytes gathered;
  for (i64 member = 0; member < s.size; ++member) {
    const Bytes piece = brought_bytes(member, s.count, s.dtype);
    gathered.insert(gathered.end(), piece.begin(), piece.end());
  }
  const Bytes part = expected_bytes(s, rank * s.count, s.count, Reduction::sum);
  const i64 previous = (rank + s.size - 1) % s.size;
  Bytes ring;
  for (const i64 sender : {previous, previous + s.size}) {
    const Bytes message = brought_bytes(sender, s.count, s.dtype);
    if (s.size > 1) ring.insert(ring.end(), message.begin(), message.end());
  }
  return {expected_bytes(s, 0, s.count, Reduction::sum),
      expected_bytes(s, 0, s.count, Reduction::max), part, part, gathered, gathered,
      brought_bytes(s.size - 1, s.count, s.dtype), ring};
}

/// First mistake that a rank has found; empty: none.
using Complaint = char[256];

void complain(Complaint& complaint, const Shape& s, const char* what, std::size_t operation) {
  if (complaint[0] != '\0') return;
  std::snprintf(complaint, sizeof(Complaint), "%s, operation %zu: %lld ranks, %lld of %s", what,
      operation, static_cast<long long>(s.size), static_cast<long long>(s.count),
      std::string(dtype_name(s.dtype)).c_str());
}

void exercise_group(Mesh& mesh, const Shape& s, u64 first_id, Complaint& complaint) {
  const auto device = make_cpu_device(Dtype::fp32);
  Memory memory(*device, std::nullopt);
  Memory host(*device, std::nullopt);
  std::vector<i64> members(static_cast<std::size_t>(s.size));
  for (i64 i = 0; i < s.size; ++i)
    members[static_cast<std::size_t>(i)] = i;
  SocketCommunicator direct(mesh, memory, {"direct", first_id, members}, limit_s);
  StagedCommunicator staged(std::make_unique<SocketCommunicator>(
                                mesh, host, Group{"staged", first_id + 1, members}, limit_s),
      *device, host);
  const std::vector<Bytes> want = expected_results(s, mesh.rank());
  const std::vector<Bytes> by_sockets = Exercise(direct, *device, memory, s).run();
  const std::vector<Bytes> by_copies = Exercise(staged, *device, memory, s).run();
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (by_sockets[i] != want[i]) complain(complaint, s, "sockets are wrong", i);
    if (by_copies[i] != want[i]) complain(complaint, s, "staged is wrong", i);
  }
  if (!(direct.counters() == staged.counters())) complain(complaint, s, "counters differ", 0);
  if (host.in_use_bytes() != 0) complain(complaint, s, "host blocks were left", 0);
  if (s.size > 1 && s.count > 0 && (staged.waited_s() <= 0 || host.peak_bytes() == 0))
    complain(complaint, s, "nothing was staged", 0);
}

}  // namespace

TEST_CASE("a staged communicator does what the sockets do and the sums are right") {
  auto* complaints = static_cast<Complaint*>(shared_memory(pool_ranks * sizeof(Complaint)));
  const bool lived = run_in_pool([&](Mesh& mesh) {
    u64 next_id = 1;
    for (const i64 size : {1, 2, 3, 5, 8})
      // Summed by member 0 alone, by each its part, and longer than what a socket takes at
      // once.
      for (const i64 count : {0, 1, 7, 5003, 200003})
        for (const Dtype dtype : {Dtype::bf16, Dtype::fp32, Dtype::fp64}) {
          const bool quick = count < 10000 || (size == 2 && dtype == Dtype::bf16);
          if (mesh.rank() < size && quick)
            exercise_group(mesh, {size, count, dtype}, next_id, complaints[mesh.rank()]);
          next_id += 2;
        }
  });
  CHECK(lived);
  for (i64 rank = 0; rank < pool_ranks; ++rank)
    CHECK(std::string(complaints[rank]) == "");
}
