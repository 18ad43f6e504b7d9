// SPDX-License-Identifier: Apache-2.0
// Each reduction is two stages at most: parts to the members that sum them, sums to everyone.
#include "communication/socket_communicator.hpp"

#include "base/error.hpp"
#include "device/bf16.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace shardbench {
namespace {

// Key: group id (23 bits), one bit for point-to-point, sequence number (39 bits), stage (1
// bit).
constexpr int sequence_shift = 1;
constexpr int kind_shift = 40;
constexpr int group_shift = 41;

float widened(Bf16 value) {
  return to_float(value);
}
template <typename T>
T widened(T value) {
  return value;
}

/// bf16 is added up in float and rounded once.
template <typename T>
void reduce_typed(
    std::byte* out, const std::vector<const std::byte*>& parts, i64 count, Reduction reduction) {
  T* sum = reinterpret_cast<T*>(out);
  for (i64 i = 0; i < count; ++i) {
    auto value = widened(reinterpret_cast<const T*>(parts[0])[i]);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const auto next = widened(reinterpret_cast<const T*>(parts[p])[i]);
      value = reduction == Reduction::sum ? value + next : std::max(value, next);
    }
    if constexpr (std::is_same_v<T, Bf16>)
      sum[i] = to_bf16(value);
    else
      sum[i] = value;
  }
}

void reduce(std::byte* out, const std::vector<const std::byte*>& parts, i64 count, Dtype dtype,
    Reduction reduction) {
  if (dtype == Dtype::bf16)
    reduce_typed<Bf16>(out, parts, count, reduction);
  else if (dtype == Dtype::fp32)
    reduce_typed<float>(out, parts, count, reduction);
  else
    reduce_typed<double>(out, parts, count, reduction);
}

}  // namespace

SocketCommunicator::SocketCommunicator(
    Mesh& mesh, Memory& memory, Group group, double limit_s, FlightRecorder* recorder)
    : mesh_(mesh),
      memory_(memory),
      group_(std::move(group)),
      limit_s_(limit_s),
      recorder_(recorder) {
  const auto self = std::find(group_.members.begin(), group_.members.end(), mesh.rank());
  check(self != group_.members.end(), "a rank is a member of its groups");
  index_ = self - group_.members.begin();
  listener_ = mesh_.add_listener([this] { advance_all(); });
}

SocketCommunicator::~SocketCommunicator() {
  mesh_.remove_listener(listener_);
}

u64 SocketCommunicator::next_key(RunningOperation& op, i64 bytes) {
  const u64 sequence = sequence_++;
  if (recorder_ != nullptr)
    op.recorded = recorder_->entered(group_, op.operation, sequence, bytes, -1);
  return group_.id << group_shift | sequence << sequence_shift;
}

u64 SocketCommunicator::message_key(RunningOperation& op, u64 sequence, i64 peer) {
  if (recorder_ != nullptr)
    op.recorded = recorder_->entered(
        group_, op.operation, sequence, op.count * dtype_size(op.dtype), member(peer));
  return group_.id << group_shift | u64{1} << kind_shift | sequence << sequence_shift;
}

SocketCommunicator::RunningOperation& SocketCommunicator::start(
    Operation operation, i64 count, Dtype dtype) {
  RunningOperation& op = started_[++last_token_];
  op.operation = operation;
  op.count = count;
  op.dtype = dtype;
  const i64 staging = staging_bytes(operation, size(), index_, count, dtype);
  if (staging > 0)
    op.staging = memory_.allocate(MemoryClass::communication, staging, operation_name(operation));
  return op;
}

void SocketCommunicator::scatter_parts(RunningOperation& op, const std::byte* in, bool uneven) {
  const i64 element = dtype_size(op.dtype);
  const auto part = [&](i64 i) {
    return uneven ? reduced_by(size(), i, op.count, op.dtype)
                  : Span{i * op.count, (i + 1) * op.count};
  };
  const i64 own_bytes = part(index_).count() * element;
  i64 slot = 0;
  for (i64 i = 0; i < size(); ++i) {
    if (i == index_) continue;
    if (own_bytes > 0) {
      ++op.pending;
      mesh_.receive(
          member(i), op.key, op.staging.data() + slot++ * own_bytes, own_bytes, op.pending);
    }
    if (part(i).count() == 0) continue;
    ++op.pending;
    mesh_.send(
        member(i), op.key, in + part(i).first * element, part(i).count() * element, op.pending);
  }
  op.own = in + part(index_).first * element;
}

Token SocketCommunicator::all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) {
  count_operation(
      Operation::all_reduce, bytes_sent(Operation::all_reduce, size(), index_, count, dtype));
  if (size() == 1 || count == 0) return 0;
  RunningOperation& op = start(Operation::all_reduce, count, dtype);
  op.key = next_key(op, count * dtype_size(dtype));
  op.data = static_cast<std::byte*>(data);
  op.reduction = reduction;
  op.last_stage = false;
  scatter_parts(op, op.data, true);
  return last_token_;
}

Token SocketCommunicator::reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(Operation::reduce_scatter,
      bytes_sent(Operation::reduce_scatter, size(), index_, count, dtype));
  if (size() == 1) {
    if (in != out) std::memcpy(out, in, static_cast<std::size_t>(count * dtype_size(dtype)));
    return 0;
  }
  if (count == 0) return 0;
  RunningOperation& op = start(Operation::reduce_scatter, count, dtype);
  op.key = next_key(op, count * dtype_size(dtype));
  op.data = static_cast<std::byte*>(out);
  op.last_stage = false;
  scatter_parts(op, static_cast<const std::byte*>(in), false);
  return last_token_;
}

/// The parts of this rank's span in rank order become their sum.
void SocketCommunicator::end_reduction(RunningOperation& op) {
  const Span span = op.operation == Operation::all_reduce
      ? reduced_by(size(), index_, op.count, op.dtype)
      : Span{0, op.count};
  if (span.count() == 0) return;
  const i64 element = dtype_size(op.dtype);
  std::vector<const std::byte*> parts;
  i64 slot = 0;
  for (i64 i = 0; i < size(); ++i)
    parts.push_back(i == index_ ? op.own : op.staging.data() + slot++ * span.count() * element);
  std::byte* out = op.operation == Operation::all_reduce ? op.data + span.first * element : op.data;
  reduce(out, parts, span.count(), op.dtype, op.reduction);
}

void SocketCommunicator::advance(RunningOperation& op) {
  if (op.pending > 0 || op.last_stage) return;
  op.last_stage = true;
  end_reduction(op);
  if (op.operation == Operation::reduce_scatter) return;
  const i64 element = dtype_size(op.dtype);
  for (i64 i = 0; i < size(); ++i) {
    if (i == index_) continue;
    const Span theirs = reduced_by(size(), i, op.count, op.dtype);
    const Span mine = reduced_by(size(), index_, op.count, op.dtype);
    const u64 key = op.key | 1;
    if (theirs.count() > 0) {
      ++op.pending;
      mesh_.receive(
          member(i), key, op.data + theirs.first * element, theirs.count() * element, op.pending);
    }
    if (mine.count() > 0) {
      ++op.pending;
      mesh_.send(
          member(i), key, op.data + mine.first * element, mine.count() * element, op.pending);
    }
  }
}

Token SocketCommunicator::all_gather(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(
      Operation::all_gather, bytes_sent(Operation::all_gather, size(), index_, count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  std::byte* mine = static_cast<std::byte*>(out) + index_ * bytes;
  if (mine != in && bytes > 0) std::memcpy(mine, in, static_cast<std::size_t>(bytes));
  if (size() == 1 || count == 0) return 0;
  RunningOperation& op = start(Operation::all_gather, count, dtype);
  op.key = next_key(op, count * dtype_size(dtype));
  for (i64 i = 0; i < size(); ++i) {
    if (i == index_) continue;
    op.pending += 2;
    mesh_.receive(member(i), op.key, static_cast<std::byte*>(out) + i * bytes, bytes, op.pending);
    mesh_.send(member(i), op.key, mine, bytes, op.pending);
  }
  return last_token_;
}

Token SocketCommunicator::broadcast(void* data, i64 count, Dtype dtype, i64 root) {
  const i64 from_root = (index_ - root + size()) % size();
  count_operation(
      Operation::broadcast, bytes_sent(Operation::broadcast, size(), from_root, count, dtype));
  if (size() == 1 || count == 0) return 0;
  RunningOperation& op = start(Operation::broadcast, count, dtype);
  op.key = next_key(op, count * dtype_size(dtype));
  const i64 bytes = count * dtype_size(dtype);
  if (index_ != root) {
    op.pending = 1;
    mesh_.receive(member(root), op.key, data, bytes, op.pending);
    return last_token_;
  }
  for (i64 i = 0; i < size(); ++i) {
    if (i == index_) continue;
    ++op.pending;
    mesh_.send(member(i), op.key, data, bytes, op.pending);
  }
  return last_token_;
}

Token SocketCommunicator::send(const void* data, i64 count, Dtype dtype, i64 to) {
  count_operation(Operation::send, bytes_sent(Operation::send, size(), index_, count, dtype));
  RunningOperation& op = start(Operation::send, count, dtype);
  op.key = message_key(op, sent_to_[to]++, to);
  op.pending = 1;
  mesh_.send(member(to), op.key, data, count * dtype_size(dtype), op.pending);
  return last_token_;
}

Token SocketCommunicator::receive(void* data, i64 count, Dtype dtype, i64 from) {
  count_operation(Operation::receive, 0);
  RunningOperation& op = start(Operation::receive, count, dtype);
  op.key = message_key(op, received_from_[from]++, from);
  op.pending = 1;
  mesh_.receive(member(from), op.key, data, count * dtype_size(dtype), op.pending);
  return last_token_;
}

void SocketCommunicator::advance_all() {
  for (auto& [token, op] : started_)
    advance(op);
}

void SocketCommunicator::wait(Token token) {
  const auto at = started_.find(token);
  if (at == started_.end()) return;
  RunningOperation& op = at->second;
  if (recorder_ != nullptr) recorder_->waiting(op.recorded);
  const TimePoint start = now();
  advance_all();
  const Deadline limit = Deadline::in(limit_s_);
  while (op.pending > 0 || !op.last_stage) {
    if (limit.passed())
      fail(ErrorClass::timeout,
          std::string(operation_name(op.operation)) + " in group " + group_.name +
              " did not end within " + std::to_string(limit_s_) + " s");
    mesh_.wait_event(limit);
  }
  count_wait(seconds_since(start));
  if (recorder_ != nullptr) recorder_->left(op.recorded);
  started_.erase(at);
}

void SocketCommunicator::progress() {
  mesh_.progress();
}

}  // namespace shardbench
