// SPDX-License-Identifier: Apache-2.0
#include "sweep/passed_variables.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

using Pairs = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("a sweep's secrets leave it, and what it passes on is the shell's") {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.secrets = {{"IN_FILE", "1234"}, {"TAKEN", ""}};
  sweep.pass_env = {"ONE", "LAB_*", "NCCL_ALGO", "GONE"};
  const auto passed = take_variables(sweep,
      {"TAKEN=a=b", "ONE=two\nlines", "LAB_A=1", "LAB_B=", "LABEL=no", "NCCL_ALGO=Ring",
          "IN_FILE=other", "=broken"});
  CHECK(passed.values ==
      Pairs{{"IN_FILE", "1234"}, {"TAKEN", "a=b"}, {"ONE", "two\nlines"}, {"LAB_A", "1"},
          {"LAB_B", ""}});
  CHECK(passed.missing == std::vector<std::string>{"GONE"});
  CHECK(sweep.secrets == Pairs{{"IN_FILE", ""}, {"TAKEN", ""}});
  // A measurement depends on it.
  CHECK(sweep.env == Pairs{{"NCCL_ALGO", "Ring"}});
  CHECK(sweep.pass_env == std::vector<std::string>{"ONE", "LAB_*", "GONE"});
  CHECK(secret_names(sweep) == std::vector<std::string>{"GONE", "IN_FILE", "ONE", "TAKEN"});
}

TEST_CASE("a sweep that goes on keeps what its file had, and takes what the shell has") {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.secrets = {{"IN_FILE", ""}};
  sweep.pass_env = {"ONE"};
  const Pairs kept{{"IN_FILE", "1234"}, {"ONE", "old"}};
  auto again = sweep;
  CHECK(take_variables(again, {"ONE=new", "IN_FILE=other"}, kept).values ==
      Pairs{{"IN_FILE", "1234"}, {"ONE", "new"}});
  again = sweep;
  CHECK(take_variables(again, {}, kept).missing == std::vector<std::string>{"ONE"});
}

TEST_CASE("a star passes nothing on that belongs to one process") {
  CHECK(is_passed_by("*", "WANDB_MODE"));
  CHECK(is_passed_by("WANDB_*", "WANDB_"));
  CHECK_FALSE(is_passed_by("WANDB_*", "WAND"));
  CHECK_FALSE(is_passed_by("WANDB", "WANDB_MODE"));
  for (const auto* name :
      {"RANK", "CUDA_VISIBLE_DEVICES", "SHARDSWEEP_DB", "SLURM_JOB_ID", "PWD", "SHLVL"})
    CHECK_MESSAGE(!is_passed_by("*", name), name);
}

TEST_CASE("what a trainer reads and does not get is named") {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.env = {{"NCCL_ALGO", "Ring"}};
  sweep.pass_env = {"WANDB_*"};
  const auto names = withheld_variables(sweep,
      {"WANDB_MODE=x", "HF_HOME=/hf", "PATH=/bin", "NCCL_ALGO=Tree", "EDITOR=vi", "CUDA_HOME=/cuda",
          "CUDA_CACHE_PATH=/c"});
  CHECK(names == std::vector<std::string>{"CUDA_CACHE_PATH", "HF_HOME"});
  CHECK(withheld_text({}).empty());
  CHECK(withheld_text({"HF_HOME"}) ==
      "this shell has HF_HOME, which the ranks do not get; 'pass_env: [HF_HOME]' in the sweep file "
      "passes it on");
}

TEST_CASE("what is missing is named in a sentence") {
  CHECK(missing_text({"A"}) == "A is not set in this shell");
  CHECK(missing_text({"A", "B", "C"}) == "A, B and C are not set in this shell");
}

TEST_CASE("a secret in the runner's command line is named, and counts and switches are not") {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.runner.trainer.argv = {"python3", "train.py", "--wandb-key", "0123abcd", "--hf_token=hf_x",
      "--num-tokens", "4096", "--use-auth-token", "true", "--tokenizer-file", "tok.json",
      "--key-dim", "128", "--api-key", "{dp}", "--note", "with-4711abc-in"};
  CHECK(secrets_in_words(sweep, {{"LAB_LICENCE", "4711abc"}, {"ONE", "1"}}) ==
      std::vector<std::string>{"--wandb-key", "--hf_token", "the value of LAB_LICENCE"});
  sweep.runner.trainer.argv.clear();
  sweep.runner.args = {"--private-key", "abcd"};
  CHECK(secrets_in_words(sweep, {}) == std::vector<std::string>{"--private-key"});
  sweep.runner.args = {"--db", "postgres://me:pw@host/runs"};
  CHECK(secrets_in_words(sweep, {}) == std::vector<std::string>{"a password or token"});
  CHECK(secrets_in_words_text({}).empty());
  CHECK(secrets_in_words_text({"--a-key"}).find("(--a-key)") != std::string::npos);
}
