// SPDX-License-Identifier: Apache-2.0
// The daemon against a model: verbs in random sequences, between attempts that end in every
// way, restarts, and deaths at any call. Kept seeds first, then others,
// SHARDSWEEP_MODEL_SEQUENCES in all. SHARDSWEEP_MODEL_SEED repeats one, and replays no others.
#include "daemon/loop.hpp"
#include "fleet/verbs.hpp"
#include "sweep/identity.hpp"
#include "tools/lib/seeds.hpp"
#include "unit/daemon/played_cluster.hpp"
#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

using namespace shardsweep;
using shardsweep::testing::Fate;
using shardsweep::testing::KeptSeed;
using shardsweep::testing::Killed;
using shardsweep::testing::ManualClock;
using shardsweep::testing::MemoryFolder;
using shardsweep::testing::MortalStore;
using shardsweep::testing::must;
using shardsweep::testing::PlayedCluster;
using shardsweep::testing::Seeds;
using shardsweep::testing::setting;

namespace {

/// A trial as the model sees it: where it is matters less than whether it is over.
struct Seen {
  SweepId sweep = 0;
  std::string slug;
  int micro_batch = 0;
  bool open = false;
  std::string outcome;
  std::string by;
  std::string prior;
};
struct Picture {
  std::map<TrialId, Seen> trials;  ///< those that their sweep's file has
  std::map<std::string, std::pair<SweepId, std::string>> sweeps;  ///< id and state, by name
};

constexpr const char* sweep_text = R"(
name: {}
cluster: this-machine
constants: {{model: tiny, seq_len: 32, dtype: fp32, global_batch_size: 16}}
axes: {{gpus: [1, 2], micro_batch: [1, 2, 4]}}
)";

class Play {
 public:
  explicit Play(std::uint64_t seed)
      : random_(seed),
        clock_(fate_),
        home_{folder_.path / "a.db"},
        store_(must(Store::open(home_.database)), fate_),
        reader_(home_.database, sqlite::OpenMode::existing, 1000) {
    must(make_home(home_));
    std::ofstream(home_.lock()).flush();  // a daemon sees by it that its folder is the old one
    for (const std::string name : {"a", "b"}) {
      specs_[name] = must(load_sweep_text(fmt::format(sweep_text, name), name,
          {std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "sweeps", {}}));
    }
  }

  void sequence() {
    submit("a", false);
    for (int step = 0; step < 14; ++step) {
      act();
      check();
    }
    finish();
  }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t deaths() const { return deaths_; }
  [[nodiscard]] std::int64_t compared() const { return compared_; }
  [[nodiscard]] std::size_t results() const { return cluster_.results(); }

 private:
  bool one_in(int n) { return random_() % static_cast<std::uint64_t>(n) == 0; }
  DaemonParts parts() {
    return {.home = home_,
        .installation = {.presets = std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "sweeps"},
        .store = store_,
        .clock = clock_,
        .make_scheduler = [this](Backend, const SiteSpec&) { return cluster_.scheduler(fate_); },
        .make_notifier = nullptr,
        .random_hex =
            [this](int digits) {
              std::string text;
              while (text.size() < static_cast<std::size_t>(digits))
                text += fmt::format("{:016x}", random_());
              return text.substr(0, static_cast<std::size_t>(digits));
            },
        .policy = {}};
  }

  // ---- the daemon's life, as loop.cpp and asking.cpp have it

  void start() {
    if (daemon_) return;
    try {
      LeaseHolder self{.host = "h", .pid = 1};
      self.since = self.renewed = clock_.time();
      must(store_.take_lease(self));
      daemon_ = std::make_unique<shardsweep::Daemon>(parts());
      must(daemon_->load());
    } catch (const Killed&) {
      die();
    }
  }
  /// One pass; the daemon may die in it, or end because nothing is left.
  void tick() {
    ++steps_;
    clock_.advance(300'000);
    if (!daemon_) return;
    try {
      const auto done = daemon_->tick();
      if (!done) FAIL(done.error().what);
      const auto left = leave_if_idle(*daemon_, parts());
      if (!left) FAIL(left.error().what);
      if (!*left) return;
      daemon_.reset();
      check_left();
    } catch (const Killed&) {
      die();
    }
  }
  void die() {
    fate_.live();
    daemon_.reset();
    ++deaths_;
  }
  Answer ask(Request request) {
    request.from = "test";
    deleted_since_ = deleted_since_ || request.verb == Verb::remove;
    said_ = fmt::format("{} {} where '{}'{}{}", word_of(request.verb),
        fmt::join(request.names, " "), request.where, request.cancelled ? " --cancelled" : "",
        request.dry_run ? " --dry-run" : "");
    CAPTURE(said_);
    const std::string id = must(post_request(home_, std::move(request), clock_.time()));
    for (int passes = 0; passes < 200; ++passes) {
      start();
      tick();
      if (auto answer = must(take_answer(home_, id))) return *answer;
    }
    FAIL("no answer");
    return {};
  }

  // ---- what users do

  void submit(const std::string& name, bool edited) {
    const SweepSpec& spec = specs_.at(name);
    Plan plan;
    Point point;
    point.nodes = 0;
    point.seq_len = 32;
    for (const int gpus : {1, 2}) {
      point.gpus = point.layout.dp = gpus;
      for (const int micro_batch : edited ? std::vector{2, 4} : std::vector{1, 2}) {
        point.layout.micro_batch = micro_batch;
        point.layout.grad_accum = 16 / gpus / micro_batch;
        plan.trials.push_back({point, {1 << 20, 0.1, 2.0, 100.0}, 0});
      }
    }
    plan.points = static_cast<std::int64_t>(plan.trials.size());
    Capabilities capabilities;
    capabilities.runner = "played";
    capabilities.version = "1";
    const std::string resolved = explain_sweep(spec);
    SubmittedSweep submission{&spec, &plan, &capabilities, resolved, resolved,
        edited ? "edited" : "first", Backend::local};
    Request request;
    request.verb = Verb::submit;
    const auto inbox = home_.inbox() / fmt::format("i{}.db", ++inboxes_);
    must(write_inbox(inbox, submission, [&](const Point& one) {
      return TrialNames{identity(spec, capabilities, one), slug(spec, capabilities, one),
          lane_key(spec, capabilities, one)};
    }));
    request.inbox = inbox.string();
    const Answer answer = ask(std::move(request));
    if (answer.fault) FAIL(answer.fault->what);
  }

  Request draw_verb(const Picture& picture) {
    Request request;
    constexpr std::array verbs{Verb::pause, Verb::resume, Verb::resume, Verb::cancel, Verb::cancel,
        Verb::rerun, Verb::rerun, Verb::remove};
    request.verb = verbs[random_() % verbs.size()];
    std::vector<std::string> sweeps;
    for (const auto& [name, sweep] : picture.sweeps)
      sweeps.push_back(name);
    if (sweeps.empty()) return request;
    const std::string& sweep = sweeps[random_() % sweeps.size()];
    request.names = {sweep};
    const bool takes_trials = request.verb != Verb::pause && request.verb != Verb::remove;
    if (takes_trials && one_in(3)) request.where = one_in(2) ? "micro_batch = 2" : "gpus = 1";
    if (takes_trials && request.where.empty() && one_in(3)) {
      for (const auto& [id, trial] : picture.trials) {
        if (trial.sweep == picture.sweeps.at(sweep).first && one_in(2))
          request.names = {sweep + "/" + trial.slug};
      }
    }
    if (request.verb == Verb::resume) request.cancelled = one_in(3);
    request.dry_run = one_in(8);
    return request;
  }

  void act() {
    switch (random_() % 10) {
      case 0:
        return submit(one_in(2) ? "a" : "b", one_in(2));
      case 1:
        daemon_.reset();  // it was told to stop
        return;
      case 2:
        start();
        fate_.kill_at(1 + static_cast<int>(random_() % 60));
        tick();
        fate_.live();
        return;
      case 3:
      case 4:
      case 5:
        return run(static_cast<int>(random_() % 12));
      case 6:
        return race(draw_verb(picture()));
      default:
        return compare(draw_verb(picture()));
    }
  }
  /// Attempts start and end, and the daemon hears of it sooner or later.
  void run(int turns) {
    for (; turns > 0; --turns) {
      if (!daemon_ && must(left())) start();  // as a later command would
      if (one_in(3)) tick();
      cluster_.play(random_, clock_.time());
    }
  }
  /// A verb while attempts end, and while the daemon dies.
  void race(const Request& request) {
    if (request.names.empty()) return;
    for (int turns = static_cast<int>(random_() % 4); turns > 0; --turns)
      cluster_.play(random_, clock_.time());
    start();
    if (one_in(2)) fate_.kill_at(1 + static_cast<int>(random_() % 60));
    (void)ask(request);
    fate_.live();
  }
  /// A verb while nothing else happens does what the model says, and nothing else.
  void compare(const Request& request) {
    if (request.names.empty()) return;
    start();
    for (int passes = 0; passes < 3; ++passes) {
      start();
      tick();
    }
    const Picture before = picture();
    const Answer answer = request.dry_run ? only_said(request) : ask(request);
    const Picture after = picture();
    CAPTURE(said_);
    CAPTURE(answer.text);
    ++compared_;
    if (answer.fault || request.dry_run) {
      if (request.verb != Verb::remove && answer.fault) FAIL_CHECK(answer.fault->what);
      CHECK(after.sweeps == before.sweeps);
      for (const auto& [id, trial] : before.trials)
        check_trial(trial, after.trials.at(id));
      return;
    }
    if (request.verb == Verb::remove) {
      CHECK_FALSE(after.sweeps.contains(request.names.front()));
      return;
    }
    for (const auto& [id, trial] : before.trials) {
      const std::string& slug = trial.slug;
      CAPTURE(slug);
      check_trial(expected(request, before, trial), after.trials.at(id));
    }
    check_sweeps(request, before, after);
  }
  /// As the command does it: read and decided, not sent.
  Answer only_said(const Request& request) {
    const auto reader = must(Reader::open(home_.database));
    const auto steps = steps_of(request, must(reader->meant(request.names, trials_meant(request))));
    Answer answer;
    if (!steps) answer.fault = steps.error();
    if (steps) answer.text = steps->text;
    return answer;
  }
  void check_trial(const Seen& expected, const Seen& seen) {
    // In the same pass a rule may skip what waits; before it was run again it had an outcome.
    const bool by_rule = expected.open && !seen.open &&
        (seen.outcome == "skipped" || seen.outcome == expected.prior);
    if (by_rule) return;
    CHECK(seen.open == expected.open);
    CHECK(seen.outcome == expected.outcome);
    CHECK(seen.by == expected.by);
    CHECK(seen.prior == expected.prior);
  }

  // ---- the model

  static bool interrupted(const Seen& trial) {
    static const std::set<std::string> words{"node_failure", "preempted", "reaped", "lost"};
    return words.contains(trial.outcome) || (trial.outcome == "cancelled" && trial.by != "name");
  }
  static Seen planned(Seen trial) {
    trial.prior = interrupted(trial) || trial.outcome == "cancelled" ? "" : trial.outcome;
    trial.open = true;
    trial.outcome = trial.by = "";
    return trial;
  }
  [[nodiscard]] static bool chosen(
      const Request& request, const Picture& picture, const Seen& trial) {
    const std::string& name = request.names.front();
    const auto slash = name.find('/');
    if (picture.sweeps.at(name.substr(0, slash)).first != trial.sweep) return false;
    if (slash != std::string::npos) return trial.slug == name.substr(slash + 1);
    if (request.where == "micro_batch = 2") return trial.micro_batch == 2;
    if (request.where == "gpus = 1") return trial.slug.find("-g1-") != std::string::npos;
    return true;
  }
  [[nodiscard]] static Seen expected(const Request& request, const Picture& picture, Seen trial) {
    if (!chosen(request, picture, trial)) return trial;
    const bool whole =
        request.where.empty() && request.names.front().find('/') == std::string::npos;
    const bool by_name = request.names.front().find('/') != std::string::npos;
    switch (request.verb) {
      case Verb::cancel:
        if (!trial.open) return trial;
        trial.open = false;
        trial.outcome = trial.prior.empty() ? "cancelled" : trial.prior;
        trial.by = !trial.prior.empty() ? "" : whole ? "sweep" : "name";
        trial.prior = "";
        return trial;
      case Verb::rerun:
        return trial.open ? trial : planned(trial);
      case Verb::resume: {
        const bool dropped = trial.outcome == "cancelled" && trial.by == "name";
        const bool goes_on =
            !trial.open && (interrupted(trial) || (dropped && (request.cancelled || by_name)));
        return goes_on ? planned(trial) : trial;
      }
      default:
        return trial;
    }
  }
  static void check_sweeps(const Request& request, const Picture& before, const Picture& after) {
    const std::string name = request.names.front().substr(0, request.names.front().find('/'));
    for (const auto& [other, sweep] : before.sweeps) {
      if (other != name) CHECK(after.sweeps.at(other) == sweep);
    }
    const auto& [id, state] = before.sweeps.at(name);
    std::int64_t open = 0;
    std::int64_t cancels = 0;
    std::int64_t plans = 0;
    std::int64_t picked = 0;
    for (const auto& [trial_id, trial] : before.trials) {
      if (trial.sweep != id) continue;
      open += trial.open ? 1 : 0;
      if (!chosen(request, before, trial)) continue;
      ++picked;
      cancels += trial.open && trial.prior.empty() ? 1 : 0;
      plans += trial.open ? 0 : 1;
    }
    std::string expected = state;
    const bool whole =
        request.where.empty() && request.names.front().find('/') == std::string::npos;
    if (request.verb == Verb::pause && state == "active" && open > 0) expected = "paused";
    // An expression that no trial fits leaves its sweep as it is.
    if (request.verb == Verb::resume && (whole || picked > 0)) expected = "active";
    if (request.verb == Verb::cancel && whole && cancels > 0) expected = "cancelled";
    if (request.verb == Verb::rerun && plans > 0 && state == "cancelled") expected = "active";
    CHECK(after.sweeps.at(name).second == expected);
  }

  // ---- what holds at any time

  Result<bool> left() { return store_.work_left(); }
  /// Opened and prepared once: the model looks after every step.
  sqlite::Statement& statement(const char* sql) {
    const auto known = statements_.find(sql);
    return known != statements_.end()
        ? known->second
        : statements_.emplace(sql, sqlite::Statement(reader_, sql)).first->second;
  }
  void none(const char* what, const char* sql) {
    CAPTURE(what);
    CAPTURE(said_);
    auto row = statement(sql).use();
    const std::string first = row.next() ? row.text(0) : "";
    CHECK(first == "");
  }
  Picture picture() {
    Picture picture;
    auto row = statement(
        "SELECT id, sweep, slug, micro_batch, state <> 'ended', ifnull(outcome, ''), "
        "cancelled_by, ifnull(prior, '') FROM trials WHERE hidden = 0")
                   .use();
    while (row.next())
      picture.trials[row.integer(0)] = {row.integer(1), row.text(2),
          static_cast<int>(row.integer(3)), row.integer(4) != 0, row.text(5), row.text(6),
          row.text(7)};
    auto sweep = statement("SELECT id, name, state FROM sweeps").use();
    while (sweep.next())
      picture.sweeps[sweep.text(1)] = {sweep.integer(0), sweep.text(2)};
    return picture;
  }
  void check() {
    none("a counted attempt without its measurement",
        "SELECT id FROM attempts WHERE counted = 1 AND id NOT IN (SELECT attempt FROM "
        "measurements)");
    none("an outcome that its measurement does not fit",
        "SELECT t.id, t.state, t.outcome, t.prior FROM trials AS t WHERE "
        "(ifnull(t.outcome, t.prior) IS 'completed') <> EXISTS (SELECT 1 FROM attempts AS a "
        "WHERE a.trial = t.id AND a.counted = 1)");
    none("an ended trial with a prior outcome",
        "SELECT id FROM trials WHERE state = 'ended' AND prior IS NOT NULL");
    none("a trial that waits in a cancelled sweep",
        "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.state = "
        "'planned' AND t.hidden = 0 AND s.state = 'cancelled' AND s.deleting = 0");
    none("two counted measurements",
        "SELECT trial FROM attempts WHERE counted = 1 GROUP BY trial HAVING count(*) > 1");
    none("a trial that is ranked by another measurement than its own",
        "SELECT t.id FROM trials AS t LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted "
        "= "
        "1 LEFT JOIN measurements AS m ON m.attempt = a.id WHERE t.counted_attempt IS NOT "
        "a.id OR "
        "t.counted_mark IS NOT m.mark OR t.counted_speed IS NOT m.tokens_per_s_per_gpu");
    // Counted once, counted for good: what is measured goes with its sweep alone.
    std::set<std::string> now;
    std::set<std::string> known;
    auto row = statement(
        "SELECT t.sweep || '/' || t.identity, EXISTS (SELECT 1 FROM attempts AS a "
        "WHERE a.trial = t.id AND a.counted = 1) FROM trials AS t")
                   .use();
    while (row.next()) {
      known.insert(row.text(0));
      if (row.integer(1) != 0) now.insert(row.text(0));
    }
    for (const std::string& trial : counted_) {
      CAPTURE(trial);
      CAPTURE(said_);
      if (known.contains(trial) && !deleted_since_) CHECK(now.contains(trial));
    }
    counted_ = std::move(now);
    deleted_since_ = false;
  }
  /// The daemon has gone because nothing is left.
  void check_left() {
    none("work without a daemon",
        "SELECT t.id, t.state, s.state FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep "
        "WHERE (t.state = 'planned' AND t.hidden = 0 AND s.state = 'active') OR t.state IN "
        "('queued', 'running')");
    none("an attempt without a daemon", "SELECT id FROM attempts WHERE state <> 'ended'");
    none("an allocation without a daemon", "SELECT id FROM allocations WHERE state <> 'ended'");
    CHECK(must(pending_requests(home_)).empty());
  }
  /// Everything comes to its end, and every result that was written has its row.
  void finish() {
    if (one_in(2))
      (void)ask([] {
        Request request;
        request.verb = Verb::resume;
        return request;
      }());
    int passes = 0;
    while (daemon_ || must(left()) || cluster_.any_live()) {
      if (++passes > 5000) FAIL("the daemon never ends");
      if (must(left())) start();
      tick();
      cluster_.play(random_, clock_.time());
    }
    check();
    check_left();
    std::set<std::string> nonces;
    auto row = statement(
        "SELECT a.nonce FROM attempts AS a LEFT JOIN measurements AS m ON m.attempt = "
        "a.id WHERE m.attempt IS NULL")
                   .use();
    while (row.next()) {
      const std::string nonce = row.text(0);
      CAPTURE(nonce);
      const auto& attempts = cluster_.attempts().by_nonce;
      const auto attempt = attempts.find(nonce);
      CHECK_FALSE((attempt != attempts.end() && attempt->second.result));
    }
  }

  std::mt19937_64 random_;
  Fate fate_;
  MemoryFolder folder_;
  ManualClock clock_;
  Home home_;
  MortalStore store_;
  sqlite::Database reader_;
  std::map<std::string, sqlite::Statement> statements_;
  PlayedCluster cluster_;
  std::unique_ptr<shardsweep::Daemon> daemon_;
  std::map<std::string, SweepSpec> specs_;
  std::set<std::string> counted_;
  bool deleted_since_ = false;
  std::string said_;
  int inboxes_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t deaths_ = 0;
  std::int64_t compared_ = 0;
};

struct Played {
  std::int64_t sequences = 0;
  std::int64_t steps = 0;
  std::int64_t deaths = 0;
  std::int64_t compared = 0;
  std::size_t results = 0;
};

/// So many sequences in one database.
void play(const Seeds& seeds, std::uint64_t seed, std::int64_t sequences, Played& all) {
  std::int64_t done = 0;
  Play play(seed);
  for (; done < sequences; ++done) {
    const std::string advice = seeds.advice(seed, done + 1, done + 1);
    CAPTURE(advice);
    play.sequence();
  }
  all.sequences += done;
  all.steps += play.steps();
  all.deaths += play.deaths();
  all.compared += play.compared();
  all.results += play.results();
}

}  // namespace

TEST_CASE("no sequence of verbs leaves work without a daemon or loses a measurement") {
  const std::int64_t sequences = setting("SHARDSWEEP_MODEL_SEQUENCES", 300);
  const Seeds seeds({.file = "verbs_model",
                        .test = "no sequence of verbs*",
                        .variable = "SHARDSWEEP_MODEL_SEED",
                        .budget = "SHARDSWEEP_MODEL_SEQUENCES"},
      sequences);
  constexpr std::int64_t per_database = 10;
  Played all;
  for (const KeptSeed& one : seeds.kept())
    play(seeds, one.seed, one.length, all);
  // Most of the budget is for what nobody has seen yet.
  CHECK_MESSAGE(
      all.sequences <= sequences / 2, "kept seeds take over half of the sequences: allow more");
  for (std::uint64_t seed = seeds.first(); all.sequences < sequences; ++seed)
    play(seeds, seed, std::min(per_database, sequences - all.sequences), all);
  MESSAGE(
      fmt::format("{} sequences, {} kept seeds, {} passes, {} verbs held against the model, "
                  "{} deaths, {} results",
          all.sequences, seeds.kept().size(), all.steps, all.compared, all.deaths, all.results));
  if (sequences < 100) return;
  CHECK(all.deaths > 0);
  CHECK(all.compared > 0);
  CHECK(all.results > 0);
}
