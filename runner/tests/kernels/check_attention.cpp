// SPDX-License-Identifier: Apache-2.0
// Attention against the CPU's in fp64 on the same bf16 inputs, and the tensor-core kernels
// against the plain ones.
#include "checks.hpp"
#include "cpu_device.hpp"
#include "cuda/attention_kernels.hpp"
#include "cuda/kernels.hpp"

#include <string>

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
      {r.dqkv.data(), dout.data(), qkv.data(), r.out.data(), r.lse.data(), workspace.data()},
      s);
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
  const kernels::AttentionGradient gradient{dqkv.data(), dout.data(), qkv.data(),
                                            out.data(),  lse.data(),  workspace.data()};
  if (path == Path::chosen) {
    kernels::attention(checks.stream(), out.data(), lse.data(), qkv.data(), workspace.data(),
                       s);
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

void compare(Checks& checks, const std::string& name, const AttentionShape& s,
             const Results& got, const Results& want) {
  const std::string shape = shape_name(s);
  checks.row(name, shape, relative_error(got.out, want.out), out_bound);
  checks.row(name + " lse", shape, largest_error(got.lse, want.lse), lse_bound);
  const i64 q = s.heads * s.head_dim;
  const i64 kv = s.kv_heads * s.head_dim;
  const auto gradient = [&](const char* of, i64 first, i64 count) {
    checks.row(name + of, shape,
               relative_error(columns(got.dqkv, s.row(), first, count),
                              columns(want.dqkv, s.row(), first, count)),
               gradient_bound);
  };
  // With one key the probability is 1 whatever q and k are: their gradients are 0.
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

/// What is known before keys of another rank are added: what attention to own keys has made,
/// as the GPU holds it; and gradients that are there.
struct Before {
  std::vector<Bf16> keys;
  std::vector<Bf16> out;
  std::vector<float> lse;
  std::vector<Bf16> dqkv;
  std::vector<Bf16> dkeys;
};

Before before(Checks& checks, const Inputs& in) {
  const AttentionShape& s = in.shape;
  const Results own = reference(in);
  const i64 keys = tokens_of(s) * 2 * s.kv_heads * s.head_dim;
  Before b{checks.random().normals<Bf16>(keys),
           {},
           {own.lse.begin(), own.lse.end()},
           checks.random().normals<Bf16>(tokens_of(s) * s.row()),
           checks.random().normals<Bf16>(keys)};
  for (const double value : own.out)
    b.out.push_back(to_bf16(static_cast<float>(value)));
  return b;
}

/// out and lse after it, and both gradients against those, one after the other.
void check_more_keys(Checks& checks, const AttentionShape& s, const SeenKeys& seen) {
  const Inputs in{s, checks.random().normals<Bf16>(tokens_of(s) * s.row()),
                  checks.random().normals<Bf16>(tokens_of(s) * s.heads * s.head_dim)};
  const Before b = before(checks, in);
  const auto qkv = to_doubles(in.qkv);
  const auto keys = to_doubles(b.keys);
  const auto dout = to_doubles(in.dout);
  auto out = to_doubles(b.out);
  std::vector<double> lse(b.lse.begin(), b.lse.end());
  auto dqkv = to_doubles(b.dqkv);
  auto dkeys = to_doubles(b.dkeys);
  std::vector<double> work = zeros(attention_score_elements(s));
  CpuDevice<double> cpu;
  cpu.attend_more({out.data(), lse.data(), qkv.data(), keys.data(), work.data()}, s, seen);
  cpu.attend_more_backward({dqkv.data(), dkeys.data(), dout.data(), qkv.data(), keys.data(),
                            out.data(), lse.data(), work.data()},
                           s, seen);

  const auto gpu_qkv = checks.array(in.qkv);
  const auto gpu_keys = checks.array(b.keys);
  const auto gpu_dout = checks.array(in.dout);
  const auto gpu_out = checks.array(b.out);
  const auto gpu_lse = checks.array(b.lse);
  const auto gpu_dqkv = checks.array(b.dqkv);
  const auto gpu_dkeys = checks.array(b.dkeys);
  kernels::attend_more(checks.stream(),
                       {gpu_out.data(), gpu_lse.data(), gpu_qkv.data(), gpu_keys.data()}, s,
                       seen);
  kernels::attend_more_backward(
      checks.stream(),
      {gpu_dqkv.data(), gpu_dkeys.data(), gpu_dout.data(), gpu_qkv.data(), gpu_keys.data(),
       gpu_out.data(), gpu_lse.data()},
      s, seen);
  const std::string shape = shape_name(s) + ", " + std::to_string(seen.queries) +
                            " queries see " + std::to_string(seen.keys);
  checks.row("attend_more", shape, relative_error(gpu_out.read_doubles(), out), out_bound);
  checks.row("attend_more lse", shape, largest_error(gpu_lse.read_doubles(), lse), lse_bound);
  checks.row("attend_more dq", shape, relative_error(gpu_dqkv.read_doubles(), dqkv),
             gradient_bound);
  checks.row("attend_more dk, dv", shape, relative_error(gpu_dkeys.read_doubles(), dkeys),
             gradient_bound);
}

}  // namespace

void check_attention(Checks& checks) {
  // All queries see the first half of the keys, or those of the second half all.
  for (const i64 head_dim : {10, 64, 128}) {
    check_more_keys(checks, {2, 36, 4, 2, head_dim}, {0, 36, 18});
    check_more_keys(checks, {1, 37, 4, 1, head_dim}, {18, 19, 37});
  }
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
