// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_records.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "trainer/trainers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace shardsweep {
namespace {

Result<std::vector<std::string_view>> patterns_of(const TrainerRun& run) {
  std::vector<std::string_view> patterns(run.patterns.begin(), run.patterns.end());
  if (run.log.empty()) return patterns;
  const Trainer* trainer = find_trainer(run.log);
  if (trainer == nullptr)
    return fault(FaultKind::invalid_input,
                 fmt::format("no trainer is called {}", in_quotes(run.log)));
  patterns.insert(patterns.end(), trainer->patterns.begin(), trainer->patterns.end());
  return patterns;
}

void put(WrittenRecord& record, const char* key, std::optional<double> value) {
  if (value && std::isfinite(*value)) record.numbers[key] = *value;
}

}  // namespace

Result<LogRecords> LogRecords::make(const TrainerRun& run, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const auto patterns, patterns_of(run));
  SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(patterns));
  LogRecords records(std::move(reader));
  records.expected_ = {.gpus = gpus,
                       .dp = run.dp,
                       .tp = run.tp,
                       .pp = run.pp,
                       .cp = run.cp,
                       .seq_len = run.seq_len,
                       .tokens_per_step = run.tokens_per_step,
                       .warmup = run.warmup,
                       .steps = run.steps};
  return records;
}

std::vector<WrittenRecord> LogRecords::read(std::string_view line, double now_s) {
  reader_.read(line);
  const LoggedStep* step = reader_.current();
  // What trainers print of a train step may be on several lines; the first one tells it.
  if (step == nullptr || !read_at_s_.try_emplace(step->iteration, now_s).second) return {};
  std::vector<WrittenRecord> records;
  if (read_at_s_.size() == 1) records.push_back({"phase", {{"phase", "train"}}, {}});
  WrittenRecord record{"train_step", {}, {{"step", static_cast<double>(step->iteration)}}};
  for (const auto* key : {"step_ms", "loss"}) {
    const auto found = step->values.find(key);
    if (found != step->values.end()) put(record, key, found->second.value);
  }
  records.push_back(std::move(record));
  return records;
}

std::int64_t LogRecords::more_than_asked() const {
  return static_cast<std::int64_t>(reader_.steps()) - expected_.warmup - expected_.steps;
}

WrittenRecord LogRecords::result_of(const LogMeasurement& measured) const {
  WrittenRecord record{"result", {}, {}};
  put(record, "tokens_per_s_per_gpu", measured.tokens_per_s_per_gpu);
  put(record, "tokens_per_s",
      *measured.tokens_per_s_per_gpu * static_cast<double>(expected_.gpus));
  put(record, "train_step_ms", measured.train_step_ms);
  put(record, "train_step_ms_spread", measured.train_step_ms_spread);
  put(record, "tflops_per_gpu", measured.tflops_per_gpu);
  put(record, "peak_memory_bytes",
      measured.allocated_bytes ? measured.allocated_bytes : measured.reserved_bytes);
  put(record, "peak_allocated_bytes", measured.allocated_bytes);
  put(record, "peak_reserved_bytes", measured.reserved_bytes);
  put(record, "loss", measured.last_loss);
  put(record, "tokens_per_step", static_cast<double>(expected_.tokens_per_step));
  put(record, "steps", static_cast<double>(measured.steps));
  put(record, "warmup", static_cast<double>(expected_.warmup));
  put(record, "resolution", measured.resolution);
  return record;
}

/// From the end of the warm-up to the last timed train step, over their number: the mean.
void LogRecords::time_by_reading(JudgedLog& judged, double look_s) const {
  constexpr double coarsest = 0.05;
  const auto warmup = static_cast<std::size_t>(std::max<std::int64_t>(1, expected_.warmup));
  if (read_at_s_.size() < warmup + 2 || expected_.tokens_per_step <= 0) return;
  const auto first = std::next(read_at_s_.begin(), static_cast<std::ptrdiff_t>(warmup) - 1);
  auto last = std::prev(read_at_s_.end());
  if (expected_.steps > 0 &&
      read_at_s_.size() > warmup + static_cast<std::size_t>(expected_.steps))
    last = std::next(first, expected_.steps);
  const double span_s = last->second - first->second;
  const auto steps = std::distance(first, last);
  if (!(look_s < coarsest * span_s)) {
    judged.notes.push_back(fmt::format(
        "Its lines are read every {:.1f} s, and all timed train steps took {:.1f} s: print the "
        "time of a train step, or raise measure.steps.",
        look_s, span_s));
    return;
  }
  auto& to = judged.measurement;
  to.train_step_ms = 1e3 * span_s / static_cast<double>(steps);
  to.steps = steps;
  to.resolution = look_s / span_s;
  to.tokens_per_s_per_gpu = static_cast<double>(expected_.tokens_per_step) /
                            static_cast<double>(expected_.gpus) / (*to.train_step_ms * 1e-3);
}

WrittenRecord LogRecords::finish(double look_s) const {
  JudgedLog judged = judge_log(reader_.finish(), expected_);
  if (judged.faults.empty() && !judged.measurement.tokens_per_s_per_gpu)
    time_by_reading(judged, look_s);
  std::vector<std::string> wrong = judged.faults;
  if (!judged.measurement.tokens_per_s_per_gpu)
    wrong.insert(wrong.end(), judged.notes.begin(), judged.notes.end());
  if (wrong.empty()) return result_of(judged.measurement);
  return {"error",
          {{"class", judged.has_nan ? "nan" : "internal"},
           {"message", fmt::format("its log is no measurement: {}", fmt::join(wrong, " "))}},
          {}};
}

}  // namespace shardsweep
