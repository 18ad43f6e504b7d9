// SPDX-License-Identifier: Apache-2.0
// ui: the pages of other commands, served to this user alone while the sweeps run.
#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "explore/explore.hpp"
#include "machine/host_name.hpp"
#include "picture/svg.hpp"
#include "report/page.hpp"
#include "server/server.hpp"
#include "show/cell_text.hpp"
#include "sweep/layout_text.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using server::Page;
using server::PageRequest;

struct UiOptions {
  std::int64_t port = 0;
  std::string idle = "1h";
};

std::string link(std::string_view page, std::string_view name, std::string_view text) {
  return fmt::format("<a href=\"{}{}{}\">{}</a> ", page,
      name.empty() ? "" : "?name=", server::in_query(name), xml_escaped(text));
}

std::string sentences_html(const std::vector<std::string>& sentences) {
  std::string html;
  for (const auto& sentence : sentences)
    html += fmt::format("<p>{}</p>\n", xml_escaped(sentence));
  return html;
}

std::string page_of(const std::string& title, const std::string& body) {
  return html_page(title, fmt::format("<main>\n<h1>{}</h1>\n{}</main>\n", xml_escaped(title), body),
      PageScript::none);
}

std::size_t place_of(const Table& table, std::string_view column) {
  return static_cast<std::size_t>(
      std::find(table.columns.begin(), table.columns.end(), column) - table.columns.begin());
}

/// Status columns that people look at first. Counts of 0 are blank.
Table short_status(const Table& all) {
  Table table;
  const auto counts = place_of(all, "left_out");
  for (std::size_t i = 0; i < all.columns.size(); ++i) {
    if (i < counts || all.columns[i] == "remaining_s" || all.columns[i] == "submitted_at")
      table.columns.push_back(all.columns[i]);
  }
  for (const auto& row : all.rows) {
    auto& values = table.rows.emplace_back();
    for (const auto& column : table.columns) {
      const auto& value = row[place_of(all, column)];
      values.push_back(value == Value(std::int64_t{0}) ? Value() : value);
    }
  }
  return table;
}

std::string text_in(std::span<const Value> row, std::size_t at) {
  const auto* text = at < row.size() ? std::get_if<std::string>(&row[at]) : nullptr;
  return text != nullptr ? *text : "";
}

Result<std::string> first_page(const Session& session, const PageRequest&, int&) {
  SHARDSWEEP_ASSIGN(const auto parts, status_parts(session));
  const auto rows = short_status(parts.sweeps);
  std::string body = sentences_html(parts.sentences);
  body += html_table(rows, "Sweeps", [](std::span<const Value> row, std::size_t column) {
    return column == 0 ? "status?name=" + server::in_query(text_in(row, 0)) : std::string();
  });
  return page_of("shardsweep", body);
}

Result<std::string> status_page(const Session& session, const PageRequest&, int&) {
  SHARDSWEEP_ASSIGN(const auto parts, status_parts(session));
  return page_of(
      session.options.names.at(0), sentences_html(parts.sentences) + html_lines(parts.lines));
}

Result<std::string> trials_page(const Session& session, const PageRequest& asked, int&) {
  constexpr std::int64_t most = 1000;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  // A trial's name is long: a phone shows what it is made of, and the link.
  SHARDSWEEP_ASSIGN(auto table,
      reader->results({.selection = selection_of(session.options),
          .columns = {"layout", "vars", "tokens_per_s_per_gpu", "outcome", "model", "nodes", "gpus",
              "train_step_ms", "mfu", "repeat", "state", "cause", "runner", "runner_version",
              "trial"},
          .sort = "-ended_at",
          .limit = most}));
  const auto trial = place_of(table, "trial");
  const auto vars = place_of(table, "vars");
  for (auto& row : table.rows) {
    const auto text = vars_text(text_in(row, vars));
    row.at(vars) = text.empty() ? Value() : Value(text);
  }
  const auto& of = asked.values.find("name")->second;
  std::string body = html_table(
      table, "Trials, the last to end first", [&](std::span<const Value> row, std::size_t column) {
        return column == 0 ? "trial?name=" + server::in_query(of + "/" + text_in(row, trial))
                           : std::string();
      });
  if (std::ssize(table.rows) == most)
    body += fmt::format("<p>The last {}; the report has all.</p>\n", most);
  return page_of("Trials of " + of, body);
}

Result<std::string> trial_page(const Session& session, const PageRequest&, int&) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const auto& name = session.options.names.at(0);
  SHARDSWEEP_ASSIGN(const auto named, reader->attempts(name));
  SHARDSWEEP_ASSIGN(const auto html, show_html(session));
  std::string logs;
  for (const auto& attempt : named.attempts)
    logs += link("log", fmt::format("{}/{}.{}", attempt.sweep, attempt.trial, attempt.number),
        fmt::format("Log of attempt {}", attempt.number));
  return page_of(name, fmt::format("<p>{}</p>\n{}", logs, html));
}

Result<std::string> log_page(const Session& session, const PageRequest& asked, int& every_s) {
  const auto& name = session.options.names.at(0);
  const auto file = asked.values.find("file");
  SHARDSWEEP_ASSIGN(
      const auto part, log_part(session, file == asked.values.end() ? "" : file->second));
  std::string links;
  for (const auto& one : part.files)
    links += fmt::format("<a href=\"log?name={}&amp;file={}\">{}</a> ", server::in_query(name),
        server::in_query(one), xml_escaped(one));
  // A log that grows changes nothing in the database.
  if (!part.ended) every_s = 2;
  const std::string text = part.file.empty() ? ""
      : part.text.empty()                    ? "<p>The file is empty.</p>\n"
                          : fmt::format("<pre>{}</pre>\n", xml_escaped_lines(part.text));
  return page_of(name,
      fmt::format("<p>{}</p>\n<h2>{}</h2>\n{}", links,
          xml_escaped(part.file.empty() ? part.why : part.file), text));
}

template <Result<std::string> (*Html)(const Session&)>
Result<std::string> of_command(const Session& session, const PageRequest&, int&) {
  return Html(session);
}

/// Subject of a page.
enum class About : std::uint8_t { all, a_sweep, a_trial };

struct Place {
  std::string_view page;
  std::string_view title;
  About about = About::all;
  bool live = true;  ///< loaded again as its data change
  Result<std::string> (*html)(const Session&, const PageRequest&, int& every_s);
};
constexpr std::array<Place, 9> places{{{"", "All sweeps", About::all, true, first_page},
    {"status", "Status", About::a_sweep, true, status_page},
    {"report", "Report", About::a_sweep, true, of_command<report_html>},
    {"trials", "Trials", About::a_sweep, true, trials_page},
    {"frontier", "Frontier", About::a_sweep, true, of_command<frontier_html>},
    {"history", "History", About::a_sweep, true, of_command<history_html>},
    {"explore", "Explorer", About::a_sweep, false, of_command<explorer_html>},
    {"trial", "Trial", About::a_trial, true, trial_page},
    {"log", "Log", About::a_trial, false, log_page}}};

std::string links_above(const std::string& name, About about) {
  const auto sweep = about == About::a_trial ? name.substr(0, name.find('/')) : name;
  std::string links = link("./", "", "All sweeps") + link("history", "", "All history");
  // A sweep's own explorer has its measurements, too.
  links += sweep.empty() ? link("explore", "", "Explorer")
                         : fmt::format("<b>{}</b> ", xml_escaped(sweep));
  for (const Place& place : places) {
    if (place.about == About::a_sweep && !sweep.empty())
      links += link(place.page, sweep, place.title);
  }
  if (about == About::a_trial) links += link("trial", name, "Trial");
  return links;
}

/// Pages, each made once of the same data, one after the other: a hundred tabs cost one page.
class Ui {
 public:
  explicit Ui(const Session& session) : session_(session) {}

  Page page(const PageRequest& asked) {
    if (asked.page == "ask")
      return {200, std::make_shared<const std::string>(explore(asked.body)), "application/json"};
    const auto place = std::find_if(
        places.begin(), places.end(), [&](const Place& one) { return one.page == asked.page; });
    const auto named = asked.values.find("name");
    const auto name = named == asked.values.end() ? std::string() : named->second;
    // History and explorer have a page for all sweeps, too; that explorer has no measurements.
    const bool any_sweep = asked.page == "history" || asked.page == "explore";
    if (place == places.end() || (name.empty() && place->about != About::all && !any_sweep))
      return told(404, "There is no such page.", name);
    const std::lock_guard alone(mutex_);
    const auto now = version();
    const Key key{now, asked.page, asked.values};
    const auto kept =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == key; });
    if (kept != kept_.end()) return {200, kept->second};
    Session session = session_;
    session.options.names.clear();
    if (!name.empty()) session.options.names = {name};
    int every_s = 0;
    auto html = place->html(session, asked, every_s);
    if (!html)
      return told(
          html.error().kind == FaultKind::invalid_input ? 404 : 503, html.error().what, name);
    auto text = std::make_shared<const std::string>(served_page(*std::move(html),
        {.links = links_above(name, place->about),
            .version = place->live ? now : "",
            .every_s = every_s}));
    if (place->live) kept_.emplace_back(key, text);
    if (kept_.size() > most_kept) kept_.erase(kept_.begin());
    return {200, std::move(text)};
  }

  /// Version of the pages: all that changes one is an event, but for the daemon's death and a full
  /// disk.
  std::string version() const {
    const auto reader = Reader::open(session_.home.database);
    const auto last =
        reader ? (*reader)->first_event({}, FollowFrom::now) : Result<std::int64_t>(0);
    return fmt::format("{}.{}.{}", last.value_or(0), daemon_runs(session_) ? 1 : 0,
        troubles(session_.home).size());
  }

 private:
  using Key = std::tuple<std::string, std::string, server::Values>;
  static constexpr std::size_t most_kept = 4;

  static Page told(unsigned status, const std::string& why, const std::string& name) {
    auto page = served_page(
        page_of("shardsweep", sentences_html({why})), {.links = links_above(name, About::a_sweep)});
    return {status, std::make_shared<const std::string>(std::move(page))};
  }

  Session session_;
  std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<const std::string>>> kept_;
};

void say_where(std::uint16_t port, const std::string& idle) {
  // A user without a name, as a container may have: ssh takes that of whoever types it.
  const std::string user = user_name().empty() ? "" : user_name() + "@";
  say("From another machine: ssh -N -L {0}:127.0.0.1:{0} {1}{2}\n"
      "Whoever knows the address sees what you see, and can change nothing. Ctrl-C "
      "ends it, or {3} without a reader.",
      port, user, host_name(), idle);
}

Result<ExitCode> run_ui(const Session& session) {
  constexpr int token_digits = 48;
  const auto& own = session.options.of<UiOptions>();
  SHARDSWEEP_ASSIGN(const double idle_s, parse_duration(own.idle, "--idle"));
  if (idle_s < 1) return fault(FaultKind::invalid_input, "--idle is a time of 1 s or more.");
  // A database that can't be read is a fault here, and not one of every page. Who has measured
  // nothing yet has none, and may ask the planner; one that --db names is to be there.
  if (const auto reader = Reader::open(session.home.database); !reader) {
    std::error_code unseen;
    if (!session.options.db.empty() || std::filesystem::exists(session.home.database, unseen) ||
        unseen)
      return tl::unexpected(reader.error());
    say("Only the explorer works: {}.", reader.error().what);
  }
  Ui ui(session);
  const std::string token = random_hex(token_digits);
  Result<void> printed;
  SHARDSWEEP_ASSIGN(const auto ended,
      server::serve({.port = static_cast<std::uint16_t>(own.port),
          .token = token,
          .posted = "ask",
          .idle = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * idle_s)),
          .page = [&ui](const PageRequest& asked) { return ui.page(asked); },
          .version = [&ui] { return ui.version(); },
          .begun =
              [&](std::uint16_t port) {
                printed = print_result(fmt::format("http://127.0.0.1:{}/{}/\n", port, token));
                say_where(port, own.idle);
              }}));
  SHARDSWEEP_TRY(printed);
  if (ended == server::Ended::by_signal) return ExitCode::interrupted;
  say("No page was open for so long that the server has ended.");
  return ExitCode::done;
}

}  // namespace

extern const Command command_ui{.name = "ui",
    .heading = Heading::results,
    .help = "Serve all pages to your browser, live and read-only.",
    .examples =
        "shardsweep ui\n"
        "shardsweep ui --port 8642 --idle 8h",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<UiOptions>();
          constexpr std::int64_t last_port = 65535;
          grammar
              .option("--port", own.port, "PORT", "Port on 127.0.0.1. Default: one that is free.")
              .whole_number(1, last_port);
          grammar.option("--idle", own.idle, "DURATION",
              "End after this time without a page that is open and seen: 30min, 8h.");
        },
    .run = run_ui,
    .own_lines = true};

}  // namespace shardsweep
