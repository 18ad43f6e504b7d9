// SPDX-License-Identifier: Apache-2.0
#include "agent/spawn.hpp"

#include "agent/environment.hpp"
#include "agent/signals.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

namespace shardsweep::agent {
namespace {

constexpr int cannot_start = 127;  // a shell's code for it
constexpr int report_number = 3;   // descriptor of the report, open until the program starts
constexpr std::string_view prefix = "shardsweep-agent: ";

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const auto& text : texts)
    all.push_back(const_cast<char*>(text.c_str()));  // exec's signature; it does not write
  all.push_back(nullptr);
  return all;
}

[[noreturn]] void leave(std::string_view what, const std::string& name) {
  const int error = errno;
  const std::string text = errno_fault(std::string(what) + " " + name, error).what;
  const std::string line = std::string(prefix) + text + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  // Less than PIPE_BUF: at once and whole. Nobody may be there to read it.
  const std::string told = std::to_string(error) + " " + text.substr(0, 1000);
  if (::fcntl(report_number, F_GETFD) >= 0) (void)!::write(report_number, told.data(), told.size());
  ::_exit(cannot_start);
}

/// dup2 clears O_CLOEXEC, unless the descriptor is already there: then by hand.
void put(int descriptor, int target) {
  if (descriptor == target) {
    ::fcntl(descriptor, F_SETFD, 0);
  } else {
    ::dup2(descriptor, target);
  }
}

/// Closes inherited descriptors. All are opened O_CLOEXEC, so an old kernel without close_range is
/// no harm.
void close_others() {
  (void)::close_range(report_number + 1, ~0U, 0);
}

/// Open until the program starts.
void keep_report(const Descriptor& report) {
  if (!report.valid()) {
    ::close(report_number);
  } else if (report.get() != report_number) {
    ::dup3(report.get(), report_number, O_CLOEXEC);
  }
}

[[noreturn]] void execute(const std::vector<char*>& argv, const std::vector<char*>& environment,
    const std::string& name) {
  restore_signals();
  close_others();
  ::execvpe(argv[0], argv.data(), environment.data());
  leave("cannot start", name);
}

void redirect(const RankProcess& rank) {
  const int output = ::open(rank.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output >= 0) {
    put(output, STDOUT_FILENO);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
  }
  put(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  if (output < 0) leave("cannot create", rank.output.string());
  if (::chdir(rank.directory.c_str()) != 0) leave("cannot enter", rank.directory.string());
}

/// A core dump of a rank has the size of its memory, a print loop no end. Soft limits: a runner
/// may raise them again.
void limit_files(std::int64_t file_limit_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &limit);
  }
  if (file_limit_bytes <= 0 || ::getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(file_limit_bytes));
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

[[noreturn]] void become_rank(const RankProcess& rank, pid_t parent, const std::vector<char*>& argv,
    const std::vector<char*>& environment, const Descriptor& report) {
  ::setpgid(0, rank.group);
  keep_report(report);
  redirect(rank);
  limit_files(rank.file_limit_bytes);
  // A rank must not outlive its node agent. If that died before this line, it is noticed here.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(cannot_start);
  execute(argv, environment, rank.argv[0]);
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace

Result<pid_t> start_rank(const RankProcess& rank, Descriptor* report) {
  if (rank.argv.empty()) return fault(FaultKind::invalid_input, "no program to start");
  Pipe pipe;
  if (report != nullptr) {
    SHARDSWEEP_ASSIGN(pipe, make_pipe());
  }
  const auto argv = pointers(rank.argv);
  const auto environment = pointers(rank.environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return errno_error("cannot fork");
  if (child == 0) become_rank(rank, parent, argv, environment, pipe.write);
  if (report != nullptr) *report = std::move(pipe.read);
  // Set the group in parent and child, so that it holds whichever runs first.
  ::setpgid(child, rank.group == 0 ? child : rank.group);
  return child;
}

std::optional<StartFailure> start_failure(const Descriptor& report) {
  if (!report.valid()) return std::nullopt;
  std::array<char, 2048> buffer{};
  ssize_t got = -1;
  do {
    got = ::read(report.get(), buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  const std::string_view told(buffer.data(), static_cast<std::size_t>(got));
  StartFailure failure;
  const auto [end, error] = std::from_chars(told.data(), told.data() + told.size(), failure.error);
  if (error != std::errc()) return std::nullopt;
  failure.what = told.substr(static_cast<std::size_t>(end - told.data()) + 1);
  return failure;
}

std::optional<StartFailure> start_failure_in(std::string_view last_line) {
  constexpr int errors = 134;
  if (!last_line.starts_with(prefix)) return std::nullopt;
  const std::string_view what = last_line.substr(prefix.size());
  for (int error = 1; error < errors; ++error) {
    if (what.ends_with(std::string(": ") + std::strerror(error)))
      return StartFailure{error, std::string(what)};
  }
  return std::nullopt;
}

int become_step_rank(const RankProcess& rank) {
  keep_report({});
  redirect(rank);
  limit_files(rank.file_limit_bytes);
  execute(pointers(rank.argv), pointers(rank.environment), rank.argv[0]);
}

std::vector<std::string> current_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

Result<std::string> own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fault(FaultKind::unavailable, "/proc/self/exe: " + error.message());
  return path.string();
}

Result<std::string> find_program(
    const std::string& name, const std::vector<std::string>& environment) {
  std::string path = value_in(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  path += ':';
  for (std::size_t begin = 0, end = 0; (end = path.find(':', begin)) != std::string::npos;
       begin = end + 1) {
    if (path[begin] != '/') continue;
    const std::string file = path.substr(begin, end - begin) + "/" + name;
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return fault(FaultKind::unavailable, "no '" + name + "' on PATH");
}

Result<PipedChild> start_piped(
    const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  SHARDSWEEP_ASSIGN(Pipe down, make_pipe());
  SHARDSWEEP_ASSIGN(Pipe up, make_pipe());
  const auto arguments = pointers(argv);
  const auto variables = pointers(environment);
  const pid_t child = ::fork();
  if (child < 0) return errno_error("cannot fork");
  if (child == 0) {
    ::fcntl(report_number, F_SETFD, FD_CLOEXEC);
    put(down.read.get(), STDIN_FILENO);
    put(up.write.get(), STDOUT_FILENO);
    execute(arguments, variables, argv[0]);
  }
  return PipedChild{child, std::move(down.write), std::move(up.read)};
}

}  // namespace shardsweep::agent
