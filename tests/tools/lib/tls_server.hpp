// SPDX-License-Identifier: Apache-2.0
// An authority and servers that it has certified, by the program openssl.
#pragma once

#include <shardsweep/command.hpp>

#include <doctest/doctest.h>

#include <poll.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::testing {

inline constexpr const char* until_expired = "20200102000000Z";
inline constexpr const char* for_long = "20991231000000Z";

/// Keys and certificates in a folder of their own.
class Authority {
 public:
  explicit Authority(const std::string& name) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shardsweep-tls-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const std::ofstream index(file("index"));
    std::ofstream(file("settings"))
        << "[ca]\ndefault_ca = site\n[site]\ndatabase = " << file("index")
        << "\nnew_certs_dir = " << pattern
        << "\nrand_serial = yes\ndefault_md = sha256\npolicy = any\n"
           "copy_extensions = copy\nunique_subject = no\n"
           "[any]\ncommonName = supplied\n";
    openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", file("ca.key"), "-out", certificate(), "-subj", "/CN=" + name, "-days", "2"});
  }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;
  ~Authority() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string certificate() const { return file("ca.pem"); }
  /// Key and certificate of a server, in one file.
  [[nodiscard]] std::string certify(const std::string& address, const std::string& until) {
    const std::string name = "server" + std::to_string(++servers_);
    const std::string request = file(name + ".request");
    openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", file(name), "-out", request, "-subj", "/CN=slurm", "-addext",
        "subjectAltName=IP:" + address});
    openssl({"ca", "-batch", "-notext", "-config", file("settings"), "-cert", certificate(),
        "-keyfile", file("ca.key"), "-in", request, "-out", file(name + ".pem"), "-startdate",
        "20200101000000Z", "-enddate", until});
    std::ofstream(file(name), std::ios::app) << std::ifstream(file(name + ".pem")).rdbuf();
    return file(name);
  }

 private:
  static void openssl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "openssl");
    const auto done = run_command(arguments, {});
    REQUIRE(done);
    REQUIRE_MESSAGE(done->exit_code == 0, done->err);
  }
  std::filesystem::path folder_;
  int servers_ = 0;
};

/// openssl's own server: it answers a GET with the file of that path.
class TlsServer {
 public:
  TlsServer(const std::filesystem::path& answers, const std::string& certified,
      const std::string& port = "0") {
    CommandOptions options;
    options.deadline = std::chrono::minutes(5);
    options.keep = [this](std::string_view piece) -> Result<std::string> { return said_ += piece; };
    auto command = RunningCommand::start(
        {"sh", "-c",
            R"(cd "$0" && exec timeout --foreground 300 openssl s_server -accept "127.0.0.1:$2" -cert "$1" -HTTP)",
            answers.string(), certified, port},
        options);
    REQUIRE(command);
    command_.emplace(std::move(*command));
    while (port_.empty()) {
      if (const auto ended = command_->poll()) FAIL((*ended ? (*ended)->err : "openssl has ended"));
      ::poll(nullptr, 0, 2);
      // "ACCEPT", and the address behind it if the system has chosen the port.
      const auto at = said_.find("ACCEPT");
      const auto line = said_.find('\n', at);
      if (at == std::string::npos || line == std::string::npos) continue;
      const auto colon = said_.rfind(':', line);
      port_ = port != "0" ? port : said_.substr(colon + 1, line - colon - 1);
    }
  }
  [[nodiscard]] const std::string& port() const { return port_; }
  [[nodiscard]] std::string url() const { return "https://127.0.0.1:" + port_; }

 private:
  std::string said_;
  std::string port_;
  std::optional<RunningCommand> command_;
};

}  // namespace shardsweep::testing
