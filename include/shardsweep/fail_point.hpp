// SPDX-License-Identifier: Apache-2.0
// Fail points: named places at which a test makes a program die, stand still or meet a full
// disk. A test so says *where* something happens, and never when. They are compiled in, since
// what is tested is what is shipped, and do nothing unless the environment asks for one:
//
//   SHARDSWEEP_FAIL_AT=NAME[:n]:ACTION[,NAME…]     at the n-th time (1) that a process is there
//     exit            ends at once, as by _exit(70): no destructor, no handler
//     kill            SIGKILL to itself
//     stop            SIGSTOP to itself
//     enospc, eio     the next system call is taken to have failed so (fail_point_error alone)
//     break           contradicts itself: throws a BrokenInvariant
//     wait-for-file   waits until the file NAME.go is in the folder
//   SHARDSWEEP_FAIL_DIR=FOLDER    required. A process that acts first makes the file NAME in
//     it, with its pid. So a test knows that the point is reached, and of all processes that
//     inherit the variables one acts, once: the next daemon or job passes.
//
// A name is that of a window: what has happened, and what has not. The table is the only list;
// a name that is not in it does not compile, and tests/tools/style/fail_points finds the test
// of each.
#pragma once

#include <array>
#include <string_view>

namespace shardsweep {

struct FailPointWindow {
  std::string_view name;
  std::string_view window;
};

inline constexpr auto fail_points = std::to_array<FailPointWindow>({
    // daemon
    {"daemon.locked", "the lock of this host is taken, the lease is not"},
    {"daemon.leased", "the lease is taken, nothing is read"},
    {"daemon.renew", "the lease is due, and is not renewed"},
    {"daemon.request_read", "requests are read, none is served"},
    {"daemon.request_served", "a request is served in memory, and not committed"},
    {"daemon.request_committed", "a request is committed, and not answered"},
    {"daemon.lines_read", "a lead's lines are read, and not folded"},
    {"daemon.records_read", "the records of an ended attempt are read, and not folded"},
    {"daemon.folded", "what was observed is folded, nothing is decided"},
    {"daemon.final_round", "a round of finals is stored, what has led to it is not"},
    {"daemon.commit", "decided, not committed"},
    {"daemon.committed", "decisions are committed, nothing acts on them yet"},
    {"daemon.script_written", "the script of a job is written, the allocation's files are not"},
    {"daemon.prepared", "an allocation's files are written, no order is"},
    {"daemon.ordered", "orders are written to a lead, its job is not submitted"},
    {"daemon.submitted", "a job is submitted, the answer is not read"},
    {"daemon.accepted", "the answer to a submission is read, and not stored"},
    {"daemon.pack", "an attempt of a dead lead has ended, and is not packed"},
    {"daemon.packed", "an attempt of a dead lead is packed, nothing else has happened"},
    {"daemon.notify", "something worth a notice is committed, nobody is told"},
    {"daemon.released", "nothing is left, the lease is given back, the lock is not"},
    // a submission
    {"sweep.read", "a sweep file is read, and not yet submitted"},
    {"inbox.write", "the rows of a submission are written, and not committed"},
    {"inbox.written", "a submission is written, no request names it"},
    {"inbox.piece", "a piece of a submission is stored, and not committed"},
    {"inbox.stored", "a piece of a submission is committed, others are not"},
    {"inbox.in_force", "all of a submission is committed, nobody has read it"},
    {"inbox.answered", "a submission is answered, its file is still there"},
    // a database's folder
    {"home.checked", "all folders of a database are looked at, nothing in them is opened"},
    // a request and its answer
    {"request.write", "a request is not written"},
    {"request.written", "a request is written, no daemon is looked for"},
    {"request.answer", "an answer is not written"},
    {"request.answered", "an answer is written, its request is still there"},
    {"request.taken", "an answer is read, its file is still there"},
    {"command.started", "a command has started a daemon, and waits for nothing yet"},
    // a copy of the programs of a sweep
    {"snapshot.listed", "a tree is listed, none of it is copied"},
    {"snapshot.write", "a block of a copied file is not written"},
    {"snapshot.copied", "all files are copied, their folders are not synced"},
    {"snapshot.synced", "a snapshot is whole, and has no name yet"},
    {"snapshot.renamed", "a snapshot has its name, no submission names it"},
    // deletion
    {"delete.folder", "one folder of a sweep is deleted, its pack is not"},
    {"delete.folders", "the folders of a piece are deleted, its rows are there"},
    {"delete.rows", "the rows of a piece are deleted, and not committed"},
    {"delete.piece", "a piece of a sweep is deleted, nobody is told"},
    // the database
    {"store.create", "the file is there, and empty"},
    {"store.migrate", "tables are made or changed, and not committed"},
    {"store.migrated", "tables are committed, nothing is stored"},
    {"store.commit", "changes are written, and not committed"},
    {"store.reading", "some tables of a report are read, others are not"},
    // files of an allocation
    {"rundir.folder_checked", "the folder of a new file is looked at, nothing is in it"},
    {"rundir.write", "a file is about to be written, under another name"},
    {"rundir.sync", "it is written, not synced"},
    {"rundir.rename", "it is synced, under another name"},
    {"rundir.renamed", "it has its name, which is not synced"},
    {"rundir.append", "a line is about to be appended"},
    {"rundir.append_sync", "a line is appended, not synced"},
    {"rundir.claim", "a lead's own file is written, not linked"},
    {"rundir.claimed", "an allocation is claimed, the lead's own file is still there"},
    {"rundir.pack_file", "a file of an attempt is about to be packed: the n-th"},
    {"rundir.pack_sync", "an attempt is packed, not synced"},
    {"rundir.pack_rename", "its pack is synced, under another name"},
    {"rundir.packed", "its pack has its name, and its folder is still there"},
    // lead: its lines to the daemon, before and after
    {"lead.claimed", "node agents are started, `claimed` is not written"},
    {"lead.claimed_written", "`claimed` is written, and nothing else was done"},
    {"lead.node_seen", "a node agent is ready, `node_seen` is not written"},
    {"lead.shut", "no file can be written, no attempt is started"},
    {"lead.started", "an attempt is next, `started` is not written"},
    {"lead.started_written", "`started` is written, no node knows of it"},
    {"lead.launched", "the nodes were told to launch it"},
    {"lead.settle", "all nodes have told its end, which is not judged"},
    {"lead.ended", "its end is judged and packed, `ended` is not written"},
    {"lead.ended_written", "`ended` is written, nothing follows yet"},
    {"lead.revoked", "an attempt goes back, `revoked` is not written"},
    {"lead.found", "something was found on a node, `found` is not written"},
    {"lead.bye", "the nodes are gone, `bye` is not written"},
    // node agent: its lines to the lead, its ranks
    {"node.ready", "it has started, `ready` is not said"},
    {"node.ready_said", "`ready` is said"},
    {"node.check_said", "the check of a node has said what it found, and not ended"},
    {"node.spawn", "a rank of an attempt is about to start: the n-th"},
    {"node.launched", "all ranks have started, `launched` is not said"},
    {"node.launched_said", "`launched` is said, the ranks are not looked at yet"},
    {"node.beat", "a beat is about to be said: the n-th"},
    {"node.rank_ended", "the end of a rank is noted, the others run"},
    {"node.suspect", "a hang is suspected, the lead does not know it"},
    {"node.end_ranks", "an attempt has to end, no rank was signalled"},
    {"node.reap", "the ranks have ended, what they left was not"},
    {"node.reaped", "all processes are gone, records and logs were not looked at"},
    {"node.result", "an attempt is cut short, its result is not written"},
    {"node.result_written", "its result is written, nobody knows it"},
    {"node.ended", "an attempt is over, `ended` is not said"},
    {"node.ended_said", "`ended` is said"},
    // guard
    {"guard.start", "it has started, the node agent has not"},
    {"guard.agent_ended", "the node agent has ended; its cause is not said, its ranks live"},
    {"guard.said", "how the node agent ended is said, its ranks live"},
    {"guard.clean", "nothing is left on the node, the channel is open"},
});

/// The name of a fail point, checked by the compiler.
class FailPoint {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant to convert.
  consteval FailPoint(const char* name) : name_(name) {
    bool known = false;
    for (const auto& point : fail_points)
      known = known || point.name == name_;
    if (!known) throw "no such name in fail_points";
  }
  [[nodiscard]] constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

/// Ends, breaks, stops or holds the process if the environment asks for it here.
void fail_point(FailPoint here);

/// Fail point before a system call: its errno if it is to fail, else 0.
[[nodiscard]] int fail_point_error(FailPoint here);

}  // namespace shardsweep
