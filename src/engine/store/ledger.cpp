// SPDX-License-Identifier: Apache-2.0
#include "store/ledger.hpp"

#include "store/row_sql.hpp"

namespace shardsweep::sqlite {

const char* const ledger_sql = R"sql(
ALTER TABLE attempts ADD COLUMN node TEXT NOT NULL DEFAULT '';  -- where the first cause was seen
ALTER TABLE attempts ADD COLUMN also TEXT NOT NULL DEFAULT '';  -- what contradicts the outcome
CREATE INDEX attempts_by_node ON attempts (node) WHERE node <> '';

-- Which nodes an allocation had, as its agents said.
CREATE TABLE allocation_nodes (
  node       TEXT NOT NULL,
  allocation INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  PRIMARY KEY (node, allocation)
) STRICT, WITHOUT ROWID;
CREATE INDEX allocation_nodes_by_allocation ON allocation_nodes (allocation);

-- What speaks against nodes.
CREATE TABLE node_evidence (
  id      INTEGER PRIMARY KEY,
  node    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL,     -- silent, lost, hardware, dirty, failed, suspect, or an outcome
  trial   INTEGER REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  attempt INTEGER REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  detail  TEXT NOT NULL,
  counts  INTEGER NOT NULL DEFAULT 1 CHECK (counts IN (0, 1))  -- 0: the node has come back since
) STRICT;
CREATE INDEX node_evidence_by_node ON node_evidence (node);
CREATE INDEX node_evidence_that_counts ON node_evidence (id) WHERE counts = 1;

-- Nodes that are, or have been, out.
CREATE TABLE node_states (
  node          TEXT PRIMARY KEY,
  state         TEXT NOT NULL CHECK (state IN ('trusted', 'quarantined', 'probation')),
  since         INTEGER NOT NULL,
  until         INTEGER NOT NULL,  -- quarantined: when it is tried again
  reason        TEXT NOT NULL,
  failed_probes INTEGER NOT NULL   -- in a row
) STRICT, WITHOUT ROWID;

-- Allocations made to try a node again with a short run.
CREATE TABLE probes (
  allocation INTEGER PRIMARY KEY REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  node       TEXT NOT NULL,
  outcome    TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'passed', 'failed')),
  cause      TEXT NOT NULL DEFAULT '',
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX probes_by_node ON probes (node);
)sql";

const char* const lead_nodes_sql = R"sql(
ALTER TABLE allocation_nodes ADD COLUMN has_lead INTEGER NOT NULL DEFAULT 0;
)sql";

const char* const paces_sql = R"sql(
-- Beside its peers in one attempt: kinds 'slower' and 'on pace', which lead to 'slow'.
ALTER TABLE node_evidence ADD COLUMN ratio REAL NOT NULL DEFAULT 0;  -- own time over theirs; 0: not compared
ALTER TABLE node_evidence ADD COLUMN peers TEXT NOT NULL DEFAULT ''; -- some of them, with commas
)sql";

const char* const controls_sql = R"sql(
-- The sweep's fixed layout in an allocation, before and after what it measures.
CREATE TABLE controls (
  allocation   INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  time         TEXT NOT NULL CHECK (time IN ('start', 'end')),
  sweep        INTEGER NOT NULL REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  nodes        INTEGER NOT NULL,
  tokens_per_s REAL NOT NULL,  -- per GPU; 0: it was not measured
  ratio        REAL NOT NULL,  -- to the median of the sweep's on as many nodes; 0: not known
  cause        TEXT NOT NULL,  -- why it was not measured
  at           INTEGER NOT NULL,
  PRIMARY KEY (allocation, time)
) STRICT, WITHOUT ROWID;
)sql";

const char* const network_sql = R"sql(
-- Its probe of the network between all ranks.
ALTER TABLE controls ADD COLUMN busbw_bytes_per_s REAL NOT NULL DEFAULT 0;  -- 0: not measured
ALTER TABLE controls ADD COLUMN network_ratio REAL NOT NULL DEFAULT 0;      -- as ratio
ALTER TABLE controls ADD COLUMN gpu_seconds REAL NOT NULL DEFAULT 0;        -- that it took
)sql";

const char* const checks_sql = R"sql(
-- The check of each node, an allocation's first act, beside its controls. A table can't get its
-- name while views use it; they are made anew.
DROP VIEW IF EXISTS results;
DROP VIEW IF EXISTS all_results;
DROP VIEW IF EXISTS trial_results;
DROP VIEW IF EXISTS node_ledger;
CREATE TABLE all_controls (
  allocation     INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  time           TEXT NOT NULL CHECK (time IN ('start', 'end', 'check')),
  node           TEXT NOT NULL,  -- whose check it is; empty: a control on all nodes
  sweep          INTEGER NOT NULL REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  nodes          INTEGER NOT NULL,
  tokens_per_s   REAL NOT NULL,  -- per GPU; 0: it was not measured
  ratio          REAL NOT NULL,  -- to the median of the sweep's on as many nodes; 0: not known
  busbw_bytes_per_s REAL NOT NULL,  -- of its probe of the network; 0: not measured
  network_ratio  REAL NOT NULL,  -- as ratio
  gpu_seconds    REAL NOT NULL,  -- that it took
  cause          TEXT NOT NULL,  -- why it was not measured, or why the node has failed
  at             INTEGER NOT NULL,
  device         TEXT NOT NULL,  -- from here on of a check: the model of GPUs, or of the CPU
  gemm_flops     REAL NOT NULL,  -- FLOP/s of matrix products; 0: not measured
  sm_clock_mhz   REAL NOT NULL,  -- meanwhile; 0: not told
  host_free      REAL NOT NULL,  -- share of the host's memory; -1: not told
  gpu_used_bytes REAL NOT NULL,  -- of the GPU with the most; -1: not told
  seconds        REAL NOT NULL,  -- that it took
  unmade         TEXT NOT NULL,  -- checks that could not be made, and why
  blamed         INTEGER NOT NULL,  -- 1: the node has failed, not its site
  PRIMARY KEY (allocation, time, node)
) STRICT, WITHOUT ROWID;
INSERT INTO all_controls SELECT allocation, time, '', sweep, nodes, tokens_per_s, ratio,
  busbw_bytes_per_s, network_ratio, gpu_seconds, cause, at, '', 0, 0, -1, -1, 0, '', 0
  FROM controls;
DROP TABLE controls;
ALTER TABLE all_controls RENAME TO controls;
CREATE INDEX controls_by_sweep ON controls (sweep);
)sql";

const char* const check_columns =
    "l.job_name AS allocation, c.node, iif(c.cause = '', 'passed', iif(c.blamed, 'failed', "
    "'unclear')) AS verdict, c.cause AS why, c.unmade AS not_checked, c.device, "
    "nullif(round(c.gemm_flops * 1e-9, 1), 0) AS gemm_gflops, "
    "nullif(round(c.busbw_bytes_per_s * 1e-9, 3), 0) AS busbw_gb_per_s, "
    "iif(c.host_free < 0, NULL, round(c.host_free, 2)) AS host_free, "
    "round(c.seconds, 2) AS seconds, c.at";

const char* const control_time_sql = R"sql(
-- 0, or since when the control runs that was started last in it
ALTER TABLE allocations ADD COLUMN control_since INTEGER NOT NULL DEFAULT 0;
)sql";

void read_ledger(Database& database, WorldRows& world) {
  const auto each = [&](const std::string& text, const auto& take) {
    Statement select(database, text);
    auto row = select.use();
    while (row.next())
      take(row);
  };
  each(fmt::format("SELECT {} FROM node_states", columns_of<NodeRow>()),
      [&](const Statement::Use& row) {
        auto node = read_row<NodeRow>(row);
        world.nodes.insert_or_assign(node.node, std::move(node));
      });
  each(fmt::format("SELECT node, {} FROM (SELECT * FROM node_evidence WHERE counts = 1 ORDER "
                   "BY id DESC LIMIT 10000) ORDER BY id",
           columns_of<NodeCharge>()),
      [&](const Statement::Use& row) {
        NodeRow& node = world.nodes[row.text(0)];
        row.read(0, node.node);
        node.evidence.push_back(read_row<NodeCharge>(row, 1));
      });
  each(
      "SELECT x.allocation, x.node, x.has_lead FROM allocation_nodes AS x JOIN allocations AS "
      "l ON l.id = x.allocation WHERE l.state <> 'ended'",
      [&](const Statement::Use& row) {
        world.nodes_of[row.integer(0)].push_back(row.text(1));
        if (row.integer(2) != 0) world.lead_nodes[row.integer(0)] = row.text(1);
      });
  each(fmt::format(
           "SELECT {} FROM controls ORDER BY at, allocation, time DESC", columns_of<ControlRow>()),
      [&](const Statement::Use& row) { world.controls.push_back(read_row<ControlRow>(row)); });
  each(
      "SELECT p.allocation, p.node FROM probes AS p JOIN allocations AS l ON l.id = "
      "p.allocation WHERE l.state <> 'ended'",
      [&](const Statement::Use& row) {
        const auto found = world.allocations.find(row.integer(0));
        if (found != world.allocations.end()) found->second.probe_of = row.text(1);
      });
}

LedgerWriter::LedgerWriter(Database& database)
    : evidence_(database, insert_of<NodeCharge>("node_evidence", "node")),
      forget_(database,
          "UPDATE node_evidence SET counts = 0 WHERE node = ?1 AND counts = 1 AND "
          "(?2 = 0 OR trial = ?2)"),
      state_(database, upsert_of<NodeRow>("node_states")),
      end_probe_(database,
          "UPDATE probes SET outcome = ?2, cause = ?3, ended_at = ?4 WHERE "
          "allocation = ?1 AND outcome = ''"),
      seen_(database,
          "INSERT INTO allocation_nodes (node, allocation, has_lead, switches) VALUES (?1, "
          "?2, ?3, ?4) ON CONFLICT DO UPDATE SET has_lead = max(has_lead, ?3), "
          "switches = iif(?4 = '', switches, ?4)"),
      probe_(
          database, "INSERT INTO probes (allocation, node) VALUES (?, ?) ON CONFLICT DO NOTHING"),
      control_(database, upsert_of<ControlRow>("controls")),
      mark_(database,
          "UPDATE measurements SET mark = 'contaminated' WHERE attempt = ? AND mark IS NULL") {}

void LedgerWriter::put(const PutControl& change) {
  auto use = control_.use();
  bind_row(use, change.row);
  use.run();
}

void LedgerWriter::put(const MarkMeasurement& change) {
  mark_.run(change.attempt);
}

void LedgerWriter::put(const AddNodeEvidence& change) {
  auto use = evidence_.use(change.node);
  bind_row(use, change.evidence);
  use.run();
}

void LedgerWriter::put(const ForgetEvidence& change) {
  forget_.run(change.node, change.trial);
}

void LedgerWriter::put(const SetNode& change) {
  auto use = state_.use();
  bind_row(use, change.row);
  use.run();
}

void LedgerWriter::put(const EndProbe& change) {
  end_probe_.run(change.allocation, change.passed ? "passed" : "failed", change.cause, change.at);
}

void LedgerWriter::seen(
    AllocationId allocation, const std::string& node, bool has_lead, const std::string& switches) {
  seen_.run(node, allocation, has_lead ? 1 : 0, switches);
}

void LedgerWriter::probe(AllocationId allocation, const std::string& node) {
  probe_.run(allocation, node);
}

}  // namespace shardsweep::sqlite
