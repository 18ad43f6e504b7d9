// SPDX-License-Identifier: Apache-2.0
// What every scheduler promises the daemon, asked of each of them: this machine, and Slurm by
// its command line and by slurmrestd. CONTRACT_BACKEND (local, slurm, slurmrestd) says which,
// CONTRACT_DIR a folder that the nodes see, CONTRACT_SITE the site file of a cluster.
#include "slurm/words/script.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/random.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <poll.h>
#include <stdlib.h>

#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

using namespace shardsweep;

namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = ::getenv(name);
  return value != nullptr ? value : otherwise;
}

const std::string backend = variable("CONTRACT_BACKEND", "local");

/// A scheduler, and allocations whose leads find nothing to do and wait.
class Contract {
 public:
  Contract() {
    policy.look_s = 0.5;
    if (backend != "local") {
      auto loaded = load_site(variable("CONTRACT_SITE", ""));
      REQUIRE_MESSAGE(loaded.has_value(), loaded.error().what);
      site = *loaded;
    }
    scheduler = make();
  }

  [[nodiscard]] std::unique_ptr<Scheduler> make() const {
    if (backend == "local") return make_local_scheduler(agent());
    if (backend == "slurm") return make_slurm_cli_scheduler(policy, clock);
    return make_slurm_rest_scheduler(site.rest, policy, clock);
  }

  [[nodiscard]] static std::filesystem::path agent() {
    return std::filesystem::path(SHARDSWEEP_BIN_DIR) / "shardsweep-agent";
  }

  AllocationHandle prepare() {
    AllocationHandle handle;
    handle.token = random_hex(8);
    handle.job_name = "contract_" + handle.token;
    handle.dir = std::filesystem::path(variable("CONTRACT_DIR", "/tmp")) / handle.token;
    handle.created_at = clock.now();
    std::filesystem::create_directories(handle.dir);
    AllocationSpec spec;
    spec.token = handle.token;
    spec.job_name = handle.job_name;
    spec.launch = backend == "local" ? LaunchMode::local : LaunchMode::agents;
    spec.limits.beat_s = 0.2;
    spec.limits.agent_lease_s = spec.limits.node_lease_s = 300;
    spec.limits.file_beat_s = 1;
    spec.limits.watch_interval_s = 0.05;
    spec.limits.idle_limit_s = 300;
    const AllocationPaths paths{handle.dir};
    REQUIRE(write_file_durably(paths.spec(), encode(spec)));
    return handle;
  }

  /// Its script asks for `partition`; empty: what the site says.
  AllocationRequest request(const AllocationHandle& handle, const std::string& partition = "") {
    SiteSpec used = site;
    if (!partition.empty()) used.slurm["partition"] = {{.value = partition}};
    return request(handle, used);
  }
  AllocationRequest request(const AllocationHandle& handle, const SiteSpec& used) {
    const AllocationPaths paths{handle.dir};
    AllocationRequest wanted{.token = handle.token,
        .job_name = handle.job_name,
        .dir = handle.dir,
        .agent = agent(),
        .limit_s = 300};
    if (backend == "local") return wanted;
    SweepSpec sweep{.name = "contract"};
    sweep.cluster.gpus_per_node = 2;
    const auto values = script_values(sweep, used,
        {.job_name = handle.job_name,
            .agent = agent().string(),
            .paths = paths,
            .nodes = 1,
            .time_limit_s = 600});
    REQUIRE_MESSAGE(values.has_value(), values.error().what);
    const auto text = read_file(SHARDSWEEP_SOURCE_DIR "/templates/lane.sbatch");
    REQUIRE(text);
    const auto script = render_template(*text, "lane.sbatch", *values);
    REQUIRE_MESSAGE(script.has_value(), script.error().what);
    REQUIRE(write_file_durably(paths.script(), *script));
    wanted.script = paths.script();
    return wanted;
  }

  /// Looks and polls until an event satisfies `wanted`. None after ten minutes, which no load
  /// explains.
  template <class Event>
  std::optional<Event> await(
      const AllocationHandle& handle, const std::function<bool(const Event&)>& wanted) {
    using namespace std::chrono_literals;
    const auto deadline = clock.steady() + 10min;
    auto next_look = clock.steady();
    while (clock.steady() < deadline) {
      if (clock.steady() >= next_look) {
        scheduler->look({handle});
        next_look += 500ms;
      }
      for (const SchedulerEvent& event : scheduler->poll()) {
        const auto* found = std::get_if<Event>(&event);
        if (found != nullptr && wanted(*found)) return *found;
        if (const auto* failed = std::get_if<LookFailed>(&event)) MESSAGE(failed->why);
      }
      (void)::poll(nullptr, 0, 10);
    }
    return std::nullopt;
  }
  std::optional<JobSeen> await_state(const AllocationHandle& handle, JobState state) {
    return await<JobSeen>(handle, [&](const JobSeen& seen) { return seen.state == state; });
  }

  SystemClock clock;
  Policy policy;
  SiteSpec site;
  std::unique_ptr<Scheduler> scheduler;
};

template <class Event>
bool any(const Event& event) {
  (void)event;
  return true;
}

}  // namespace

TEST_CASE("submitted, seen running, adopted by its name, cancelled, seen ended") {
  Contract contract;
  AllocationHandle handle = contract.prepare();
  contract.scheduler->submit(contract.request(handle));
  const auto accepted = contract.await<SubmitAccepted>(handle, any<SubmitAccepted>);
  REQUIRE(accepted);
  CHECK(accepted->token == handle.token);
  CHECK_FALSE(accepted->job_id.empty());

  // The daemon has died before it could keep the id: another one finds the job.
  contract.scheduler = contract.make();
  const auto seen = contract.await_state(handle, JobState::running);
  REQUIRE(seen);
  CHECK(seen->job_id == accepted->job_id);
  CHECK_FALSE(seen->outcome);
  handle.job_id = seen->job_id;

  contract.scheduler->cancel(handle);
  const auto ended = contract.await_state(handle, JobState::ended);
  REQUIRE(ended);
  CHECK(ended->job_id == accepted->job_id);
  CHECK((!ended->outcome || *ended->outcome == Outcome::cancelled));
  std::filesystem::remove_all(handle.dir);
}

TEST_CASE("what nobody submitted is not there, which is no end of anything") {
  Contract contract;
  const AllocationHandle handle = contract.prepare();
  const auto missing = contract.await<JobNotSeen>(handle, any<JobNotSeen>);
  REQUIRE(missing);
  CHECK(missing->token == handle.token);
  std::filesystem::remove_all(handle.dir);
}

TEST_CASE("a refusal is told with the scheduler's words") {
  Contract contract;
  const AllocationHandle handle = contract.prepare();
  AllocationRequest request = contract.request(handle, "no-such-partition");
  if (backend == "local") request.agent = handle.dir / "no-such-agent";
  contract.scheduler->submit(request);
  const auto refused = contract.await<SubmitRefused>(handle, any<SubmitRefused>);
  REQUIRE(refused);
  CHECK(refused->token == handle.token);
  CHECK(refused->why.size() > 10);
  std::filesystem::remove_all(handle.dir);
}

TEST_CASE(
    "a job that was submitted strictly waits for its release" * doctest::skip(backend == "local")) {
  Contract contract;
  AllocationHandle handle = contract.prepare();
  AllocationRequest request = contract.request(handle);
  request.strict = true;
  contract.scheduler->submit(request);
  const auto accepted = contract.await<SubmitAccepted>(handle, any<SubmitAccepted>);
  REQUIRE(accepted);
  handle.job_id = accepted->job_id;
  const auto held = contract.await<JobSeen>(handle, any<JobSeen>);
  REQUIRE(held);
  CHECK(held->state == JobState::pending);
  CHECK(held->detail.find("JobHeldUser") != std::string::npos);
  contract.scheduler->release(handle);
  CHECK(contract.await_state(handle, JobState::running));
  contract.scheduler->cancel(handle);
  CHECK(contract.await_state(handle, JobState::ended));
  std::filesystem::remove_all(handle.dir);
}

TEST_CASE("a job on a part of a node gets the generic resources that it asks for" *
    doctest::skip(backend == "local")) {
  Contract contract;
  // What the site asks for, and what Slurm's record of the job has to say.
  const std::vector<std::pair<std::string, std::string>> wanted{
      {"gres", "gpu:2"}, {"gpus-per-node", "2"}, {"gpus", "2"}};
  for (const auto& each : wanted) {
    const auto& [option, value] = each;
    CAPTURE(each.first);
    SiteSpec shared = contract.site;
    shared.slurm_without.emplace_back("exclusive");
    shared.slurm[option] = {{.value = value}};
    AllocationHandle handle = contract.prepare();
    contract.scheduler->submit(contract.request(handle, shared));
    const auto accepted = contract.await<SubmitAccepted>(handle, any<SubmitAccepted>);
    REQUIRE(accepted);
    handle.job_id = accepted->job_id;
    REQUIRE(contract.await_state(handle, JobState::running));
    const auto job = run_command({"scontrol", "--oneliner", "show", "job", handle.job_id},
        {.deadline = std::chrono::seconds(30)});
    REQUIRE(job);
    // TRES in Slurm 22.05, ReqTRES and AllocTRES later.
    const std::string& said = job->out;
    const std::size_t requested = std::min(said.find(" ReqTRES="), said.find(" TRES="));
    REQUIRE_MESSAGE(requested != std::string::npos, said);
    const std::size_t begin = requested + 1;
    const std::string tres = said.substr(begin, said.find(' ', begin) - begin);
    CHECK_MESSAGE(tres.find("gres/gpu=2") != std::string::npos, tres);
    contract.scheduler->cancel(handle);
    CHECK(contract.await_state(handle, JobState::ended));
    std::filesystem::remove_all(handle.dir);
  }
}
