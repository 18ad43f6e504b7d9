// SPDX-License-Identifier: Apache-2.0
#include "daemon/outside.hpp"

#include "fleet/allocation.hpp"
#include "fleet/trial_change.hpp"
#include "sweep/launch.hpp"
#include "sweep/passed_variables.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/log.hpp>
#include <shardsweep/record.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t most_evidence = 600;

/// Record in a runner's form, so that `show` has words for it.
WrittenRecord record_of(const OutsideResult& result, const std::string& worker) {
  WrittenRecord record{"result", {}, {}};
  if (!worker.empty()) record.texts.emplace("worker", worker);
  const auto put = [&record](const char* name, double value) {
    if (value > 0) record.numbers.emplace(name, value);
  };
  put("tokens_per_s", result.tokens_per_s);
  put("train_step_ms", result.step_ms);
  put("peak_memory_bytes", result.peak_memory_bytes);
  put("steps", static_cast<double>(result.steps));
  return record;
}

std::string state_text(const SweepRow& sweep, const HandedOutPoints& all) {
  const bool done = sweep.state == SweepState::active && all.waiting == 0 && all.out == 0;
  return done ? "done" : std::string(word_of(sweep.state));
}

/// Text for a person: which points are out, and how to go on.
std::string next_text(const HandedOutPoints& all) {
  if (all.points.empty()) {
    if (all.state == "done") return "Nothing is left to measure.";
    if (all.state != "active") return fmt::format("No point: the sweep is {}.", all.state);
    return all.out > 0
        ? fmt::format("No point now: {} being measured; what comes next depends on the results.",
              counted(all.out, "point") + (all.out == 1 ? " is" : " are"))
        : "No point now.";
  }
  std::string text;
  for (const HandedOut& one : all.points)
    text += fmt::format("{}{}  {}  until {}", text.empty() ? "" : "\n", one.id, one.trial,
        utc_text(one.lease_until));
  return text;
}

/// Sentence for a late result that does not count.
std::string why_not_wanted(
    const TrialRow* trial, const OutsideAttempt& late, const SweepRow& sweep) {
  if (trial == nullptr || late.revoked) return late.cause;
  if (trial->outcome == Outcome::completed) return "Another result of the trial counts.";
  const bool is_out = trial->state == State::queued || trial->state == State::running;
  if (is_out) return "The point's lease had ended, and the point was handed out again.";
  const bool waits = trial->state == State::planned || trial->outcome == Outcome::lost;
  if (!waits || sweep.state == SweepState::active) return late.cause;
  return fmt::format("The point's lease had ended, and the sweep is {}.", word_of(sweep.state));
}

Result<void> check_asked(const HandOut& asked) {
  if (asked.points < 1 || asked.points > most_handed_out)
    return fault(
        FaultKind::invalid_input, fmt::format("next: --points takes 1 to {}.", most_handed_out));
  if (!(asked.lease_s >= 1 && asked.lease_s <= longest_lease_s))
    return fault(FaultKind::invalid_input, "next: --lease takes 1 s to 30 d.");
  if (!asked.worker.empty() && !is_worker_name(asked.worker))
    return fault(FaultKind::invalid_input,
        "next: {} is not a valid name for --as; use letters, digits and '._-', at most "
        "32, and begin with a letter or digit.",
        in_quotes(asked.worker));
  return {};
}

}  // namespace

void Outside::take_back(AllocationId recorded) {
  std::map<AllocationId, std::string> over;
  const Timestamp now = parts_.clock.now();
  for (const auto& [id, row] : world_.allocations()) {
    if (!is_outside(row) || !live(row) || sweeps_.is_apart(row.sweep)) continue;
    if (id == recorded && why_unwanted(world_, row).empty()) continue;
    if (std::string why = why_taken_back(world_, row, now); !why.empty())
      over.emplace(id, std::move(why));
  }
  for (const auto& [id, why] : over) {
    const SweepId sweep = world_.allocations().at(id).sweep;
    in_work_of(sweep, [&, id = id, why = &why] {
      shardsweep::take_back({world_, now}, sweeps_.policy_of(sweep), id, *why);
    });
  }
}

Result<const SweepRow*> Outside::sweep_named(const std::string& name) const {
  const auto found = std::find_if(world_.sweeps().begin(), world_.sweeps().end(),
      [&](const auto& entry) { return entry.second.name == name; });
  if (found == world_.sweeps().end())
    return fault(FaultKind::invalid_input, "there is no sweep {}", in_quotes(name));
  const SweepRow& sweep = found->second;
  if (sweep.backend != Backend::outside)
    return fault(FaultKind::invalid_input,
        "'{}' is measured by shardsweep itself (backend {}). To hand its "
        "points out, submit it with --backend outside.",
        name, word_of(sweep.backend));
  if (sweeps_.is_apart(sweep.id))
    return fault(FaultKind::unavailable,
        "'{}' has stopped the daemon and is held apart; 'shardsweep resume "
        "{}' tries it again",
        name, name);
  return &sweep;
}

std::set<AllocationId> Outside::out_of(SweepId sweep) const {
  std::set<AllocationId> out;
  for (const auto& [id, row] : world_.allocations()) {
    if (is_outside(row) && live(row) && row.sweep == sweep) out.insert(id);
  }
  return out;
}

Result<Answer> Outside::next(const Request& request) {
  const HandOut& asked = request.hand_out;
  SHARDSWEEP_TRY(check_asked(asked));
  if (request.names.size() != 1) return fault(FaultKind::invalid_input, "next: name one sweep.");
  SHARDSWEEP_ASSIGN(const SweepRow* sweep, sweep_named(request.names.front()));
  take_back();
  const std::set<AllocationId> before = out_of(sweep->id);
  std::vector<AllocationId> given;
  for (const AllocationId id : before) {
    const bool held =
        !asked.worker.empty() && worker_of(world_.allocations().at(id).host) == asked.worker;
    if (held && static_cast<std::int64_t>(given.size()) < asked.points) given.push_back(id);
  }
  HandOut wanted = asked;
  wanted.points -= static_cast<std::int64_t>(given.size());
  if (wanted.points > 0 && sweep->state == SweepState::active)
    deciding_.hand_out(sweep->id, wanted);
  HandedOutPoints all{.sweep = sweep->name, .state = {}, .points = {}};
  for (const AllocationId id : out_of(sweep->id)) {
    ++all.out;
    if (!before.contains(id)) given.push_back(id);
  }
  if (!asked.trial.empty() && given.empty())
    return fault(FaultKind::invalid_input, "next: '{}' has no waiting trial called {}", sweep->name,
        in_quotes(asked.trial));
  for (const auto& [nodes, queue] : world_.index().waiting(sweep->id))
    all.waiting += queue.size();
  all.state = state_text(*sweep, all);
  for (const AllocationId id : given) {
    SHARDSWEEP_ASSIGN(HandedOut one, handed_out(*sweep, world_.allocations().at(id)));
    all.points.push_back(std::move(one));
  }
  Answer answer;
  answer.text = next_text(all);
  answer.document = encode(all);
  answer.counts = {{"points", static_cast<std::int64_t>(all.points.size())},
      {"waiting", all.waiting}, {"out", all.out}};
  return answer;
}

Result<HandedOut> Outside::handed_out(const SweepRow& sweep, const AllocationRow& allocation) {
  const auto open = open_attempts(world_, allocation.id);
  if (open.empty()) return fault(FaultKind::corrupt, "a point that is out has no attempt");
  const AttemptRow& attempt = world_.attempts().at(open.front());
  const TrialRow& trial = world_.trials().at(attempt.trial);
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(sweep));
  const SweepSpec& file = context->spec;
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(trial.id, file));
  const AttemptPaths paths{attempt.dir};
  const AttemptSpec spec = attempt_spec(file, point,
      {.attempt = attempt.id,
          .trial = trial.slug,
          .nonce = attempt.nonce,
          .token = allocation.token,
          .program = parts_.installation.runner.string(),
          .paths = paths,
          .slots_per_node = allocation.slots_per_node,
          .expandable = attempt.expandable});
  HandedOut out{.id = attempt.nonce, .trial = trial.slug, .lease_until = allocation.deadline};
  for (auto& [name, value] : placeholder_values(file, point, attempt.dir, spec.ranks_per_node))
    out.values.emplace(name, value);
  out.dir = attempt.dir;
  out.folder = spec.trainer ? spec.trainer->directory : std::string();
  out.per_node = spec.trainer && spec.trainer->per_node;
  out.world = spec.world;
  out.ranks_per_node = spec.ranks_per_node;
  out.nodes = (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node;
  out.argv = spec.argv;
  out.env = spec.env;
  out.secrets = secret_names(file);
  if (spec.trainer) {
    for (auto& [name, text] : trainer_files(file, point, attempt.dir, spec.ranks_per_node))
      out.files.emplace((paths.dir / name).string(), text);
  }
  out.image = image_of(file, point, attempt.dir, spec.ranks_per_node);
  return out;
}

Result<OutsidePoint> Outside::expected(const SweepRow& sweep, TrialId trial) {
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(sweep));
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(trial, context->spec));
  return OutsidePoint{.tokens_per_step = point.layout.global_batch() * point.seq_len,
      .gpus = static_cast<std::int32_t>(point.layout.world()),
      .device_memory_bytes = static_cast<double>(context->spec.cluster.memory_bytes)};
}

Result<RecordsSummary> Outside::records_of(const OutsideResult& result, const OutsidePoint& point,
    const AttemptRow& attempt, const std::string& worker) {
  RecordsSummary records;
  if (result.outcome != Outcome::completed) return records;
  SHARDSWEEP_ASSIGN(const RunnerName runner, parts_.store.runner_of(attempt.trial));
  records.runner = runner.name;
  records.runner_version = runner.version;
  records.result = measurement_of(result, point, worker);
  records.result->runner_version = runner.version;
  records.result->detail =
      encode_record(record_of(result, worker), attempt.nonce, parts_.clock.now());
  records_.judge(attempt, records);
  return records;
}

const AttemptRow* Outside::open_attempt(const std::string& id) const {
  const auto found =
      std::find_if(world_.attempts().begin(), world_.attempts().end(), [&](const auto& entry) {
        return entry.second.nonce == id && entry.second.state != State::ended;
      });
  return found == world_.attempts().end() ? nullptr : &found->second;
}

Result<Answer> Outside::record(const Request& request) {
  if (request.names.size() != 1)
    return fault(FaultKind::invalid_input, "record: name one point, by its id.");
  const std::string& id = request.names.front();
  const AttemptRow* attempt = open_attempt(id);
  take_back(attempt == nullptr ? 0 : attempt->allocation);
  attempt = open_attempt(id);
  return attempt == nullptr ? record_late(id, request.result)
                            : record_open(*attempt, request.result);
}

Result<Answer> Outside::record_open(const AttemptRow& attempt, const OutsideResult& result) {
  const AllocationRow& allocation = world_.allocations().at(attempt.allocation);
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (!is_outside(allocation) || sweep == nullptr)
    return fault(
        FaultKind::invalid_input, "record: this attempt is measured by shardsweep itself.");
  SHARDSWEEP_ASSIGN(const OutsidePoint point, expected(*sweep, attempt.trial));
  SHARDSWEEP_TRY(check(result, point));
  SHARDSWEEP_ASSIGN(
      const RecordsSummary records, records_of(result, point, attempt, worker_of(allocation.host)));
  const AttemptId attempt_id = attempt.id;
  const TrialId trial_id = attempt.trial;
  const bool late = allocation.deadline <= parts_.clock.now();
  Ending ending{.outcome = result.outcome, .source = SaidBy::request};
  if (result.outcome != Outcome::completed) ending.cause = one_line(result.evidence, most_evidence);
  close_outside(
      {world_, parts_.clock.now()}, sweeps_.policy_of(sweep->id), allocation.id, ending, records);
  const TrialRow& trial = world_.trials().at(trial_id);
  const bool counted = world_.attempts().at(attempt_id).counted;
  Answer answer;
  answer.text = fmt::format("{}: {}, recorded.", trial.slug, word_of(result.outcome));
  if (late)
    answer.text +=
        " The point's lease had ended, but the point has no other result, so this one counts.";
  if (!records.doubt.empty())
    answer.text += fmt::format(" The result is not ranked: {}.", records.doubt);
  if (trial.state != State::ended) answer.text += " The point will be tried once more.";
  answer.counts = {{"counted", counted ? 1 : 0}, {"late", late ? 1 : 0}, {"again", 0}};
  return answer;
}

Result<std::optional<OutsideAttempt>> Outside::known_attempt(const std::string& id) {
  for (const auto& [number, attempt] : world_.attempts()) {
    if (attempt.nonce != id || !attempt.ending) continue;
    const AllocationRow& allocation = world_.allocations().at(attempt.allocation);
    const TrialRow* trial = world_.trial(attempt.trial);
    if (!is_outside(allocation) || trial == nullptr) break;
    return OutsideAttempt{.attempt = number,
        .trial = attempt.trial,
        .sweep = trial->sweep,
        .slug = trial->slug,
        .counted = attempt.counted,
        .revoked = attempt.revoked,
        .source = attempt.ending->source,
        .cause = attempt.ending->cause,
        .host = allocation.host};
  }
  return parts_.store.outside_attempt(id);
}

/// The trial, which may have ended and then be in the database alone.
Result<const TrialRow*> Outside::adopt_trial_of(
    const OutsideAttempt& late, const std::string& sweep) {
  if (const TrialRow* trial = world_.trial(late.trial)) return trial;
  SHARDSWEEP_ASSIGN(
      auto found, parts_.store.select_trials({fmt::format("{}/{}", sweep, late.slug)}, ""));
  for (TrialRow& row : found.trials)
    if (row.id == late.trial) return &world_.adopt(std::move(row));
  return nullptr;
}

/// Records a result whose attempt has ended: it was recorded before, or taken back.
Result<Answer> Outside::record_late(const std::string& id, const OutsideResult& result) {
  SHARDSWEEP_ASSIGN(const auto known, known_attempt(id));
  if (!known)
    return fault(
        FaultKind::invalid_input, "no point that was handed out has the id {}", in_quotes(id));
  const bool late = known->source == SaidBy::daemon;
  if (!late || known->measured)
    return Answer{
        .text = fmt::format("{}: the point already has a result, which stays.", known->slug),
        .counts = {{"counted", known->counted ? 1 : 0}, {"late", late ? 1 : 0}, {"again", 1}}};
  const SweepRow* sweep = world_.sweep(known->sweep);
  if (sweep == nullptr) return fault(FaultKind::corrupt, "a trial without its sweep");
  SHARDSWEEP_ASSIGN(const OutsidePoint point, expected(*sweep, known->trial));
  SHARDSWEEP_TRY(check(result, point));
  SHARDSWEEP_ASSIGN(const TrialRow* trial, adopt_trial_of(*known, sweep->name));
  if (is_still_wanted(world_, *known)) return record_anew(*known, result);
  const std::string why = why_not_wanted(trial, *known, *sweep);
  keep_beside(id, *known, result, point, why);
  return Answer{
      .text = fmt::format("{}: the result is stored, but does not count: {}", known->slug, why),
      .counts = {{"counted", 0}, {"late", 1}, {"again", 0}}};
}

/// Records a late result of a trial whose result is still wanted: hands the trial out to the same
/// worker again, and records the result for that.
Result<Answer> Outside::record_anew(const OutsideAttempt& late, const OutsideResult& result) {
  const TrialRow& trial = world_.trials().at(late.trial);
  if (trial.state == State::ended) plan_again(*world_.edit(trial));
  deciding_.hand_out(
      late.sweep, {.points = 1, .lease_s = 0, .worker = worker_of(late.host), .trial = late.slug});
  for (const AttemptId id : world_.index().attempts_at(late.trial)) {
    const AttemptRow& attempt = world_.attempts().at(id);
    if (attempt.state != State::ended) return record_open(attempt, result);
  }
  return fault(FaultKind::unavailable, "{} could not be handed out again; record it once more",
      in_quotes(late.slug));
}

void Outside::keep_beside(const std::string& id, const OutsideAttempt& late,
    const OutsideResult& result, const OutsidePoint& point, const std::string& why) {
  if (result.outcome == Outcome::completed) {
    AddMeasurement measured = measurement_of(result, point, worker_of(late.host));
    measured.attempt = late.attempt;
    measured.trial = late.trial;
    measured.detail =
        encode_record(record_of(result, worker_of(late.host)), id, parts_.clock.now());
    world_.record(std::move(measured));
  }
  world_.record(AddEvent{.at = parts_.clock.now(),
      .sweep = late.sweep,
      .trial = late.trial,
      .attempt = late.attempt,
      .kind = EventKind::record,
      .detail = fmt::format("{}, stored but not counted: {}", word_of(result.outcome),
          result.outcome == Outcome::completed ? why : one_line(result.evidence, most_evidence))});
}

}  // namespace shardsweep
