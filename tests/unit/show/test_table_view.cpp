// SPDX-License-Identifier: Apache-2.0
#include "show/cell_text.hpp"
#include "show/table_view.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>

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

/// Local time is that of the variable TZ.
class TimeZone {
 public:
  explicit TimeZone(const char* name) {
    const char* before = ::getenv("TZ");
    if (before != nullptr) before_ = before;
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;
  ~TimeZone() {
    before_ ? ::setenv("TZ", before_->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }

 private:
  std::optional<std::string> before_;
};

Table sample() {
  return {{"trial", "gpus", "tokens_per_s_per_gpu", "mfu", "peak_memory_bytes", "train_step_ms",
              "started_at"},
      {{std::string("llama-1b"), std::int64_t{8}, 12345.6, 0.4567, std::int64_t{3} << 20, 12.3456,
           std::int64_t{1'700'000'000'000'000}},
          {std::string("β-модель"), std::int64_t{16}, std::monostate{}, std::monostate{},
              std::monostate{}, std::monostate{}, std::monostate{}}},
      ""};
}

}  // namespace

TEST_CASE("what others wrote acts on no terminal, and colours of views stay") {
  CHECK(for_terminal("a,b\n\x1b]0;owned\x07,1\n") == "a,b\n\\x1b]0;owned\\x07,1\n");
  CHECK(for_terminal("\x1b[48;5;21;38;5;1m 7 \x1b[0m\n\n") == "\x1b[48;5;21;38;5;1m 7 \x1b[0m\n\n");
  CHECK(for_terminal("\x1b[2J\x1b[1") == "\\x1b[2J\\x1b[1");
  CHECK(for_terminal("tr\u00e4ge\u202ex\n") == "tr\u00e4ge\\u{202e}x\n");
  CHECK(for_terminal("\ta\r\n\t\n") == "\ta\\x0d\n\t\n");
  CHECK(for_terminal("").empty());
}

TEST_CASE("a table lines up and shows units") {
  const TimeZone zone("UTC");
  CHECK(table_text(sample(), Format::table) ==
      "trial     gpus  tokens/s/GPU     MFU  peak memory  train step              started\n"
      "llama-1b     8        12,346  45.7 %      3.0 MiB     12.3 ms  2023-11-14 22:13:20\n"
      "β-модель    16\n");
}

TEST_CASE("a turned row takes each unit from its name") {
  const Table table{{"name", "value"},
      {{std::string("peak_memory_bytes"), std::int64_t{2048}},
          {std::string("predicted_attempt_s"), 95.0}, {std::string("gpus"), std::int64_t{4}},
          {std::string("tokens_per_s"), 1234567.0}},
      ""};
  CHECK(table_text(table, Format::table) ==
      "peak memory        2.0 KiB\n"
      "predicted attempt  1 min 35 s\n"
      "gpus               4\n"
      "tokens/s           1,234,567\n");
}

TEST_CASE("on a terminal what is the same everywhere stands above, what does not fit below") {
  Table table{{"sweep", "trial", "state", "gpus", "outcome", "layout"}, {}};
  for (int i = 0; i < 3; ++i) {
    table.rows.push_back({std::string("grid"), "trial-" + std::to_string(i), std::string("ended"),
        std::int64_t{1} << i, std::string(i == 1 ? "oom" : "completed"),
        "a layout of some width " + std::to_string(i)});
  }
  TableStyle style{.terminal = {.width = 44}, .important = {"trial", "outcome", "gpus"}};
  CHECK(table_text(table, style) ==
      "same in all rows: sweep grid, state ended\n"
      "trial    gpus  outcome\n"
      "trial-0     1  completed\n"
      "trial-1     2  oom\n"
      "trial-2     4  completed\n"
      "not shown: layout (--wide shows all)\n");
  style.every = true;
  CHECK(table_text(table, style)
            .starts_with("sweep    grid\n"
                         "trial    trial-0\n"
                         "state    ended\n"
                         "gpus     1\n"
                         "outcome  completed\n"
                         "layout   a layout of some width 0\n\n"));
  style.every = false;
  style.wide = true;
  CHECK(table_text(table, style) == table_text(table, Format::table));
}

// N9: columns stood by width. At 80 columns `best` kept a constant profile and dropped memory.
TEST_CASE("columns stay by their worth, and one that is empty never does") {
  Table table{{"profile", "layout", "seq_len", "tokens_per_s_per_gpu", "mfu", "train_step_ms",
                  "runner_up", "peak_memory_bytes", "certainty"},
      {}};
  for (int i = 0; i < 2; ++i)
    table.rows.push_back({std::string("own"), "dp2 tp1 mb" + std::to_string(i), std::int64_t{32},
        8000.0 - i, {}, 12.5 + i, "dp1 tp2 mb" + std::to_string(i), std::int64_t{3} << (20 + i),
        std::string(i == 0 ? "1 run" : "tie")});
  TableStyle style{.terminal = {.width = 62}, .important = {"layout"}};
  CHECK(table_text(table, style) ==
      "same in all rows: profile own, seq_len 32\n"
      "layout       tokens/s/GPU  train step  peak memory  certainty\n"
      "dp2 tp1 mb0         8,000     12.5 ms      3.0 MiB  1 run\n"
      "dp2 tp1 mb1         7,999     13.5 ms      6.0 MiB  tie\n"
      "not shown: runner up (--wide shows all)\n");
  table.rows.pop_back();
  CHECK(table_text(table, style)
            .starts_with("profile own, seq_len 32\n"
                         "layout       tokens/s/GPU  train step"));
  CHECK(table_text(table, Format::table).find("MFU") == std::string::npos);
  style.every = true;
  style.wide = true;
  CHECK(table_text(table, style).find("MFU") != std::string::npos);
}

TEST_CASE("a column that tells rows apart is shown before one that is the same in all") {
  const auto words = [](const char* text) { return Value(std::string(text)); };
  const Table pair{{"model", "seq_len", "cluster", "layout", "points", "tokens_per_s_per_gpu",
                       "verdict", "vars"},
      {{words("tiny"), std::int64_t{32}, words("here"), words("dp2"), std::int64_t{1}, 13'149.0,
           words("UNDECIDED"), words("compile off")},
          {words("tiny"), std::int64_t{64}, words("here"), words("dp2"), std::int64_t{1}, 11'509.0,
              words("UNDECIDED"), words("compile on")}}};
  const std::vector<std::string_view> important{"model", "verdict"};
  const TableStyle style{.terminal = {.width = 42}, .important = important};
  CHECK(table_text(pair, style) ==
      "same in all rows: model tiny, cluster\n"
      "  here, layout dp2, points 1, verdict\n"
      "  UNDECIDED\n"
      "seq_len  tokens/s/GPU  vars\n"
      "     32        13,149  compile off\n"
      "     64        11,509  compile on\n");
  // A figure goes before what the rows are of, though figures tell them apart too.
  const Table figures{
      {"model", "tokens_per_s_per_gpu", "train_step_ms", "peak_memory_bytes", "compile"},
      {{words("tiny"), 13'149.0, 12.5, std::int64_t{3} << 20, words("as it is")},
          {words("tiny"), 11'509.0, 13.5, std::int64_t{6} << 20, words("compiled")}}};
  const TableStyle named{.terminal = {.width = 38}, .important = {"model"}, .names = {"compile"}};
  CHECK(table_text(figures, named) ==
      "same in all rows: model tiny\n"
      "tokens/s/GPU  train step  compile\n"
      "      13,149     12.5 ms  as it is\n"
      "      11,509     13.5 ms  compiled\n"
      "not shown: peak memory (--wide shows\n"
      "  all)\n");
}

TEST_CASE("rows of one kind keep the column that names them") {
  const std::string slug = "tiny-g1-dp1tp1pp1-mb4ga8-s32-fp32-";
  Table events{{"at", "kind", "trial", "attempt", "detail"}, {}};
  for (const std::int64_t i : {1, 2, 3, 4})
    events.rows.push_back({std::int64_t{1'700'000'000'000'000}, std::string("completed"),
        slug + std::to_string(i), std::int64_t{1},
        i == 4 ? Value(std::string("after a sentence that is as long as this one")) : Value()});
  TimeZone zone("UTC");
  const auto text = table_text(events,
      {.terminal = {.width = 80}, .important = {"at", "kind", "detail", "trial", "attempt"}});
  for (const char number : {'1', '2', '3', '4'})
    CHECK(text.find(std::string("fp32-") + number) != std::string::npos);
  CHECK(text.find("after a sentence") != std::string::npos);
}

TEST_CASE("headings of one table alone fold before a column is left out") {
  const Table table{{"layout", "first_tokens_per_s_per_gpu", "second_tokens_per_s_per_gpu"},
      {{std::string("dp8"), 100.0, 90.0}, {std::string("tp8"), 50.0, 60.0}}};
  const TableStyle style{.terminal = {.width = 34},
      .titles = {{"first_tokens_per_s_per_gpu", "old tokens/s/GPU"},
          {"second_tokens_per_s_per_gpu", "new tokens/s/GPU"}}};
  CHECK(table_text(table, style) ==
      "layout           old           new\n"
      "        tokens/s/GPU  tokens/s/GPU\n"
      "dp8              100            90\n"
      "tp8               50            60\n");
}

TEST_CASE("sentences fold within their column") {
  const Table table{{"trial", "cause"},
      {{std::string("a"),
           std::string("the first rank ran out of memory while "
                       "the others waited for it")},
          {std::string("b"), std::string("short")}}};
  CHECK(table_text(table, {.terminal = {.width = 40}}) ==
      "trial  cause\n"
      "a      the first rank ran out of memory\n"
      "       while the others waited for it\n"
      "b      short\n");
}

TEST_CASE("no line of any table is wider than the terminal") {
  const std::array<std::string, 8> words{"a", "模型", "é́", "cause-of-some-length", "🚀🚀", "\x1b[31m",
      "\xff", "x y z with blanks in it all"};
  const std::array<std::string, 9> names{"trial", "cause", "at", "peak_memory_bytes", "mfu",
      "layout", "a_very_long_name_of_a_column", "id", "n"};
  std::uint32_t state = 1;
  const auto draw = [&](std::size_t below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::size_t>(state >> 8U) % below;
  };
  for (int round = 0; round < 600; ++round) {
    Table table;
    const auto columns = 1 + draw(names.size());
    for (std::size_t i = 0; i < columns; ++i)
      table.columns.push_back(names[i]);
    for (std::size_t row = draw(5); row > 0; --row) {
      auto& values = table.rows.emplace_back();
      for (std::size_t i = 0; i < columns; ++i) {
        std::string text;
        for (auto n = draw(6); n > 0; --n)
          text += words[draw(words.size())] + (draw(2) == 0 ? " " : "");
        values.push_back(draw(3) == 0 ? Value()
                : draw(2) == 0        ? Value(static_cast<std::int64_t>(draw(1 << 20)))
                                      : Value(std::move(text)));
      }
    }
    const auto width = 20 + draw(120);
    const TableStyle style{.terminal = {.width = width, .utf8 = draw(2) == 0},
        .important = {"layout", "cause"},
        .every = draw(3) == 0};
    std::istringstream lines(table_text(table, style));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(width_of(line) <= width);
      CHECK((line.empty() || line.back() != ' '));
      if (!style.terminal.utf8) {
        CHECK(std::all_of(
            line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
      }
    }
  }
}

TEST_CASE("times are points in time for machines, and stored values for SQL") {
  const Table table{{"ended_at", "at"}, {{std::int64_t{1'700'000'000'250'000}, std::int64_t{0}}}};
  CHECK(table_text(table, Format::csv) == "ended_at,at\n2023-11-14T22:13:20.250000Z,\n");
  CHECK(table_text(table, Format::json) ==
      "[\n{\"ended_at\":\"2023-11-14T22:13:20.250000Z\",\"at\":null}\n]\n");
  CHECK(table_text(table, {.format = Format::csv, .raw = true}) ==
      "ended_at,at\n1700000000250000,0\n");
}

TEST_CASE("csv carries the values as they are") {
  CHECK(table_text(sample(), Format::csv) ==
      "trial,gpus,tokens_per_s_per_gpu,mfu,peak_memory_bytes,train_step_ms,started_at\n"
      "llama-1b,8,12345.6,0.4567,3145728,12.3456,2023-11-14T22:13:20.000000Z\n"
      "β-модель,16,,,,,\n");
  CHECK(table_text({{"a"}, {}, ""}, Format::csv) == "a\n");
  CHECK(table_text({{"a"}, {{std::monostate{}}}, ""}, Format::csv) == "a\n\"\"\n");
}

TEST_CASE("csv fields come back whole whatever is in them") {
  const std::vector<std::string> hard{
      "plain", "a,b", "say \"hi\"", "two\nlines", "cr\rlf\r\n", "", "\"", ",", "tab\t", "'; DROP"};
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
  table.rows.push_back({bytes, std::numeric_limits<std::int64_t>::max(), 0.1, std::monostate{}});
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
      {{std::string("\x1b[2J\x1b]0;title\x07")}, {std::string("line\nbreak\ttab\x7f")},
          {std::string("\xc2\x9b"
                       "31m")},
          {std::string("\u202egnp.exe")}, {std::string("\xff\xfe broken")}},
      ""};
  CHECK(table_text(table, Format::table) ==
      "trial\n"
      "\\x1b[2J\\x1b]0;title\\x07\n"
      "line\\nbreak\\ttab\\x7f\n"
      "\\u{009b}31m\n"
      "\\u{202e}gnp.exe\n"
      "\\xff\\xfe broken\n");
}

TEST_CASE("without UTF-8 every character is ASCII") {
  CHECK(in_charset("2 × 3 … – ≥ ±", false) == "2 x 3 ... - >= +-");
  CHECK(in_charset("modèle 模型", false) == "mod\\u{00e8}le \\u{6a21}\\u{578b}");
  CHECK(in_charset("2 × 3", true) == "2 × 3");
}

TEST_CASE("text folds at blanks, and within a word that is too long") {
  using Lines = std::vector<std::string>;
  CHECK(folded("one two three", 7) == Lines{"one two", "three"});
  CHECK(folded("one two three", 5, 2) == Lines{"one", "two", "thr", "ee"});
  CHECK(folded("abcdefgh", 3) == Lines{"abc", "def", "gh"});
  CHECK(folded("模型模型", 3) == Lines{"模", "型", "模", "型"});
  CHECK(folded("mini-g2-dp2tp1pp1-mb4", 12) == Lines{"mini-g2-", "dp2tp1pp1-", "mb4"});
  CHECK(folded("", 3) == Lines{""});
}

TEST_CASE("a terminal's width is COLUMNS, else the device's; a pipe has none") {
  CHECK(terminal_from({}).width == std::nullopt);
  CHECK(terminal_from({.columns = "100"}).width == 100);
  CHECK(terminal_from({.is_terminal = true}).width == 80);
  CHECK(terminal_from({.is_terminal = true, .reported_width = 132}).width == 132);
  CHECK(terminal_from({.is_terminal = true, .reported_width = 132, .columns = "60"}).width == 60);
  for (const char* wrong : {"", "0", "-3", "wide", "80x"})
    CHECK(
        terminal_from({.is_terminal = true, .reported_width = 132, .columns = wrong}).width == 132);
  CHECK(terminal_from({.columns = "3"}).width == 20);
}

TEST_CASE("colours are for terminals that want them") {
  CHECK(terminal_from({.is_terminal = true, .term = "xterm"}).colour);
  CHECK(terminal_from({.is_terminal = true, .no_color = ""}).colour);
  CHECK_FALSE(terminal_from({.is_terminal = true, .no_color = "1"}).colour);
  CHECK_FALSE(terminal_from({.is_terminal = true, .term = "dumb"}).colour);
  CHECK_FALSE(terminal_from({.term = "xterm"}).colour);
}

TEST_CASE("widths count what a terminal shows") {
  CHECK(width_of("abc") == 3);
  CHECK(width_of("äöü") == 3);
  CHECK(width_of("e\u0301") == 1);
  CHECK(width_of("模型") == 4);
  CHECK(width_of("🚀") == 2);
}

TEST_CASE("units are told by metric and by name") {
  const TimeZone zone("CET-1");
  CHECK(humanised("train_step_ms", 0.01234) == "0.0123 ms");
  CHECK(humanised("train_step_ms_spread", 0.0312) == "3.1 %");
  CHECK(humanised("predicted_memory_bytes", std::int64_t{81} << 30) == "81.0 GiB");
  CHECK(humanised("duration_s", 7384.0) == "2 h 3 min");
  CHECK(humanised("duration_s", 1.5) == "1.5 s");
  CHECK(humanised("id", std::int64_t{9'007'199'254'740'993}) == "9007199254740993");
  CHECK(humanised("count(*)", std::int64_t{9'007'199'254'740'993}) == "9,007,199,254,740,993");
  CHECK(humanised("n_params", std::int64_t{1'340'000'000}) == "1,340,000,000");
  CHECK(humanised("loss", 2.302585) == "2.3");
  CHECK(humanised("at", std::int64_t{-1}) == "1970-01-01 00:59:59");
  CHECK(humanised("ended_at", std::int64_t{0}).empty());
  CHECK(humanised("ended_at", std::numeric_limits<std::int64_t>::max()) == "9223372036854775807");
  CHECK(humanised("x", std::nan("")) == "nan");
}

TEST_CASE("what a spreadsheet would calculate is text in csv") {
  const auto field = [](const char* text) {
    return table_text({{"a"}, {{std::string(text)}}}, Format::csv);
  };
  CHECK(field("=cmd()") == "a\n'=cmd()\n");
  CHECK(field("@sum(1)") == "a\n'@sum(1)\n");
  CHECK(field("-2+3") == "a\n'-2+3\n");
  CHECK(field("=a,b") == "a\n\"'=a,b\"\n");
  CHECK(field("-2.5e3") == "a\n-2.5e3\n");
  CHECK(field("tp=2") == "a\ntp=2\n");
}

TEST_CASE("markdown has the columns in which something stands, and obeys nothing in them") {
  const Table table{{"trial", "tokens_per_s", "cause", "why"},
      {{std::string("a|b"), 1234.5, Value(), std::string("<b>*x*</b>")},
          {std::string("c"), Value(), Value(), std::string("`y`\n[z]")}}};
  CHECK(table_text(table, Format::markdown) ==
      "| trial | tokens/s | why |\n"
      "| --- | ---: | --- |\n"
      "| a\\|b | 1,235 | &lt;b\\>\\*x\\*&lt;/b\\> |\n"
      "| c |  | \\`y\\`\\\\n\\[z\\] |\n");
}

TEST_CASE("24 bits are for terminals that say so") {
  CHECK(terminal_from({.is_terminal = true, .colorterm = "truecolor"}).truecolour);
  CHECK_FALSE(terminal_from({.is_terminal = true, .term = "xterm-256color"}).truecolour);
  CHECK_FALSE(
      terminal_from({.is_terminal = true, .no_color = "1", .colorterm = "24bit"}).truecolour);
  CHECK_FALSE(terminal_from({.colorterm = "truecolor"}).truecolour);
}
