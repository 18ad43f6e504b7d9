// SPDX-License-Identifier: Apache-2.0
// What every part of the model needs to know about its rank: hardware, memory, place in the
// layout, groups, and the local extents that follow.
#pragma once

#include "communication/communicator.hpp"
#include "device/device.hpp"
#include "device/memory.hpp"
#include "parallel/groups.hpp"
#include "parallel/layout.hpp"
#include "parallel/parameters.hpp"

namespace shardbench {

/// Extents on one rank, in elements.
struct Extents {
  i64 tokens;  // tokens of a micro-batch: micro_batch · seq_len / cp
  i64 rows;    // rows of the residual stream: tokens, or tokens / tp under sequence parallelism
  i64 hidden;
  i64 ffn;         // width of a dense layer
  i64 expert_ffn;  // width of one expert
  i64 vocab;       // rows of this rank's part of embedding and head, padding included
  i64 real_vocab;  // rows among them that are in the vocabulary
  i64 first_vocab;
  i64 logit_stride;  // values from one row of logits to the next: at least vocab
  AttentionShape attention;
};

/// `values`: their format; GPUs want rows of bf16 that begin at multiples of 128 bytes.
Extents extents_of(
    const ModelShape& shape, const Layout& layout, const Coordinates& at, Dtype values);

class Fp8Scaling;    // fp8_scaling.hpp
class KnownRouting;  // moe_layer.hpp

/// References outlive the context. Groups of size 1 are there too, and do nothing.
struct RankContext {
  Device& device;
  Memory& memory;
  const ModelShape& shape;
  const Layout& layout;
  Coordinates at;
  Communicator& tp;
  Communicator& dp;
  Communicator& cp;
  Communicator& ep;
  Extents extents;
  double loss_scale;  // 1 / tokens of the global batch: the one place where the mean is taken

  Fp8Scaling* fp8 = nullptr;              // scaling of the layers' products; null: they are over
                                          // values
  const KnownRouting* routing = nullptr;  // routing that is known without data; null: none

  bool sequence_parallel() const { return layout.sequence_parallel && layout.tp > 1; }
  Dtype value_dtype() const { return device.precision().value; }
  Dtype gradient_dtype() const { return device.precision().gradient; }
  i64 value_bytes(i64 count) const { return count * dtype_size(value_dtype()); }
  i64 gradient_bytes(i64 count) const { return count * dtype_size(gradient_dtype()); }
  Block values(MemoryClass kind, i64 count, std::string_view what) const {
    return memory.allocate(kind, value_bytes(count), what);
  }
  Block statistics(MemoryClass kind, i64 count, std::string_view what) const {
    return memory.allocate(kind, gradient_bytes(count), what);
  }
};

/// Extents are those of the device's format of values.
RankContext context_of(Device& device, Memory& memory, const ModelShape& shape,
    const Layout& layout, const Coordinates& at, const Groups& groups);

/// Weights or gradients of one unit.
struct UnitView {
  const Unit* unit;
  std::byte* base;
  i64 element_bytes;
  bool fresh = false;  // gradients to which nothing was added yet: their memory holds anything
  const UnitView* experts = nullptr;  // experts of a layer that has them
  Accumulate accumulate() const { return fresh ? Accumulate::no : Accumulate::yes; }
  void* at(TensorKind tensor) const { return base + unit->slot(tensor).offset * element_bytes; }
};

// The crossings between the parts that tensor parallelism cuts (g and ḡ of Megatron-LM's
// papers: arXiv 1909.08053, 2205.05198).

/// An operation is waited for at once, or travels under products.
enum class Travel { alone, under_products };

/// Marks operations that start during its life as travelling under products.
class UnderProducts {
 public:
  UnderProducts(Communicator& group, Travel travel) : group_(group) {
    if (travel == Travel::under_products) group_.begin_travel();
  }
  ~UnderProducts() { group_.end_travel(); }
  UnderProducts(const UnderProducts&) = delete;
  UnderProducts& operator=(const UnderProducts&) = delete;

 private:
  Communicator& group_;
};

/// All tokens of a matrix of local rows: gathered under sequence parallelism, else `rows`
/// itself. The gathering travels until data() is asked for.
class FullRows {
 public:
  FullRows(const RankContext& context, const Block& rows, Travel travel = Travel::alone);
  const void* data();

 private:
  Communicator& tp_;
  Block gathered_;
  const void* data_;
  Token token_ = 0;
};

/// Sums the partial results of the TP ranks: [tokens, hidden] in, [rows, hidden] out. The sum
/// travels until take().
class RowSum {
 public:
  RowSum(const RankContext& context, Block partial, MemoryClass kind, std::string_view what,
      Travel travel = Travel::under_products);
  Block take();

 private:
  Communicator& tp_;
  Block partial_;
  Block rows_;  // empty: the sum is where the parts were
  Token token_ = 0;
};

/// Sums and waits.
Block sum_to_rows(
    const RankContext& context, Block partial, MemoryClass kind, std::string_view what);

}  // namespace shardbench
