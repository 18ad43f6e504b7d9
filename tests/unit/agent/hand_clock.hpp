// SPDX-License-Identifier: Apache-2.0
// A lead or a node agent in a child whose clock this test moves: what would take a lease takes
// no time, and a busy machine changes nothing.
#pragma once

#include "agent/signals.hpp"
#include "machine/descriptor.hpp"
#include "tools/lib/wait_until.hpp"
#include "unit/folder.hpp"

#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <new>
#include <optional>
#include <string>

namespace shardsweep::test {

/// In memory that a child shares.
class HandClock final : public Clock {
 public:
  HandClock()
      : now_us_(new (::mmap(nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<std::int64_t>(0)) {}
  HandClock(const HandClock&) = delete;
  HandClock& operator=(const HandClock&) = delete;
  ~HandClock() override { ::munmap(now_us_, sizeof *now_us_); }

  void advance(double seconds) { *now_us_ += static_cast<std::int64_t>(seconds * 1e6); }
  [[nodiscard]] Timestamp now() const override { return start_us + *now_us_; }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::time_point(
        std::chrono::seconds(1000) + std::chrono::microseconds(*now_us_));
  }

 private:
  static constexpr std::int64_t start_us = 1'800'000'000'000'000;
  std::atomic<std::int64_t>* now_us_;
};

/// The child, and the two pipes of its channel.
class Played {
 public:
  Played() : to_(make_pipe()), from_(make_pipe()) {}
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;
  ~Played() {
    if (pid_ <= 0 || ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// `body` gets what is written to it and what is read from it, as descriptors of its own.
  void start(const std::function<int(Descriptor in, Descriptor out)>& body) {
    const std::string log = (folder.path() / "log").string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), STDERR_FILENO);
      to_[1].reset();
      from_[0].reset();
      agent::block_signals();
      ::_exit(body(std::move(to_[0]), std::move(from_[1])));
    }
    to_[0].reset();
    from_[1].reset();
    ::fcntl(from_[0].get(), F_SETFL, O_NONBLOCK);
  }
  void say(const std::string& line) {
    const std::string text = line + "\n";
    REQUIRE(::write(to_[1].get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  /// Nothing more will be said to it.
  void close() { to_[1].reset(); }
  /// Until it says a line for which `wanted` is true. What came before is passed over. False
  /// where it says nothing more.
  bool hears(const std::function<bool(const std::string&)>& wanted) {
    bool heard = false;
    std::string passed_over;
    (void)wait_until([&] {
      const bool closed = !read();
      for (std::size_t end = 0; !heard && (end = text_.find('\n')) != std::string::npos;) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        heard = wanted(line);
        passed_over += line + "\n";
      }
      return heard || closed;
    });
    CHECK_MESSAGE(heard, passed_over << log());
    return heard;
  }
  [[nodiscard]] bool lives() {
    int status = 0;
    if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return !ended_;
    ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return false;
  }
  [[nodiscard]] int exit_code() {
    REQUIRE(wait_until([&] { return !lives(); }));
    return *ended_;
  }
  [[nodiscard]] std::string log() const { return folder.read("log"); }
  [[nodiscard]] pid_t pid() const { return pid_; }

  Folder folder;
  HandClock clock;

 private:
  static std::array<Descriptor, 2> make_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
  /// False at the end of all that it says.
  bool read() {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(from_[0].get(), buffer.data(), buffer.size())) > 0)
      text_.append(buffer.data(), static_cast<std::size_t>(got));
    return got < 0;
  }

  std::array<Descriptor, 2> to_;
  std::array<Descriptor, 2> from_;
  std::string text_;
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

}  // namespace shardsweep::test
