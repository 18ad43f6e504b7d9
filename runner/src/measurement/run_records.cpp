// SPDX-License-Identifier: Apache-2.0
#include "measurement/run_records.hpp"

#include "base/version.hpp"
#include "communication/rendezvous.hpp"
#include "device/memory.hpp"
#include "measurement/loss_reference.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/profile.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace shardbench {
namespace {

std::string layout_json(const Layout& l) {
  std::vector<std::string> stages;
  for (const i64 layers : l.stages)
    stages.push_back(std::to_string(layers));
  return JsonObject{}
      .integer("dp", l.dp)
      .integer("tp", l.tp)
      .integer("pp", l.pp)
      .integer("cp", l.cp)
      .text("cp_mode", context_mode_name(l.cp_mode))
      .integer("ep", l.ep)
      .integer("vpp", l.vpp)
      .integer("dp_replicate", l.dp_replicate)
      .integer("micro_batch", l.micro_batch)
      .integer("grad_accum", l.grad_accum)
      .integer("zero", l.zero)
      .text("recompute", recompute_name(l.recompute))
      .boolean("sequence_parallel", l.sequence_parallel)
      .text("schedule", schedule_name(l.schedule))
      .text("rank_order", rank_order_name(l.rank_order))
      .boolean("overlap", l.overlap)
      .integer("bucket_mb", l.bucket_bytes >> 20)
      .integer("vocab_multiple", l.habits.vocab_multiple)
      .raw("stages", json_array(stages))
      .str();
}

i64 tokens_per_step(const Options& o) {
  return o.layout.global_batch() * o.model.seq_len;
}

double tokens_per_second(const Options& o, double step_ms) {
  return static_cast<double>(tokens_per_step(o)) / (step_ms * 1e-3);
}

std::string bytes_by_class(const std::vector<double>& bytes) {
  JsonObject object;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    object.integer(memory_class_name(static_cast<MemoryClass>(i)), static_cast<i64>(bytes[i]));
  return object.str();
}

std::string named_numbers(const char* const* names, const std::vector<double>& values) {
  JsonObject object;
  for (std::size_t i = 0; i < values.size(); ++i)
    object.number(names[i], values[i]);
  return object.str();
}

/// Adds each rank's own work, and its stage: ranks of one stage do the same.
void add_own_work(JsonObject& record, const Layout& layout, const std::vector<double>& busy) {
  std::vector<std::string> stages;
  std::vector<std::string> times;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    stages.push_back(std::to_string(coordinates_of(layout, static_cast<i64>(rank)).pp));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", busy[rank]);
    times.emplace_back(text.data());
  }
  record.raw("busy_ms_by_rank", json_array(times)).raw("stage_by_rank", json_array(stages));
}

/// Adds the causes that held ranks' hardware back, if there are any.
void add_throttles(JsonObject& record, const std::vector<Pace>& paces, std::size_t slowest) {
  JsonObject by_rank;
  bool any = false;
  for (std::size_t rank = 0; rank < paces.size(); ++rank) {
    const std::string text = throttle_text(paces[rank].held_back);
    if (text.empty()) continue;
    by_rank.text(std::to_string(rank), text);
    any = true;
  }
  if (!any) return;
  record.text("throttled", throttle_text(paces[slowest].held_back))
      .raw("throttled_by_rank", by_rank.str());
}

/// Adds the pace of the slowest rank, which the others wait for, and of each rank. Adds nothing if
/// a rank does not tell.
void add_paces(JsonObject& record, const RunFigures& m) {
  if (m.paces.empty()) return;
  const auto slowest = static_cast<std::size_t>(
      std::max_element(m.busy_ms.begin(), m.busy_ms.end()) - m.busy_ms.begin());
  const auto values_of = [&](double Pace::*field) {
    std::vector<std::string> values;
    for (const Pace& pace : m.paces)
      values.push_back(pace.*field > 0 ? json_number(pace.*field) : "null");
    return values;
  };
  if (m.paces[slowest].clock_mhz > 0)
    record.number("sm_clock_mhz", m.paces[slowest].clock_mhz)
        .integer("slowest_rank", static_cast<i64>(slowest))
        .raw("sm_clock_mhz_by_rank", json_array(values_of(&Pace::clock_mhz)));
  double power_w = 0;
  for (const Pace& pace : m.paces)
    power_w += pace.power_w / static_cast<double>(m.paces.size());
  if (power_w > 0)
    record.number("power_w", power_w).raw("power_w_by_rank", json_array(values_of(&Pace::power_w)));
  add_throttles(record, m.paces, slowest);
}

void add_correctness(JsonObject& record, const Options& o, double loss) {
  const std::optional<double> expected = reference_loss(o);
  if (expected)
    record.number("loss_reference", *expected)
        .number("loss_error", std::abs(loss - *expected) / *expected);
  else
    record.null("loss_reference").null("loss_error");
}

/// The reference is the loss after all train steps.
void add_loss_check(JsonObject& record, const Options& o, const RunFigures& m) {
  if (m.gave_up)
    record.null("loss_reference").null("loss_error");
  else
    add_correctness(record, o, m.loss);
}

}  // namespace

std::string model_json(const Options& o) {
  JsonObject model;
  model.text("name", o.model_name)
      .integer("layers", o.model.layers)
      .integer("hidden", o.model.hidden)
      .integer("ffn", o.model.ffn)
      .integer("heads", o.model.heads)
      .integer("kv_heads", o.model.kv_heads)
      .integer("vocab", o.model.vocab)
      .integer("padded_vocab", padded_vocab(o.model.vocab, o.layout))
      .boolean("tied_embeddings", o.model.tied)
      .integer("seq_len", o.model.seq_len);
  if (o.model.experts > 0)
    model.integer("experts", o.model.experts)
        .integer("experts_per_token", o.model.experts_per_token)
        .integer("expert_ffn", o.model.expert_ffn)
        .integer("shared_experts", o.model.shared_experts)
        .integer("dense_layers", o.model.dense_layers)
        .text("moe_routing", moe_routing_name(o.layout.moe_routing))
        .number("moe_capacity", o.layout.moe_capacity)
        .number("moe_aux_loss", o.layout.moe_aux_loss);
  return model.str();
}

bool gives_up(const std::vector<double>& step_ms, double above_ms) {
  constexpr std::size_t fewest = 2;
  if (step_ms.size() < fewest) return false;
  const StepStatistics time = describe(step_ms);
  return time.min - (time.median - time.min) > above_ms;
}

bool gives_up_warming_up(const std::vector<double>& step_ms, double above_ms) {
  constexpr double shortest_ms = 10e3;
  constexpr double factor = 2;
  return !step_ms.empty() && *std::min_element(step_ms.begin(), step_ms.end()) >= shortest_ms &&
      gives_up(step_ms, factor * above_ms);
}

void add_start_fields(JsonObject& record, const Options& o) {
  record.text("runner", "shardbench")
      .text("version", version)
      .text("flags", o.defining_flags)
      .text("host", host_name())
      .integer("pid", ::getpid())
      .text("device", o.device)
      .text("dtype", trained_in(o.dtype, o.layout.fp8))
      .text("profile", o.profile)
      .raw("profile_does", profile_json(*find_profile(o.profile), o.layout))
      .raw("model", model_json(o))
      .integer("n_params", parameter_count(o.model))
      .raw("layout", layout_json(o.layout))
      .integer("world_size", o.world_size)
      .integer("global_batch", o.layout.global_batch())
      .integer("warmup", o.warmup)
      .integer("steps", o.steps)
      .integer("seed", static_cast<i64>(o.seed));
  if (o.layout.fp8 != Scaling::none)
    record.raw("fp8",
        JsonObject{}
            .text("recipe", scaling_name(o.layout.fp8))
            .text("products", "layers")
            .text("inputs", element_name(Element::e4m3))
            .text("weights", element_name(Element::e4m3))
            .text("gradients", element_name(Element::e5m2))
            .text("beside", dtype_name(o.dtype))
            .str());
  if (o.memory_limit_bytes) record.integer("memory_limit_bytes", *o.memory_limit_bytes);
}

void add_result_fields(JsonObject& record, const Options& o, const RunFigures& m) {
  const StepStatistics time = describe(m.step_ms);
  const double per_second = tokens_per_second(o, time.median);
  const double per_rank = per_second / static_cast<double>(o.world_size);
  const double flops = per_rank * flops_per_token_megatron_causal(o.model);
  std::vector<std::string> by_rank;
  for (const double bytes : m.peak_memory_bytes)
    by_rank.push_back(std::to_string(static_cast<i64>(bytes)));
  const auto peak =
      static_cast<i64>(*std::max_element(m.peak_memory_bytes.begin(), m.peak_memory_bytes.end()));
  record.number("loss", m.loss)
      .number("tokens_per_s", per_second)
      .number("tokens_per_s_per_gpu", per_rank)
      .number("train_step_ms", time.median)
      .number("train_step_ms_min", time.min)
      .number("train_step_ms_p95", time.p95)
      .number("train_step_ms_spread", time.spread)
      .number("tflops_per_gpu", flops * 1e-12);
  if (o.peak_flops)
    record.number("mfu", flops / *o.peak_flops);
  else
    record.null("mfu");
  record.text("profile", o.profile)
      .text("flops_model", "megatron_causal")
      .number("flops_per_token", flops_per_token_megatron_causal(o.model))
      .integer("peak_memory_bytes", peak)
      // Live memory is charged; gaps in arenas are not measured.
      .integer("peak_allocated_bytes", peak)
      .raw("peak_memory_by_rank", json_array(by_rank))
      .raw("peak_memory_by_class", bytes_by_class(m.peak_memory_by_class_bytes))
      .raw("phase_ms", named_numbers(measured_phases.data(), m.phase_ms))
      .raw("wait_ms", named_numbers(measured_waits.data(), m.wait_ms))
      .raw("sent_bytes_per_step", named_numbers(group_names.data(), m.sent_bytes))
      .integer("n_params", parameter_count(o.model))
      .integer("tokens_per_step", tokens_per_step(o))
      .integer("steps", static_cast<i64>(m.step_ms.size()))
      .integer("warmup", m.warmed_up ? o.warmup : 0);
  if (m.gave_up) record.number("gave_up_above_ms", *o.give_up_above_ms);
  if (m.dropped) record.number("moe_dropped", *m.dropped);
  add_own_work(record, o.layout, m.busy_ms);
  add_paces(record, m);
  add_loss_check(record, o, m);
}

std::string result_summary(const Options& o, const RunFigures& m) {
  const StepStatistics time = describe(m.step_ms);
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(),
      "shardbench: loss %.4f, %.2f ms per train step, %.0f tokens/s, peak %.1f MiB\n", m.loss,
      time.median, tokens_per_second(o, time.median),
      *std::max_element(m.peak_memory_bytes.begin(), m.peak_memory_bytes.end()) /
          (1024.0 * 1024.0));
  return line.data();
}

}  // namespace shardbench
