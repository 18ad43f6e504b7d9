// SPDX-License-Identifier: Apache-2.0
#include "equality_rank.hpp"

#include "device/bf16.hpp"
#include "device/cpu_device.hpp"
#include "device/cpu_platform.hpp"
#include "formulas.hpp"
#include "measurement/meta_run.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace shardbench {
namespace {

constexpr u64 seed = 7;
constexpr i64 train_steps = 3;
constexpr double comm_limit_s = 600.0;

RankContext misled(RankContext context, const Omission& omission) {
  context.loss_scale *= omission.loss_factor;
  if (omission.misplaces) context.at.cp = (context.at.cp + 1) % context.layout.cp;
  return context;
}

/// A rank's part of a case: everything from memory to trainer.
struct Rank {
  Rank(
      Platform& platform, Mesh& mesh, const EqualityCase& c, u64 first_id, const Omission& omission)
      : device(platform.device()),
        memory(device, std::nullopt),
        host_memory(platform.host(), std::nullopt),
        connection{mesh, memory, of_host(platform) ? memory : host_memory, nullptr, comm_limit_s},
        reporting_connection{mesh, report_memory, report_memory, nullptr, comm_limit_s},
        groups(make_groups(
            c.layout, mesh.rank(), first_id, spoiled(group_maker(platform, connection), omission))),
        context(misled(context_of(device, memory, c.model, c.layout,
                           coordinates_of(c.layout, mesh.rank()), groups),
            omission)),
        trainer(context, groups, seed),
        // A group of its own: what is measured is the train step's communication alone.
        reporting(connect_host(reporting_connection,
            {"report", first_id + group_ids_used(c.layout),
                members_of(c.layout, mesh.rank(), "world")})) {}

  static bool of_host(Platform& platform) { return &platform.host() == &platform.device(); }

  static GroupMaker spoiled(const GroupMaker& make, const Omission& omission) {
    if (!omission.drops) return make;
    return [make, drops = omission.drops](
               const Group& group) { return make_dropping(make(group), group.name, drops); };
  }

  double loss(i64 step) {
    trainer.compute_gradients(step);
    double sum = trainer.take_loss();
    reporting->wait(reporting->all_reduce(&sum, 1, Dtype::fp64, Reduction::sum));
    return sum / static_cast<double>(context.layout.tp * trainer.global_tokens());
  }

  Device& device;
  Memory memory;
  Memory host_memory;
  CpuDevice<double> report_device;
  Memory report_memory{report_device, std::nullopt};
  Connection connection;
  Connection reporting_connection;
  Groups groups;
  RankContext context;
  Trainer trainer;
  std::unique_ptr<Communicator> reporting;
};

enum class What { gradients, weights };

/// The elements of a tensor's block that a rank answers for.
struct OwnedValues {
  i64 first;  // element of the block
  std::vector<double> values;
};

void read_bf16(Device& device, std::vector<double>& values, const std::byte* from) {
  std::vector<Bf16> read(values.size());
  device.download(read.data(), from, static_cast<i64>(read.size() * sizeof(Bf16)));
  std::transform(read.begin(), read.end(), values.begin(),
      [](Bf16 value) { return static_cast<double>(to_float(value)); });
}

OwnedValues owned_values(const Rank& rank, std::size_t unit, const TensorSlot& slot, What what) {
  const ParameterStore::OwnedPart own = rank.trainer.parameters().owned(unit);
  const Precision precision = rank.device.precision();
  const i64 first = std::clamp<i64>(own.first - slot.offset, 0, slot.count());
  const i64 last = std::clamp<i64>(own.first + own.count - slot.offset, 0, slot.count());
  const std::byte* base = what == What::weights ? own.weights : own.gradients;
  OwnedValues out{first, std::vector<double>(static_cast<std::size_t>(last - first))};
  // A tensor that ends before the part begins has nothing to read.
  if (last == first) return out;
  const Dtype dtype = what == What::weights ? precision.value : precision.gradient;
  const std::byte* from = base + (slot.offset + first - own.first) * dtype_size(dtype);
  if (dtype == Dtype::bf16)
    read_bf16(rank.device, out.values, from);
  else
    rank.device.read_gradient(out.values.data(), from, last - first);
  return out;
}

/// |owned − reference|, relative to the whole tensor's norm. Rows that pad the vocabulary
/// further than the reference's have no gradient; their weights are nobody's.
double block_error(
    const TensorSlot& slot, const OwnedValues& owned, const std::vector<double>& whole, What what) {
  double difference = 0;
  double norm = 0;
  for (const double value : whole)
    norm += value * value;
  const TensorRegion& r = slot.region;
  for (std::size_t n = 0; n < owned.values.size(); ++n) {
    const i64 local = owned.first + static_cast<i64>(n);
    const i64 global =
        (r.first_row + local / r.columns) * r.global_columns + r.first_column + local % r.columns;
    const bool beyond = global >= static_cast<i64>(whole.size());
    if (beyond && what == What::weights) continue;
    const double d = owned.values[n] - (beyond ? 0.0 : whole[static_cast<std::size_t>(global)]);
    difference += d * d;
  }
  // An expert that nobody has chosen has no gradient at all.
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

double worst_error(const Rank& rank, What what, const std::map<u64, std::vector<double>>& reference,
    u64& worst_tensor) {
  double worst = 0;
  const ParameterStore& store = rank.trainer.parameters();
  for (std::size_t i = 0; i < store.units().size(); ++i)
    for (const TensorSlot& slot : store.units()[i].slots) {
      const double error = block_error(
          slot, owned_values(rank, i, slot, what), reference.at(slot.region.tensor), what);
      if (error <= worst) continue;
      worst = error;
      worst_tensor = slot.region.tensor;
    }
  return worst;
}

/// Memory by class and bytes by group of one train step are those that the meta device counts.
bool equals_meta(const Rank& rank, const EqualityCase& c, i64 self) {
  // How many rows a router sends where is not known beforehand.
  const bool learned = c.layout.moe_routing == MoeRouting::learned && c.layout.moe_capacity == 0;
  if (c.model.experts > 0 && c.layout.ep > 1 && learned) return true;
  Options options;
  options.layout = c.layout;
  options.model = c.model;
  options.dtype = rank.device.precision().value;
  const RankCost meta = cost_of_rank(options, self);
  bool agree =
      meta.peak_bytes == rank.memory.peak_bytes() && meta.sent_bytes == sent_by_group(rank.groups);
  for (std::size_t i = 0; i < memory_class_count; ++i)
    agree = agree && meta.peak_by_class[i] == rank.memory.peak_bytes(static_cast<MemoryClass>(i));
  return agree;
}

bool equals_formulas(const Rank& rank, const EqualityCase& c, i64 self) {
  // The formulas hold for the CPU's values and dense layers.
  if (c.model.experts > 0) return true;
  if (rank.device.precision().value == Dtype::bf16 || c.layout.fp8 != Scaling::none) return true;
  const ExpectedCost expected = expected_cost(c.model, c.layout, self, Dtype::fp64);
  bool equal = expected.sent_bytes == sent_by_group(rank.groups);
  for (std::size_t i = 0; i < memory_class_count; ++i)
    equal =
        equal && expected.peak_by_class[i] == rank.memory.peak_bytes(static_cast<MemoryClass>(i));
  return equal;
}

}  // namespace

ReferenceKey key_of(const EqualityCase& c) {
  return {c.model.heads, c.model.head_values, c.model.ffn, c.model.layers, c.model.seq_len,
      c.layout.micro_batch, c.layout.grad_accum, c.model.tied, c.layout.fp8,
      {c.model.experts, c.model.experts_per_token, c.model.expert_ffn, c.model.shared_experts,
          c.model.dense_layers, c.layout.moe_routing, c.layout.moe_capacity,
          c.layout.moe_aux_loss}};
}

EqualityCase single_of(const EqualityCase& c) {
  EqualityCase single{c.model, {}};
  const bool at_once = c.layout.fp8 == Scaling::none && c.layout.moe_capacity == 0;
  single.layout.moe_routing = c.layout.moe_routing;
  single.layout.moe_capacity = c.layout.moe_capacity;
  single.layout.moe_aux_loss = c.layout.moe_aux_loss;
  single.layout.micro_batch = at_once ? c.layout.global_batch() : c.layout.micro_batch;
  single.layout.grad_accum = at_once ? 1 : c.layout.dp * c.layout.grad_accum;
  single.layout.fp8 = c.layout.fp8;
  return single;
}

Reference compute_reference(const EqualityCase& single) {
  Mesh mesh(0, {-1});
  const std::unique_ptr<Platform> platform = fp64_platform();
  Rank rank(*platform, mesh, single, 1, {});
  Reference reference;
  const auto take = [&](std::map<u64, std::vector<double>>& into, What what) {
    const ParameterStore& store = rank.trainer.parameters();
    for (std::size_t i = 0; i < store.units().size(); ++i)
      for (const TensorSlot& slot : store.units()[i].slots)
        into[slot.region.tensor] = owned_values(rank, i, slot, what).values;
  };
  for (i64 step = 0; step < train_steps; ++step) {
    const double loss = rank.loss(step);
    if (step == 0) reference.loss = loss;
    reference.last_loss = loss;
    if (step == 0) take(reference.gradients, What::gradients);
    const double norm = rank.trainer.update(step);
    if (step == 0) reference.gradient_norm = norm;
  }
  take(reference.weights, What::weights);
  return reference;
}

bool Verdict::is_equal(const Tolerance& tolerance) const {
  // Written so that a NaN is not.
  return done && loss_error <= tolerance.loss && norm_error <= tolerance.loss &&
      gradient_error <= tolerance.gradient && weight_error <= tolerance.weight;
}

u64 ids_used(const EqualityCase& c) {
  return group_ids_used(c.layout) + 1;
}

std::unique_ptr<Platform> fp64_platform() {
  Options options;
  options.dtype = Dtype::fp64;
  return cpu_platform().open(options);
}

double distance_of(
    Platform& platform, Mesh& mesh, const EqualityCase& a, const EqualityCase& b, u64 first_id) {
  const auto figures_of = [&](const EqualityCase& c, u64 id) {
    Rank rank(platform, mesh, c, id, {});
    std::vector<double> figures;
    for (i64 step = 0; step < train_steps; ++step) {
      figures.push_back(rank.loss(step));
      figures.push_back(rank.trainer.update(step));
    }
    rank.trainer.settle();
    return figures;
  };
  const std::vector<double> of_a = figures_of(a, first_id);
  const std::vector<double> of_b = figures_of(b, first_id + ids_used(a));
  double most = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const double distance = std::abs(of_a[i] - of_b[i]) / std::abs(of_b[i]);
    // Written so that a NaN is the most.
    if (!(distance <= most)) most = distance;
  }
  return most;
}

Verdict judge(Platform& platform, Mesh& mesh, const EqualityCase& c, u64 first_id,
    const Reference& reference, const Omission& omission) {
  Rank rank(platform, mesh, c, first_id, omission);
  if (omission.follows) rank.trainer.follow(omission.follows(rank.trainer.schedule()));
  Verdict verdict{};
  const auto relative = [](double value, double expected) {
    return std::abs(value - expected) / std::abs(expected);
  };
  verdict.loss_error = relative(rank.loss(0), reference.loss);
  verdict.gradient_error =
      worst_error(rank, What::gradients, reference.gradients, verdict.worst_tensor);
  verdict.norm_error = relative(rank.trainer.update(0), reference.gradient_norm);
  verdict.equals_meta = equals_meta(rank, c, mesh.rank());
  verdict.equals_formulas = equals_formulas(rank, c, mesh.rank());
  for (i64 step = 1; step < train_steps; ++step) {
    const double loss = rank.loss(step);
    if (step == train_steps - 1)
      verdict.loss_error = std::max(verdict.loss_error, relative(loss, reference.last_loss));
    rank.trainer.update(step);
  }
  rank.trainer.settle();
  u64 ignored = 0;
  verdict.weight_error = worst_error(rank, What::weights, reference.weights, ignored);
  verdict.done = true;
  return verdict;
}

}  // namespace shardbench
