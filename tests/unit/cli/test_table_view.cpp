// SPDX-License-Identifier: Apache-2.0
#include "cli/cell_text.hpp"
#include "cli/table_view.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <ostream>

using namespace shardsweep;

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// RFC 4180, read by another hand than the one that writes it.
Rows read_csv(const std::string& text) {
  Rows rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    auto& field = rows.back().back();
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!quoted && c == '\n') {
      rows.emplace_back(1);
    } else {
      field += c;
    }
  }
  REQUIRE(rows.back() == std::vector<std::string>{""});
  rows.pop_back();
  return rows;
}

Table sample() {
  return {{"trial", "gpus", "tokens_per_s_per_gpu", "mfu", "peak_memory_bytes", "train_step_ms",
           "started_at"},
          {{std::string("llama-1b"), std::int64_t{8}, 12345.6, 0.4567, std::int64_t{3} << 20,
            12.3456, std::int64_t{1'700'000'000'000'000}},
           {std::string("β-модель"), std::int64_t{16}, std::monostate{}, std::monostate{},
            std::monostate{}, std::monostate{}, std::monostate{}}},
          ""};
}

}  // namespace

TEST_CASE("a table lines up and shows units") {
  CHECK(table_text(sample(), Format::table) ==
        "trial     gpus  tokens_per_s_per_gpu     mfu  peak_memory_bytes  train_step_ms"
        "           started_at\n"
        "llama-1b     8                12,346  45.7 %           3.00 MiB       12.35 ms"
        "  2023-11-14 22:13:20\n"
        "β-модель    16\n");
}

TEST_CASE("a turned row takes each unit from its name") {
  const Table table{{"name", "value"},
                    {{std::string("peak_memory_bytes"), std::int64_t{2048}},
                     {std::string("predicted_attempt_s"), 95.0},
                     {std::string("gpus"), std::int64_t{4}},
                     {std::string("tokens_per_s"), 1234567.0}},
                    ""};
  CHECK(table_text(table, Format::table) ==
        "name                 value\n"
        "peak_memory_bytes    2.00 KiB\n"
        "predicted_attempt_s  1min 35s\n"
        "gpus                 4\n"
        "tokens_per_s         1,234,567\n");
}

TEST_CASE("csv carries the values as they are") {
  CHECK(table_text(sample(), Format::csv) ==
        "trial,gpus,tokens_per_s_per_gpu,mfu,peak_memory_bytes,train_step_ms,started_at\n"
        "llama-1b,8,12345.6,0.4567,3145728,12.3456,1700000000000000\n"
        "β-модель,16,,,,,\n");
  CHECK(table_text({{"a"}, {}, ""}, Format::csv) == "a\n");
  CHECK(table_text({{"a"}, {{std::monostate{}}}, ""}, Format::csv) == "a\n\"\"\n");
}

TEST_CASE("csv fields come back whole whatever is in them") {
  const std::vector<std::string> hard{"plain",      "a,b",     "say \"hi\"", "two\nlines",
                                      "cr\rlf\r\n", "",        "\"",         ",",
                                      "tab\t",      "'; DROP", "=1+1"};
  Table table{{"text", "other,column"}, {}, ""};
  for (const auto& text : hard)
    table.rows.push_back({text, std::string("x")});
  const auto rows = read_csv(table_text(table, Format::csv));
  REQUIRE(rows.size() == hard.size() + 1);
  CHECK(rows[0] == std::vector<std::string>{"text", "other,column"});
  for (std::size_t i = 0; i < hard.size(); ++i)
    CHECK(rows[i + 1] == std::vector<std::string>{hard[i], "x"});
}

TEST_CASE("json is an array of objects with numbers as numbers") {
  Table table{{"text", "i", "r", "n"}, {}, ""};
  std::string bytes;
  for (int c = 0; c < 256; ++c)
    bytes += static_cast<char>(c);
  table.rows.push_back(
      {bytes, std::numeric_limits<std::int64_t>::max(), 0.1, std::monostate{}});
  table.rows.push_back({std::string("ü\"\\\n"), std::int64_t{-1},
                        std::numeric_limits<double>::infinity(), std::monostate{}});
  table.rows.push_back({std::string(), std::int64_t{0}, 1e300, std::monostate{}});
  const auto json = nlohmann::json::parse(table_text(table, Format::json));
  REQUIRE(json.size() == 3);
  CHECK(json[0]["i"].get<std::int64_t>() == std::numeric_limits<std::int64_t>::max());
  CHECK(json[0]["r"].get<double>() == 0.1);
  CHECK(json[0]["n"].is_null());
  CHECK(json[0]["text"].get<std::string>().substr(0, 128) == bytes.substr(0, 128));
  CHECK(json[1]["text"] == "ü\"\\\n");
  CHECK(json[1]["r"].is_null());
  CHECK(json[2]["r"].get<double>() == 1e300);
  CHECK(table_text({{"a"}, {}, ""}, Format::json) == "[]\n");
  CHECK(table_text({{"a"}, {{std::int64_t{1}}, {std::string("x")}}, ""}, Format::json) ==
        "[\n{\"a\":1},\n{\"a\":\"x\"}\n]\n");
}

TEST_CASE("a terminal obeys nothing that stands in a table") {
  const Table table{{"trial"},
                    {{std::string("\x1b[2J\x1b]0;title\x07")},
                     {std::string("line\nbreak\ttab\x7f")},
                     {std::string("\xc2\x9b"
                                  "31m")},
                     {std::string("\u202egnp.exe")},
                     {std::string("\xff\xfe broken")}},
                    ""};
  CHECK(table_text(table, Format::table) ==
        "trial\n"
        "\\x1b[2J\\x1b]0;title\\x07\n"
        "line\\nbreak\\ttab\\x7f\n"
        "\\u{009b}31m\n"
        "\\u{202e}gnp.exe\n"
        "\\xff\\xfe broken\n");
}

TEST_CASE("widths count what a terminal shows") {
  CHECK(width_of("abc") == 3);
  CHECK(width_of("äöü") == 3);
  CHECK(width_of("e\u0301") == 1);
  CHECK(width_of("模型") == 4);
  CHECK(width_of("🚀") == 2);
}

TEST_CASE("units are told by metric and by name") {
  CHECK(humanised("train_step_ms", 0.01234) == "0.01234 ms");
  CHECK(humanised("train_step_ms_spread", 0.0312) == "3.1 %");
  CHECK(humanised("predicted_memory_bytes", std::int64_t{81} << 30) == "81.0 GiB");
  CHECK(humanised("duration_s", 7384.0) == "2h 03min");
  CHECK(humanised("duration_s", 1.5) == "1.5 s");
  CHECK(humanised("id", std::int64_t{9'007'199'254'740'993}) == "9007199254740993");
  CHECK(humanised("n_params", std::int64_t{1'340'000'000}) == "1,340,000,000");
  CHECK(humanised("loss", 2.302585) == "2.303");
  CHECK(humanised("at", std::int64_t{-1}) == "1969-12-31 23:59:59");
  CHECK(humanised("ended_at", std::int64_t{0}).empty());
  CHECK(humanised("ended_at", std::numeric_limits<std::int64_t>::max()) ==
        "9223372036854775807");
  CHECK(humanised("x", std::nan("")) == "nan");
}
