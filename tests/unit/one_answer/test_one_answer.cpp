// SPDX-License-Identifier: Apache-2.0
// Whatever a database holds, every view names the same winner of a cell, with the same number
// and the same certainty. `best` is taken for the measure; each other view is held to it.
#include "answer/answer.hpp"
#include "cli/printing.hpp"
#include "report/cells_of_page.hpp"
#include "report/sections.hpp"
#include "show/frontier.hpp"
#include "show/heatmap_view.hpp"
#include "show/live_view.hpp"
#include "show/pivot.hpp"
#include "show/side_by_side.hpp"
#include "show/status_view.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"
#include "tools/lib/seeds.hpp"
#include "unit/one_answer/random_database.hpp"
#include "unit/table_rows.hpp"

#include <shardsweep/sweep_lines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr const char* var = "nvls";

/// What a view says of a cell. Empty texts and zero: it does not say it.
struct Said {
  std::string layout;
  double speed = 0;
  std::string certainty;
};
using Winners = std::map<std::string, Said>;  ///< by cell

/// Of all values of the var together: model/gpus.
std::string cell_of(const std::string& model, const std::string& gpus) {
  return model + '/' + gpus;
}

std::string text(const Said& said) {
  return fmt::format("'{}' {} '{}'", said.layout, said.speed, said.certainty);
}

/// Holds what views say against what `best` says of one selection.
class Views {
 public:
  Views(Reader& reader, std::vector<std::string> sweeps)
      : reader_(&reader), sweeps_(std::move(sweeps)) {
    read_best();
  }

  /// `best`, and the layouts in their ranks, as text.
  [[nodiscard]] static std::string ranking(Reader& reader, const Selection& selection) {
    const auto best = reader.best(selection);
    // A database without remeasured runs refuses to rank them.
    if (!best) return best.error().what;
    return table_text(*best, Format::csv) +
        table_text(must(reader.layouts(selection)), Format::csv);
  }

  void ask_all() {
    ask_layouts();
    ask_heatmap(2);
    ask_heatmap(0);
    ask_compare();
    ask_frontier();
    hide_losers();
    if (sweeps_.size() == 1) ask_followers();
  }
  [[nodiscard]] const std::string& contradiction() const { return contradiction_; }

 private:
  [[nodiscard]] Selection selection() const { return {.names = sweeps_, .where = {}}; }

  void read_best() {
    const auto table = must(reader_->best(selection()));
    const Rows rows(table);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Said said{rows.text(row, "layout"), rows.number(row, "tokens_per_s_per_gpu").value_or(0),
          rows.text(row, "certainty")};
      const auto cell = cell_of(rows.text(row, "model"), rows.text(row, "gpus"));
      const auto value = rows.text(row, var);
      best_[value.empty() ? cell : cell + '/' + value] = said;
      of_cell_[cell].push_back(std::move(said));
    }
  }

  void contradict(const std::string& view, const std::string& cell, const std::string& said,
      const std::string& best) {
    if (contradiction_.empty())
      contradiction_ = fmt::format("{} of {}: {} says {}, `best` says {}", cell,
          fmt::join(sweeps_, " and "), view, said, best);
  }

  void hold(const std::string& view, const std::string& cell, const Said& said, const Said& best) {
    const bool same_layout = said.layout == best.layout || said.layout.empty() ||
        said.layout.starts_with(best.layout + ' ');
    const bool same_speed = said.speed == 0 || std::abs(said.speed / best.speed - 1) < 1e-9;
    const bool as_sure = said.certainty.empty() || said.certainty == best.certainty;
    if (!same_layout || !same_speed || !as_sure) contradict(view, cell, text(said), text(best));
  }

  /// Each cell that `best` has, and no other.
  void hold_all(const std::string& view, const Winners& winners, const Winners& best) {
    for (const auto& [cell, said] : winners) {
      const auto found = best.find(cell);
      if (found == best.end()) {
        contradict(view, cell, text(said), "nothing");
      } else {
        hold(view, cell, said, found->second);
      }
    }
    for (const auto& [cell, said] : best) {
      if (!winners.contains(cell)) contradict(view, cell, "nothing", text(said));
    }
  }

  /// Over the values of the var: the fastest; how sure that is, `best` says of a single value.
  [[nodiscard]] Winners joined_best() const {
    Winners joined;
    for (const auto& [cell, all] : of_cell_) {
      auto fastest = *std::max_element(
          all.begin(), all.end(), [](const Said& a, const Said& b) { return a.speed < b.speed; });
      if (all.size() > 1) fastest.certainty.clear();
      // Of two that are alike the older one counts, and no view here tells its age.
      if (std::count_if(all.begin(), all.end(),
              [&](const Said& one) { return one.speed == fastest.speed; }) > 1)
        fastest.layout.clear();
      joined[cell] = fastest;
    }
    return joined;
  }

  void ask_layouts() {
    layouts_ = must(reader_->layouts(selection()));
    const Rows rows(layouts_);
    Winners winners;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.integer(row, "rank") != 1) continue;
      const auto cell = cell_of(rows.text(row, "model"), rows.text(row, "gpus"));
      const auto value = rows.text(row, var);
      winners[value.empty() ? cell : cell + '/' + value] = {
          rows.text(row, "layout"), rows.number(row, "tokens_per_s_per_gpu").value_or(0), ""};
    }
    hold_all("the table of layouts", winners, best_);
  }

  /// A layout that did not win is no reason for another one to win or lose: neither its finals
  /// nor its noise decide who is first. How sure that is may change.
  void hide_losers() {
    // Of several programs the newest is ranked, and a loser may be what it has run.
    for (const char* column : {"code_hash", "runner_version"}) {
      if (must(reader_->values(selection(), column)).size() > 1) return;
    }
    // Without a finalist it is another question.
    const auto finalists =
        must(reader_->values({.names = sweeps_, .where = "final_round is not null"}, "layout"));
    const Rows rows(layouts_);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.integer(row, "rank") < 2 || rows.integer(row, "rank") > 3) continue;
      if (std::find(finalists.begin(), finalists.end(), rows.value(row, "layout")) !=
          finalists.end())
        continue;
      const auto cell = cell_of(rows.text(row, "model"), rows.text(row, "gpus"));
      const auto value = rows.text(row, var);
      const auto name = value.empty() ? cell : cell + '/' + value;
      // The winner's layout under other settings.
      if (rows.text(row, "layout") == best_.at(name).layout) continue;
      const auto where = fmt::format("model = '{}' and gpus = {}{} and layout <> '{}'",
          rows.text(row, "model"), rows.text(row, "gpus"),
          value.empty() ? "" : fmt::format(" and {} = {}", var, literal_of(rows.value(row, var))),
          rows.text(row, "layout"));
      const auto table = must(reader_->best({.names = sweeps_, .where = where}));
      const Rows left(table);
      if (left.size() != 1 || left.text(0, "layout") != best_.at(name).layout)
        contradict("--where \"" + where + "\"", name,
            left.size() == 0 ? "nothing" : left.text(0, "layout"), best_.at(name).layout);
    }
  }

  void ask_heatmap(std::size_t layouts) {
    const HeatmapRequest request{.selection = selection(), .columns = "gpus", .layouts = layouts};
    const auto heatmap = pivot(must(reader_->cells(request)), request);
    Winners winners;
    for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
      for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
        const auto& cell = heatmap.cells[r][c];
        if (cell.answer.winner() == nullptr) continue;
        winners[cell_of(heatmap.rows[r], heatmap.columns[c])] = {
            cell.layout, cell.value.value_or(-1), certainty_text(cell.answer)};
      }
    }
    auto wanted = joined_best();
    for (auto& [cell, said] : winners) {
      if (const auto found = wanted.find(cell); found != wanted.end()) {
        if (found->second.certainty.empty()) said.certainty.clear();
        if (found->second.layout.empty()) said.layout.clear();
      }
    }
    hold_all(fmt::format("the heatmap with {} layouts", layouts), winners, wanted);
    ask_files(heatmap);
    if (layouts == 0) ask_report(heatmap);
  }

  /// CSV, JSON and markdown of the heatmap have a line for each cell.
  void ask_files(const Heatmap& heatmap) {
    const auto table = heatmap_list(heatmap);
    const Rows rows(table);
    const auto csv = table_text(table, Format::csv);
    const auto json = table_text(table, Format::json);
    const auto markdown = table_text(table, Format::markdown);
    const auto matrix = heatmap_matrix(heatmap);
    const Rows matrix_rows(matrix);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto r = row / heatmap.columns.size();
      const auto& cell = heatmap.cells[r][row % heatmap.columns.size()];
      if (cell.answer.winner() == nullptr) continue;
      const auto name = cell_of(rows.text(row, "model"), rows.text(row, "gpus"));
      const Said best{cell.layout, cell.value.value_or(0), certainty_text(cell.answer)};
      hold("the list of cells", name,
          {rows.text(row, "layout"), rows.number(row, "tokens_per_s_per_gpu").value_or(-1),
              rows.text(row, "certainty")},
          best);
      hold("the matrix", name,
          {"", matrix_rows.number(r, "gpus=" + rows.text(row, "gpus")).value_or(-1), ""}, best);
      for (const auto& [form, all] :
          {std::pair("csv", &csv), std::pair("json", &json), std::pair("markdown", &markdown)}) {
        if (all->find(cell.layout) == std::string::npos)
          contradict(form, name, "nothing of it", text(best));
      }
    }
  }

  void ask_report(const Heatmap& heatmap) {
    const ReportInput input{.facts = must(reader_->facts(selection())), .heatmap = heatmap};
    const auto& trials = input.facts.trials;
    const TrialRows rows(trials);
    const auto cells = cells_of_page(heatmap, trials);
    const ReportView view{input, trials, rows, cells};
    std::size_t answered = 0;
    for (const auto& cell : cells) {
      const auto& shown = heatmap.cells[cell.row][cell.column];
      const auto* winner = cell.answer.winner();
      if (winner == nullptr) continue;
      ++answered;
      const auto name = cell_of(heatmap.rows[cell.row], heatmap.columns[cell.column]);
      hold("the page's cell", name,
          {winner->name, winner->tokens_per_s_per_gpu, certainty_text(cell.answer)},
          {shown.layout, shown.value.value_or(0), certainty_text(shown.answer)});
      const auto panel = cell_panel(view, cell);
      const auto wanted = fmt::format("{}</b>: {} tokens/s/GPU. ", layout_html(shown.layout),
          amount_text(shown.answer.winner()->tokens_per_s_per_gpu));
      if (panel.find(wanted) == std::string::npos)
        contradict("the page's panel", name, "nothing of it", wanted);
    }
    if (answered != of_cell_.size())
      contradict("the page", "all", fmt::format("{} answers", answered),
          fmt::format("{}", of_cell_.size()));
  }

  void ask_compare() {
    const Side side{"one", layouts_};
    const auto both = side_by_side(side, side, "sweep", usual_resolve);
    const Rows rows(both.winners);
    Winners winners;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto cell = cell_of(rows.text(row, "model"), rows.text(row, "gpus"));
      const auto value = rows.text(row, var);
      winners[value.empty() ? cell : cell + '/' + value] = {rows.text(row, "first_winner"), 0, ""};
      if (rows.text(row, "winner_changes") != "no")
        contradict("compare", cell, "another winner on the same side", "the same");
    }
    hold_all("compare", winners, best_);
  }

  /// By GPUs it shows the winner of each cell, one of each model's sizes.
  void ask_frontier() {
    const auto found = frontier(layouts_, FrontierCost::nodes);
    for (const auto& group : found.groups) {
      const auto model = group.title.substr(0, group.title.find(','));
      const auto before = group.title.find(fmt::format(", {} ", var));
      const auto value = before == std::string::npos
          ? std::string()
          : group.title.substr(before + std::string(var).size() + 3);
      for (const auto& point : group.points) {
        const auto gpus = fmt::format("{:.0f}", point.cost);
        auto cell = cell_of(model, gpus);
        if (!value.empty()) cell += '/' + value;
        const auto best = best_.find(cell);
        if (best == best_.end()) {
          contradict("frontier", cell, point.layout, "nothing");
        } else {
          hold("frontier", cell, {point.layout, point.speed / point.cost, ""}, best->second);
        }
      }
    }
  }

  /// status, the live block and the end of a run are of a sweep each.
  void ask_followers() {
    const auto status = must(reader_->status(sweeps_));
    REQUIRE(status.size() == 1);
    const auto cells = must(reader_->best_of_cells({status.front().id}));
    Winners winners;
    for (const CellBest& one : cells) {
      auto cell = cell_of(one.cell.model, std::to_string(one.cell.gpus));
      if (const auto at = one.cell.vars.find(':'); at != std::string::npos) {
        cell += '/';
        for (const char c : one.cell.vars.substr(at + 1)) {
          if (c != '"' && c != '}') cell += c;
        }
      }
      winners[cell] = {one.layout, one.tokens_per_s_per_gpu, certainty_text(one.answer)};
    }
    hold_all("status", winners, best_);
    BestSoFar so_far;
    so_far.begin(cells);
    const auto ends = answer_lines(so_far.of(sweeps_.front()));
    for (const auto& [cell, best] : best_) {
      const auto wanted =
          fmt::format("{} tokens/s/GPU with {} (", amount_text(best.speed), best.layout);
      const bool found = std::any_of(ends.begin(), ends.end(), [&](const StyledLine& line) {
        const auto& words = line.front().text;
        return words.find(wanted) != std::string::npos && words.ends_with(best.certainty);
      });
      if (!found) contradict("the end of a run", cell, "nothing of it", text(best));
    }
  }

  Reader* reader_;
  std::vector<std::string> sweeps_;
  Winners best_;
  std::map<std::string, std::vector<Said>> of_cell_;
  Table layouts_;
  std::string contradiction_;
};

/// Empty: what its sweeps' lines say, read into another database, is what it says itself.
std::string lost_in_lines(const RandomDatabase& database, const TempDir& dir) {
  const auto reader = must(Reader::open(database.file()));
  const auto theirs = dir / "theirs.db";
  for (const char* tail : {"", "-wal", "-shm"})
    std::filesystem::remove(theirs.string() + tail);
  {
    Daemon daemon(theirs);
    const TempDir inboxes;
    for (const auto& sweep : database.sweeps()) {
      const auto lines = must(reader->sweep_lines(sweep));
      if (lines.trials == 0) return {};  // there is nothing to keep
      must(write_inbox_of_lines(
          inboxes / sweep, {.lines = lines.lines, .where = sweep + ".jsonl", .file = lines.file}));
      daemon.submit(inboxes / sweep);
    }
  }
  const auto read_back = must(Reader::open(theirs));
  for (const RankedAt at : {RankedAt::sweep, RankedAt::now}) {
    for (const auto& sweep : database.sweeps()) {
      const Selection selection{.names = {sweep}, .at = at};
      const auto ours = Views::ranking(*reader, selection);
      const auto again = Views::ranking(*read_back, selection);
      if (ours != again)
        return fmt::format(
            "{} at {}: its lines say\n{}and it says\n{}", sweep, word_of(at), again, ours);
    }
  }
  return {};
}

/// Empty: all views say the same.
std::string contradiction_in(Templates& templates, std::uint64_t seed) {
  const RandomDatabase database(templates, seed);
  std::vector<std::vector<std::string>> selections;
  for (const auto& sweep : database.sweeps())
    selections.push_back({sweep});
  if (selections.size() > 1) selections.emplace_back();  // all of them
  const auto reader = must(Reader::open(database.file()));
  for (const auto& names : selections) {
    Views views(*reader, names);
    views.ask_all();
    if (!views.contradiction().empty())
      return fmt::format("{} ({})", views.contradiction(), database.kind());
  }
  // Lines have no trial without an outcome, and the number of runs that are to come is said. A
  // half of the others: reading lines takes longer than all that is asked here.
  return database.is_over() && seed % 2 == 0 ? lost_in_lines(database, templates.dir())
                                             : std::string();
}

}  // namespace

TEST_CASE("every view of a random database names the same winner of each cell") {
  const auto databases = setting("SHARDSWEEP_ANSWER_DATABASES", 200);
  const Seeds seeds({"one_answer", "every view of a random database*", "SHARDSWEEP_ANSWER_SEED",
                        "SHARDSWEEP_ANSWER_DATABASES"},
      databases);
  Templates templates;
  for (const auto& kept : seeds.kept()) {
    CAPTURE(kept.found);
    for (std::int64_t i = 0; i < kept.length; ++i)
      CHECK(contradiction_in(templates, kept.seed + static_cast<std::uint64_t>(i)) == "");
  }
  for (std::int64_t i = 0; i < databases; ++i) {
    const auto seed = seeds.first() + static_cast<std::uint64_t>(i);
    const auto found = contradiction_in(templates, seed);
    if (!found.empty()) FAIL(found << '\n' << seeds.advice(seed, 1, 1));
  }
}
