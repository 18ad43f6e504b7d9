// SPDX-License-Identifier: Apache-2.0
// What operations cost, as pure functions.
#include "communication/communicator.hpp"

#include <numeric>

namespace shardbench {
namespace {

// Below this, latency counts more than the bytes that member 0 has to move.
constexpr i64 short_vector_bytes = 8192;

}  // namespace

std::string_view operation_name(Operation operation) {
  constexpr std::array<std::string_view, operation_count> names{
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "send", "receive"};
  return names[static_cast<std::size_t>(operation)];
}

i64 CommCounters::total_sent() const {
  return std::accumulate(sent_bytes.begin(), sent_bytes.end(), i64{0});
}

Span reduced_by(i64 size, i64 index, i64 count, Dtype dtype) {
  if (count * dtype_size(dtype) < short_vector_bytes)
    return index == 0 ? Span{0, count} : Span{count, count};
  return {count * index / size, count * (index + 1) / size};
}

i64 bytes_sent(Operation operation, i64 size, i64 index, i64 count, Dtype dtype) {
  if (size == 1) return 0;
  const i64 bytes = count * dtype_size(dtype);
  switch (operation) {
    case Operation::all_reduce: {
      const i64 own = reduced_by(size, index, count, dtype).count();
      return (count - own + own * (size - 1)) * dtype_size(dtype);
    }
    case Operation::reduce_scatter:
    case Operation::all_gather:
      return bytes * (size - 1);
    case Operation::broadcast:  // index counted from the root
      return index == 0 ? bytes * (size - 1) : 0;
    case Operation::send:
      return bytes;
    case Operation::receive:
      return 0;
  }
  return 0;
}

i64 staging_bytes(Operation operation, i64 size, i64 index, i64 count, Dtype dtype) {
  if (size == 1) return 0;
  if (operation == Operation::all_reduce)
    return reduced_by(size, index, count, dtype).count() * (size - 1) * dtype_size(dtype);
  if (operation == Operation::reduce_scatter) return count * (size - 1) * dtype_size(dtype);
  return 0;
}

void Communicator::count_operation(Operation operation, i64 sent) {
  counters_.calls[static_cast<std::size_t>(operation)] += 1;
  counters_.sent_bytes[static_cast<std::size_t>(operation)] += sent;
}

}  // namespace shardbench
