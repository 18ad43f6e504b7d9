// SPDX-License-Identifier: Apache-2.0
// Reading a database of a million measurements: `bench_store [FILE] [--check]` makes it (FILE,
// else a temporary one that is removed; an existing FILE is used again), then asks what people
// ask. One JSON line per item. --check fails where a heatmap takes 2 s or a point query 50 ms.
#include "show/pivot.hpp"
#include "store/schema.hpp"
#include "store/sqlite.hpp"
#include "tools/bench/history.hpp"

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

constexpr bench::History history{};

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

void build(const std::filesystem::path& file) {
  sqlite::Database database(file, sqlite::OpenMode::create, 0);
  database.execute("PRAGMA journal_mode = MEMORY");
  database.execute("PRAGMA synchronous = OFF");
  sqlite::migrate(database);
  bench::fill(database, history);
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
          return rows(
              reader, "SELECT model, nodes, max(tokens_per_s_per_gpu) FROM results GROUP BY 1, 2");
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
      history.measured, history.measured + history.others, std::filesystem::file_size(file),
      build_s, cpu_s());
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
    const std::string_view word = argv[i];
    if (word == "--check") {
      check = true;
    } else if (word.starts_with('-')) {
      const bool help = word == "--help";
      fmt::print(help ? stdout : stderr, "usage: bench_store [FILE] [--check]\n");
      return help ? 0 : 2;
    } else {
      file = word;
    }
  }
  const bool temporary = file.empty();
  if (temporary) {
    file = std::filesystem::temp_directory_path() / fmt::format("bench_store.{}.db", ::getpid());
  }
  const int code = run(file, check);
  if (temporary) std::filesystem::remove(file);
  return code;
}
