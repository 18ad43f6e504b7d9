// SPDX-License-Identifier: Apache-2.0
// Phases in order; each is announced by a record as it begins, so that whoever watches knows
// where a silent rank is.
#include "measurement/benchmark.hpp"

#include "base/clock.hpp"
#include "base/counter_random.hpp"
#include "base/version.hpp"
#include "communication/rendezvous.hpp"
#include "measurement/fault.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/microbench.hpp"
#include "measurement/records.hpp"
#include "measurement/run_records.hpp"
#include "measurement/statistics.hpp"
#include "measurement/watchdog.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace shardbench {
namespace {

// How long a failing rank tries to tell its peers, and a finished one to say goodbye.
constexpr double farewell_s = 1.0;
constexpr double rendezvous_slack_s = 2.0;
// Sizes of the misbehaviours on request.
constexpr int slow_ms = 50;
constexpr int orphan_s = 600;
constexpr i64 held_bytes = i64{64} << 20;
constexpr i64 absurd_bytes = i64{1} << 60;
constexpr std::streamsize block_bytes = 1 << 16;

/// Equal on ranks that run the same program with the same flags.
u64 fingerprint(const Options& o) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string block(block_bytes, '\0');
  u64 hash = 0;
  while (self.read(block.data(), block_bytes) || self.gcount() > 0)
    for (const char c : std::string_view(block.data(), static_cast<std::size_t>(self.gcount())))
      hash = hash * 1099511628211ULL + static_cast<unsigned char>(c);  // FNV's prime
  for (const char c : o.defining_flags + version)
    hash = mix(hash, static_cast<u64>(static_cast<unsigned char>(c)));
  return hash;
}

class Run {
 public:
  Run(const Options& options, const PlatformKind& kind)
      : options_(options),
        kind_(kind),
        records_(options.records, options.run_id, options.rank),
        recorder_(options.recorder, options.run_id, options.rank, options.layout),
        watchdog_(recorder_, [this](const Error& error) { note_failure(error, -1); }),
        fault_(parse_fault(options.fault, options.world_size).value_or(Fault{})) {}

  void execute() {
    start();
    connect();
    enter("init");
    join_groups();
    if (options_.network_probe != NetworkProbe::off)
      network_ = network_probe({device(), *network(), *report_, platform_->probe_bytes()});
    if (options_.network_probe != NetworkProbe::alone) measure();
    finish();
  }

 private:
  bool speaks() const { return options_.rank == 0; }

  void enter(const char* phase) {
    if (speaks()) records_.write(records_.begin("phase").text("phase", phase));
    recorder_.phase(phase);
    const auto limit = options_.deadlines_s.find(phase);
    // Give the rendezvous more time: it has the same deadline itself, and names the missing peers.
    const double slack_s = std::string(phase) == "rendezvous" ? rendezvous_slack_s : 0;
    watchdog_.enter(phase, limit == options_.deadlines_s.end() ? 0 : limit->second + slack_s);
    phase_ = phase;
    // Within train steps a fault strikes between forward and update, amid the collectives.
    if (phase_ != "warmup" && phase_ != "train") misbehave();
  }

  void misbehave(i64 step = 0) {
    if (!fault_.strikes(phase_.c_str(), step, options_.rank)) return;
    switch (fault_.kind) {
      case FaultKind::hang:
        std::fprintf(stderr, "shardbench: rank %lld hangs in phase %s, as asked\n",
            static_cast<long long>(options_.rank), phase_.c_str());
        hang();
      case FaultKind::stop:
        stop();
        break;
      case FaultKind::crash:
        std::abort();
      case FaultKind::kill:
        (void)std::raise(SIGKILL);
        break;
      case FaultKind::exit0:
        _exit(0);
      case FaultKind::slow:
        sleep_ms(slow_ms);
        break;
      case FaultKind::oom:
        (void)memory_->allocate(MemoryClass::communication, absurd_bytes, "a fault on request");
        break;
      case FaultKind::garbage:
        records_.write_garbage();
        break;
      case FaultKind::fork:
        leave_orphan(orphan_s, 0);
        break;
      case FaultKind::hold:
        leave_orphan(orphan_s, held_bytes);
        break;
      case FaultKind::nan:
      case FaultKind::none:
        break;
    }
  }

  void start() {
    install_failure_handler([this](const Error& error) { report_failure(error); });
    install_backtrace_handler();
    watchdog_.enter("start", options_.deadlines_s.at("start"));
    open_platform();
    if (speaks()) {
      JsonObject record = records_.begin("start");
      add_start_fields(record, options_);
      platform_->describe(record);
      records_.write(record);
    }
    enter("start");
  }

  void open_platform() {
    platform_ = kind_.open(options_);
    memory_.emplace(device(), options_.memory_limit_bytes);
    if (&platform_->host() != &device()) own_host_memory_.emplace(platform_->host(), std::nullopt);
    memory_beside_.emplace(device(), std::nullopt);
    host_memory_beside_.emplace(platform_->host(), std::nullopt);
  }

  Device& device() { return platform_->device(); }
  Memory& host_memory() { return own_host_memory_ ? *own_host_memory_ : *memory_; }

  void note_failure(const Error& error, i64 failed_rank) {
    recorder_.ended(error_class_name(error.kind), failed_rank);
    records_.write_error(error, failed_rank);
  }

  void report_failure(const Error& error) {
    note_failure(error, mesh_ ? mesh_->failed_rank() : -1);
    if (mesh_) mesh_->broadcast_error(error, options_.rank, farewell_s);
    // Abort after the message is out: peers also wait for this rank within the library.
    if (platform_) platform_->abort();
  }

  void connect() {
    enter("rendezvous");
    MeetingResult meeting = meet({options_.rendezvous, options_.run_id, options_.rank,
        options_.world_size, fingerprint(options_), options_.deadlines_s.at("rendezvous")});
    mesh_ = std::make_unique<Mesh>(options_.rank, std::move(meeting.sockets));
    connection_.emplace(
        Connection{*mesh_, *memory_, host_memory(), &recorder_, options_.deadlines_s.at("comm")});
    beside_.emplace(Connection{*mesh_, *memory_beside_, *host_memory_beside_, &recorder_,
        options_.deadlines_s.at("comm")});
  }

  /// NCCL's communicators are set up here, which is part of init.
  void join_groups() {
    groups_ = make_groups(options_.layout, options_.rank, 1, group_maker(*platform_, *connection_));
    report_ = connect_host(*beside_, everyone("report"));
  }

  /// Makes a group beside those of the layout; each gets an id of its own.
  Group everyone(const char* name) {
    return {name, 1 + group_ids_used(options_.layout) + extra_groups_++,
        members_of(options_.layout, options_.rank, "world")};
  }

  /// All ranks by the device's own way, for judging it; its memory is not the training's.
  std::unique_ptr<Communicator> network() {
    return platform_->connect(*beside_, everyone("network"));
  }

  void measure() {
    prepare();
    std::vector<double> sent_before = sent_so_far();
    train("warmup", 0, options_.warmup);
    if (!measured_.gave_up) {
      forget_warmup();
      sent_before = sent_so_far();
    }
    train("train", options_.warmup, options_.steps);
    trainer_->settle();
    gather_sent(sent_before);
    gather_times();
    gather_memory();
    gather_dropped();
    measured_.busy_ms = by_rank(describe(busy_ms_).median);
    gather_paces();
  }

  /// tp ranks route the same tokens: of a part it does not matter.
  void gather_dropped() {
    if (options_.model.experts == 0 || options_.layout.moe_capacity == 0) return;
    const Device::DropCounts own = device().dropped();
    std::array<double, 2> all{own.choices, own.dispatched};
    wait_all(*report_, all.data(), all.size(), Reduction::sum);
    if (all[1] > 0) measured_.dropped = all[0] / all[1];
  }

  void gather_paces() {
    const Pace own = platform_->pace();
    const std::vector<double> clocks = by_rank(own.clock_mhz);
    const std::vector<double> powers = by_rank(own.power_w);
    const std::vector<double> held_back = by_rank(static_cast<double>(own.held_back));
    for (std::size_t rank = 0; rank < clocks.size(); ++rank)
      measured_.paces.push_back({clocks[rank], powers[rank], static_cast<u64>(held_back[rank])});
  }

  void forget_warmup() {
    platform_->timed_steps_begin();
    measured_.warmed_up = true;
    measured_.step_ms.clear();
    busy_ms_.clear();
    step_times_.clear();
  }

  void prepare() {
    if (options_.microbench) microbench_ = building_blocks(device(), options_, *network());
    Options unlimited = options_;
    unlimited.memory_limit_bytes = std::nullopt;
    // Settle products before the arenas take the memory: they are tried with operands of their own.
    device().settle_products(products_of_rank(unlimited, options_.rank));
    memory_->reserve(cost_of_rank(unlimited, options_.rank, &device()).arenas);
    platform_->reserved(*memory_);
    const Coordinates at = coordinates_of(options_.layout, options_.rank);
    const RankContext context =
        context_of(device(), *memory_, options_.model, options_.layout, at, groups_);
    trainer_ = std::make_unique<Trainer>(context, groups_, options_.seed);
  }

  void train(const char* phase, i64 first, i64 count) {
    if (measured_.gave_up) return;
    enter(phase);
    const bool timed = first >= options_.warmup;
    const auto hopeless = timed ? gives_up : gives_up_warming_up;
    measured_.warmed_up = timed;
    for (i64 step = first; step < first + count && !measured_.gave_up; ++step) {
      train_step(step, step - first, timed);
      const bool last = step + 1 == options_.warmup + options_.steps;
      measured_.gave_up = options_.give_up_above_ms && !last &&
          hopeless(measured_.step_ms, *options_.give_up_above_ms);
    }
  }

  /// `in_phase`: steps of this phase before it.
  void train_step(i64 step, i64 in_phase, bool timed) {
    const TimePoint start = now();
    const std::vector<double> before = times_so_far();
    trainer_->compute_gradients(step);
    misbehave(in_phase);
    const double gradient_norm = trainer_->update(step);
    double step_ms = seconds_since(start) * 1e3;
    double loss = trainer_->take_loss();
    if (fault_.kind == FaultKind::nan && fault_.strikes(phase_.c_str(), in_phase, options_.rank))
      loss = std::numeric_limits<double>::quiet_NaN();
    take_times(before, step_ms);
    platform_->between_steps();
    wait_all(*report_, &loss, 1, Reduction::sum);
    wait_all(*report_, &step_ms, 1, Reduction::max);
    // Each TP rank counted the same tokens.
    measured_.loss = loss / static_cast<double>(options_.layout.tp) /
        static_cast<double>(trainer_->global_tokens());
    if (!std::isfinite(measured_.loss))
      fail(ErrorClass::nan, "the loss of train step " + std::to_string(step) + " is not a number");
    watchdog_.progress();
    measured_.step_ms.push_back(step_ms);
    if (!speaks()) return;
    records_.write(records_.begin("train_step")
                       .integer("step", step)
                       .boolean("timed", timed)
                       .number("loss", measured_.loss)
                       .number("gradient_norm", gradient_norm)
                       .number("step_ms", step_ms)
                       .integer("tokens", trainer_->global_tokens()));
  }

  static void wait_all(Communicator& group, double* values, i64 count, Reduction reduction) {
    group.wait(group.all_reduce(values, count, Dtype::fp64, reduction));
  }

  /// Times in ms, in the order of measured_phases without the last, then of measured_waits.
  std::vector<double> times_so_far() const {
    const PhaseTimes& t = trainer_->times();
    const double dp_s = groups_.dp->waited_s() + groups_.shard->waited_s() +
        groups_.replicate->waited_s() + groups_.cp->waited_s() + groups_.ep->waited_s() +
        groups_.edp->waited_s();
    std::vector<double> times{t.forward_s, t.backward_s, t.transfer_s, t.reduction_s,
        t.gradient_norm_s, t.optimizer_s, groups_.tp->waited_s(), dp_s, groups_.pp->waited_s()};
    for (double& time : times)
      time *= 1e3;
    return times;
  }

  void take_times(const std::vector<double>& before, double step_ms) {
    std::vector<double>& times = step_times_.emplace_back(times_so_far());
    for (std::size_t i = 0; i < times.size(); ++i)
      times[i] -= before[i];
    const auto waits = times.end() - static_cast<std::ptrdiff_t>(measured_waits.size());
    busy_ms_.push_back(step_ms - std::accumulate(waits, times.end(), 0.0));
  }

  /// Gathers the parts of the median train step, which add up to its time. They are means over the
  /// ranks: the largest of each could be of different ranks.
  void gather_times() {
    std::vector<double> times(step_times_.front().size(), 0);
    const std::vector<std::size_t> places = median_places(measured_.step_ms);
    const double share =
        1 / static_cast<double>(places.size()) / static_cast<double>(options_.world_size);
    for (const std::size_t place : places)
      for (std::size_t i = 0; i < times.size(); ++i)
        times[i] += step_times_[place][i] * share;
    wait_all(*report_, times.data(), static_cast<i64>(times.size()), Reduction::sum);
    const auto cut = times.begin() + measured_phases.size() - 1;
    measured_.phase_ms.assign(times.begin(), cut);
    measured_.phase_ms.push_back(
        describe(measured_.step_ms).median - std::accumulate(times.begin(), cut, 0.0));
    measured_.wait_ms.assign(cut, times.end());
  }

  std::vector<double> sent_so_far() const {
    std::vector<double> sent;
    for (const i64 bytes : sent_by_group(groups_))
      sent.push_back(static_cast<double>(bytes));
    return sent;
  }

  void gather_sent(const std::vector<double>& before) {
    std::vector<double> sent = sent_so_far();
    for (std::size_t i = 0; i < sent.size(); ++i)
      sent[i] = (sent[i] - before[i]) / static_cast<double>(measured_.step_ms.size());
    wait_all(*report_, sent.data(), static_cast<i64>(sent.size()), Reduction::max);
    measured_.sent_bytes = std::move(sent);
  }

  /// A value of each rank, known to all of them.
  std::vector<double> by_rank(double own) const {
    std::vector<double> values(static_cast<std::size_t>(options_.world_size), 0);
    values[static_cast<std::size_t>(options_.rank)] = own;
    wait_all(*report_, values.data(), options_.world_size, Reduction::sum);
    return values;
  }

  void gather_memory() {
    measured_.peak_memory_bytes = by_rank(static_cast<double>(memory_->peak_bytes()));
    for (std::size_t i = 0; i < memory_class_count; ++i)
      measured_.peak_memory_by_class_bytes.push_back(
          static_cast<double>(memory_->peak_bytes(static_cast<MemoryClass>(i))));
    wait_all(*report_, measured_.peak_memory_by_class_bytes.data(), i64{memory_class_count},
        Reduction::max);
  }

  void finish() {
    enter("teardown");
    if (speaks()) write_result();
    recorder_.ended("ok", -1);
    platform_->disconnect();
    mesh_->say_goodbye(farewell_s);
  }

  void write_result() {
    const bool trained = trainer_ != nullptr;
    JsonObject record = records_.begin("result");
    if (trained) add_result_fields(record, options_, measured_);
    if (!microbench_.empty()) record.raw("microbench", microbench_);
    if (!network_.empty()) record.raw("network", network_);
    platform_->add_result(record, *memory_);
    if (!records_.write_durably(record))
      fail(ErrorClass::internal, "can't write the result to '" + options_.records + "'");
    const std::string summary =
        trained ? result_summary(options_, measured_) : "network: " + network_ + "\n";
    std::fputs(summary.c_str(), stderr);
  }

  const Options& options_;
  const PlatformKind& kind_;
  Records records_;
  FlightRecorder recorder_;
  Watchdog watchdog_;
  Fault fault_;
  std::string phase_;
  std::unique_ptr<Platform> platform_;
  std::optional<Memory> memory_;  // memory of the device
  std::optional<Memory> own_host_memory_;
  // Memory of the report and of probes, kept apart from training's figures.
  std::optional<Memory> memory_beside_;
  std::optional<Memory> host_memory_beside_;
  std::unique_ptr<Mesh> mesh_;
  std::optional<Connection> connection_;
  std::optional<Connection> beside_;
  u64 extra_groups_ = 0;
  Groups groups_;
  std::unique_ptr<Communicator> report_;  // messages about the run, apart from the run
  std::unique_ptr<Trainer> trainer_;
  RunFigures measured_;
  std::vector<double> busy_ms_;                  // own work in each step of the phase
  std::vector<std::vector<double>> step_times_;  // times of each step, as times_so_far()
  std::string microbench_;                       // JSON; empty: not asked for
  std::string network_;                          // JSON; empty: not asked for
};

}  // namespace

void run_benchmark(const Options& options, const PlatformKind& kind) {
  Run(options, kind).execute();
}

}  // namespace shardbench
