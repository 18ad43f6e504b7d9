// SPDX-License-Identifier: Apache-2.0
#include "show/trace_view.hpp"

#include "show/format.hpp"
#include "show/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace shardsweep {

const std::string_view trace_allocations_sql =
    "SELECT n.node AS node, l.job_name AS job, s.name AS sweep, l.claimed_at AS started_at, "
    "l.ended_at AS ended_at FROM allocations AS l JOIN allocation_nodes AS n ON n.allocation = "
    "l.id JOIN sweeps AS s ON s.id = l.sweep WHERE l.claimed_at > 0 ORDER BY n.node, "
    "l.claimed_at, l.id";

const std::string_view trace_attempts_sql =
    "SELECT n.node AS node, t.slug AS trial, a.number AS number, ifnull(a.outcome, a.state) AS "
    "outcome, p.started_at, p.ended_at, p.steps, p.steps_us, p.result_at FROM attempts AS a "
    "JOIN attempt_parts AS p ON p.attempt = a.id JOIN trials AS t ON t.id = a.trial JOIN "
    "allocation_nodes AS n ON n.allocation = a.allocation WHERE a.started_at > 0 AND t.id IN "
    "({}) ORDER BY n.node, a.started_at, a.id";

namespace {

/// Rows of a node, from the top.
enum class TraceLane : std::uint8_t { jobs, attempts, parts };

class Trace {
 public:
  Trace() { put("{{\"traceEvents\":[\n"); }
  void add(const std::string& node, TraceLane lane, const std::string& name, std::int64_t from,
      std::int64_t to, const std::string& arguments = "{}") {
    if (to <= from) return;
    next();
    put("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{},\"name\":",
        process_of(node), static_cast<int>(lane), from, to - from, arguments);
    append_json(out_, name);
    out_.push_back('}');
  }

  /// With the names of what was added.
  std::string take() {
    for (const auto& [node, process] : processes_) {
      name_it("process_name", process, TraceLane::jobs, node);
      name_it("thread_name", process, TraceLane::jobs, "jobs");
      name_it("thread_name", process, TraceLane::attempts, "attempts");
      name_it("thread_name", process, TraceLane::parts, "start-up, train steps, teardown");
    }
    put("\n],\"displayTimeUnit\":\"ms\"}}\n");
    return fmt::to_string(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void next() {
    put("{}", first_ ? "" : ",\n");
    first_ = false;
  }
  void name_it(std::string_view kind, std::size_t process, TraceLane lane, std::string_view name) {
    next();
    put("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":", process,
        static_cast<int>(lane), kind);
    append_json(out_, name);
    put("}}}}");
  }
  std::size_t process_of(const std::string& node) {
    return processes_.try_emplace(node, processes_.size() + 1).first->second;
  }

  fmt::memory_buffer out_;
  std::map<std::string, std::size_t> processes_;
  bool first_ = true;
};

void add_attempt(Trace& trace, const Rows& rows, std::size_t row, std::int64_t now) {
  const auto node = rows.text(row, "node");
  const auto from = rows.integer(row, "started_at");
  const auto ended = rows.integer(row, "ended_at");
  const auto to = ended > 0 ? ended : now;
  trace.add(node, TraceLane::attempts,
      fmt::format("{}.{} {}", rows.text(row, "trial"), rows.integer(row, "number"),
          rows.text(row, "outcome")),
      from, to);
  const auto result = rows.integer(row, "result_at");
  if (result <= from || result > to) return;
  const auto steps = std::max(result - rows.integer(row, "steps_us"), from);
  trace.add(node, TraceLane::parts, "start-up", from, steps);
  trace.add(node, TraceLane::parts, "train steps", steps, result,
      fmt::format("{{\"steps\":{}}}", rows.integer(row, "steps")));
  trace.add(node, TraceLane::parts, "teardown", result, to);
}

}  // namespace

std::string trace_text(const Table& allocations, const Table& attempts, std::int64_t now) {
  Trace trace;
  const Rows jobs_of(allocations);
  for (std::size_t row = 0; row < jobs_of.size(); ++row) {
    const auto ended = jobs_of.integer(row, "ended_at");
    trace.add(jobs_of.text(row, "node"), TraceLane::jobs,
        fmt::format("{} ({})", jobs_of.text(row, "job"), jobs_of.text(row, "sweep")),
        jobs_of.integer(row, "started_at"), ended > 0 ? ended : now);
  }
  const Rows all(attempts);
  for (std::size_t row = 0; row < all.size(); ++row)
    add_attempt(trace, all, row, now);
  return trace.take();
}

}  // namespace shardsweep
