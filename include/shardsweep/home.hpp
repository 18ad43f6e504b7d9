// SPDX-License-Identifier: Apache-2.0
// The paths of a database's files. All of them are in `<database>.d`, so that the folder can be
// moved as a whole. Compute nodes must see it.
#pragma once

#include <shardsweep/result.hpp>

#include <filesystem>
#include <string>

namespace shardsweep {

struct Home {
  std::filesystem::path database;

  [[nodiscard]] std::filesystem::path dir() const { return database.string() + ".d"; }
  [[nodiscard]] std::filesystem::path requests() const { return dir() / "requests"; }
  [[nodiscard]] std::filesystem::path answers() const { return dir() / "answers"; }
  [[nodiscard]] std::filesystem::path inbox() const { return dir() / "inbox"; }
  [[nodiscard]] std::filesystem::path allocations() const { return dir() / "allocations"; }
  [[nodiscard]] std::filesystem::path attempts() const { return dir() / "attempts"; }
  [[nodiscard]] std::filesystem::path snapshots() const { return dir() / "snapshots"; }
  /// Values of a sweep's secrets: nothing else holds them (secrets_file.hpp).
  [[nodiscard]] std::filesystem::path secrets_of(const std::string& sweep) const {
    return dir() / "secrets" / (sweep + ".env");
  }
  /// Reports of daemons that stopped because they contradicted themselves.
  [[nodiscard]] std::filesystem::path faults() const { return dir() / "faults"; }
  [[nodiscard]] std::filesystem::path lock() const { return dir() / "daemon.lock"; }
  [[nodiscard]] std::filesystem::path log() const { return dir() / "daemon.log"; }
  [[nodiscard]] std::filesystem::path trouble() const { return dir() / "daemon.trouble"; }
};

/// `--db`, else SHARDSWEEP_DB, else shardsweep.db under SHARDSWEEP_HOME (~/.shardsweep).
[[nodiscard]] Result<Home> find_home(const std::string& db_option);
/// Makes the folders, private to the user.
[[nodiscard]] Result<void> make_home(const Home& home);

/// Files that came with this program, found relative to its own executable: in a build tree, after
/// install, in the portable tarball.
struct Installation {
  std::filesystem::path shardsweep;
  std::filesystem::path agent;
  std::filesystem::path runner;  ///< shardbench-cpu
  /// These two go before what is built in, and need not be there.
  std::filesystem::path templates;
  std::filesystem::path presets;  ///< holds clusters/ and models/
};
[[nodiscard]] Result<Installation> find_installation();
/// Installation of the program at this path.
[[nodiscard]] Installation installation_of(const std::filesystem::path& program);

}  // namespace shardsweep
