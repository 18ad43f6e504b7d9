// SPDX-License-Identifier: Apache-2.0
// Small scope, all of it: every sequence of verbs up to a length, from every state that two
// trials of one allocation can be in, while the daemon lives and while it is dead. Sequences
// run beside each other, each in a sweep of its own, so that one pass serves a verb of each.
// A sweep's name tells its two stages and its verbs: s17_mw_pc. SHARDSWEEP_SEQUENCE_LENGTH=4 by
// hand.
#include "tools/lib/seeds.hpp"
#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

enum class Step : std::uint8_t { pause, resume, resume_cancelled, cancel, cancel_one, rerun };
constexpr std::array steps{
    Step::pause, Step::resume, Step::resume_cancelled, Step::cancel, Step::cancel_one, Step::rerun};
constexpr std::string_view step_letters = "praxon";
using Sequence = std::vector<Step>;

/// How far a trial has come before the first verb; its lane runs one after the other.
enum class Stage : std::uint8_t { waits, runs, measured, crashed };
constexpr std::string_view stage_letters = "wrmc";
using Stages = std::pair<Stage, Stage>;
constexpr std::array all_stages{Stages{Stage::waits, Stage::waits},
    Stages{Stage::runs, Stage::waits}, Stages{Stage::measured, Stage::waits},
    Stages{Stage::crashed, Stage::waits}, Stages{Stage::measured, Stage::runs},
    Stages{Stage::crashed, Stage::runs}, Stages{Stage::measured, Stage::measured},
    Stages{Stage::measured, Stage::crashed}, Stages{Stage::crashed, Stage::measured},
    Stages{Stage::crashed, Stage::crashed}};

std::vector<Sequence> sequences_up_to(std::size_t length) {
  std::vector<Sequence> all{{}};
  std::size_t first = 0;
  for (std::size_t now = 1; now <= length; ++now) {
    const std::size_t end = all.size();
    for (; first < end; ++first) {
      for (const Step step : steps) {
        Sequence longer = all[first];
        longer.push_back(step);
        all.push_back(std::move(longer));
      }
    }
  }
  all.erase(all.begin());
  return all;
}

struct Told {
  std::string name;
  Stages stages;
  Sequence sequence;
};

Told told(std::size_t number, const Stages& stages, const Sequence& sequence) {
  const auto letter = [](std::string_view letters, auto value) {
    return letters[static_cast<std::size_t>(value)];
  };
  std::string verbs;
  for (const Step step : sequence)
    verbs += letter(step_letters, step);
  return {fmt::format("s{}_{}{}_{}", number, letter(stage_letters, stages.first),
              letter(stage_letters, stages.second), verbs),
      stages, sequence};
}

/// Sequences side by side. `dies`: before each verb the daemon dies, and what runs ends with a
/// result while nobody looks.
class SideBySide {
 public:
  SideBySide(std::vector<Told> all, bool dies) : all_(std::move(all)), dies_(dies) {}

  void run() {
    submit();
    bring_to_stages();
    for (std::size_t i = 0; i < longest(); ++i) {
      if (dies_) {
        site_.die();
        end_what_runs();
      }
      ask(i);
      check();
    }
    finish();
    check();
    check_end();
  }

 private:
  [[nodiscard]] std::size_t longest() const {
    std::size_t most = 0;
    for (const Told& one : all_)
      most = std::max(most, one.sequence.size());
    return most;
  }

  void submit() {
    std::vector<std::string> requests;
    for (const Told& one : all_)
      requests.push_back(site_.post(
          {.name = one.name, .settings = "retry: {on_trial: 0}", .micro_batch = {1, 2}}));
    await_answers(std::move(requests));
    site_.tick();
  }

  /// One pass may serve them all.
  void await_answers(std::vector<std::string> requests) {
    for (int passes = 0; passes < 1000 && !requests.empty(); ++passes) {
      site_.start();
      site_.tick();
      std::erase_if(requests, [this](const std::string& request) {
        const auto answer = must(take_answer(site_.home, request));
        if (answer) CHECK_FALSE(answer->fault);
        return answer.has_value();
      });
    }
    CHECK(requests.empty());
  }

  void begin(PlayedJob& job, Stage stage) {
    if (stage == Stage::waits) return;
    REQUIRE(job.lead->start_next(site_.slurm.lead_time(job)));
    site_.clock.advance(1'000'000);
    if (stage == Stage::runs) return;
    job.lead->end(stage == Stage::measured ? Outcome::completed : Outcome::crashed,
        site_.slurm.lead_time(job));
  }
  void bring_to_stages() {
    for (const Told& one : all_) {
      if (one.stages.first == Stage::waits) continue;
      PlayedJob* job = job_of(one.name);
      REQUIRE(job != nullptr);
      site_.start_job(*job);
      begin(*job, one.stages.first);
      begin(*job, one.stages.second);
    }
    site_.pass(2, 0.5);
  }
  PlayedJob* job_of(const std::string& sweep) {
    for (PlayedJob& job : site_.slurm.jobs) {
      if (job.name.starts_with(sweep + "-n")) return &job;
    }
    return nullptr;
  }
  void end_what_runs() {
    for (PlayedJob& job : site_.slurm.jobs) {
      if (job.runs() && job.lead && job.lead->runs())
        job.lead->end(Outcome::completed, site_.slurm.lead_time(job));
    }
  }

  [[nodiscard]] Request request_of(const Told& one, Step step) {
    Request request;
    request.names = {one.name};
    request.from = "test";
    switch (step) {
      case Step::pause:
        request.verb = Verb::pause;
        break;
      case Step::resume_cancelled:
        request.cancelled = true;
        [[fallthrough]];
      case Step::resume:
        request.verb = Verb::resume;
        break;
      case Step::cancel_one:
        request.where = "micro_batch = 1";
        [[fallthrough]];
      case Step::cancel:
        request.verb = Verb::cancel;
        break;
      case Step::rerun:
        request.verb = Verb::rerun;
        break;
    }
    return request;
  }
  void ask(std::size_t i) {
    std::vector<std::string> requests;
    for (const Told& one : all_) {
      if (i >= one.sequence.size()) continue;
      requests.push_back(must(
          post_request(site_.home, request_of(one, one.sequence[i]), site_.clock.true_time())));
    }
    await_answers(std::move(requests));
    hear();
    site_.pass(1, 0.5);
  }
  void hear() {
    for (PlayedJob& job : site_.slurm.jobs) {
      if (job.runs() && job.lead->claimed())
        job.lead->hear(site_.random, site_.slurm.lead_time(job));
    }
  }

  void play(PlayedJob& job) {
    if (job.pends()) site_.start_job(job);
    if (!job.runs()) return;
    job.lead->hear(site_.random, site_.slurm.lead_time(job));
    if (job.lead->runs()) job.lead->end(Outcome::completed, site_.slurm.lead_time(job));
    while (job.lead->start_next(site_.slurm.lead_time(job))) {
      if (job.lead->runs()) job.lead->end(Outcome::completed, site_.slurm.lead_time(job));
    }
    if (!job.lead->draining()) return;
    job.lead->leave("drained", site_.slurm.lead_time(job));
    site_.slurm.finish(job, "COMPLETED");
  }
  /// What a user has not stopped comes to its end, and the daemon leaves.
  void finish() {
    site_.start();
    for (int turns = 0; turns < 60 && site_.alive(); ++turns) {
      for (PlayedJob& job : site_.slurm.jobs)
        play(job);
      site_.pass(12, 3);
    }
    CHECK_FALSE(site_.alive());
  }

  void none(const std::string& what, const std::string& statement) {
    CAPTURE(what);
    CHECK(site_.sql(statement) == "");
  }
  void check() {
    none("two counted measurements",
        "SELECT trial FROM attempts WHERE counted = 1 GROUP BY trial HAVING count(*) > 1");
    none("a measured trial that says something else",
        "SELECT t.slug || ' ' || s.name FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep "
        "WHERE t.outcome IS NOT 'completed' AND t.prior IS NOT 'completed' AND EXISTS (SELECT "
        "1 "
        "FROM attempts AS a JOIN measurements AS m ON m.attempt = a.id WHERE a.trial = t.id)");
    none("a completed trial without its measurement",
        "SELECT id FROM trials AS t WHERE (t.outcome IS 'completed' OR t.prior IS 'completed') "
        "AND NOT EXISTS (SELECT 1 FROM attempts AS a JOIN measurements AS m ON m.attempt = "
        "a.id "
        "WHERE a.trial = t.id AND a.counted = 1)");
    none("a trial that waits in a cancelled sweep",
        "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.state = "
        "'planned' AND s.state = 'cancelled'");
  }
  void check_end() {
    none("a trial that waits though nobody has paused its sweep",
        "SELECT s.name FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.state <> "
        "'ended' AND s.state <> 'paused'");
    none("an attempt without a daemon", "SELECT id FROM attempts WHERE state <> 'ended'");
    none("an allocation without a daemon", "SELECT id FROM allocations WHERE state <> 'ended'");
    for (const auto& [nonce, attempt] : site_.slurm.attempts.by_nonce) {
      if (!attempt.result) continue;
      CAPTURE(nonce);
      CHECK(site_.sql(fmt::format("SELECT count(*) FROM measurements AS m JOIN attempts AS a ON "
                                  "a.id = m.attempt WHERE a.nonce = '{}'",
                nonce)) == "1");
    }
    for (const std::string& violation : site_.slurm.violations)
      FAIL_CHECK(violation);
  }

  std::vector<Told> all_;
  bool dies_;
  PlayedSite site_;
};

}  // namespace

TEST_CASE("every short sequence of verbs keeps what is measured and leaves nothing waiting") {
  const auto length = static_cast<std::size_t>(setting("SHARDSWEEP_SEQUENCE_LENGTH", 3));
  constexpr std::size_t beside_each_other = 120;
  std::size_t count = 0;
  for (const bool dies : {false, true}) {
    CAPTURE(dies);
    std::vector<Told> batch;
    const auto flush = [&] {
      count += batch.size();
      if (!batch.empty()) SideBySide(std::exchange(batch, {}), dies).run();
    };
    for (const Sequence& sequence : sequences_up_to(length)) {
      for (const Stages& stages : all_stages) {
        batch.push_back(told(batch.size(), stages, sequence));
        if (batch.size() == beside_each_other) flush();
      }
    }
    flush();
  }
  MESSAGE(fmt::format("{} sequences of up to {} verbs", count, length));
}
