// SPDX-License-Identifier: Apache-2.0
// Each field of each row comes back as it was written, and each column of a table is a field of
// its row or named here with its writer.
#include "store/row_sql.hpp"
#include "store/schema.hpp"
#include "unit/store/support.hpp"

#include <set>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// A value for each field that no other field has.
class Filler {
 public:
  template <class Row>
  void fill(Row& row) {
    visit_values(row, [&](const auto& field, auto& value) {
      if (field.is_stored()) put(value);
    });
  }

 private:
  template <Worded Enum>
  void put(Enum& value) {
    value = static_cast<Enum>(word_table<Enum>.size() - 1);
  }
  template <Worded Enum>
  void put(std::optional<Enum>& value) {
    put(value.emplace());
  }
  void put(bool& value) { value = !value; }
  template <std::integral T>
  void put(T& value) {
    value = static_cast<T>(++last_);
  }
  void put(double& value) { value = static_cast<double>(++last_) + 0.5; }
  void put(std::string& value) { value = "text" + std::to_string(++last_); }
  int last_ = 100;
};

template <class Row>
void check_same(const Row& written, const Row& read) {
  visit_fields<Row>([&](const auto& tested) {
    CAPTURE(tested.name);
    const auto counts = [&](const auto& field) { return field.name == tested.name; };
    if (tested.is_stored()) CHECK(is_alike(written, read, counts));
  });
}

/// Those of its row are left out, so that what is left has another writer.
template <class Row>
std::set<std::string> other_columns(sqlite::Database& database, const std::string& table) {
  std::set<std::string> columns;
  sqlite::Statement statement(database, "SELECT name FROM pragma_table_info(?)");
  auto use = statement.use(table);
  while (use.next())
    columns.insert(use.text(0));
  visit_fields<Row>([&](const auto& field) { columns.erase(std::string(field.name)); });
  return columns;
}

}  // namespace

TEST_CASE("every field of every row comes back from the database") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  Filler filler;
  SetSweep sweep;
  filler.fill(sweep.row);
  sweep.row.id = 1;
  sweep.row.state = SweepState::paused;  // of a cancelled one the world has no trials
  PutAllocation allocation;
  filler.fill(allocation.row);
  allocation.row.sweep = 1;
  allocation.row.state = State::running;
  SetTrial trial;
  filler.fill(trial.row);
  trial.row.id = daemon.trial("model = 'tiny' AND gpus = 4 AND micro_batch = 2");
  trial.row.state = State::running;
  trial.row.outcome.reset();
  PutAttempt attempt;
  filler.fill(attempt.row);
  attempt.row.trial = trial.row.id;
  attempt.row.allocation = allocation.row.id;
  attempt.row.revoked = false;
  attempt.row.ending->outcome = Outcome::completed;
  SetNode node;
  filler.fill(node.row);
  NodeCharge charge;
  filler.fill(charge);
  charge.trial = trial.row.id;
  charge.attempt = attempt.row.id;
  PutControl control;
  filler.fill(control.row);
  control.row.allocation = allocation.row.id;
  control.row.sweep = 1;
  daemon.commit(
      {sweep, attempt, allocation, trial, node, AddNodeEvidence{node.row.node, charge}, control});

  const auto check = [&] {
    const WorldRows world = must(daemon.store->load_world());
    check_same(sweep.row, world.sweeps.at(1));
    check_same(allocation.row, world.allocations.at(allocation.row.id));
    check_same(trial.row, world.trials.at(trial.row.id));
    check_same(attempt.row, world.attempts.at(attempt.row.id));
    check_same(node.row, world.nodes.at(node.row.node));
    REQUIRE(world.nodes.at(node.row.node).evidence.size() == 1);
    check_same(charge, world.nodes.at(node.row.node).evidence.front());
    REQUIRE(world.controls.size() == 1);
    check_same(control.row, world.controls.front());
  };
  check();
  // The same rows, changed: an update writes each field too.
  const auto refill = [&](auto& row) {
    auto filled = row;
    filler.fill(filled);
    visit_values(row, [&](const auto& field, auto& value) {
      using T = std::remove_reference_t<decltype(value)>;
      constexpr bool is_free =
          std::is_same_v<T, std::string> || std::is_same_v<T, double> || std::is_same_v<T, bool>;
      if constexpr (is_free) {
        if (!field.is_stored() || field.is(Flag::key)) return;
        visit_values(filled, [&](const auto& other, const auto& fresh) {
          if constexpr (std::is_same_v<const T&, decltype(fresh)>)
            if (other.name == field.name) value = fresh;
        });
      }
    });
  };
  for (auto* row : {&attempt.row})
    refill(*row);
  attempt.row.revoked = false;
  refill(allocation.row);
  refill(trial.row);
  refill(node.row);
  refill(control.row);
  refill(sweep.row);
  daemon.commit({sweep, attempt, allocation, trial, node, control});
  check();
}

TEST_CASE("a column is a field of its row or has another writer") {
  const TempDir dir;
  sqlite::Database database(dir / "a.db", sqlite::OpenMode::create, 1000);
  sqlite::migrate(database);
  using Columns = std::set<std::string>;
  CHECK(other_columns<AllocationRow>(database, "allocations") == Columns{});
  CHECK(other_columns<AttemptRow>(database, "attempts") == Columns{});
  CHECK(other_columns<NodeRow>(database, "node_states") == Columns{});
  CHECK(other_columns<ControlRow>(database, "controls") == Columns{});
  // `counts` is the opposite of ForgetEvidence.
  CHECK(other_columns<NodeCharge>(database, "node_evidence") == Columns{"id", "node", "counts"});
  // A deletion in pieces writes `deleting`; the rest is written by a submission.
  CHECK(other_columns<SweepRow>(database, "sweeps") ==
      Columns{"source", "resolved_hash", "cluster", "runner", "runner_version", "vars", "points",
          "duplicates", "left_out", "revision", "submission", "report", "deleting"});
}
