// SPDX-License-Identifier: Apache-2.0
#include "text/secrets.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;

TEST_CASE("a variable's name says whether its value is a secret") {
  for (const auto* name :
      {"WANDB_API_KEY", "HF_TOKEN", "db_password", "MY_SECRET", "KEY", "AWS_SECRET_ACCESS_KEY",
          "PGPASSWORD", "GIT_CREDENTIALS", "KEY_OF_THE_LAB", "APIKEY", "DB_PASS"})
    CHECK_MESSAGE(may_be_secret(name), name);
  // Settings that a trial is known by, and places.
  for (const auto* name : {"TOKENIZERS_PARALLELISM", "BATCH_TOKENS", "NCCL_IB_PKEY", "PATH",
           "NCCL_ALGO", "MONKEY", "HF_TOKEN_PATH", "token_file"})
    CHECK_MESSAGE(!may_be_secret(name), name);
}

TEST_CASE("a value's form says that it is a secret, whatever it is called") {
  const std::string token(36, '7');
  for (const auto& [text, secret] : std::vector<std::pair<std::string, std::string>>{
           {"postgres://me:p%40ss@db.lab:5432/runs?sslmode=off", "p%40ss"},
           {"redis://:pw@cache", "pw"}, {"see https://a.org/x:1@2, then s3://k:v@b/", "v"},
           {"Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"},
           {"-----BEGIN RSA PRIVATE KEY----- MII", "-----BEGIN RSA PRIVATE KEY----- MII"},
           {"x=hf_" + token, token}, {"ghp_" + token, token},
           {"glpat-0123456789_abcdefgh-ij", "0123456789_abcdefgh-ij"},
           {"ghp_" + token + " of a://b:early@c", token}})
    CHECK(secret_by_form(text) == secret);
  for (const auto* text : {"", "https://host:8080/path", "tcp://10.0.0.1:29500",
           "ssh://git@host/repository", "http://user@host:80", "http://user:@host",
           "Bearer of good news and misunderstandings", "hf_llama_3_8b_instruct_checkpoint_v2",
           "-----BEGIN CERTIFICATE-----", "s3://bucket/a:b@c", "SHAKIA0123456789ABCDEF"})
    CHECK_MESSAGE(secret_by_form(text).empty(), text);
  CHECK(is_secret("DATABASE_URL", "postgres://u:pw@h/db"));
  CHECK_FALSE(is_secret("DATABASE_URL", "postgres://h/db"));
  CHECK(without_secret_values("env:\n  URL: redis://:pw@cache\n") == "env:\n  URL: \"(hidden)\"\n");
  CHECK(without_assigned_secrets("to a://u:one@h and a://u:two@h") ==
      "to a://u:(hidden)@h and a://u:(hidden)@h");
}

// Each of these stood in clear on a page, in a bundle and in an export.
TEST_CASE("a token in an address and a password of a connection are secrets") {
  for (const auto& [text, secret] : std::vector<std::pair<std::string, std::string>>{
           {"git+https://a1b2c3d4e5f6@git.lab/x.git", "a1b2c3d4e5f6"},
           {"https://a1b2c3d4e5f6:@git.lab/x", "a1b2c3d4e5f6"},
           {"https://h/x?token=abc&n=1", "abc"}, {"https://h/x?n=1&api_key=abc#top", "abc"},
           {"https://h/x?access_token=abc", "abc"}, {"https://h/x?sig=a%2Fb", "a%2Fb"},
           {"https://h/x?v=2&signature=abc d", "abc"}, {"\"https://h/x?X-Amz-Signature=ab\"", "ab"},
           {"Server=db;Uid=me;Password=hunter2;Database=x", "hunter2"},
           {"Server=db;Pwd=hunter2", "hunter2"},
           {"host=db password='two words' user=me", "two words"},
           {"AccountName=a;AccountKey=abc==;", "abc=="}}) {
    CAPTURE(text);
    CHECK(secret_by_form(text) == secret);
  }
  for (const auto* text : {"https://h/x?page=2&sort=key", "https://h/x?max_tokens=5",
           "PWD=/home/me", "https://${TOKEN}@host/x", "https://h/x?token=${TOKEN}",
           "password=$PASSWORD", "a=b;c=d", "https://h/x?token=(hidden)",
           "git+ssh://a1b2c3d4e5f6@host/x", "PASSWORD_FILE=/x", "https://h/x?tokenizer=llama"})
    CHECK_MESSAGE(secret_by_form(text).empty(), text);
  CHECK(without_assigned_secrets("get https://h/x?token=abc&n=1, then https://h/y?sig=d") ==
      "get https://h/x?token=(hidden)");
  CHECK(is_secret("WAREHOUSE", "Server=db;Password=hunter2;"));
}

TEST_CASE("a text keeps its length when values in it are masked") {
  CHECK(masked("a=hunter2; b=hunter22, c=yes",
            {{"A", "hunter2"}, {"B", "hunter22"}, {"C", "yes"}}) == "a=*******; b=********, c=yes");
  CHECK(masked("", {{"A", "hunter2"}}).empty());
}

TEST_CASE("a stored file is shown without the values of secrets") {
  const std::string file =
      "name: x\nenv:\n  HF_TOKEN: planted\n  NCCL_ALGO: Ring\ncontainer:\n  env:\n    A_KEY: "
      "\"planted: 2\"\nsecrets:\n  MY_SECRET: ''\npolicy:\n  beat: 1s  # the token of life\n";
  CHECK(without_secret_values(file) ==
      "name: x\nenv:\n  HF_TOKEN: \"(hidden)\"\n  NCCL_ALGO: Ring\ncontainer:\n  env:\n    "
      "A_KEY: \"(hidden)\"\nsecrets:\n  MY_SECRET: ''\npolicy:\n  beat: 1s  # the token of "
      "life\n");
  CHECK(without_secret_values("").empty());
}

TEST_CASE("what a line assigns to the name of a secret is left out") {
  CHECK(without_assigned_secrets("export HF_TOKEN=hf_1 2 3") == "export HF_TOKEN=(hidden)");
  CHECK(without_assigned_secrets(R"({"user": "me", "api_key": "abc"})") ==
      R"({"user": "me", "api_key": (hidden))");
  CHECK(without_assigned_secrets("password : x") == "password : (hidden)");
  CHECK(without_assigned_secrets("Authorization: Bearer x") == "Authorization: (hidden)");
  CHECK(without_assigned_secrets("NCCL_ALGO=Ring, AWS_SECRET_ACCESS_KEY=y") ==
      "NCCL_ALGO=Ring, AWS_SECRET_ACCESS_KEY=(hidden)");
  for (const std::string line : {"", "=", "HF_TOKEN", "HF_TOKEN=", "AuthenticationError: 401",
           "NCCL_IB_PKEY=3", "tokens: 4096", "TOKENIZERS_PARALLELISM=false", "KeyError: 'x'"})
    CHECK(without_assigned_secrets(line) == line);
}

TEST_CASE("a value is masked that comes in two pieces") {
  MaskedPieces pieces({{"A", "hunter2"}, {"B", "two\nlines"}, {"C", "abc"}});
  CHECK(pieces.take("a=hun") == "a=");
  CHECK(pieces.take("ter2; hunt") == "*******; ");
  CHECK(pieces.take("er; two") == "hunter; ");
  CHECK(pieces.take("\nlines abc t") == "********* abc ");
  CHECK(pieces.rest() == "t");
  CHECK(pieces.rest().empty());
}
