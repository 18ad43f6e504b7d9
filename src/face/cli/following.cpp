// SPDX-License-Identifier: Apache-2.0
// Following sweeps to their end: a line per trial that ends, and on a terminal a live block.
#include "answer/best_text.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "show/live_view.hpp"
#include "show/next_steps.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

namespace shardsweep {
namespace {

using namespace std::chrono_literals;

constexpr auto follow_look_every = 300ms;
constexpr auto plain_progress_every = 30s;
constexpr std::size_t most_bests_at_end = 3;  // lines at the end; `best` prints more

/// Output of what is followed, on a terminal or in a file.
class Screen {
 public:
  explicit Screen(const Clock& clock)
      : clock_(clock), live_(can_redraw(stderr)), block_(stderr), shown_at_(clock.steady()) {}

  /// Lines that stay.
  void finished(const std::vector<FinishedLine>& lines, bool with_sweep) {
    if (lines.empty()) return;
    const ViewSize size = view_size(stderr);
    std::vector<StyledLine> styled;
    styled.reserve(lines.size());
    for (const FinishedLine& line : lines) {
      styled.push_back(finished_line(
          line, live_ ? std::optional(size.width) : std::nullopt, size.utf8, with_sweep));
    }
    print(styled);
  }
  /// A sentence that stays.
  void note(const std::string& sentence, Style style = Style::plain) {
    std::vector<StyledLine> lines;
    for (std::string& line : live_ ? folded(printable(sentence), view_size(stderr).width)
                                   : std::vector<std::string>{sentence})
      lines.push_back({{std::move(line), style}});
    print(lines);
  }
  [[nodiscard]] bool live() const { return live_; }
  /// How far it is now.
  void progress(const std::vector<SweepProgress>& sweeps) {
    if (live_) return block_.draw(progress_block(sweeps, view_size(stderr)));
    const auto now = clock_.steady();
    if (now - shown_at_ < plain_progress_every) return;
    shown_at_ = now;
    for (const SweepProgress& sweep : sweeps)
      note(progress_line(sweep.status));
  }
  void end() {
    if (live_) block_.clear();
  }

 private:
  void print(const std::vector<StyledLine>& lines) {
    if (live_) return block_.print(lines);
    for (const StyledLine& line : lines)
      say(painted(line, false));
  }

  const Clock& clock_;
  bool live_;
  LiveBlock block_;
  std::chrono::steady_clock::time_point shown_at_;
};

std::string names_of(const std::vector<SweepStatus>& sweeps) {
  return join_texts(sweeps, " ", &SweepStatus::name);
}

/// Sweeps are followed by their ids: a name may be given to another one meanwhile.
class Follower {
 public:
  Follower(const Session& session, Reader& reader, std::vector<std::string> names, FollowedTo to)
      : session_(session),
        reader_(reader),
        names_(std::move(names)),
        answers_(to == FollowedTo::answer),
        screen_(session.clock) {}

  Result<ExitCode> follow(FollowFrom from) {
    SHARDSWEEP_TRY(begin(from));
    const InterruptGuard interrupts;
    for (;;) {
      SHARDSWEEP_TRY(look());
      if (all_over()) return end();
      if (InterruptGuard::seen()) return stop();
      SHARDSWEEP_ASSIGN(const bool alone, nobody_works());
      if (alone) return left_alone();
      std::this_thread::sleep_for(follow_look_every);
    }
  }

 private:
  Result<void> begin(FollowFrom from) {
    SHARDSWEEP_ASSIGN(sweeps_, reader_.status(names_));
    std::vector<SweepId> ids;
    for (const SweepStatus& sweep : sweeps_)
      ids.push_back(sweep.id);
    ids_ = std::move(ids);
    SHARDSWEEP_ASSIGN(event_, reader_.first_event(ids_, from));
    // A sweep that was submitted again has measurements that no event here tells of.
    SHARDSWEEP_ASSIGN(const auto cells, reader_.best_of_cells(ids_));
    best_.begin(cells);
    return {};
  }

  /// Several runs of a layout, and finals, weigh more than the fastest run: the winner is what
  /// the answer says. Reading it costs a small part of the time at most.
  Result<void> read_best() {
    if (!answers_) return {};
    constexpr int share = 20;
    constexpr auto cheap = 100ms;
    const auto begun = session_.clock.steady();
    if (begun < read_best_after_) return {};
    SHARDSWEEP_ASSIGN(const auto cells, reader_.best_of_cells(ids_));
    best_.update(cells);
    const auto took = session_.clock.steady() - begun;
    news_ = false;
    if (took > cheap) read_best_after_ = begun + share * took;
    return {};
  }

  /// The counts first: what ended after them is shown by the next look.
  Result<void> look() {
    SHARDSWEEP_ASSIGN(sweeps_, reader_.status(names_));
    if (screen_.live()) SHARDSWEEP_SET(allocations_, reader_.allocations(ids_));
    for (;;) {
      SHARDSWEEP_ASSIGN(const FinishedBatch found, reader_.finished(ids_, event_));
      event_ = found.last_event;
      news_ = news_ || !found.trials.empty();
      if (news_) SHARDSWEEP_TRY(read_best());
      screen_.finished(finished_lines(found.trials, best_), sweeps_.size() > 1);
      if (!found.more) break;
    }
    tell_trouble();
    tell_waiting();
    screen_.progress(progress());
    return {};
  }

  /// Each trouble when it begins and when it is over.
  void tell_trouble() {
    auto now = troubles(session_.home);
    const auto known = [](const std::vector<Trouble>& all, const Trouble& trouble) {
      return std::any_of(all.begin(), all.end(), [&](const Trouble& one) {
        return one.kind == trouble.kind && one.where == trouble.where;
      });
    };
    for (const Trouble& one : now) {
      if (!known(trouble_, one)) screen_.note(text(one), Style::bad);
    }
    for (const Trouble& one : trouble_) {
      if (known(now, one)) continue;
      std::string kind(name(one.kind));
      std::replace(kind.begin(), kind.end(), '_', ' ');
      screen_.note(fmt::format("Over: {} ({}).", kind, one.where), Style::good);
    }
    trouble_ = std::move(now);
  }

  /// Each sentence once, when it is new.
  void tell_waiting() {
    for (const SweepStatus& sweep : sweeps_) {
      std::string& told = told_[sweep.id];
      const std::string waiting = why_it_waits(sweep);
      if (waiting == told) continue;
      told = waiting;
      if (!told.empty()) screen_.note(fmt::format("{}: {}", sweep.name, told), Style::notice);
    }
  }

  std::vector<SweepProgress> progress() const {
    std::vector<SweepProgress> all;
    for (const SweepStatus& sweep : sweeps_) {
      SweepProgress& one = all.emplace_back(SweepProgress{sweep});
      one.best = best_.latest(sweep.name);
      if (one.best) one.best_of = cell_text(one.best->cell, best_.of(sweep.name));
      std::copy_if(allocations_.begin(), allocations_.end(), std::back_inserter(one.allocations),
          [&](const AllocationProgress& job) { return job.sweep == sweep.name; });
      one.now = session_.clock.now();
      // Trouble that concerns all sweeps is shown with the first of them.
      for (const Trouble& trouble : trouble_) {
        if (trouble.where == sweep.name || (all.size() == 1 && concerns(trouble, sweep.name)))
          one.trouble.push_back(text(trouble));
      }
    }
    return all;
  }

  bool all_over() const { return std::all_of(sweeps_.begin(), sweeps_.end(), is_over); }

  /// `next` and `record` write its results by themselves if no daemon runs.
  static bool goes_on_outside(const SweepStatus& sweep) {
    return standing_of(sweep, false) == Standing::outside;
  }

  /// Tells if nothing moves: no daemon runs, or what is left is paused.
  Result<bool> nobody_works() {
    if (std::any_of(sweeps_.begin(), sweeps_.end(), goes_on_outside)) return false;
    const bool paused = std::all_of(sweeps_.begin(), sweeps_.end(), [](const SweepStatus& sweep) {
      return is_over(sweep) ||
          (sweep.state != "active" && count_of(sweep.by_state, name(State::running)) == 0 &&
              count_of(sweep.by_state, name(State::queued)) == 0);
    });
    if (!paused && daemon_runs(session_)) return false;
    // A daemon may have ended between the two looks because everything is over.
    SHARDSWEEP_TRY(look());
    return !all_over();
  }

  void tell_best(const SweepStatus& sweep) {
    const auto cells = best_.of(sweep.name);
    if (cells.size() > most_bests_at_end) {
      return screen_.note(fmt::format("`shardsweep best {}` shows the best layout of each of {}.",
          sweep.name, counted(std::ssize(cells), "cell")));
    }
    for (const StyledLine& line : answer_lines(cells))
      screen_.note(line.front().text, line.front().style);
  }

  Result<ExitCode> end() {
    screen_.end();
    read_best_after_ = {};
    SHARDSWEEP_TRY(read_best());
    for (const SweepStatus& sweep : sweeps_) {
      screen_.note(progress_line(sweep));
      if (answers_) tell_best(sweep);
    }
    return tell_verdict();
  }

  ExitCode tell_verdict() {
    const SweepVerdict verdict = verdict_of(sweeps_);
    if (answers_ && !verdict.sentence.empty()) screen_.note(verdict.sentence, Style::bad);
    return verdict.code;
  }

  ExitCode stop() {
    screen_.end();
    for (const SweepStatus& sweep : sweeps_)
      screen_.note(progress_line(sweep));
    const std::string names = names_of(sweeps_);
    const bool one = sweeps_.size() == 1;
    screen_.note(
        fmt::format("Stopped following. The sweep{} on. `shardsweep follow {}` follows {} again; "
                    "`shardsweep pause {}` stops {}.",
            one ? " goes" : "s go", names, one ? "it" : "them", names, one ? "it" : "them"));
    return ExitCode::interrupted;
  }

  ExitCode left_alone() {
    screen_.end();
    bool paused = true;
    std::vector<SweepStatus> open;
    for (const SweepStatus& sweep : sweeps_) {
      screen_.note(progress_line(sweep));
      if (is_over(sweep)) continue;
      open.push_back(sweep);
      paused = paused && sweep.state == "paused";
    }
    const std::string names = names_of(open);
    screen_.note(fmt::format("{} `shardsweep resume {}` continues.",
                     paused ? open.size() == 1 ? "The sweep is paused;" : "The sweeps are paused;"
                            : "No daemon is running;",
                     names),
        Style::notice);
    return tell_verdict();
  }

  const Session& session_;
  Reader& reader_;
  std::vector<std::string> names_;
  bool answers_;
  Screen screen_;
  std::vector<SweepId> ids_;
  std::vector<SweepStatus> sweeps_;
  std::vector<AllocationProgress> allocations_;  ///< jobs of all the sweeps, for a terminal
  std::map<SweepId, std::string> told_;          ///< the sentence that was shown last
  std::vector<Trouble> trouble_;                 ///< troubles as they were told last
  BestSoFar best_;
  bool news_ = false;  ///< trials have ended since the answers were read
  std::chrono::steady_clock::time_point read_best_after_{};
  std::int64_t event_ = 0;
};

/// The sweeps to follow if none is named: those that have not ended.
std::vector<SweepStatus> unfinished(const std::vector<SweepStatus>& all) {
  std::vector<SweepStatus> open;
  std::copy_if(all.begin(), all.end(), std::back_inserter(open),
      [](const SweepStatus& sweep) { return !is_over(sweep) && sweep.state != "imported"; });
  return open;
}

/// Says what ended last, if there is nothing to follow.
ExitCode nothing_to_follow(const std::vector<SweepStatus>& all) {
  const auto last = std::max_element(all.begin(), all.end(),
      [](const SweepStatus& a, const SweepStatus& b) { return a.last_end_at < b.last_end_at; });
  if (last == all.end()) {
    say("No sweep is in the database; `shardsweep run SWEEP.yaml` runs one.");
    return ExitCode::done;
  }
  say("No sweep is running; last finished: {} ({})", progress_line(*last),
      local_time_text(last->last_end_at));
  const SweepVerdict verdict = verdict_of({*last});
  if (!verdict.sentence.empty()) say(verdict.sentence);
  return verdict.code;
}

}  // namespace

Result<ExitCode> follow_sweeps(const Session& session, const std::vector<std::string>& sweeps,
    FollowFrom from, FollowedTo to) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<std::string> names = sweeps;
  if (names.empty()) {
    SHARDSWEEP_ASSIGN(const auto all, reader->status({}));
    const auto open = unfinished(all);
    if (open.empty()) return nothing_to_follow(all);
    for (const SweepStatus& sweep : open)
      names.push_back(sweep.name);
  }
  return Follower(session, *reader, std::move(names), to).follow(from);
}

}  // namespace shardsweep
