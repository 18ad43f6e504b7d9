// SPDX-License-Identifier: Apache-2.0
#include "programs/output/paper.hpp"

#include "show/cell_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace shardsweep::testing {

const std::vector<Paper> papers{{"60 columns", "COLUMNS=60"}, {"80 columns", "COLUMNS=80"},
    {"120 columns", "COLUMNS=120"}, {"200 columns", "COLUMNS=200"},
    {"80 columns, LANG=C", "COLUMNS=80 LC_ALL=C"}, {"a pipe", ""}};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string environment(const Desk& desk, const std::string& more) {
  return fmt::format(
      "env -i PATH=/usr/bin:/bin HOME={0} TZ=UTC TERM=xterm LC_ALL=C.UTF-8 SHARDSWEEP_DB={1} "
      "{2} ",
      (desk.folder / "home").string(), desk.database.string(), more);
}

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part{};
  while (const auto count = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), count);
  ::pclose(pipe);
  return text;
}

std::string on_a_terminal(const std::string& command) {
  int terminal = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 80;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(terminal, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text;
}

std::string on_all_papers(
    const Desk& desk, const std::string& arguments, Streams streams, const std::string& of) {
  std::string text;
  for (const auto& paper : papers) {
    text += fmt::format("== {} ==\n", paper.name);
    text += output_of(fmt::format("{}{} {} {}", environment(desk, paper.environment), of, arguments,
        streams == Streams::both ? "2>&1" : "2>/dev/null"));
  }
  return masked(desk, text);
}

std::string visible_codes(std::string text) {
  return replaced(std::move(text), "\x1b", "\u241b");
}

std::string without_codes(const std::string& text) {
  static const std::regex code{"\x1b\\[[0-9;]*m"};
  return std::regex_replace(text, code, "");
}

std::string masked(const Desk& desk, std::string text) {
  text = replaced(std::move(text), desk.folder.string(), "DIR");
  text = replaced(std::move(text), SHARDSWEEP_BIN_DIR, "BIN");
  text = replaced(std::move(text), SHARDSWEEP_SOURCE_DIR, "SOURCE");
  static const std::regex age{"\\([^()]* ago\\)"};
  // Their length decides where the line is folded.
  static const std::regex started{"started a daemon: pid[^]*?left[ \n]to[ \n]do"};
  static const std::regex runs{"daemon: pid [0-9]+ on [^]*?daemon\\.log"};
  text = std::regex_replace(text, age, "(AGE ago)");
  text = std::regex_replace(text, started, "started a daemon: …");
  return std::regex_replace(text, runs, "daemon: …");
}

std::string without_times(const std::string& text) {
  static const std::regex time{"20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"};
  return std::regex_replace(text, time, "YYYY-MM-DD HH:MM:SS");
}

namespace {

bool is_ascii(const std::string& text) {
  return std::all_of(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

void check_lines(const std::string& text) {
  std::istringstream lines(text);
  std::size_t width = std::string::npos;
  bool ascii = false;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    if (line.starts_with("== ")) {
      const auto number = std::strtoul(line.c_str() + 3, nullptr, 10);
      width = number == 0 ? std::string::npos : number;
      ascii = line.find("LANG=C") != std::string::npos;
      continue;
    }
    CHECK(width_of(line) <= width);
    CHECK(line.find('\x1b') == std::string::npos);
    if (!ascii) continue;
    CHECK(is_ascii(line));
  }
}

void check_text(const std::string& name, const std::string& text) {
  INFO(name);
  const auto file = cases / (name + ".txt");
  if (::getenv("SHARDSWEEP_REGENERATE") != nullptr) {
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  const std::string wanted{std::istreambuf_iterator<char>(in), {}};
  CHECK(text == wanted);
}

void check_output(const Desk& desk, const std::string& name, const std::string& arguments,
    Streams streams, const std::string& of) {
  const auto text = on_all_papers(desk, arguments, streams, of);
  INFO(name);
  if (arguments.find("--format") == std::string::npos) check_lines(text);
  check_text(name, text);
}

void check_fit(
    const Desk& desk, const std::string& arguments, const std::vector<std::string>& words) {
  INFO(arguments);
  const auto text = on_all_papers(desk, arguments, Streams::both);
  check_lines(text);
  for (const auto& word : words)
    CHECK_MESSAGE(text.find(word) != std::string::npos, word);
}

}  // namespace shardsweep::testing
