// SPDX-License-Identifier: Apache-2.0
// Boost.Process lives here alone. Its timed waits are never used (they wait in full and block):
// deadlines are kept by the io_context, ends are found by a waitpid that does not hang.
#include "machine/descriptor.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/command.hpp>

// Boost takes it for gone where POSIX 2008 is asked for; every Linux has it.
#define BOOST_POSIX_HAS_VFORK 1

#include <boost/asio.hpp>
#include <boost/process/args.hpp>
#include <boost/process/async_pipe.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/group.hpp>
#include <boost/process/io.hpp>
#include <boost/process/posix.hpp>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <utility>

namespace shardsweep {
namespace {

namespace bp = boost::process;
namespace asio = boost::asio;

/// The daemon blocks the signals that it reads from a descriptor; its children must not. Called
/// between vfork and exec, so it must touch nothing of ours.
void reset_signals() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bp::environment environment_of(const CommandOptions& options) {
  if (!options.environment) return boost::this_process::environment();
  bp::environment environment;
  for (const std::string& entry : *options.environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return environment;
}

constexpr auto look_again = std::chrono::milliseconds(5);
// A program has ended, and something that it has left behind keeps its output open: what it
// has printed itself is there.
constexpr auto output_after_end = std::chrono::milliseconds(500);

}  // namespace

struct RunningCommand::State {
  State(const CommandOptions& command_options, std::string program)
      : options(command_options),
        name(std::move(program)),
        out_pipe(io),
        err_pipe(io),
        expires(SystemClock().steady() + command_options.deadline) {}

  void read(bp::async_pipe& pipe, std::array<char, 16384>& buffer, std::string& into) {
    pipe.async_read_some(asio::buffer(buffer),
        [this, &pipe, &buffer, &into](const boost::system::error_code& error, std::size_t count) {
          if (error) {
            ++ended_pipes;
            return;
          }
          take({buffer.data(), count}, into);
          read(pipe, buffer, into);
        });
  }

  void take(std::string_view piece, std::string& into) {
    if (refused) return;
    if (options.keep && &into == &output.out) {
      auto kept = options.keep(piece);
      if (!kept) {
        refused = kept.error();
        std::error_code ignored;
        if (group.valid()) group.terminate(ignored);
        return;
      }
      append(*kept, into);
    } else {
      append(piece, into);
    }
  }

  void append(std::string_view piece, std::string& into) {
    const std::size_t room = options.output_limit - into.size();
    into.append(piece.substr(0, room));
    output.truncated |= piece.size() > room;
  }

  void end_group() {
    std::error_code ignored;
    if (group.valid()) group.terminate(ignored);
    if (child.valid()) child.wait(ignored);
  }

  std::optional<Result<CommandOutput>> finished() {
    std::error_code error;
    const bool running = child.running(error);
    // Stop watching for the end: programs started by the child may hold its pipe open.
    if (!running) ended.reset();
    const auto now = SystemClock().steady();
    if (!running && !ended_at) ended_at = now;
    const bool has_output = ended_pipes == 2 || (ended_at && now - *ended_at >= output_after_end);
    if (running || !has_output) {
      if (now < expires) return std::nullopt;
      end_group();
      return fault(FaultKind::timed_out, "'{}' gave no answer within {:g} s", name,
          std::chrono::duration<double>(options.deadline).count());
    }
    if (refused) return tl::unexpected<Fault>(*refused);
    const int status = child.native_exit_code();
    if (WIFSIGNALED(status)) {
      output.signal = WTERMSIG(status);
    } else {
      output.exit_code = WEXITSTATUS(status);
    }
    return std::move(output);
  }

  CommandOptions options;
  std::string name;
  asio::io_context io;
  bp::async_pipe out_pipe;
  bp::async_pipe err_pipe;
  bp::group group;
  bp::child child;
  Descriptor ended;
  std::chrono::steady_clock::time_point expires;
  std::optional<std::chrono::steady_clock::time_point> ended_at;  // end of the program itself
  std::array<char, 16384> out_buffer{};
  std::array<char, 16384> err_buffer{};
  CommandOutput output;
  std::optional<Fault> refused;  ///< fault returned by `keep`
  int ended_pipes = 0;
};

RunningCommand::RunningCommand(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunningCommand::RunningCommand(RunningCommand&&) noexcept = default;
RunningCommand& RunningCommand::operator=(RunningCommand&&) noexcept = default;

RunningCommand::~RunningCommand() {
  std::error_code error;
  if (state_ && state_->child.valid() && state_->child.running(error)) state_->end_group();
}

Result<RunningCommand> RunningCommand::start(
    const std::vector<std::string>& argv, const CommandOptions& options) {
  const std::filesystem::path program = argv.at(0).find('/') == std::string::npos
      ? find_on_path(argv[0])
      : std::filesystem::path(argv[0]);
  if (program.empty()) {
    return fault(FaultKind::unavailable, "'{}' is not on PATH", argv[0]);
  }
  auto state = std::make_unique<State>(options, argv[0]);
  std::error_code error;
  // Use vfork: copying the daemon's memory map by fork was a quarter of what a waiting daemon
  // costs.
  state->child = bp::child(
      bp::posix::use_vfork, bp::exe = program.string(),
      bp::args = std::vector<std::string>(argv.begin() + 1, argv.end()),
      bp::std_in<bp::null, bp::std_out> state->out_pipe, bp::std_err > state->err_pipe,
      state->group, environment_of(options), error,
      bp::extend::on_exec_setup = [](auto&) { reset_signals(); });
  if (error) {
    return fault(
        FaultKind::unavailable, "cannot start '{}': {}", program.string(), error.message());
  }
  state->ended = open_pidfd(state->child.id());
  state->read(state->out_pipe, state->out_buffer, state->output.out);
  state->read(state->err_pipe, state->err_buffer, state->output.err);
  return RunningCommand(std::move(state));
}

std::optional<Result<CommandOutput>> RunningCommand::poll() {
  state_->io.restart();
  state_->io.poll();
  return state_->finished();
}

int RunningCommand::ended_descriptor() const {
  return state_->ended.get();
}

Result<CommandOutput> RunningCommand::wait() {
  for (;;) {
    state_->io.restart();
    state_->io.run_one_for(look_again);
    if (auto done = state_->finished()) return std::move(*done);
  }
}

Result<CommandOutput> run_command(
    const std::vector<std::string>& argv, const CommandOptions& options) {
  SHARDSWEEP_ASSIGN(RunningCommand command, RunningCommand::start(argv, options));
  return command.wait();
}

std::filesystem::path find_on_path(const std::string& program) {
  const char* path = ::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    std::filesystem::path candidate = std::filesystem::path(rest.substr(0, end)) / program;
    std::error_code ignored;
    if (candidate.is_absolute() && std::filesystem::is_regular_file(candidate, ignored) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    if (end == std::string::npos) break;
    rest.erase(0, end + 1);
  }
  return {};
}

}  // namespace shardsweep
