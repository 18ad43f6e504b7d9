// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/command.hpp>

#include <pwd.h>
#include <unistd.h>

#include <cstdio>

namespace shardsweep {
namespace {

std::string name_in_file(const char* file, uid_t user) {
  std::string name;
  std::FILE* users = std::fopen(file, "re");
  if (users == nullptr) return name;
  while (const passwd* entry = ::fgetpwent(users)) {
    if (entry->pw_uid != user) continue;
    name = entry->pw_name;
    break;
  }
  std::fclose(users);
  return name;
}

std::string name_by_id() {
  const auto output = run_command({"id", "-un"}, {});
  if (!output || output->exit_code != 0) return "";
  return output->out.substr(0, output->out.find('\n'));
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

const std::string& user_name() {
  static const std::string name = [] {
    std::string listed = name_in_file("/etc/passwd", ::getuid());
    return listed.empty() ? name_by_id() : listed;
  }();
  return name;
}

}  // namespace shardsweep
