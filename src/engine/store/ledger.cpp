// SPDX-License-Identifier: Apache-2.0
#include "store/ledger.hpp"

#include "store/row_sql.hpp"

namespace shardsweep::sqlite {

const char* const check_columns =
    "l.job_name AS allocation, c.node, iif(c.cause = '', 'passed', iif(c.blamed, 'failed', "
    "'unclear')) AS verdict, c.cause AS why, c.unmade AS not_checked, c.device, "
    "nullif(round(c.gemm_flops * 1e-9, 1), 0) AS gemm_gflops, nullif(round(c.busbw_bytes_per_s * "
    "1e-9, 3), 0) AS busbw_gb_per_s, iif(c.host_free < 0, NULL, round(c.host_free, 2)) AS "
    "host_free, round(c.seconds, 2) AS seconds, c.at";

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
  each(fmt::format("SELECT node, {} FROM (SELECT * FROM node_evidence WHERE counts = 1 ORDER BY id "
                   "DESC LIMIT 10000) ORDER BY id",
           columns_of<NodeCharge>()),
      [&](const Statement::Use& row) {
        NodeRow& node = world.nodes[row.text(0)];
        row.read(0, node.node);
        node.evidence.push_back(read_row<NodeCharge>(row, 1));
      });
  each(
      "SELECT x.allocation, x.node, x.has_lead FROM allocation_nodes AS x JOIN allocations AS l ON "
      "l.id = x.allocation WHERE l.state <> 'ended'",
      [&](const Statement::Use& row) {
        world.nodes_of[row.integer(0)].push_back(row.text(1));
        if (row.integer(2) != 0) world.lead_nodes[row.integer(0)] = row.text(1);
      });
  each(fmt::format(
           "SELECT {} FROM controls ORDER BY at, allocation, time DESC", columns_of<ControlRow>()),
      [&](const Statement::Use& row) { world.controls.push_back(read_row<ControlRow>(row)); });
  each(
      "SELECT p.allocation, p.node FROM probes AS p JOIN allocations AS l ON l.id = p.allocation "
      "WHERE l.state <> 'ended'",
      [&](const Statement::Use& row) {
        const auto found = world.allocations.find(row.integer(0));
        if (found != world.allocations.end()) found->second.probe_of = row.text(1);
      });
}

LedgerWriter::LedgerWriter(Database& database)
    : evidence_(database, insert_of<NodeCharge>("node_evidence", "node")),
      forget_(database,
          "UPDATE node_evidence SET counts = 0 WHERE node = ?1 AND counts = 1 AND (?2 = 0 OR trial "
          "= ?2)"),
      state_(database, upsert_of<NodeRow>("node_states")),
      end_probe_(database,
          "UPDATE probes SET outcome = ?2, cause = ?3, ended_at = ?4 WHERE allocation = ?1 AND "
          "outcome = ''"),
      seen_(database,
          "INSERT INTO allocation_nodes (node, allocation, has_lead, switches) VALUES (?1, ?2, ?3, "
          "?4) ON CONFLICT DO UPDATE SET has_lead = max(has_lead, ?3), switches = iif(?4 = '', "
          "switches, ?4)"),
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
