// SPDX-License-Identifier: Apache-2.0
// Each needed reduction left out in turn: the equality test must turn red, and be green
// without. Usage: shardbench_omissions
#include "equality_rank.hpp"
#include "rank_pool.hpp"

#include <algorithm>
#include <cstdio>

namespace {

using namespace shardbench;

struct NamedOmission {
  const char* name;
  Layout layout;
  Omission omission;
  bool tied = false;
  bool experts = false;
};

ModelShape toy(const NamedOmission& o) {
  ModelShape model{.layers = 4,
      .hidden = 16,
      .ffn = 12,
      .heads = 4,
      .kv_heads = 2,
      .vocab = 24,
      .seq_len = 8,
      .tied = o.tied};
  if (!o.experts) return model;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn = 12;
  model.dense_layers = 1;
  return model;
}

bool is(const IssuedOperation& o, const char* group, Operation operation) {
  return o.group == group && o.operation == operation;
}

DropRule square_sum_of(const char* group) {
  return [group](const IssuedOperation& o) {
    return is(o, group, Operation::all_reduce) && o.count == 1;
  };
}

Layout parallel(i64 dp, i64 tp, i64 pp) {
  Layout layout;
  layout.dp = dp;
  layout.tp = tp;
  layout.pp = pp;
  layout.micro_batch = 2;
  layout.habits.vocab_multiple = 1;
  return layout;
}

Layout sequence_parallel() {
  Layout layout = parallel(1, 2, 1);
  layout.sequence_parallel = true;
  return layout;
}

Layout sharded(i64 zero, i64 copies) {
  Layout layout = parallel(2 * copies, 1, 1);
  layout.zero = zero;
  layout.dp_replicate = copies;
  return layout;
}

// Elements that tell the operations of the toy apart: 16 tokens of 16 values, norms of 16.
constexpr i64 stream = i64{16} * 16;
constexpr i64 tokens = 16;
constexpr i64 tied_table = i64{24} * 16;

Omission nth_sum_of_stream(i64 ordinal) {
  return {[ordinal](const IssuedOperation& o) {
    return is(o, "tp", Operation::all_reduce) && o.count == stream && o.ordinal == ordinal;
  }};
}

std::vector<NamedOmission> tensor_parallel_omissions() {
  // Order in one micro-batch: embedding, then attention and MLP of four layers, then the loss.
  return {
      {"embedding: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(0)},
      {"attention output: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(1)},
      {"MLP output: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(2)},
      {"head input gradient: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(11)},
      {"MLP input gradient: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(12)},
      {"attention input gradient: sum over tp", parallel(1, 2, 1), nth_sum_of_stream(13)},
      {"cross entropy: maximum over tp", parallel(1, 2, 1),
          {[](const IssuedOperation& o) { return o.reduction == Reduction::max; }}},
      {"cross entropy: sums over tp", parallel(1, 2, 1), {[](const IssuedOperation& o) {
         return is(o, "tp", Operation::all_reduce) && o.count == 2 * tokens &&
             o.reduction == Reduction::sum;
       }}},
      {"norm gradients under sequence parallelism: sum over tp", sequence_parallel(),
          {[](const IssuedOperation& o) {
            return is(o, "tp", Operation::all_reduce) && o.ordinal > 40;
          }}},
      {"sequence parallelism: gather before the products", sequence_parallel(),
          {[](const IssuedOperation& o) { return is(o, "tp", Operation::all_gather); }}},
  };
}

std::vector<NamedOmission> data_parallel_omissions() {
  Layout accumulating = parallel(1, 1, 1);
  accumulating.grad_accum = 2;
  return {
      {"gradients: sum over dp", parallel(2, 1, 1), {[](const IssuedOperation& o) {
         return is(o, "dp", Operation::all_reduce) && o.count > 1;
       }}},
      {"ZeRO 1 gradients: reduce-scatter", sharded(1, 1),
          {[](const IssuedOperation& o) { return is(o, "shard", Operation::reduce_scatter); }}},
      {"ZeRO 1 weights: gather after the update", sharded(1, 1),
          {[](const IssuedOperation& o) { return is(o, "shard", Operation::all_gather); }}},
      {"ZeRO 3 weights: gather before use", sharded(3, 1),
          {[](const IssuedOperation& o) { return is(o, "shard", Operation::all_gather); }}},
      {"replicated shards: sum over the replicas", sharded(2, 2),
          {[](const IssuedOperation& o) { return is(o, "replicate", Operation::all_reduce); }}},
      {"gradient norm: sum over tp", parallel(1, 2, 1), {square_sum_of("tp")}},
      {"gradient norm: sum over the stages", parallel(1, 1, 2), {square_sum_of("pp")}},
      {"gradient norm: sum over the shards", sharded(1, 1), {square_sum_of("dp")}},
      {"tied embeddings: sum over the first and the last stage", parallel(1, 1, 2),
          {[](const IssuedOperation& o) {
            return o.group == "pp" && o.count == tied_table && o.operation != Operation::send;
          }},
          true},
      {"mean over micro-batches: 1/m", accumulating, {{}, 2.0}},
  };
}

/// Both stages of a rank, or its halves of backward, mixed up.
std::vector<NamedOmission> pipeline_omissions() {
  Layout interleaved = parallel(1, 1, 2);
  interleaved.vpp = 2;
  interleaved.grad_accum = 2;
  Layout halved = parallel(1, 1, 2);
  halved.schedule = ScheduleKind::zb_h1;
  halved.grad_accum = 2;
  return {
      {"interleaved: the chunk that a message is for", interleaved,
          {[](const IssuedOperation& o) { return is(o, "pp", Operation::send); }}},
      {"zero bubble: the weights' gradient of a micro-batch", halved,
          {.follows =
                  [](std::vector<Action> actions) {
                    actions.erase(std::find_if(actions.begin(), actions.end(),
                        [](const Action& a) { return a.kind == ActionKind::weight_gradient; }));
                    return actions;
                  }}},
  };
}

Layout shared_sequences(ContextMode mode) {
  Layout layout = parallel(1, 1, 1);
  layout.cp = 2;
  layout.cp_mode = mode;
  return layout;
}

std::vector<NamedOmission> context_parallel_omissions() {
  const Omission without_messages{
      [](const IssuedOperation& o) { return is(o, "cp", Operation::receive); }};
  // Keys come once in a layer's forward, then twice in its backward, the gradients last.
  const Omission without_gradients{[](const IssuedOperation& o) {
    return is(o, "cp", Operation::receive) && o.ordinal >= 8 && (o.ordinal - 8) % 4 == 2;
  }};
  return {
      {"ring: the pieces that a rank has", shared_sequences(ContextMode::ring),
          {.misplaces = true}},
      {"ring: keys and values of another rank", shared_sequences(ContextMode::ring),
          without_messages},
      {"ring: the gradients to keys that go home", shared_sequences(ContextMode::ring),
          without_gradients},
      {"Ulysses: the exchange of heads", shared_sequences(ContextMode::ulysses), without_messages},
      {"Ulysses: the positions of a rank's tokens", shared_sequences(ContextMode::ulysses),
          {.misplaces = true}},
      {"gradients: sum over cp", shared_sequences(ContextMode::ring),
          {[](const IssuedOperation& o) {
            return is(o, "dp", Operation::all_reduce) && o.count > 1;
          }}},
  };
}

Layout spread_experts(i64 dp, i64 ep) {
  Layout layout = parallel(dp, 1, 1);
  layout.ep = ep;
  layout.moe_routing = MoeRouting::skewed;
  return layout;
}

std::vector<NamedOmission> expert_omissions() {
  // Three layers with four experts: the routers' gradients are summed as one vector.
  constexpr i64 routers = i64{3} * 4 * 16;
  Layout balanced_loss = shared_sequences(ContextMode::ring);
  balanced_loss.moe_aux_loss = 0.5;
  // Operations of a layer: rows to experts and back, then the same for gradients.
  const auto backward_receive = [](const IssuedOperation& o) {
    return is(o, "ep", Operation::receive) && o.ordinal >= 12;
  };
  return {
      {"experts: all-to-all to them and back", spread_experts(2, 2),
          {[](const IssuedOperation& o) { return is(o, "ep", Operation::receive); }}, false, true},
      {"experts: all-to-all of gradients", spread_experts(2, 2), {backward_receive}, false, true},
      {"experts: the rows that a message is of", spread_experts(2, 2),
          {[](const IssuedOperation& o) { return is(o, "ep", Operation::send); }}, false, true},
      {"experts: sum of gradients over ranks with the same ones", spread_experts(4, 2),
          {[](const IssuedOperation& o) { return is(o, "edp", Operation::all_reduce); }}, false,
          true},
      {"router: sum of gradients over tp", parallel(1, 2, 1), {[](const IssuedOperation& o) {
         return is(o, "tp", Operation::all_reduce) && o.count == routers;
       }},
          false, true},
      {"loss for balance: counts of a sequence over cp", balanced_loss,
          {[](const IssuedOperation& o) { return is(o, "cp", Operation::all_reduce); }}, false,
          true},
  };
}

bool all_equal(const Verdict* verdicts, i64 world) {
  return std::all_of(
      verdicts, verdicts + world, [](const Verdict& v) { return v.is_equal(fp64_tolerance); });
}

}  // namespace

int main() {
  std::vector<NamedOmission> omissions = tensor_parallel_omissions();
  for (const auto& part : {data_parallel_omissions(), pipeline_omissions(),
           context_parallel_omissions(), expert_omissions()})
    omissions.insert(omissions.end(), part.begin(), part.end());
  std::map<ReferenceKey, Reference> references;
  for (const NamedOmission& o : omissions) {
    const EqualityCase c{toy(o), o.layout};
    if (references.count(key_of(single_of(c))) == 0)
      references[key_of(single_of(c))] = compute_reference(single_of(c));
  }
  // Two runs each: spoiled, and whole.
  auto* verdicts =
      static_cast<Verdict*>(shared_memory(omissions.size() * 2 * pool_ranks * sizeof(Verdict)));
  const bool lived = run_in_pool([&](Mesh& mesh) {
    const std::unique_ptr<Platform> platform = fp64_platform();
    u64 next_id = 1;
    for (std::size_t i = 0; i < omissions.size() * 2; ++i) {
      const NamedOmission& o = omissions[i / 2];
      const EqualityCase c{toy(o), o.layout};
      if (mesh.rank() < o.layout.world())
        verdicts[i * pool_ranks + static_cast<std::size_t>(mesh.rank())] = judge(*platform, mesh, c,
            next_id, references.at(key_of(single_of(c))), i % 2 == 0 ? o.omission : Omission{});
      next_id += ids_used(c);
    }
  });
  int failed = lived ? 0 : 1;
  for (std::size_t i = 0; i < omissions.size(); ++i) {
    const Verdict* spoiled = verdicts + 2 * i * pool_ranks;
    const i64 world = omissions[i].layout.world();
    const bool red = !all_equal(spoiled, world);
    const bool green = all_equal(spoiled + pool_ranks, world);
    if (!red || !green) ++failed;
    std::printf("%s without %s: gradient error %.1e, weight error %.1e\n",
        red && green ? "noticed" : "MISSED ", omissions[i].name, spoiled[0].gradient_error,
        spoiled[0].weight_error);
  }
  return failed == 0 ? 0 : 1;
}
