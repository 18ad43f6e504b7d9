// SPDX-License-Identifier: Apache-2.0
// Attention against the CPU's in fp64 on the same bf16 inputs, and the tensor-core kernels
// against the plain ones.
#include "checks.hpp"
#include "cuda/attention_kernels.hpp"
#include "cuda/kernels.hpp"
#include "device/cpu_device.hpp"

#include <string>
#include <type_traits>

namespace shardbench {
namespace {

// bf16 has 8 bits: outputs are rounded once, probabilities and their gradients once more.
constexpr double out_bound = 1e-2;
constexpr double lse_bound = 1e-3;
constexpr double gradient_bound = 2e-2;

// Key after key, longer ones take minutes on an emulated GPU.
constexpr i64 plain_seq_len = 200;

struct Inputs {
  AttentionShape shape;
  std::vector<Bf16> qkv;
  std::vector<Bf16> dout;
};

struct Results {
  std::vector<double> out;
  std::vector<double> lse;
  std::vector<double> dqkv;
};

i64 tokens_of(const AttentionShape& s) {
  return s.batch * s.seq_len;
}

std::string shape_name(const AttentionShape& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.seq_len) + " heads " +
      std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " of " +
      std::to_string(s.head_dim);
}

std::vector<double> zeros(i64 count) {
  return std::vector<double>(static_cast<std::size_t>(count));
}

Results reference(const Inputs& in) {
  const AttentionShape& s = in.shape;
  CpuDevice<double> cpu;
  const std::vector<double> qkv = to_doubles(in.qkv);
  const std::vector<double> dout = to_doubles(in.dout);
  Results r{zeros(tokens_of(s) * s.heads * s.head_dim), zeros(tokens_of(s) * s.heads),
      zeros(tokens_of(s) * s.row())};
  std::vector<double> workspace = zeros(attention_score_elements(s));
  cpu.attention(r.out.data(), r.lse.data(), qkv.data(), workspace.data(), s);
  cpu.attention_backward(
      {r.dqkv.data(), dout.data(), qkv.data(), r.out.data(), r.lse.data(), workspace.data()}, s);
  return r;
}

enum class Path { chosen, plain };

Results computed(const Checks& checks, const Inputs& in, Path path) {
  const AttentionShape& s = in.shape;
  const auto qkv = checks.array(in.qkv);
  const auto dout = checks.array(in.dout);
  const auto out = checks.array<Bf16>(tokens_of(s) * s.heads * s.head_dim);
  const auto lse = checks.array<float>(tokens_of(s) * s.heads);
  const auto dqkv = checks.array<Bf16>(tokens_of(s) * s.row());
  const auto workspace = checks.array<float>(kernels::attention_workspace_bytes(s) / 4);
  const kernels::AttentionGradient gradient{
      dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), workspace.data()};
  if (path == Path::chosen) {
    kernels::attention(checks.stream(), out.data(), lse.data(), qkv.data(), workspace.data(), s);
    kernels::attention_backward(checks.stream(), gradient, s);
  } else {
    kernels::plain_attention(checks.stream(), out.data(), lse.data(), qkv.data(), s);
    kernels::plain_attention_backward(checks.stream(), gradient, s);
  }
  return {out.read_doubles(), lse.read_doubles(), dqkv.read_doubles()};
}

/// Columns [first, first + count) of rows of `row` values.
std::vector<double> columns(const std::vector<double>& rows, i64 row, i64 first, i64 count) {
  std::vector<double> part;
  for (auto at = rows.begin(); at != rows.end(); at += row)
    part.insert(part.end(), at + first, at + first + count);
  return part;
}

void compare(Checks& checks, const std::string& name, const AttentionShape& s, const Results& got,
    const Results& want) {
  const std::string shape = shape_name(s);
  checks.row(name, shape, relative_error(got.out, want.out), out_bound);
  checks.row(name + " lse", shape, largest_error(got.lse, want.lse), lse_bound);
  const i64 q = s.heads * s.head_dim;
  const i64 kv = s.kv_heads * s.head_dim;
  const auto gradient = [&](const char* of, i64 first, i64 count) {
    checks.row(name + of, shape,
        relative_error(
            columns(got.dqkv, s.row(), first, count), columns(want.dqkv, s.row(), first, count)),
        gradient_bound);
  };
  // A single key has the probability 1 whatever q and k are: their gradients are 0.
  if (s.seq_len > 1) {
    gradient(" dq", 0, q);
    gradient(" dk", q, kv);
  }
  gradient(" dv", q + kv, kv);
}

void check_shape(Checks& checks, const AttentionShape& s) {
  const Inputs in{s, checks.random().normals<Bf16>(tokens_of(s) * s.row()),
      checks.random().normals<Bf16>(tokens_of(s) * s.heads * s.head_dim)};
  const Results want = reference(in);
  compare(checks, "attention", s, computed(checks, in, Path::chosen), want);
  if (checks.full() && has_tiled_attention(s.head_dim) && s.seq_len <= plain_seq_len)
    compare(checks, "attention, plain", s, computed(checks, in, Path::plain), want);
}

/// One rank's turn of ring attention: what its own keys gave, and keys of another rank.
struct Turn {
  AttentionShape shape;
  SeenKeys seen;
  std::vector<Bf16> qkv;
  std::vector<Bf16> keys;
  std::vector<Bf16> dout;
  std::vector<Bf16> out;   // results so far
  std::vector<float> lse;  // results so far
  std::vector<Bf16> dqkv;  // gradients that are added to, so far
  std::vector<Bf16> dkeys;
};

struct AttentionResults {
  std::vector<double> out;
  std::vector<double> lse;
  std::vector<double> dqkv;
  std::vector<double> dkeys;
};

i64 key_row(const AttentionShape& s) {
  return 2 * s.kv_heads * s.head_dim;
}

template <typename T>
std::vector<T> rounded(const std::vector<double>& values) {
  std::vector<T> out;
  out.reserve(values.size());
  for (const double value : values)
    if constexpr (std::is_same_v<T, Bf16>)
      out.push_back(to_bf16(static_cast<float>(value)));
    else
      out.push_back(static_cast<T>(value));
  return out;
}

Turn turn_of(Checks& checks, const AttentionShape& s, const SeenKeys& seen) {
  Random& random = checks.random();
  Turn turn{s, seen, random.normals<Bf16>(tokens_of(s) * s.row()),
      random.normals<Bf16>(tokens_of(s) * key_row(s)),
      random.normals<Bf16>(tokens_of(s) * s.heads * s.head_dim), {}, {}, {}, {}};
  const Results own = reference({s, turn.qkv, turn.dout});
  turn.out = rounded<Bf16>(own.out);
  turn.lse = rounded<float>(own.lse);
  turn.dqkv = random.normals<Bf16>(tokens_of(s) * s.row());
  turn.dkeys = random.normals<Bf16>(tokens_of(s) * key_row(s));
  return turn;
}

AttentionResults reference(const Turn& t) {
  CpuDevice<double> cpu;
  const std::vector<double> qkv = to_doubles(t.qkv);
  const std::vector<double> keys = to_doubles(t.keys);
  const std::vector<double> dout = to_doubles(t.dout);
  AttentionResults r{to_doubles(t.out), to_doubles(t.lse), to_doubles(t.dqkv), to_doubles(t.dkeys)};
  std::vector<double> workspace = zeros(attention_score_elements(t.shape));
  cpu.attend_more(
      {r.out.data(), r.lse.data(), qkv.data(), keys.data(), workspace.data()}, t.shape, t.seen);
  cpu.attend_more_backward({r.dqkv.data(), r.dkeys.data(), dout.data(), qkv.data(), keys.data(),
                               r.out.data(), r.lse.data(), workspace.data()},
      t.shape, t.seen);
  return r;
}

AttentionResults computed(const Checks& checks, const Turn& t, Path path) {
  const auto qkv = checks.array(t.qkv);
  const auto keys = checks.array(t.keys);
  const auto dout = checks.array(t.dout);
  const auto out = checks.array(t.out);
  const auto lse = checks.array(t.lse);
  const auto dqkv = checks.array(t.dqkv);
  const auto dkeys = checks.array(t.dkeys);
  const auto workspace = checks.array<float>(kernels::attention_workspace_bytes(t.shape) / 4);
  const kernels::MoreKeys more{out.data(), lse.data(), qkv.data(), keys.data()};
  const kernels::MoreKeysGradient gradient{dqkv.data(), dkeys.data(), dout.data(), qkv.data(),
      keys.data(), out.data(), lse.data(), workspace.data()};
  if (path == Path::chosen) {
    kernels::attend_more(checks.stream(), more, t.shape, t.seen);
    kernels::attend_more_backward(checks.stream(), gradient, t.shape, t.seen);
  } else {
    kernels::plain_attend_more(checks.stream(), more, t.shape, t.seen);
    kernels::plain_attend_more_backward(checks.stream(), gradient, t.shape, t.seen);
  }
  return {out.read_doubles(), lse.read_doubles(), dqkv.read_doubles(), dkeys.read_doubles()};
}

void compare(Checks& checks, const std::string& name, const Turn& t, const AttentionResults& got,
    const AttentionResults& want) {
  const std::string shape = shape_name(t.shape) + ", " + std::to_string(t.seen.queries) + " from " +
      std::to_string(t.seen.first_query) + " see " + std::to_string(t.seen.keys);
  checks.row(name, shape, relative_error(got.out, want.out), out_bound);
  checks.row(name + " lse", shape, largest_error(got.lse, want.lse), lse_bound);
  checks.row(name + " dq", shape, relative_error(got.dqkv, want.dqkv), gradient_bound);
  checks.row(name + " dk, dv", shape, relative_error(got.dkeys, want.dkeys), gradient_bound);
}

void check_turn(Checks& checks, const AttentionShape& s, const SeenKeys& seen) {
  const Turn turn = turn_of(checks, s, seen);
  const AttentionResults want = reference(turn);
  compare(checks, "attend_more", turn, computed(checks, turn, Path::chosen), want);
  if (has_tiled_attention(s.head_dim) && s.seq_len <= 64)
    compare(checks, "attend_more, plain", turn, computed(checks, turn, Path::plain), want);
}

/// Keys of a rank before this one in zigzag order, of one after it, and odd parts.
void check_turns(Checks& checks) {
  for (const i64 head_dim : {16, 24, 32, 64, 128}) {
    i64 kv_heads = 4;
    for (const i64 seq_len : {2, 10, 64, 134}) {
      const i64 batch = seq_len > 100 ? 1 : 2;
      const AttentionShape shape{batch, seq_len, 4, kv_heads, head_dim};
      check_turn(checks, shape, {0, seq_len, seq_len / 2});
      check_turn(checks, shape, {seq_len / 2, seq_len - seq_len / 2, seq_len});
      kv_heads = kv_heads == 1 ? 4 : kv_heads / 2;
    }
    check_turn(checks, {1, 70, 2, 1, head_dim}, {3, 66, 65});
  }
}

}  // namespace

void check_attention(Checks& checks) {
  check_turns(checks);
  const i64 heads = 4;
  if (checks.at_length())
    for (const i64 head_dim : {64, 128})
      check_shape(checks, {1, 4096, 2, 1, head_dim});
  for (const i64 head_dim : {16, 24, 32, 64, 128}) {
    // The groups of heads that share keys take turns, unless there is time for all.
    i64 kv_heads = heads;
    for (const i64 seq_len : {1, 5, 64, 65, 130, 200}) {
      for (i64 tries = checks.full() ? 3 : 1; tries > 0; --tries) {
        const i64 batch = seq_len > 100 ? 1 : 2;
        check_shape(checks, {batch, seq_len, heads, kv_heads, head_dim});
        kv_heads = kv_heads == 1 ? heads : kv_heads / 2;
      }
    }
    if (checks.full() && has_tiled_attention(head_dim))
      check_shape(checks, {1, 1000, heads, 2, head_dim});
  }
}

}  // namespace shardbench
