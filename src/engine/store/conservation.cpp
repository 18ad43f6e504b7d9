// SPDX-License-Identifier: Apache-2.0
#include "store/conservation.hpp"

#include <shardsweep/invariant.hpp>

namespace shardsweep::sqlite {
namespace {

constexpr std::int64_t sampled_one_in = 256;

}  // namespace

Conservation::Conservation(Database& database, std::span<const Change> changes, std::int64_t commit)
    : database_(database) {
  if (commit % sampled_one_in != 0) return;
  for (const Change& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial == nullptr) continue;
    sweep_ = trial->row.sweep;
    before_ = count();
    return;
  }
}

Conservation::Counts Conservation::count() const {
  Statement select(database_,
      "SELECT count(*), ifnull(sum(state IN ('planned', 'queued', 'running', 'ended')), 0) FROM "
      "trials WHERE sweep = ?");
  auto row = select.use(sweep_);
  Counts counts;
  if (row.next()) counts = {row.integer(0), row.integer(1)};
  return counts;
}

void Conservation::check() const {
  if (sweep_ == 0) return;
  const Counts after = count();
  in_work_of(sweep_, [&] {
    INVARIANT(after.all == before_.all, "a commit neither makes nor loses a trial", sweep_,
        before_.all, after.all);
    INVARIANT(after.all == after.by_state, "each trial is in one state", sweep_, after.all,
        after.by_state);
  });
}

void check_completed(Database& database, std::span<const Change> changes) {
  for (const Change& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial == nullptr || trial->row.outcome != Outcome::completed) continue;
    // A later change of the same commit may have planned it again: then it is not looked at.
    Statement select(database,
        "SELECT (SELECT count(*) FROM attempts WHERE trial = t.id AND counted = 1) FROM trials AS "
        "t WHERE t.id = ? AND t.outcome = 'completed' AND t.side = ''");
    auto row = select.use(trial->row.id);
    if (!row.next()) continue;
    const std::int64_t counted = row.integer(0);
    in_work_of(trial->row.sweep, [&] {
      INVARIANT(
          counted == 1, "a completed trial has one counted measurement", trial->row.id, counted);
    });
  }
}

}  // namespace shardsweep::sqlite
