// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/settings.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep::slurm;

TEST_CASE("settings are read from what scontrol prints") {
  const auto settings = parse_settings(
      "Configuration data as of 2026-01-01T00:00:00\n"
      "AccountingStorageType   = accounting_storage/slurmdbd\n"
      "ClusterName             = alpha\nKillWait                = 3 sec\n"
      "MaxArraySize            = 4001\nMaxJobCount             = 20000\n"
      "MessageTimeout          = 15 sec\nMinJobAge               = 20 sec\n"
      "SLURM_VERSION           = 22.05.8\nSlurmdTimeout           = 15 sec\n");
  REQUIRE(settings);
  CHECK(settings->accounting);
  CHECK(settings->cluster == "alpha");
  CHECK(settings->version == "22.05.8");
  CHECK(settings->message_timeout_s == 15);
  CHECK(settings->min_job_age_s == 20);
  CHECK(settings->slurmd_timeout_s == 15);
  CHECK(settings->kill_wait_s == 3);
  CHECK(settings->max_array_size == 4001);
  CHECK(settings->max_jobs == 20000);
}

TEST_CASE("what is not there keeps its default, what is no configuration is refused") {
  const auto settings =
      parse_settings("SLURM_VERSION = 24.05.1\nAccountingStorageType = accounting_storage/none\n");
  REQUIRE(settings);
  CHECK_FALSE(settings->accounting);
  CHECK(settings->message_timeout_s == 10);
  CHECK_FALSE(parse_settings(""));
  CHECK_FALSE(parse_settings("slurm_load_ctl_conf error: Unable to contact slurm controller\n"));
}
