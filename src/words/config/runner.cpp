// SPDX-License-Identifier: Apache-2.0
// `runner:` of a sweep file: its name, its program and further flags for it. trainer.cpp reads
// what belongs to `argv`.
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace shardsweep::config {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::string absolute_path(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  return (error ? file : whole).lexically_normal().string();
}

/// Why the kernel would not start an executable file; empty: it would, as far as is known.
std::string why_not_started(const fs::path& file) {
  std::string begin(256, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  if (begin.starts_with("\x7f"
                        "ELF"))
    return "";
  if (!begin.starts_with("#!"))
    return "its first line names no interpreter; a script begins with a line such as "
           "'#!/bin/bash'";
  const std::size_t from = begin.find_first_not_of(" \t", 2);
  if (from == std::string::npos) return "its first line names no interpreter";
  const std::string interpreter =
      begin.substr(from, begin.find_first_of(" \t\r\n", from) - from);
  std::error_code ignored;
  if (fs::exists(interpreter, ignored)) return "";
  return fmt::format("its interpreter {} does not exist", in_quotes(interpreter));
}

}  // namespace

/// Nodes start the program by one path, whatever folder they are in. `x.sh` is the file beside
/// the sweep file, else a program of ours (which keeps its bare name), else one on PATH.
/// `bin/x.sh` begins at the sweep file.
Result<std::string> SweepReader::read_program(const YamlNode& node) const {
  SHARDSWEEP_ASSIGN(const std::string text, read_text(node, "program"));
  if (text.empty() || programs_.empty()) return text;
  const fs::path beside = folder_ / text;  // of an absolute path: the path itself
  if (is_program(beside)) {
    if (const std::string why = why_not_started(beside); !why.empty())
      return refuse(node, fmt::format("{} cannot be started: {}", in_quotes(text), why));
    return absolute_path(beside);
  }
  std::error_code ignored;
  if (fs::is_regular_file(beside, ignored)) {
    return refuse(node, fmt::format("{} is not an executable file; 'chmod +x' makes it one",
                                    in_quotes(text)));
  }
  if (text.front() == '/')
    return refuse(node, fmt::format("there is no program {}", in_quotes(text)));
  if (text.find('/') != std::string::npos) {
    return refuse(
        node, fmt::format("there is no program {}; paths start at the folder of the sweep file",
                          in_quotes(text)));
  }
  if (is_program(programs_ / text)) return text;
  if (const std::string found = find_on_path(text); !found.empty()) return absolute_path(found);
  return refuse(node, fmt::format("there is no program {} beside the sweep file, beside "
                                  "shardsweep or on PATH",
                                  in_quotes(text)));
}

Result<std::string> SweepReader::read_profile(const YamlNode& node) const {
  SHARDSWEEP_ASSIGN(const std::string word, read_text(node, "profile"));
  if (std::find(profile_words.begin(), profile_words.end(), word) == profile_words.end())
    return refuse(node, fmt::format("expected own, megatron, nanotron or torchtitan for "
                                    "'profile', found {}",
                                    in_quotes(word)));
  if (word != profile_words.front() && !sweep_.runner.is_shardbench())
    return refuse(node, "'profile' belongs to shardbench; the sweep has another runner");
  return word;
}

void SweepReader::read_snapshot(const YamlNode& map) {
  RunnerSpec& runner = sweep_.runner;
  if (const auto* hash = find(map, "snapshot_hash"))
    mistakes_.assign(runner.snapshot_hash, *hash, read_text(*hash, "snapshot_hash"));
  if (const auto* root = find(map, "snapshot_root"))
    mistakes_.assign(runner.snapshot_root, *root, read_text(*root, "snapshot_root"));
  const auto* node = find(map, "snapshot");
  if (node == nullptr) return;
  const auto word = mistakes_.take(*node, read_text(*node, "snapshot"));
  if (!word) return;
  const auto found = std::find(snapshot_words.begin(), snapshot_words.end(), *word);
  if (found == snapshot_words.end()) {
    mistakes_.add(*node,
                  fault_at(*node, fmt::format("expected none, copy or git for 'snapshot', "
                                              "found {}",
                                              in_quotes(*word))));
    return;
  }
  runner.snapshot = static_cast<SnapshotKind>(found - snapshot_words.begin());
  const bool own = runner.is_trainer() || runner.program.starts_with('/');
  if (runner.snapshot != SnapshotKind::none && !own)
    mistakes_.add(*node, fault_at(*node,
                                  "'snapshot' belongs to a program of your own: give "
                                  "'program' or 'argv'"));
}

/// Of a sweep that is read back: what it was submitted with.
void SweepReader::read_hashes(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'hashes'"))) return;
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    const auto& key = *map.keys[i];
    const auto path = mistakes_.take(key, read_text(key, "hashes"));
    const auto hash = mistakes_.take(*map.items[i], read_text(*map.items[i], "hashes"));
    if (path && hash) sweep_.runner.programs.insert_or_assign(*path, *hash);
  }
}

void SweepReader::read_runner(const YamlNode& node) {
  auto& runner = sweep_.runner;
  if (node.kind != YamlNode::Kind::map) {
    mistakes_.assign(runner.name, node, read_name(node, "runner"));
    return;
  }
  check_keys(node, "'runner'", keys_of("runner"), mistakes_);
  read_trainer(node);
  if (const auto* program = find(node, "program")) {
    mistakes_.assign(runner.program, *program, read_program(*program));
    // It says itself what it is called.
    if (!runner.program.empty()) runner.name.clear();
  }
  if (const auto* name = find(node, "name"))
    mistakes_.assign(runner.name, *name, read_name(*name, "runner.name"));
  if (const auto* args = find(node, "args"))
    mistakes_.assign(runner.args, *args, read_texts(*args, "args"));
  if (const auto* profile = find(node, "profile"))
    mistakes_.assign(runner.profile, *profile, read_profile(*profile));
  read_snapshot(node);
  if (const auto* hashes = find(node, "hashes")) read_hashes(*hashes);
  if (const auto* gives_up = find(node, "gives_up"))
    mistakes_.assign(runner.gives_up, *gives_up, read_bool(*gives_up, "gives_up"));
}

}  // namespace shardsweep::config
