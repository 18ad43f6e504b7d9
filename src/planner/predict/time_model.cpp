// SPDX-License-Identifier: Apache-2.0
// A step is built of slots: one micro-batch on the slowest stage. A slot lasts about as long as
// its device or the host that launches for it, whichever is slower. A pipeline adds slots in
// which stages wait, transfers of data parallelism hide behind backward passes where they
// overlap, the update comes last. Beside each part's seconds stands how much a small change of
// it changes the step: by that the residuals say which part a measurement contradicts.
#include "predict/time_model.hpp"

#include "predict/layer_shape.hpp"
#include "predict/links.hpp"
#include "predict/rates.hpp"
#include "predict/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardsweep {
namespace {

/// Hops of a gradient bucket, as in hops_inside and hops_between; several buckets are under way at
/// once.
constexpr double bucket_hops_inside = 2;
constexpr double bucket_hops_between = hops_between / 3;

/// Bytes per probability that attention without flash moves, forward and backward: scores,
/// softmax and its product, in bf16 and fp32.
constexpr double probability_traffic = 30;
/// Bytes per element of a norm that is not fused, forward and backward, in fp32.
constexpr double norm_traffic = 60;

double moving_s(const Link& link, double bytes) {
  return link.bandwidth > 0 ? bytes / link.bandwidth : 0;
}

double moving_s(double bandwidth, double bytes) {
  return bandwidth > 0 ? bytes / bandwidth : 0;
}

// Leaves out products for latents, which tp does not divide.
double attention_parameters(const ModelSpec& model) {
  if (model.is_latent())
    return real(latent_attention(model).up) + real(latent_attention(model).output);
  const double kv_share = real(model.kv_heads) / real(model.heads);
  return 2 * real(model.hidden) * real(model.query_width()) * (1 + kv_share);
}

double layer_gemm_parameters(const ModelSpec& model, bool plain = false) {
  const double matrices = plain ? 2 : real(model.matrices_of_ffn());
  return attention_parameters(model) + matrices * real(model.hidden) * real(model.ffn);
}

// Parameters of a layer with experts: its attention, router, shared experts and `experts` others.
double sparse_layer_parameters(const ModelSpec& model, double experts) {
  const double matrices = real(model.matrices_of_ffn()) * real(model.hidden);
  return attention_parameters(model) + real(model.hidden) * real(model.experts) +
      matrices * (real(model.expert_ffn) * experts + real(model.shared_width()));
}

// Products of one token with all tokens before it, in forward: scores over what queries and
// keys have, then values; in units of two FLOPs by half of the tokens, as half of them come
// later.
double score_width(const ModelSpec& model) {
  return real(model.query_width()) + real(model.value_width());
}

// Seconds of one layer or stage, for one micro-batch.
struct Slot {
  double products = 0;
  double memory = 0;
  double tp = 0;
  double host = 0;
  double weight_gradients = 0;  // part of the products
  [[nodiscard]] double device() const { return products + memory + tp; }
  // The device waits for the host only where it has run dry: a norm of order 4.
  [[nodiscard]] double together() const {
    const double a = device() * device();
    const double b = host * host;
    return std::sqrt(std::sqrt(a * a + b * b));
  }
};

class TimeModel {
 public:
  TimeModel(const ModelSpec& model, const ClusterSpec& cluster, const Point& point,
      const TimeFamily& family, const MemoryFamily& memory, const RunTraits& traits)
      : model_(model),
        cluster_(cluster),
        point_(point),
        layout_(point.layout),
        family_(family),
        memory_(memory),
        traits_(traits),
        shape_(model, point),
        links_(links_of(cluster, point.layout, family.links)),
        tokens_(real(point.seq_len) / point.layout.cp * point.layout.micro_batch),
        element_(real(bytes_of(point.dtype))),
        modules_(recomputed_modules(point.layout.recompute)),
        matrices_(layer_gemm_parameters(model, is_plain(model, memory))),
        down_(real(latent_attention(model).down)) {
    const auto& peak = cluster.peak(point.dtype);
    nominal_ = !peak.has_value() || !model.unpredicted().empty();
    const double gemm = nominal_ ? 1 : cluster.gemm_efficiency * family.gemm_share;
    rate_ = peak.value_or(nominal_flops) * gemm;
    // FP8 speeds up the layers' products alone.
    const double beside = is_fp8(point.dtype)
        ? cluster.peak(Dtype::bf16).value_or(peak.value_or(nominal_flops))
        : peak.value_or(nominal_flops);
    head_rate_ = beside * gemm;
    attention_rate_ =
        beside * (nominal_ ? 1 : cluster.attention_efficiency * family.attention_share);
    if (!nominal_ && family.attention_flops > 0)
      attention_rate_ = std::min(attention_rate_, family.attention_flops);
  }

  [[nodiscard]] TimeEstimate estimate() const {
    const auto slot = slowest();
    const double stages = stage_s();
    const double accum = layout_.grad_accum;
    const double together = slot.together();
    const double one = together + stages;
    const double waiting = waited_slots(slot.weight_gradients / together);
    const double slots = accum + waiting;
    const double transfers = dp_transfers_s();
    const double gathers = dp_gathers_s();
    const double hidden = layout_.overlap ? dp_window_s(together) : 0;
    TimeEstimate time;
    time.nominal = nominal_;
    time.compute_s = accum * slot.products;
    time.memory_s = accum * slot.memory;
    time.tp_s = accum * slot.tp;
    time.launch_s = accum * (together - slot.device());
    time.pp_s = accum * stages;
    time.bubble_s = waiting * one;
    time.dp_s = std::max(0.0, transfers - hidden) + contention() * std::min(transfers, hidden) +
        gathers + replicate_s();
    time.update_s = update_s();
    time.step_s = slots * one + time.dp_s + time.update_s;

    const double share = slots * together / time.step_s;
    const double ratio = slot.device() / together;
    const double on_device = ratio * ratio * ratio * ratio;  // d ln(norm) / d ln(device)
    const double part = slot.device() > 0 ? share * on_device / slot.device() : 0;
    const double dp = (transfers > hidden ? 1 : contention()) * transfers + gathers;
    time.weights = {part * slot.products, part * slot.memory, share * (1 - on_device),
        part * slot.tp, (dp + replicate_s()) / time.step_s, slots * stages / time.step_s,
        time.update_s / time.step_s};
    return time;
  }

 private:
  // Micro-batches that a stage could do while it waits. Interleaved by v, it waits for chunks
  // of its layers [arXiv 2104.04473, section 2.2]. ZB-H1 fills two weight gradients of each
  // into the wait of 1F1B [arXiv 2401.10241, table 2]: with attention, norms and communication
  // they are less than a third of a micro-batch.
  [[nodiscard]] double waited_slots(double weight_gradients) const {
    const double stages = layout_.pp - 1;
    if (layout_.schedule == Schedule::zb_h1) return stages * (1 - 2 * weight_gradients);
    if (layout_.schedule == Schedule::zb_v) return waited_folded(weight_gradients);
    return stages / layout_.vpp;
  }

  // ZB-V's ranks take turns, each of which lasts as long as its longest part: equal parts wait
  // for the first input alone, others in each micro-batch once all ranks are at work. As the
  // runner's lists cost, within 8 % of a train step.
  [[nodiscard]] double waited_folded(double weight_gradients) const {
    const double rest = 1 - weight_gradients;
    const bool full = layout_.recompute == Recompute::full;
    const double longest = std::max(weight_gradients, full ? rest * 2 / 3 : rest / 2);
    const double pipeline = layout_.pp;
    const double filled = std::max(0.0, layout_.grad_accum - pipeline / 2);
    return (pipeline - 1) * longest / 2 + filled * (3 * longest - 1);
  }

  // The slowest stage: the first has most layers, or one between if theirs are told, and the last
  // the head; first layers may be dense.
  [[nodiscard]] Slot slowest() const {
    const double matrices = matrices_ / layout_.tp;
    const auto layer =
        layer_slot({.multiplied = matrices + down_multiplied(), .held = matrices + down_});
    auto most = stage_slot(layer, 0);
    if (layout_.pp == 1) return most;
    for (const auto stage : {sparse_stage(shape_, layout_, memory_.split), stage_between(layout_),
             head_stage(layout_)}) {
      if (stage == 0) continue;
      const auto other = stage_slot(layer, stage);
      if (other.together() > most.together()) most = other;
    }
    return most;
  }

  [[nodiscard]] double first_layers() const { return layers_of_stage(shape_, memory_.split, 0); }

  /// Layers with experts among them.
  [[nodiscard]] double sparse_layers(std::int32_t stage) const {
    if (model_.experts == 0) return 0;
    return layers_of_stage(shape_, memory_.split, stage) -
        dense_layers_of_stage(shape_, layout_, memory_.split, stage);
  }

  [[nodiscard]] Slot stage_slot(const Slot& layer, std::int32_t stage) const {
    const double layers = layers_of_stage(shape_, memory_.split, stage);
    Slot slot{layers * layer.products, layers * layer.memory, layers * layer.tp,
        layers * layer.host + family_.launch_stage_s, layers * layer.weight_gradients};
    if (const double sparse = sparse_layers(stage); sparse > 0) {
      const auto other = sparse_slot();
      slot.products += sparse * (other.products - layer.products);
      slot.memory += sparse * (other.memory - layer.memory);
      slot.tp += sparse * (other.tp - layer.tp);
      slot.host += sparse * (other.host - layer.host);
      slot.weight_gradients += sparse * (other.weight_gradients - layer.weight_gradients);
    }
    const bool head = stage == head_stage(layout_);
    if (!head) return slot;
    const double mtp = real(model_.mtp_layers);
    if (mtp > 0) add_mtp(slot, model_.experts > 0 ? sparse_slot() : layer);
    const double weights = real(model_.vocab) * real(model_.hidden) / layout_.tp;
    slot.products += (1 + mtp) * 6 * tokens_ * weights / head_rate_;
    slot.weight_gradients += (1 + mtp) * 2 * tokens_ * weights / head_rate_;
    slot.memory += (1 + mtp) *
        moving_s(cluster_.memory_bandwidth,
            family_.logit_bytes * tokens_ * real(model_.vocab) / layout_.tp +
                family_.parameter_bytes * weights);
    return slot;
  }

  // Layers that predict later tokens: each a layer as the last ones, and the projection that
  // two rows come to. It reads and writes as many rows as mtp_bytes() of memory.cpp counts.
  void add_mtp(Slot& slot, const Slot& layer) const {
    constexpr double rows = 6;
    const double mtp = real(model_.mtp_layers);
    const double again = is_full() ? (3 + family_.recomputed_again) / 3 : 1;
    const double weights = real(mtp_projection(model_)) / layout_.tp;
    const double between = layout_.sequence_parallel ? layout_.tp : 1;
    const double moved = again * family_.activation_passes * rows * row_bytes() / between +
        family_.parameter_bytes * weights;
    slot.products += mtp * (layer.products + again * 6 * tokens_ * weights / rate_);
    slot.weight_gradients += mtp * (layer.weight_gradients + 2 * tokens_ * weights / rate_);
    slot.memory += mtp * (layer.memory + moving_s(cluster_.memory_bandwidth, moved));
    slot.tp += mtp * (layer.tp + tp_projection_s());
    slot.host += mtp * layer.host;
  }

  // Transfers of an MTP projection: its two rows are gathered and a row comes out; in backward
  // gradients of two rows are summed. With sequence parallelism rows are gathered before the
  // product, and for its weights again.
  [[nodiscard]] double tp_projection_s() const {
    if (layout_.tp == 1) return 0;
    if (layout_.sequence_parallel) return tp_rows_s(is_full() ? 10 : 7, is_full() ? 6 : 4);
    return tp_rows_s(is_full() ? 6 : 5, is_full() ? 3 : 2);
  }

  // Products for latents multiply the rows of a rank's own part of the sequence, or all of them on
  // each rank of tp.
  [[nodiscard]] double down_multiplied() const {
    return layout_.sequence_parallel ? down_ / layout_.tp : down_;
  }

  // A layer with experts: each of its ranks multiplies as many rows as its tokens choose, by the
  // matrices of its own experts. Rows go to experts and come back, and so do gradients. Where ranks
  // of tp have a part of the sequence each, they send that; experts that no tp splits need no rows
  // of the other parts.
  [[nodiscard]] Slot sparse_slot() const {
    const double tp = layout_.tp;
    const double chosen = real(model_.experts_per_token);
    const double router = real(model_.hidden) * real(model_.experts);
    const double expert =
        real(model_.matrices_of_ffn()) * real(model_.hidden) * real(model_.expert_ffn);
    const double beside = (sparse_layer_parameters(model_, 0) - router) / tp + router;
    const double expert_tp = layout_.expert_shards();
    const double own = real(model_.experts) / layout_.ep * expert / expert_tp;
    Slot slot = layer_slot({.multiplied = beside + down_multiplied(),
        .narrow = chosen * expert / tp,
        .held = beside + own + down_,
        .experts = true});
    const bool splits = expert_tp > 1 || model_.shared_width() > 0;
    if (!splits && layout_.sequence_parallel) slot.tp -= tp_layer_s(is_full(), 1) / 2;
    const double exchanges = is_full() || modules_.has(Module::moe) ? 6 : 4;
    const double sent =
        family_.sends_parts && layout_.sequence_parallel ? row_bytes() / tp : row_bytes();
    if (layout_.ep > 1)
      slot.tp += exchanges * links_.rows.seconds(sent, chosen, family_.once_per_node);
    if (expert_tp > tp) slot.tp += exchanges * beyond_tp_s(chosen * sent);
    return slot;
  }

  // Experts split by more ranks than the rest: behind each exchange these ranks gather each other's
  // rows, or sum their results.
  [[nodiscard]] double beyond_tp_s(double rows) const {
    const double ranks = layout_.expert_shards();
    const Link& link = links_.expert_tp;
    const double hops = link.crosses ? between(hops_between) * std::log2(ranks) : hops_inside;
    return moving_s(link, (ranks - 1) * rows) + hops * link.latency_s;
  }

  /// Parameters of a rank's matrices in one layer.
  struct Matrices {
    double multiplied = 0;  ///< parameters that multiply each token
    double narrow = 0;      ///< part of `multiplied` that is experts
    double held = 0;        ///< all parameters of the rank
    bool experts = false;
  };

  [[nodiscard]] bool is_full() const { return layout_.recompute == Recompute::full; }

  /// Seconds per parameter of an expert and token, in units of those of other matrices.
  [[nodiscard]] double narrowness() const {
    const double columns = real(model_.expert_ffn) / layout_.expert_shards();
    const double lost = family_.narrow_columns * (is_fp8(point_.dtype) ? 2 : 1);
    return 1 + lost / columns;
  }

  // Backward costs two forwards, and flash attention's half one more; full recomputation adds a
  // forward.
  [[nodiscard]] Slot layer_slot(const Matrices& of) const {
    const double tp = layout_.tp;
    const bool full = is_full();
    const double again = full ? (3 + family_.recomputed_again) / 3 : 1;
    const double multiplied =
        of.narrow > 0 ? of.multiplied + of.narrow * narrowness() : of.multiplied;
    const double hidden = real(model_.hidden);
    Slot slot;
    // Forward two products, backward five: four of them over queries, three over values.
    const double attention_s = tokens_ * (3 * score_width(model_) + real(model_.query_width())) *
        point_.seq_len * attended_share(model_, point_.seq_len) / tp / attention_rate_;
    const bool selective = layout_.recompute == Recompute::selective;
    const double products_again = selective ? (3 + family_.selective_again) / 3 : again;
    slot.products = products_again * 6 * tokens_ * multiplied / rate_ + again * attention_s;
    slot.weight_gradients = 2 * tokens_ * multiplied / rate_;
    double moved = family_.activation_passes *
        layer_activation_bytes(shape_, model_, point_, memory_, {true, true}, of.experts);
    if (!traits_.flash_attention.value_or(true)) {
      moved += probability_traffic * tokens_ * point_.seq_len * real(model_.heads) / tp;
    }
    if (!traits_.fused_norm.value_or(true)) {
      const double between = layout_.sequence_parallel ? tp : 1;
      moved += 2 * norm_traffic * tokens_ * hidden / between;
    }
    if (is_fp8(point_.dtype)) moved += quantized_bytes(of);
    if (modules_.any()) {
      slot.products += 2 * tokens_ * again_in_modules(of) / rate_;
      moved += layer_dropped_bytes(shape_, model_, point_, memory_, {true, true}, of.experts);
    }
    slot.memory =
        moving_s(cluster_.memory_bandwidth, again * moved + family_.parameter_bytes * of.held);
    slot.tp = tp_layer_s(full, into_attention()) + again * context_layer_s(attention_s);
    slot.host = again * launch_layer_s(of.experts);
    return slot;
  }

  /// Parameters that a token meets once more for modules that are computed again.
  [[nodiscard]] double again_in_modules(const Matrices& of) const {
    const double tp = layout_.tp;
    const double matrices = real(model_.matrices_of_ffn()) * real(model_.hidden);
    double parameters = 0;
    if (modules_.has(Module::mla_up_proj)) parameters += real(latent_attention(model_).up) / tp;
    if (modules_.has(Module::mlp) && !of.experts) parameters += matrices * real(model_.ffn) / tp;
    if (modules_.has(Module::moe) && of.experts) {
      parameters += of.narrow * narrowness() + matrices * real(model_.shared_width()) / tp +
          real(model_.hidden) * real(model_.experts);
    }
    return parameters;
  }

  // Ring: keys and values go round the ranks of cp in forward, and with their gradients in
  // backward, under attention [arXiv 2310.01889]. What is longer than attention is waited for.
  // Ulysses: before attention queries, keys and values are exchanged, after it its output, and
  // in backward their gradients; nothing hides it [arXiv 2309.14509].
  [[nodiscard]] double context_layer_s(double attention_s) const {
    if (layout_.cp == 1) return 0;
    constexpr double passes = 3;
    const double query_share = real(model_.query_width()) / real(model_.hidden);
    const double queries = row_bytes() * query_share / layout_.tp;
    const double values = queries * value_share();
    const double keys = model_.is_latent()
        ? queries + values
        : 2 * real(model_.kv_heads) / real(model_.heads) * queries;
    if (layout_.cp_mode == ContextMode::ulysses)
      return 2 * (links_.heads.seconds(queries + keys) + links_.heads.seconds(values));
    const double messages = passes * (layout_.cp - 1);
    return std::max(
        0.0, messages * (moving_s(links_.cp, keys) + links_.cp.latency_s) - attention_s);
  }

  /// Values of all heads' values per one of their queries.
  [[nodiscard]] double value_share() const {
    return real(model_.value_width()) / real(model_.query_width());
  }

  // Bytes for writing a product's factors in 8 bits. Inputs are written for forward and again for
  // backward, gradients in two orders. Weights are written by the first micro-batch for a whole
  // train step; gathered ones (ZeRO 3) as inputs. It is read before, and once more where its own
  // largest magnitude scales it and nothing has told that yet. Norms and SwiGLU tell it, or leave
  // it in 8 bits, of which nothing is read then. Where a family fuses all of it, what makes inputs
  // writes them in both orders.
  [[nodiscard]] double quantized_bytes(const Matrices& of) const {
    const bool current = point_.dtype == Dtype::fp8;
    const double read = current ? 2 * element_ : element_;
    const double made = current ? element_ : 0;
    const double hidden = real(model_.hidden);
    const double tp = layout_.tp;
    const double values = real(model_.value_width());
    const double rope = real(model_.qk_rope_head_dim);
    const double latents = real(model_.q_lora_rank + model_.kv_lora_rank);
    const double between = layout_.sequence_parallel ? tp : 1;
    const double qkv = model_.is_latent()
        ? 2 * real(model_.query_width()) + values - real(model_.heads) * rope
        : (1 + 2 * real(model_.kv_heads) / real(model_.heads)) * values;
    const double routed = of.experts ? real(model_.experts_per_token) : 0;
    const double rows = of.experts ? routed / tp + (model_.shared_width() > 0 ? 1 : 0) : 1;
    const double ffn = of.experts ? routed * real(model_.expert_ffn) + real(model_.shared_width())
                                  : real(model_.ffn);
    // Latents are inputs too, and products' outputs beside the shared key.
    const double norms = tokens_ * (1 + rows) * hidden + tokens_ * latents / between;
    const double inputs = norms + tokens_ * (values + ffn) / tp;
    const double gate_up = tokens_ * real(model_.matrices_of_ffn() - 1) * ffn / tp;
    const double shared_key = tokens_ * rope / between;
    const double into_layer = norms + tokens_ * qkv / tp + shared_key;  // but for gate_up
    if (family_.fused_quantization)
      return 2 * (inputs + (read + 1) * of.held / layout_.grad_accum) +
          (element_ + 2) * (into_layer + gate_up);
    const double normed = layout_.sequence_parallel ? read : made;
    const double forward = normed * norms + tokens_ * (read * values + made * ffn) / tp + inputs;
    const double again = (element_ + 1) * inputs;
    // Gradients that SwiGLU's backward leaves in 8 bits are not written as values either.
    const double gradients =
        (read + 2) * into_layer + (current ? made + 2 : 2 - element_) * gate_up;
    const double weights =
        layout_.zero == 3 ? 2 * (read + 1) * of.held : (read + 2) * of.held / layout_.grad_accum;
    return forward + again + gradients + weights;
  }

  // A graph is one launch, forward and backward. Experts take as many rows as are routed to
  // them, so that of their layers only attention and router are one, about half of it.
  [[nodiscard]] double launch_layer_s(bool experts) const {
    constexpr double graph_s = 2 * 15e-6;
    constexpr double beside_graph = 0.5;
    if (layout_.cuda_graphs) return graph_s + (experts ? beside_graph * launch_kernels_s() : 0);
    return launch_kernels_s();
  }

  [[nodiscard]] double launch_kernels_s() const {
    if (layout_.tp == 1) return family_.launch_layer_s;
    const double queued = layout_.pp > 1 ? family_.launch_layer_pipeline_tp_s * layout_.tp : 0;
    return family_.launch_layer_tp_s + queued;
  }

  // Bytes sent per rank, layer and micro-batch: 16 sbh (t-1)/t, 24 with full recomputation;
  // with sequence parallel 20 and 28 (ring; Korthikanti, arXiv 2205.05198, 4.2.2). Of these a
  // quarter or more goes into attention's products, as rows of h times `into_attention`.
  [[nodiscard]] double tp_layer_s(bool full, double into_attention) const {
    if (layout_.tp == 1) return 0;
    const bool sequence = layout_.sequence_parallel;
    const double into = sequence ? (full ? 4 : 3) : 2;
    const double rows =
        (sequence ? (full ? 14 : 10) : (full ? 12 : 8)) + into * (into_attention - 1);
    const double operations = sequence ? (full ? 14 : 10) : (full ? 6 : 4);
    return tp_rows_s(rows, operations);
  }

  [[nodiscard]] double tp_rows_s(double rows, double operations) const {
    const double sent = rows * row_bytes() * (1 - 1.0 / layout_.tp);
    const double hops =
        links_.tp.crosses ? between(hops_between) * std::log2(real(layout_.tp)) : hops_inside;
    return family_.tp_exposed * moving_s(links_.tp, sent) + operations * hops * links_.tp.latency_s;
  }

  /// Part of a row that the ranks of tp gather before attention: for latent attention the latents,
  /// and the row if queries have no latents.
  [[nodiscard]] double into_attention() const {
    if (!model_.is_latent()) return 1;
    const auto queries = model_.q_lora_rank > 0 ? model_.q_lora_rank : model_.hidden;
    return real(queries + model_.kv_lora_rank + model_.qk_rope_head_dim) / real(model_.hidden);
  }

  // Time per micro-batch: one activation forward, its gradient backward; half of it is hidden.
  [[nodiscard]] double stage_s() const {
    if (layout_.pp == 1) return 0;
    const double shards = layout_.sequence_parallel ? layout_.tp : 1;
    return layout_.vpp *
        (moving_s(links_.pp, row_bytes() / shards) + 2 * links_.pp.latency_s +
            family_.stage_message_s);
  }

  /// Hops between nodes, as the trainer's collectives wait for them.
  [[nodiscard]] double between(double hops) const { return hops * family_.links.waits; }

  [[nodiscard]] double row_bytes() const { return element_ * tokens_ * real(model_.hidden); }

  // Stage with most state: the first one has the most layers and the embedding. The last one has
  // more if layers that predict later tokens make it larger.
  [[nodiscard]] double local_parameters() const { return parameters_of(state_stage()); }
  [[nodiscard]] double local_experts() const { return experts_of(state_stage()); }

  [[nodiscard]] std::int32_t state_stage() const {
    const auto head = head_stage(layout_);
    if (model_.mtp_layers == 0 || head == 0) return 0;
    const auto all = [&](std::int32_t stage) { return parameters_of(stage) + experts_of(stage); };
    return all(head) > all(0) ? head : 0;
  }

  [[nodiscard]] double parameters_of(std::int32_t stage) const {
    const double mtp = stage == head_stage(layout_) ? real(model_.mtp_layers) : 0;
    const double embedding = real(model_.vocab) * real(model_.hidden);
    const double sparse = sparse_layers(stage) + (model_.experts > 0 ? mtp : 0);
    const double layers = layers_of_stage(shape_, memory_.split, stage) + mtp;
    double divided =
        (layers - sparse) * matrices_ + sparse * sparse_layer_parameters(model_, 0) + embedding;
    divided += mtp * real(mtp_projection(model_));
    // The embedding's copy beside the head.
    if (stage > 0 && !model_.tied_embeddings) divided += embedding;
    return divided / layout_.tp + layers * down_;
  }

  [[nodiscard]] double experts_of(std::int32_t stage) const {
    const double mtp = stage == head_stage(layout_) ? real(model_.mtp_layers) : 0;
    const double sparse = sparse_layers(stage) + (model_.experts > 0 ? mtp : 0);
    const double matrices = real(model_.matrices_of_ffn()) * real(model_.hidden);
    return sparse * matrices * real(model_.expert_ffn) * real(model_.experts) / layout_.ep /
        layout_.expert_shards();
  }

  [[nodiscard]] double gradient_bytes() const {
    return is_half(point_.dtype) ? memory_.bf16_gradient_bytes : element_;
  }

  // Bytes per train step, in units of (d-1)/d local parameters: gradients twice (all-reduce);
  // ZeRO-1 once; ZeRO-2 once every micro-batch; ZeRO-3 weights twice and gradients once every
  // micro-batch [arXiv 1910.02054, section 7].
  [[nodiscard]] double dp_transfers_s() const {
    const double accum = layout_.grad_accum;
    const std::array<double, 4> bytes{2 * gradient_bytes(), gradient_bytes(),
        accum * gradient_bytes(), accum * (2 * element_ + gradient_bytes())};
    const auto sent = [&](const Link& link, double shards, double parameters) {
      return moving_s(
          link, (1 - 1 / shards) * parameters * bytes[static_cast<std::size_t>(layout_.zero)]);
    };
    return sent(links_.shard, layout_.shard_ranks(), local_parameters()) +
        sent(links_.experts, layout_.expert_replicas(), local_experts());
  }

  // Communication after backward: the latencies of buckets, and ZeRO's gathering of new weights.
  [[nodiscard]] double dp_gathers_s() const {
    const double shards = layout_.shard_ranks();
    if (shards == 1) return 0;
    const double local = local_parameters();
    const double hops = links_.shard.crosses ? between(bucket_hops_between) : bucket_hops_inside;
    const double buckets = local * element_ / (layout_.bucket_mb * mib);
    double seconds = buckets * hops * links_.shard.latency_s * std::log2(shards);
    if (layout_.zero == 1 || layout_.zero == 2) {
      constexpr double tensors_per_layer = 9;
      seconds += moving_s(links_.shard, (1 - 1 / shards) * local * element_);
      seconds += moving_s(
          links_.experts, (1 - 1.0 / layout_.expert_replicas()) * local_experts() * element_);
      seconds += first_layers() * tensors_per_layer *
          (family_.gather_tensor_s + family_.gather_part_s * shards);
    }
    return seconds;
  }

  // Backward is two thirds. Up to ZeRO-1 the last one alone is reduced.
  [[nodiscard]] double dp_window_s(double slot) const {
    constexpr double backward = 2.0 / 3.0;
    const std::array<double, 4> windows{backward * slot, backward * slot,
        backward * slot * layout_.grad_accum, slot * layout_.grad_accum};
    return family_.overlap * windows[static_cast<std::size_t>(layout_.zero)];
  }

  // Share of a hidden transfer's time by which it slows the products that hide it: what it takes of
  // the device's multiprocessors and memory, which a slower link uses less.
  [[nodiscard]] double contention() const {
    const double inside =
        cluster_.intra_node_bandwidth * cluster_.intra_node_efficiency * family_.links.inside;
    const double used = inside > 0 ? std::min(1.0, links_.shard.bandwidth / inside) : 1;
    return family_.contention * used;
  }

  // Replicas all-reduce the gradients of their parts once per train step, a layer at a time.
  [[nodiscard]] double replicate_s() const {
    if (layout_.dp_replicate == 1) return 0;
    const double part = local_parameters() / layout_.shard_ranks();
    const double share = 1 - 1.0 / layout_.dp_replicate;
    return moving_s(links_.replicate, 2 * share * gradient_bytes() * part) +
        first_layers() * links_.replicate.latency_s;
  }

  [[nodiscard]] double update_s() const {
    const bool sharded = layout_.zero > 0;
    const double parameters = local_parameters() / (sharded ? layout_.shard_ranks() : 1) +
        local_experts() / (sharded ? layout_.expert_replicas() : 1);
    if (layout_.offload != Offload::none) return family_.update_s + offloaded_update_s(parameters);
    return family_.update_s +
        moving_s(cluster_.memory_bandwidth, family_.update_bytes * parameters);
  }

  // The host updates what it holds: it reads and writes moments, masters and gradients, while
  // gradients come and weights go by the device's own link. Weights that live there come again
  // for each pass of a micro-batch, and gradients go. A device's share of a node's memory and
  // its PCIe 4.0 x16 both reach about 25 GB/s.
  [[nodiscard]] double offloaded_update_s(double parameters) const {
    constexpr double host_bandwidth = 25e9;
    constexpr double adam_bytes = 28;
    const double step = adam_bytes + gradient_bytes() + element_;
    const double passes = layout_.zero == 3 ? 2 : 0;
    const double accumulated = layout_.offload == Offload::all
        ? layout_.grad_accum * (passes * element_ + gradient_bytes())
        : 0;
    return parameters * (step + accumulated) / host_bandwidth;
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const Point& point_;
  const Layout& layout_;
  const TimeFamily& family_;
  const MemoryFamily& memory_;
  const RunTraits& traits_;
  LayerShape shape_;
  Links links_;
  double tokens_;    // tokens of one micro-batch, on one rank of cp
  double element_;   // bytes
  Modules modules_;  // modules that are computed again
  double matrices_;  // parameters of a layer's matrices that tp divides
  double down_;      // parameters of matrices that tp doesn't divide
  double rate_ = 0;  // rate of a layer's products
  double head_rate_ = 0;
  double attention_rate_ = 0;
  bool nominal_ = false;
};

}  // namespace

double flops_per_token(const ModelSpec& model, std::int32_t seq_len) {
  const double mtp = real(model.mtp_layers);
  const double attended = real(model.with_attention()) + mtp;
  const double dense = real(model.with_dense()) + (model.experts > 0 ? 0 : mtp);
  const double sparse = real(model.with_experts()) + (model.experts > 0 ? mtp : 0);
  // Some layers of a hybrid have a feed-forward part and no attention, or the other way.
  const double alone = attended - dense - sparse;
  const double gemm = dense * layer_gemm_parameters(model) +
      sparse * sparse_layer_parameters(model, real(model.experts_per_token)) +
      alone * attention_parameters(model) + attended * real(latent_attention(model).down) +
      real(model.state_layers) * real(state_mixer(model)) + mtp * real(mtp_projection(model)) +
      (1 + mtp) * real(model.vocab) * real(model.hidden);
  return 6 * gemm + 3 * attended * score_width(model) * attended_share(model, seq_len) * seq_len;
}

TimeEstimate estimate_time(const ModelSpec& model, const ClusterSpec& cluster, const Point& point,
    const TimeFamily& family, const MemoryFamily& memory, const RunTraits& traits) {
  return TimeModel(model, cluster, point, family, memory, traits).estimate();
}

double speed_of(double step_s, const Point& point) {
  const auto tokens = static_cast<double>(point.layout.global_batch()) * point.seq_len;
  return tokens / step_s / static_cast<double>(point.layout.world());
}

std::int64_t gpus_held(const ClusterSpec& cluster, const Point& point) {
  return point.nodes > 0 ? std::int64_t{point.nodes} * cluster.gpus_per_node : point.gpus;
}

}  // namespace shardsweep
