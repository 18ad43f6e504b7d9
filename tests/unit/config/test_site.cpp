// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/load.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

/// A file of its own that is gone at the end.
class SiteFile {
 public:
  explicit SiteFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
            ("site_" + std::to_string(::getpid()) + ".yaml")) {
    std::ofstream(path_) << text;
  }
  ~SiteFile() { std::filesystem::remove(path_); }
  SiteFile(const SiteFile&) = delete;
  SiteFile& operator=(const SiteFile&) = delete;

  [[nodiscard]] Result<SiteSpec> load(const AskSbatch& ask = {}) const {
    return load_site(path_, ask);
  }
  /// The fault without the file's name and what follows its first line.
  [[nodiscard]] std::string fault(const AskSbatch& ask = {}) const {
    const auto site = load(ask);
    if (site) return "accepted";
    const auto line = site.error().what.substr(0, site.error().what.find('\n'));
    return line.substr(path_.string().size() + 1);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a site file says how the cluster is reached") {
  const SiteFile file(
      "backend: slurm\nenv: {NCCL_DEBUG: WARN, N: 1}\n"
      "modules: [cuda/12.4, nccl]\nprolog: ['ulimit -l unlimited']\n"
      "slurm: {account: abc, partition: gpu, exclusive: true, time: '04:00:00'}\n");
  const auto site = file.load();
  REQUIRE_MESSAGE(site.has_value(), site.error().what);
  CHECK(site->backend == Backend::slurm);
  CHECK(site->env.at("N") == "1");
  CHECK(site->modules == std::vector<std::string>{"cuda/12.4", "nccl"});
  CHECK(site->prolog.at(0) == "ulimit -l unlimited");
  CHECK(site->slurm.at("exclusive").at(0).value.empty());
  CHECK(site->slurm.at("time").at(0).value == "04:00:00");
}

TEST_CASE("a site file of comments alone is an empty one") {
  const auto site = SiteFile("# to be written\n").load();
  REQUIRE(site.has_value());
  CHECK(site->backend == Backend::none);
}

TEST_CASE("a missing site file is a fault that says so") {
  const auto site = load_site("/nowhere/site.yaml");
  REQUIRE_FALSE(site.has_value());
  CHECK(site.error().what == "/nowhere/site.yaml: cannot be read: No such file or directory");
}

TEST_CASE("bad site files are refused with the reason") {
  const auto fault = [](const std::string& text) { return SiteFile(text).fault(); };
  CHECK(fault("backend: pbs\n") == "1:10: expected local or slurm for 'backend', got 'pbs'");
  CHECK(fault("backed: slurm\n") == "1:1: unknown key 'backed', did you mean 'backend'?");
  CHECK(fault("slurmrestd: {url: 'unix:/r', token_file: ~/token}\n") ==
      "1:42: '~/token' is not absolute; write the path from '/', as the nodes see it");
  CHECK(fault("slurm: {job-name: x}\n") ==
      "1:9: 'job-name' cannot be set; shardsweep finds its jobs by their names");
  CHECK(fault("slurm: {requeue: true}\n") ==
      "1:9: 'requeue' cannot be set; shardsweep decides about retries");
  CHECK(fault("slurm: {--account: x}\n") ==
      "1:9: '--account' is not a long option of sbatch; write 'account'");
  CHECK(fault("slurm: {mem_per_gpu: 1G}\n") ==
      "1:9: 'mem_per_gpu' is not a long option of sbatch; write 'mem-per-gpu'");
  CHECK(fault("slurm: {\"a;b\": x}\n") ==
      "1:9: 'a;b' is not a long option of sbatch; use lower-case letters, digits and '-'");
  CHECK(fault("slurm: {A: x}\n") ==
      "1:9: 'A' is not a long option of sbatch; use lower-case letters, digits and '-'");
  CHECK(fault("slurm: {comment: \"a\\nb\"}\n") ==
      "1:18: 'comment' holds a control character: 'a\\nb'");
  CHECK(fault("slurm: {nice: false}\n") == "1:15: 'nice: false' sets nothing; remove it");
  CHECK(fault("slurm: {account: }\n") ==
      "1:9: expected a text for 'account', got nothing; write '' for an empty text");
  CHECK(fault("prolog: ulimit\n") == "1:9: expected a list for 'prolog', got 'ulimit'");
  CHECK(fault("env: {SHARDSWEEP_HOME: /x}\n") ==
      "1:7: 'SHARDSWEEP_HOME' cannot be set; names that begin with SHARDSWEEP_ are reserved");
}

TEST_CASE("an option that this machine's sbatch does not have is refused, with the nearest") {
  const auto asked = [](const std::string& option) -> OptionAnswer {
    return {option == "account" || option == "hint" || option == "accounts",
        {"account", "partition", "qos"}};
  };
  CHECK(SiteFile("slurm:\n  account: lab\n  acount: lab\n").fault(asked) ==
      "3:3: 'acount' is no option of this machine's sbatch, did you mean 'account'?");
  // Of a newer Slurm, as a typing mistake that is near nothing.
  CHECK(SiteFile("slurm: {segment: 8}\n").fault(asked) ==
      "1:9: 'segment' is no option of this machine's sbatch; 'sbatch --help' lists them");
  // One that its help lacks, and a plugin's that is near another one.
  CHECK(SiteFile("slurm: {hint: nomultithread, accounts: a}\n").fault(asked) == "accepted");
  // Jobs over REST never meet this sbatch.
  CHECK(SiteFile("slurmrestd: {url: 'unix:/r'}\nslurm: {segment: 8}\n").fault(asked) == "accepted");
}

TEST_CASE("without an sbatch to ask, near misses of its well-known options are refused") {
  const auto nobody = [](const std::string& /*option*/) { return OptionAnswer{}; };
  CHECK(SiteFile("slurm: {acount: lab}\n").fault(nobody) ==
      "1:9: 'acount' is no option of sbatch, did you mean 'account'?");
  CHECK(SiteFile("slurm: {partiton: gpu}\n").fault(nobody) ==
      "1:9: 'partiton' is no option of sbatch, did you mean 'partition'?");
  CHECK(SiteFile("slurm: {container-mount-home: true, site-plugin: x, uid: a}\n").fault(nobody) ==
      "accepted");
}

TEST_CASE("an explained site reads back as the same site") {
  const SiteFile file(
      "backend: slurm\nenv: {NCCL_DEBUG: 'a \"b\" $c'}\n"
      "pass_env: [CUDA_HOME]\nmodules: [cuda/12.4]\nprolog: ['ulimit -l unlimited', 'x: y']\n"
      "template: /home/me/job.sbatch\nlaunch: srun\nstrict: true\n"
      "slurmrestd: {url: 'http://login2:6820', plain_http: true, token_file: /home/me/.token, "
      "user: me, ca_file: /etc/site-ca.pem}\n"
      "slurm: {account: abc, partition: {'1': debug, '2-8': gpu, '9-': large}, nice: true, "
      "gpus-per-node: false}\n");
  auto site = file.load();
  REQUIRE_MESSAGE(site.has_value(), site.error().what);
  CHECK(site->slurm.at("partition").size() == 3);
  CHECK(site->slurm.at("partition")[2].from == 9);
  CHECK(site->slurm_without == std::vector<std::string>{"gpus-per-node"});
  auto again = load_site_text(explain_site(*site), "again");
  REQUIRE_MESSAGE(again.has_value(), again.error().what);
  again->position = site->position;
  CHECK(*again == *site);
}

TEST_CASE("an address of slurmrestd is one") {
  CHECK(SiteFile("slurmrestd: {url: localhost:6820}\n")
            .fault()
            .find("not an address of slurmrestd") != std::string::npos);
  CHECK(SiteFile("slurmrestd: {user: me}\n").fault() != "accepted");
}

TEST_CASE("a token leaves this machine encrypted, unless the site file allows another way") {
  const auto fault_of = [](const std::string& keys) {
    return SiteFile("slurmrestd: {" + keys + "}\n").fault();
  };
  CHECK(fault_of("url: 'http://login2:6820'") ==
      "1:19: 'http://login2:6820' would carry your Slurm token unencrypted to another "
      "machine; write https://host, or add 'plain_http: true'");
  CHECK(fault_of("url: 'http://localhost.example:6820'").find("unencrypted") != std::string::npos);
  for (const char* const url :
      {"https://login2", "http://localhost:6820", "http://127.0.0.1:6820", "unix:/run/me/rest"}) {
    CAPTURE(url);
    CHECK(fault_of("url: '" + std::string(url) + "'") == "accepted");
  }
  CHECK(fault_of("plain_http: true, url: 'http://login2:6820'") == "accepted");
}

TEST_CASE("ranges of node counts are checked") {
  const auto fault_of = [](const std::string& partition) {
    return SiteFile("slurm:\n  partition: " + partition + "\n").fault();
  };
  CHECK(fault_of("{'0': a}").find("'0' is not a range of node counts") != std::string::npos);
  CHECK(fault_of("{'4-2': a}").find("'4-2' is not a range of node counts") != std::string::npos);
  CHECK(fault_of("{'1-4': a, '4-8': b}").find("'4-8' overlaps with a range before it") !=
      std::string::npos);
  CHECK(fault_of("{x: a}").find("'x' is not a range of node counts") != std::string::npos);
}

TEST_CASE("a webhook is named with its events and kept without its secrets") {
  const SiteFile file(
      "backend: slurm\nnotify: {url_file: /home/me/hook, header_file: /home/me/header, "
      "events: [sweep_ended, blind]}\n");
  const auto site = file.load();
  REQUIRE_MESSAGE(site.has_value(), site.error().what);
  CHECK(site->notify.url_file == "/home/me/hook");
  CHECK(site->notify.events ==
      std::vector<NotifyEvent>{NotifyEvent::sweep_ended, NotifyEvent::blind});
  const auto again = load_site_text(explain_site(*site), "again");
  REQUIRE(again);
  CHECK(again->notify == site->notify);
  CHECK(SiteFile("notify: {url: 'https://a.example/x'}\n").load()->notify.events.size() == 5);
}

TEST_CASE("an address that others could listen to and half a webhook are refused") {
  CHECK(SiteFile("notify: {url: 'http://a.example/x'}\n").fault() ==
      "1:15: 'http://a.example/x' is neither https nor http on this machine; others could "
      "read the notices");
  CHECK(SiteFile("notify: {events: [blind]}\n").fault() ==
      "1:9: 'notify' needs one of url and url_file; use url_file for a secret address");
  CHECK(
      SiteFile("notify: {url_file: hook}\n").fault().find("is not absolute") != std::string::npos);
  CHECK(SiteFile("notify: {url_file: /a, events: [end]}\n").fault().find("unknown event 'end'") !=
      std::string::npos);
}
