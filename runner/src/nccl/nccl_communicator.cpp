// SPDX-License-Identifier: Apache-2.0
#include "nccl_communicator.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <tuple>

namespace shardbench {
namespace {

NcclDtype nccl_dtype(Dtype dtype) {
  if (dtype == Dtype::bf16) return NcclDtype::bf16;
  return dtype == Dtype::fp32 ? NcclDtype::fp32 : NcclDtype::fp64;
}

std::size_t as_count(i64 count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

NcclCommunicator::NcclCommunicator(NcclWorld& world, Group group, i64 rank, CommStream& stream,
    Device& device, FlightRecorder* recorder)
    : world_(world),
      group_(std::move(group)),
      stream_(stream),
      device_(device),
      recorder_(recorder),
      sent_to_(group_.members.size()),
      received_from_(group_.members.size()) {
  const auto self = std::find(group_.members.begin(), group_.members.end(), rank);
  check(self != group_.members.end(), "a rank is a member of its groups");
  index_ = self - group_.members.begin();
  if (size() > 1) comm_ = world_.communicator(group_, index_, stream_);
  user_ = world_.users_.insert(world_.users_.end(), this);
}

NcclCommunicator::~NcclCommunicator() {
  world_.users_.erase(user_);
}

u64 NcclCommunicator::record(Operation operation, u64 sequence, i64 bytes, i64 peer) {
  if (recorder_ == nullptr) return 0;
  return recorder_->entered(group_, operation, sequence, bytes, peer);
}

/// Issues an operation; afterwards it is the stream's.
Token NcclCommunicator::issue(
    Operation operation, i64 bytes, const std::function<NcclResult()>& call) {
  issue_messages();
  progress();
  const u64 recorded = record(operation, sequence_++, bytes, -1);
  const u64 mark = give(std::string(operation_name(operation)), call);
  under_way_.push_back({++last_token_, operation, mark, recorded});
  return last_token_;
}

/// Hands work to the stream: a point after it.
u64 NcclCommunicator::give(const std::string& what, const std::function<NcclResult()>& call) {
  stream_.follow_compute();
  world_.take_turn(comm_, stream_);
  if (travels()) stream_.go_first();
  const bool stands = stream_.computes();
  const Mark from = stands ? device_.mark() : Mark{};
  world_.run(comm_, group_, what, call);
  if (stands) waits_.emplace_back(from, device_.mark());
  if (under_way_.empty()) moved_ = now();
  const u64 mark = stream_.mark();
  world_.took_turn(comm_, stream_, mark);
  return mark;
}

Token NcclCommunicator::all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) {
  count_operation(
      Operation::all_reduce, bytes_sent(Operation::all_reduce, size(), index_, count, dtype));
  if (size() == 1 || count == 0) return 0;
  return issue(Operation::all_reduce, count * dtype_size(dtype), [&] {
    return world_.table().all_reduce(data, data, as_count(count), nccl_dtype(dtype),
        reduction == Reduction::sum ? NcclReduction::sum : NcclReduction::max, comm_,
        stream_.native());
  });
}

Token NcclCommunicator::reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(Operation::reduce_scatter,
      bytes_sent(Operation::reduce_scatter, size(), index_, count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  if (size() == 1 && in != out) device_.copy(out, in, bytes);
  if (size() == 1 || count == 0) return 0;
  return issue(Operation::reduce_scatter, bytes, [&] {
    return world_.table().reduce_scatter(
        in, out, as_count(count), nccl_dtype(dtype), NcclReduction::sum, comm_, stream_.native());
  });
}

Token NcclCommunicator::all_gather(const void* in, void* out, i64 count, Dtype dtype) {
  count_operation(
      Operation::all_gather, bytes_sent(Operation::all_gather, size(), index_, count, dtype));
  const i64 bytes = count * dtype_size(dtype);
  if (size() == 1 && in != out) device_.copy(out, in, bytes);
  if (size() == 1 || count == 0) return 0;
  return issue(Operation::all_gather, bytes, [&] {
    return world_.table().all_gather(
        in, out, as_count(count), nccl_dtype(dtype), comm_, stream_.native());
  });
}

Token NcclCommunicator::broadcast(void* data, i64 count, Dtype dtype, i64 root) {
  const i64 from_root = (index_ - root + size()) % size();
  count_operation(
      Operation::broadcast, bytes_sent(Operation::broadcast, size(), from_root, count, dtype));
  if (size() == 1 || count == 0) return 0;
  return issue(Operation::broadcast, count * dtype_size(dtype), [&] {
    return world_.table().broadcast(data, data, as_count(count), nccl_dtype(dtype),
        static_cast<int>(root), comm_, stream_.native());
  });
}

Token NcclCommunicator::send(const void* data, i64 count, Dtype dtype, i64 to) {
  count_operation(Operation::send, bytes_sent(Operation::send, size(), index_, count, dtype));
  // Cast only for the common type: a message to send goes to NCCL as const.
  return post({0, Operation::send, const_cast<void*>(data), count, dtype, to});
}

Token NcclCommunicator::receive(void* data, i64 count, Dtype dtype, i64 from) {
  count_operation(Operation::receive, 0);
  return post({0, Operation::receive, data, count, dtype, from});
}

Token NcclCommunicator::post(const Message& message) {
  check(size() > 1, "a message needs another member");
  messages_.push_back(message);
  messages_.back().token = ++last_token_;
  return last_token_;
}

u64 NcclCommunicator::sequence_of(const Message& message) {
  auto& numbers = message.operation == Operation::send ? sent_to_ : received_from_;
  return numbers[static_cast<std::size_t>(message.peer)]++;
}

void NcclCommunicator::issue_messages() {
  if (messages_.empty()) return;
  progress();
  std::vector<Message> messages = std::exchange(messages_, {});
  // Sort by peer, and keep the order of posting for one peer: both sides then have the same order.
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return std::tuple(a.peer, a.operation) < std::tuple(b.peer, b.operation);
  });
  std::vector<u64> recorded;
  std::string what;
  for (const Message& m : messages) {
    recorded.push_back(
        record(m.operation, sequence_of(m), m.count * dtype_size(m.dtype), member(m.peer)));
    what += (what.empty() ? "" : ", ") + std::string(operation_name(m.operation)) +
        (m.operation == Operation::send ? " to rank " : " from rank ") +
        std::to_string(member(m.peer));
  }
  const u64 mark = give(what, [&] { return call_messages(messages); });
  for (std::size_t i = 0; i < messages.size(); ++i)
    under_way_.push_back({messages[i].token, messages[i].operation, mark, recorded[i]});
}

/// The group is closed also after an error, so that the communicator can be aborted.
NcclResult NcclCommunicator::call_messages(const std::vector<Message>& messages) const {
  const NcclTable& nccl = world_.table();
  const NcclResult started = nccl.group_start();
  if (started != NcclResult::success) return started;
  NcclResult first_error = NcclResult::success;
  for (const Message& m : messages) {
    const auto count = as_count(m.count);
    const auto peer = static_cast<int>(m.peer);
    const NcclResult result = m.operation == Operation::send
        ? nccl.send(m.data, count, nccl_dtype(m.dtype), peer, comm_, stream_.native())
        : nccl.receive(m.data, count, nccl_dtype(m.dtype), peer, comm_, stream_.native());
    const bool good = result == NcclResult::success || result == NcclResult::in_progress;
    if (!good && first_error == NcclResult::success) first_error = result;
  }
  const NcclResult ended = nccl.group_end();
  return first_error == NcclResult::success ? ended : first_error;
}

void NcclCommunicator::hold_compute(u64 mark) {
  // Work of a stream is done in order: who waits for a later point waits for this one too.
  if (stream_.computes() || mark <= held_) return;
  held_ = mark;
  const Mark from = device_.mark();
  stream_.hold_compute(mark);
  waits_.emplace_back(from, device_.mark());
}

void NcclCommunicator::wait(Token token) {
  const auto of_token = [&](const auto& entry) { return entry.token == token; };
  if (std::any_of(messages_.begin(), messages_.end(), of_token)) issue_messages();
  // Search from the end: the host, ahead of the device, mostly waits for its newest operation.
  const auto at = std::find_if(under_way_.rbegin(), under_way_.rend(), of_token);
  if (at == under_way_.rend()) return;
  if (recorder_ != nullptr) recorder_->waiting(at->recorded);
  hold_compute(at->mark);
}

void NcclCommunicator::progress() {
  while (!under_way_.empty() && stream_.reached(under_way_.front().mark)) {
    if (recorder_ != nullptr) recorder_->left(under_way_.front().recorded);
    under_way_.pop_front();
    moved_ = now();
  }
}

double NcclCommunicator::waited_s() {
  for (const auto& [from, to] : std::exchange(waits_, {}))
    count_wait(device_.seconds_between(from, to));
  return Communicator::waited_s();
}

std::optional<std::string> NcclCommunicator::oldest() const {
  if (under_way_.empty()) return std::nullopt;
  return std::string(operation_name(under_way_.front().operation));
}

void NcclCommunicator::check_time() {
  progress();
  if (under_way_.empty() || seconds_since(moved_) <= world_.limit_s()) return;
  fail(ErrorClass::timeout,
      *oldest() + " in group " + group_.name + " did not end within " +
          std::to_string(world_.limit_s()) + " s");
}

}  // namespace shardbench
