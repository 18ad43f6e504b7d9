// SPDX-License-Identifier: Apache-2.0
#include "dropping_communicator.hpp"

#include <cstring>
#include <list>
#include <map>
#include <utility>
#include <vector>

namespace shardbench {
namespace {

class DroppingCommunicator final : public Communicator {
 public:
  DroppingCommunicator(std::unique_ptr<Communicator> inner, std::string group, DropRule drops)
      : inner_(std::move(inner)), group_(std::move(group)), drops_(std::move(drops)) {}

  i64 rank() const override { return inner_->rank(); }
  i64 size() const override { return inner_->size(); }

  Token all_reduce(void* data, i64 count, Dtype dtype, Reduction reduction) override {
    if (dropped(Operation::all_reduce, count, reduction)) return 0;
    return inner_->all_reduce(data, count, dtype, reduction);
  }
  Token reduce_scatter(const void* in, void* out, i64 count, Dtype dtype) override {
    if (!dropped(Operation::reduce_scatter, count))
      return inner_->reduce_scatter(in, out, count, dtype);
    const auto bytes = static_cast<std::size_t>(count * dtype_size(dtype));
    const std::byte* own =
        static_cast<const std::byte*>(in) + static_cast<std::size_t>(rank()) * bytes;
    if (own != out) std::memcpy(out, own, bytes);
    return 0;
  }
  Token all_gather(const void* in, void* out, i64 count, Dtype dtype) override {
    if (!dropped(Operation::all_gather, count)) return inner_->all_gather(in, out, count, dtype);
    const auto bytes = static_cast<std::size_t>(count * dtype_size(dtype));
    std::byte* own = static_cast<std::byte*>(out) + static_cast<std::size_t>(rank()) * bytes;
    std::memset(out, 0, own == in ? 0 : bytes * static_cast<std::size_t>(size()));
    if (own != in) std::memcpy(own, in, bytes);
    return 0;
  }
  Token broadcast(void* data, i64 count, Dtype dtype, i64 root) override {
    return inner_->broadcast(data, count, dtype, root);
  }
  Token send(const void* data, i64 count, Dtype dtype, i64 to) override {
    if (!dropped(Operation::send, count)) return inner_->send(data, count, dtype, to);
    // A dropped message leaves with the next one.
    const auto* bytes = static_cast<const std::byte*>(data);
    std::vector<std::byte>& late = late_.emplace_back(std::move(kept_));
    late.resize(static_cast<std::size_t>(count * dtype_size(dtype)));
    kept_.assign(bytes, bytes + late.size());
    return inner_->send(late.data(), count, dtype, to);
  }
  Token receive(void* data, i64 count, Dtype dtype, i64 from) override {
    const Token token = inner_->receive(data, count, dtype, from);
    if (!dropped(Operation::receive, count)) return token;
    // Receive the message all the same, or the next one would take its place.
    emptied_[token] = {data, static_cast<std::size_t>(count * dtype_size(dtype))};
    return token;
  }
  void wait(Token token) override {
    inner_->wait(token);
    const auto found = emptied_.find(token);
    if (found == emptied_.end()) return;
    std::memset(found->second.first, 0, found->second.second);
    emptied_.erase(found);
  }
  void progress() override { inner_->progress(); }

 private:
  bool dropped(Operation operation, i64 count, Reduction reduction = Reduction::sum) {
    return drops_({group_, operation, reduction, count, ordinal_++});
  }

  std::unique_ptr<Communicator> inner_;
  std::string group_;
  DropRule drops_;
  i64 ordinal_ = 0;
  std::map<Token, std::pair<void*, std::size_t>> emptied_;  // received for nothing
  std::vector<std::byte> kept_;
  std::list<std::vector<std::byte>> late_;  // kept until the run ends: sends read them
};

}  // namespace

std::unique_ptr<Communicator> make_dropping(
    std::unique_ptr<Communicator> inner, std::string group, DropRule drops) {
  return std::make_unique<DroppingCommunicator>(
      std::move(inner), std::move(group), std::move(drops));
}

}  // namespace shardbench
