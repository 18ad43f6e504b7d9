// SPDX-License-Identifier: Apache-2.0
// The seam to the hardware: memory and the operations of the model.
//
// Pointers are device memory in the formats of the device's Precision; matrices are row-major.
// "tokens" is the number of rows of a token-by-feature matrix. The model is written once
// against this interface; implementations are the CPU, CUDA and the meta device (no
// arithmetic).
#pragma once

#include "base/clock.hpp"
#include "device/dtype.hpp"
#include "device/fp8.hpp"
#include "device/memory.hpp"

#include <cstddef>
#include <vector>

namespace shardbench {

enum class Transpose { no, yes };
enum class Accumulate { no, yes };

/// C[m,n] (+)= op(A)[m,k] · op(B)[k,n]. C is in gradient format when `gradient_output`.
/// Operands in 8 bits are both, and lie along k: A is not transposed, B is.
struct Gemm {
  Transpose transpose_a = Transpose::no;
  Transpose transpose_b = Transpose::no;
  i64 m = 0;
  i64 n = 0;
  i64 k = 0;
  const void* a = nullptr;
  i64 lda = 0;
  const void* b = nullptr;
  i64 ldb = 0;
  void* c = nullptr;
  i64 ldc = 0;
  Accumulate accumulate = Accumulate::no;
  bool gradient_output = false;
  Element element_a = Element::value;
  Element element_b = Element::value;
  const float* unit_a = nullptr;  // value of a 1 in 8 bits, in the device's memory
  const float* unit_b = nullptr;
  /// Number of products of one shape, over values; operands and result of the next one lie these
  /// steps further.
  i64 batch = 1;
  i64 step_a = 0;
  i64 step_b = 0;
  i64 step_c = 0;
};

struct GemmKey;  // gemm_key.hpp

/// Causal attention of `batch` sequences over packed rows [q | k | v] of heads·d, kv·d, kv·d.
struct AttentionShape {
  i64 batch = 0;
  i64 seq_len = 0;
  i64 heads = 0;
  i64 kv_heads = 0;
  i64 head_dim = 0;
  /// true: attend_more() adds keys of other ranks, with out and lse in its own form
  bool more_keys = false;
  i64 row() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Values of workspace that blocked attention needs: two blocks of scores, of `query_block`
/// queries against all keys.
constexpr i64 query_block = 64;
constexpr i64 attention_score_elements(const AttentionShape& s) {
  return 2 * (s.seq_len < query_block ? s.seq_len : query_block) * s.seq_len;
}

/// Positions of a rank's tokens in their sequence: its first half, rounded down, from `first` on,
/// the others from `second` on.
struct Positions {
  i64 first = 0;
  i64 second = 0;
};

/// Queries of each sequence that all see the first `keys` keys of another rank.
struct SeenKeys {
  i64 first_query = 0;
  i64 queries = 0;
  i64 keys = 0;
};

/// Place of a block of a weight tensor in the whole tensor; it determines the block's initial
/// values.
struct TensorRegion {
  u64 tensor = 0;
  i64 rows = 0;
  i64 columns = 0;
  i64 first_row = 0;
  i64 first_column = 0;
  i64 global_columns = 0;
  bool ones = false;  // norm weights start at 1, all others normally distributed
  double deviation = 0.02;
};

struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  /// Σ g² of the model, in the device's memory: gradients longer than `longest` are scaled to
  /// it. Null: none are.
  const double* square_sum = nullptr;
  double longest = 1.0;
  i64 step = 1;  // counted from 1
};

enum class Rotation { forward, backward };

/// A point in the order of the device's work. Made and used up by the device.
struct Mark {
  TimePoint host{};
  void* event = nullptr;
};

class Device : public Allocator {
 public:
  virtual Precision precision() const = 0;
  /// False on meta: sizes and order of operations are real, contents are not.
  virtual bool computes() const = 0;

  virtual void zero(void* data, i64 bytes) = 0;
  virtual void copy(void* to, const void* from, i64 bytes) = 0;
  /// Copies from host memory, which may be reused when it returns.
  virtual void upload(void* to, const void* host, i64 bytes) = 0;
  /// Copies into host memory; all earlier work has ended when it returns.
  virtual void download(void* host, const void* from, i64 bytes) = 0;
  /// Work is done in the order in which it was given; returns when all of it has ended.
  virtual void synchronize() = 0;
  virtual Mark mark() = 0;
  /// Seconds between two marks, after synchronize(). Uses both up.
  virtual double seconds_between(const Mark& from, const Mark& to) = 0;
  /// Prepares these products, which are about to be used: tries them now, with operands of their
  /// own.
  virtual void settle_products(const std::vector<GemmKey>& keys) { (void)keys; }
  /// Bytes of the largest cache; 0: not known.
  virtual i64 cache_bytes() const { return 0; }
  virtual void gemm(const Gemm& gemm) = 0;

  /// *amax is raised to the largest magnitude of the values. The float is the device's.
  virtual void raise_amax(float* amax, const void* values, i64 count) = 0;
  /// Values [rows, columns] in 8 bits, so scaled that `*limit` becomes the largest number.
  struct Quantization {
    const void* values;
    i64 rows;
    i64 columns;
    Element element;
    void* straight = nullptr;    // [rows, columns]; null: not wanted
    void* transposed = nullptr;  // [columns, rows]; likewise
    const float* limit = nullptr;
    float* unit = nullptr;  // set to the value of a 1
    float* seen = nullptr;  // is raised to the largest magnitude; null: not wanted
  };
  virtual void quantize(const Quantization& q) = 0;
  /// to[columns, rows] of from[rows, columns], both in 8 bits.
  virtual void transpose_8_bits(void* to, const void* from, i64 rows, i64 columns) = 0;
  /// Moves the largest values that were seen of `tensors` tensors into their history and resets
  /// them; each limit is the largest of `steps` train steps.
  struct AmaxHistory {
    float* limits;
    float* seen;
    float* history;  // [steps, tensors]
    i64 tensors;
    i64 steps;
    i64 place;
  };
  virtual void keep_amax(const AmaxHistory& history) = 0;

  /// y = a + b in value format.
  virtual void add(void* y, const void* a, const void* b, i64 count) = 0;
  /// y += x in gradient format.
  virtual void accumulate(void* y, const void* x, i64 count) = 0;
  /// y[tokens, hidden] = x / rms(x) · w.
  virtual void rms_norm(void* y, const void* x, const void* w, i64 tokens, i64 hidden) = 0;
  // Operations that make values may also leave them in 8 bits, or without a limit only their
  // magnitude, raising `seen`: `left` says where. Else they would have to be read again.
  virtual void rms_norm_to_8_bits(
      void* y, const void* x, const void* w, i64 tokens, i64 hidden, const Quantization& left) {
    rms_norm(y, x, w, tokens, hidden);
    leave(left);
  }
  /// Norm of the sum of two streams; the sum is kept: sum = a + b, y = sum / rms(sum) · w.
  struct AddedNorm {
    void* sum;
    void* y;
    const void* a;
    const void* b;
    const void* w;
  };
  virtual void add_rms_norm(const AddedNorm& n, i64 tokens, i64 hidden) {
    add(n.sum, n.a, n.b, tokens * hidden);
    rms_norm(n.y, n.sum, n.w, tokens, hidden);
  }
  virtual void add_rms_norm_to_8_bits(
      const AddedNorm& n, i64 tokens, i64 hidden, const Quantization& left) {
    add_rms_norm(n, tokens, hidden);
    leave(left);
  }
  /// dx += gradient to x; dw += gradient to w (gradient format).
  struct RmsNormGradient {
    void* dx;
    void* dw;
    const void* x;
    const void* w;
    const void* dy;
  };
  virtual void rms_norm_backward(const RmsNormGradient& g, i64 tokens, i64 hidden) = 0;
  /// Rotates q and k of the packed rows in place.
  virtual void rope(void* qkv, const AttentionShape& shape, Rotation rotation) = 0;

  /// Rotates if a rank has a part of the tokens of its sequences.
  virtual void rope_at(
      void* qkv, const AttentionShape& shape, const Positions& positions, Rotation rotation) = 0;

  virtual i64 attention_workspace_bytes(const AttentionShape& shape) const = 0;
  /// out[tokens, heads·d]; lse[tokens, heads] in gradient format.
  virtual void attention(
      void* out, void* lse, const void* qkv, void* workspace, const AttentionShape& shape) = 0;
  struct AttentionGradient {
    void* dqkv;
    const void* dout;
    const void* qkv;
    const void* out;
    const void* lse;
    void* workspace;
  };
  virtual void attention_backward(const AttentionGradient& g, const AttentionShape& shape) = 0;

  /// Adds keys and values of another rank, rows of [k | v], to what attention has made of its
  /// own: out and lse become those of all keys so far.
  struct MoreKeys {
    void* out;
    void* lse;
    const void* qkv;
    const void* keys;
    void* workspace;
  };
  virtual void attend_more(
      const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) = 0;
  /// Adds to the gradients of queries and of these keys. out and lse are those of all keys.
  struct MoreKeysGradient {
    void* dqkv;
    void* dkeys;
    const void* dout;
    const void* qkv;
    const void* keys;
    const void* out;
    const void* lse;
    void* workspace;
  };
  virtual void attend_more_backward(
      const MoreKeysGradient& m, const AttentionShape& shape, const SeenKeys& seen) = 0;

  /// Columns of one matrix of values, copied or added to those of another.
  struct Columns {
    void* to;
    i64 to_row;
    const void* from;
    i64 from_row;
    i64 width;
    i64 rows;
  };
  virtual void copy_columns(const Columns& columns) = 0;
  virtual void add_columns(const Columns& columns) = 0;

  // Mixture of experts. Rows are matrices of values, choices and rows' numbers are int32.

  struct RouteShape {
    i64 tokens;
    i64 experts;
    i64 chosen;  // experts chosen by each token
  };
  /// Logits [tokens, experts] become probabilities; choices [tokens, chosen] are the largest
  /// ones, weights their parts of the chosen ones' sum. Pinned: the choices are there.
  struct Route {
    void* probabilities;
    void* weights;
    std::int32_t* choices;
    bool pinned;
  };
  virtual void route(const Route& r, const RouteShape& shape) = 0;
  /// d_logits of d_weights; `balance` [sequences, experts], null for none, is the gradient to
  /// each of a sequence's probabilities beside it. These count by their parts of their sum.
  struct RouteGradient {
    void* d_logits;
    const void* d_weights;
    const void* probabilities;
    const void* weights;
    const std::int32_t* choices;
    const void* balance;
    i64 seq_len;
  };
  virtual void route_backward(const RouteGradient& g, const RouteShape& shape) = 0;
  /// counts [sequences, experts], in gradient format: scale · how often each was chosen.
  virtual void count_choices(void* counts, const std::int32_t* choices, i64 seq_len, double scale,
      const RouteShape& shape) = 0;
  /// Each choice of a token gets a row, those of the first expert first, in the order of the
  /// tokens. Under a capacity each expert has as many rows: rows without a token have none to
  /// read, tokens without a row are dropped.
  struct Dispatch {
    const std::int32_t* choices;  // [tokens, chosen]
    std::int32_t* source;         // [rows]: the row's token; -1: none
    std::int32_t* places;         // [tokens, chosen]: the choice's row; -1: dropped
    void* counts;                 // [experts], gradient format: rows of each
    i64 capacity;                 // 0: all choices have a row
    double* dropped = nullptr;    // the device's own: is raised by choices without a row
  };
  virtual void dispatch(const Dispatch& d, const RouteShape& shape) = 0;
  /// Choices dispatched under a capacity so far, and those of them without a row. Waits for the
  /// device.
  struct DropCounts {
    double choices = 0;
    double dispatched = 0;
  };
  virtual DropCounts dropped() { return {}; }
  /// Row i of `to` is row index[i] of `from`; zero where that is below 0.
  struct RowGather {
    void* to;
    const void* from;
    const std::int32_t* index;
    i64 rows;
    i64 sources;  // rows of `from`
    i64 width;
  };
  virtual void gather_rows(const RowGather& gathered) = 0;
  /// Rows that tokens have at places [tokens, chosen], -1 for none. Weights: null for ones.
  struct RowPlacement {
    const void* rows;
    const std::int32_t* places;
    const void* weights;
    i64 tokens;
    i64 chosen;
    i64 row_count;
    i64 width;
  };
  /// y[tokens, width] += the weighted sum of each token's rows.
  virtual void add_placed(void* y, const RowPlacement& placed) = 0;
  /// Backward of add_placed: d_rows at each token's place, and d_weights; zero for dropped choices.
  virtual void placed_backward(
      void* d_rows, void* d_weights, const void* dy, const RowPlacement& placed) = 0;

  /// y[tokens, ffn] = silu(gate) · up for packed rows [gate | up].
  virtual void swiglu(void* y, const void* gate_up, i64 tokens, i64 ffn) = 0;
  /// Overwrites gate_up by its gradient.
  virtual void swiglu_backward(void* gate_up, const void* dy, i64 tokens, i64 ffn) = 0;
  virtual void swiglu_to_8_bits(
      void* y, const void* gate_up, i64 tokens, i64 ffn, const Quantization& left) {
    swiglu(y, gate_up, tokens, ffn);
    leave(left);
  }
  /// Leaves gate_up's gradient in 8 bits alone if there is a limit.
  virtual void swiglu_backward_to_8_bits(
      void* gate_up, const void* dy, i64 tokens, i64 ffn, const Quantization& left) {
    swiglu_backward(gate_up, dy, tokens, ffn);
    leave(left);
  }

  /// Rows of ids in [first, first + rows) are copied from `table`, all others are zero.
  struct EmbeddingShape {
    i64 tokens;
    i64 hidden;
    i64 first;
    i64 rows;
  };
  virtual void embed(
      void* y, const void* table, const std::int32_t* ids, const EmbeddingShape& shape) = 0;
  virtual void embed_backward(
      void* d_table, const void* dy, const std::int32_t* ids, const EmbeddingShape& shape) = 0;

  /// Vocabulary-parallel cross entropy in three passes over logits[tokens, rows], whose rows
  /// are `stride` values apart; statistics are in gradient format.
  struct LossShape {
    i64 tokens;
    i64 rows;
    i64 first;
    i64 stride;
    i64 padding = 0;  // logits after `rows` that are none: they get the gradient 0
  };
  /// Pass 1: maximum of each row; without rows, minus infinity.
  virtual void loss_max(void* maximum, const void* logits, const LossShape& shape) = 0;
  /// Pass 2: statistics[tokens] = sum of exp(logit − maximum), statistics[tokens + i] = logit
  /// of the target less the maximum where the target lies in [first, first + rows), else 0.
  virtual void loss_sums(void* statistics, const void* logits, const void* maximum,
      const std::int32_t* targets, const LossShape& shape) = 0;
  /// Computes maximum and sums at once if a rank has whole rows: logits are read one time less.
  virtual void loss_max_and_sums(void* maximum, void* statistics, const void* logits,
      const std::int32_t* targets, const LossShape& shape) {
    loss_max(maximum, logits, shape);
    loss_sums(statistics, logits, maximum, targets, shape);
  }
  /// Pass 3: logits become scale · d(sum of token losses)/d(logits). Adds up the token losses,
  /// unscaled, for take_loss().
  struct LossGradient {
    void* logits;
    const void* maximum;
    const void* statistics;
    const std::int32_t* targets;
    double scale;
  };
  virtual void loss_backward(const LossGradient& g, const LossShape& shape) = 0;
  /// The sum of the token losses since the last call. Waits for the device.
  virtual double take_loss() = 0;

  /// Fills a block of a weight from the counter-based generator.
  virtual void initialize(void* weight, const TensorRegion& region, u64 seed) = 0;
  /// *sum += Σ g² over `count` gradients, in the device's memory.
  virtual void add_square_sum(double* sum, const void* gradient, i64 count) = 0;
  /// state: optimizer_copies · count values in gradient format: m, v, and the master weights.
  virtual void adamw(
      void* weight, void* state, const void* gradient, i64 count, const AdamW& settings) = 0;
  /// Call it before the first step, if there are master weights.
  virtual void initialize_optimizer(void* state, const void* weight, i64 count) = 0;
  /// Host values of `count` gradients, for tests and checks.
  virtual void read_gradient(double* host, const void* gradient, i64 count) = 0;

 private:
  /// Leaves values that already exist.
  void leave(const Quantization& left) {
    if (left.limit == nullptr)
      raise_amax(left.seen, left.values, left.rows * left.columns);
    else
      quantize(left);
  }
};

}  // namespace shardbench
