// SPDX-License-Identifier: Apache-2.0
// Reading a database of a million measurements: `bench_store [FILE] [--check]` makes it (FILE,
// else a temporary one that is removed; an existing FILE is used again), then asks what people
// ask. One JSON line per item. --check fails where a heatmap takes 2 s or a point query 50 ms.
#include "show/pivot.hpp"
#include "store/schema.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace {

using namespace shardsweep;

constexpr int measured = 1'000'000;
constexpr int others = 200'000;  // oom, skipped, planned

// Trials 1..measured completed; then two thirds oom and skipped, one third planned. Names and
// records are as long as real ones.
const char* const fill = R"sql(
CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT :all)
  SELECT i FROM c;
INSERT INTO sweeps (id, name, state, source, resolved, resolved_hash, backend, site, job_template,
  cluster, runner, runner_version, vars, points, duplicates, left_out, revision, submission, report,
  submitted_at) SELECT i, 'sweep-' || i, 'active', '', '', '', 'slurm', '', '', 'h100-8x',
  'shardbench', '1.0', '[]', 0, 0, '{"memory": 10}', 1, 'nonce' || i, '{}', 1700000000000000
  FROM n WHERE i <= 10;
INSERT INTO trials SELECT i, 1 + i % 10,
  'llama-' || (i % 12) || 'b-n' || (1 << (i % 8)) || '-dp4tp8pp2-mb2ga4-z1-' || printf('%06x', i),
  lower(hex(randomblob(16))), printf('%032x', i / 6), i,
  'llama-' || (i % 12) || 'b', 1 << (i % 8), 8 << (i % 8), 4096, 'bf16', 1 << (i / 7 % 6),
  1 << (i / 11 % 4), 1 << (i / 13 % 4), 1, 1, 1, 1, 1 + i % 6, 1 + i / 5 % 16, i % 4,
  CASE i % 3 WHEN 0 THEN 'none' WHEN 1 THEN 'selective' ELSE 'full' END, i % 2, '1f1b',
  'tp-dp-pp', 25, 1, 1, '{}', 24, 2048, 8192, 32, 32, 128256, 256, 'shardbench', '1.0',
  60000000000, 1.5, 60.0, 4000.0, 0,
  CASE WHEN i <= :measured OR i % 3 > 0 THEN 'ended' ELSE 'planned' END,
  CASE WHEN i <= :measured THEN 'completed' WHEN i % 3 = 1 THEN 'oom' WHEN i % 3 = 2 THEN 'skipped' END,
  'result record', 0, 0, 1 FROM n;
INSERT INTO allocations (id, sweep, token, job_name, job_id, dir, backend, nodes, slots_per_node,
  state, submission, job_state, created_at, claimed_at, last_beat, from_lead_n, said_bye, draining,
  end_reason, end_outcome, time_limit_s, detail) SELECT i, 1 + i % 10, 't' || i, 'j' || i, i, '/scratch/a/' || i, 'slurm', 8, 8,
  'ended', 'accepted', 'ended', 1, 1, 1, 9, 1, 0, 'drained', '', 900, '' FROM n WHERE i <= :measured / 50 + 1;
INSERT INTO attempts (id, trial, number, allocation, nonce, dir, state, outcome, counted, revoked,
  exit_code, signal, cause, source, leaked, started_at, ended_at) SELECT i, i, 1, 1 + i / 50, lower(hex(randomblob(16))),
  '/scratch/user/shardsweep/attempts/' || i, 'ended', 'completed', 1, 0, 0, 0, 'result record',
  'runner', 0, 1700000000000000 + i * 1000000, 1700000060000000 + i * 1000000
  FROM n WHERE i <= :measured;
INSERT INTO measurements (attempt, trial, tokens_per_s_per_gpu, tokens_per_s, train_step_ms,
  train_step_ms_min, train_step_ms_p95, train_step_ms_spread, mfu, tflops_per_gpu, peak_memory_bytes,
  loss, tokens_per_step, n_params, steps, warmup, mark, flops_model, runner_version, software, hosts,
  detail) SELECT i, i, 1000.0 + (i * 7919 % 100000) / 7.0, 1e6, 120.5, 118.0, 131.0,
  0.1, 0.4, 395.0, 60000000000 + i % 1000, 9.5, 1048576, 1340000000, 10, 3, NULL, 'dense-causal',
  '1.0', '{"nccl":"2.28.9","cuda":"13.0"}', '["node17","node18"]',
  printf('{"type":"result","run_id":"%032x","tokens_per_s_per_gpu":%.3f,"train_step_ms":120.5,'
  || '"train_step_ms_min":118.0,"mfu":0.4,"peak_memory_bytes":60000000000,"loss":9.5}', i, i * 1.5)
  FROM n WHERE i <= :measured;
DROP TABLE n;
)sql";

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string with(std::string text, const std::string& name, int value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.replace(at, name.size(), std::to_string(value));
  return text;
}

void build(const std::filesystem::path& file) {
  sqlite::Database database(file, sqlite::OpenMode::create, 0);
  database.execute("PRAGMA journal_mode = MEMORY");
  database.execute("PRAGMA synchronous = OFF");
  database.execute("PRAGMA cache_size = -400000");
  database.execute("PRAGMA foreign_keys = OFF");
  sqlite::migrate(database);
  sqlite::Transaction transaction(database);
  database.execute(with(with(fill, ":measured", measured), ":all", measured + others));
  transaction.commit();
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().what);
    std::exit(1);
  }
  return *std::move(result);
}

struct Bench {
  const char* name;
  double limit_s;  ///< for --check
  std::function<std::size_t(Reader&)> ask;
};

std::size_t rows(Reader& reader, const char* sql) {
  return must(reader.query(sql)).rows.size();
}

const Bench benches[] = {
    {"heatmap_1m", 2.0,
     [](Reader& reader) {
       const HeatmapRequest request;
       return pivot(must(reader.cells(request)), request).rows.size();
     }},
    {"heatmap_1m_where", 2.0,
     [](Reader& reader) {
       const HeatmapRequest request{.selection = {.names = {"sweep-3"}, .where = "tp > 1"},
                                    .rows = "micro_batch",
                                    .columns = "zero",
                                    .value = "mfu"};
       return pivot(must(reader.cells(request)), request).rows.size();
     }},
    {"best_1m", 4.0, [](Reader& reader) { return must(reader.best({})).rows.size(); }},
    {"query_group_1m", 4.0,
     [](Reader& reader) {
       return rows(reader,
                   "SELECT model, nodes, max(tokens_per_s_per_gpu) FROM results GROUP BY 1, 2");
     }},
    {"query_point", 0.05,
     [](Reader& reader) {
       return rows(reader,
                   "SELECT * FROM results WHERE trial = "
                   "(SELECT slug FROM trials WHERE id = 777777)");
     }},
    {"query_failures", 4.0,
     [](Reader& reader) {
       return rows(reader, "SELECT outcome, count(*) FROM results GROUP BY outcome");
     }},
    {"results_where_sort_limit", 4.0,
     [](Reader& reader) {
       return must(reader.results({.selection = {.where = "tp = 8 and mfu > 0.3"},
                                   .columns = {},
                                   .sort = "-tokens_per_s_per_gpu",
                                   .limit = 20}))
           .rows.size();
     }},
    {"show_trial", 0.05,
     [](Reader& reader) {
       const auto table = must(reader.query("SELECT slug FROM trials WHERE id = 555555"));
       return must(reader.show(std::get<std::string>(table.rows.at(0).at(0)))).size();
     }},
    {"status_10_sweeps", 2.0, [](Reader& reader) { return must(reader.status({})).size(); }},
};

int run(const std::filesystem::path& file, bool check) {
  const bool made = !std::filesystem::exists(file);
  const double build_s = made ? seconds_of([&] { build(file); }) : 0;
  fmt::print(
      "{{\"bench\":\"store_build\",\"measurements\":{},\"trials\":{},\"bytes\":{},"
      "\"seconds\":{:.3f},\"cpu_s\":{:.3f}}}\n",
      measured, measured + others, std::filesystem::file_size(file), build_s, cpu_s());
  bool slow = false;
  for (const auto& bench : benches) {
    // A new connection each time: nothing is in its cache.
    const auto reader = must(Reader::open(file));
    std::size_t answer = 0;
    const double cpu_before = cpu_s();
    const double seconds = seconds_of([&] { answer = bench.ask(*reader); });
    const double cpu = cpu_s() - cpu_before;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print(
        "{{\"bench\":\"{}\",\"seconds\":{:.4f},\"cpu_s\":{:.4f},\"rows\":{},\"max_rss_mb\":{:."
        "1f}}}\n",
        bench.name, seconds, cpu, answer, static_cast<double>(usage.ru_maxrss) / 1024);
    std::fflush(stdout);
    slow = slow || seconds > bench.limit_s;
  }
  return check && slow ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path file;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--check") {
      check = true;
    } else {
      file = argv[i];
    }
  }
  const bool temporary = file.empty();
  if (temporary) {
    file =
        std::filesystem::temp_directory_path() / fmt::format("bench_store.{}.db", ::getpid());
  }
  const int code = run(file, check);
  if (temporary) std::filesystem::remove(file);
  return code;
}
