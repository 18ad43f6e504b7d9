// SPDX-License-Identifier: Apache-2.0
#include "sweep/identity.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::string fnv(std::string_view text) {
  Fnv128 hash;
  hash.add(text);
  return hash.hex();
}

SweepSpec sample_sweep() {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.runner.args = {"--verbose", ""};
  sweep.env = {{"NCCL_DEBUG", "WARN"}};
  sweep.vars = {{"nvls", {"0", "1"}}, {"image", {"a b", "../c"}}};
  return sweep;
}

Point sample_point() {
  Point point;
  point.nodes = 8;
  point.gpus = 64;
  point.seq_len = 8192;
  point.layout.dp = 4;
  point.layout.tp = 8;
  point.layout.pp = 2;
  point.layout.micro_batch = 2;
  point.layout.grad_accum = 4;
  point.layout.zero = 1;
  point.layout.recompute = Recompute::selective;
  point.vars = {1, 0};
  return point;
}

}  // namespace

// Values of the FNV draft, computed with big integers elsewhere.
TEST_CASE("the hash is FNV-1a of 128 bits") {
  CHECK(fnv("") == "6c62272e07bb014262b821756295c58d");
  CHECK(fnv("a") == "d228cb696f1a8caf78912b704e4a8964");
  CHECK(fnv("foobar") == "343e1662793c64bf6f0d3597ba446f18");
}

TEST_CASE("an identity never changes: stored numbers are found by it") {
  const auto canonical = std::string{
      "shardsweep trial 1\nrunner 10:shardbench\nprogram 15:shardbench-cuda\nversion 3:1.0\n"
      "arg 9:--verbose\narg 0:\ncluster 7:h100-8x\ngpu 21:NVIDIA H100 80GB HBM3\n"
      "gpus_per_node 8\nmemory 85899345920\nenv 10:NCCL_DEBUG\nis 4:WARN\n"
      "model 10:llama-3-8b\nlayers 32\nhidden 4096\nffn 14336\nheads 32\nkv_heads 8\n"
      "vocab 128256\nnodes=8\ngpus=64\nseq_len=8192\ndp=4\ntp=8\npp=2\nmicro_batch=2\n"
      "grad_accum=4\nzero=1\nrecompute=selective\n"
      "var 5:image\nis 3:a b\nvar 4:nvls\nis 1:1\n"};
  const auto id = identity(sample_sweep(), any_runner(), sample_point());
  CHECK(id == fnv(canonical));
  CHECK(id == "bd19edbc10f0b40bb4bfe35e44ec721b");
}

TEST_CASE("whatever can change the number changes the identity") {
  const auto sweep = sample_sweep();
  const auto runner = any_runner();
  const auto point = sample_point();
  std::set<std::string> seen{identity(sweep, runner, point)};
  const auto is_new = [&](const SweepSpec& s, const Capabilities& r, const Point& p) {
    return seen.insert(identity(s, r, p)).second;
  };
  for (const auto& axis : axes()) {
    if (axis.minimum == axis.maximum || axis.kind == AxisKind::model) continue;
    auto other = point;
    axis.set(other, axis.get(point) == axis.maximum ? axis.minimum : axis.maximum);
    CHECK_MESSAGE(is_new(sweep, runner, other), axis.name);
  }
  auto other = point;
  other.repeat = 2;
  CHECK(is_new(sweep, runner, other));
  other = point;
  other.vars = {0, 0};
  CHECK(is_new(sweep, runner, other));
  auto changed = sweep;
  changed.models[0].kv_heads = 4;
  CHECK(is_new(changed, runner, point));
  changed = sweep;
  changed.cluster.gpu = "NVIDIA H200";
  CHECK(is_new(changed, runner, point));
  changed = sweep;
  changed.env["NCCL_DEBUG"] = "INFO";
  CHECK(is_new(changed, runner, point));
  changed = sweep;
  changed.runner.name.clear();  // as where the file names a program alone
  CHECK(identity(changed, runner, point) == identity(sample_sweep(), runner, point));
  changed = sweep;
  changed.runner.args = {"--verbose"};
  CHECK(is_new(changed, runner, point));
  auto newer = runner;
  newer.version = "1.1";
  CHECK(is_new(sweep, newer, point));
}

TEST_CASE("what cannot change the number leaves the identity") {
  const auto id = identity(sample_sweep(), any_runner(), sample_point());
  auto changed = sample_sweep();
  changed.name = "another";
  changed.position = {"other.yaml", 3, 4};
  changed.measure.steps = 100;
  changed.policy.max_nodes = 7;
  changed.cluster.peak_flops[0] = 1e15;
  changed.excludes = {{"tp > 8", "", {}}};
  CHECK(identity(changed, any_runner(), sample_point()) == id);
  std::swap(changed.vars[0], changed.vars[1]);
  auto point = sample_point();
  point.vars = {0, 1};
  CHECK(identity(changed, any_runner(), point) == id);
}

TEST_CASE("the sweep's environment wins over the site's and both are in the identity") {
  const auto sweep = sample_sweep();
  const auto alone = identity(sweep, any_runner(), sample_point());
  CHECK(identity(sweep, any_runner(), sample_point(), {{"NCCL_DEBUG", "INFO"}}) == alone);
  CHECK(identity(sweep, any_runner(), sample_point(), {{"OMP_NUM_THREADS", "4"}}) != alone);
}

TEST_CASE("a lane's key leaves out what ascends in it and the repeat") {
  const Identifier identifier(sample_sweep(), any_runner());
  auto other = sample_point();
  other.layout.micro_batch = 4;
  other.layout.grad_accum = 2;
  other.repeat = 3;
  CHECK(identifier.lane_key(other) == identifier.lane_key(sample_point()));
  CHECK(identifier.lane_key(other) != identifier.identity(other));
  other.layout.zero = 0;
  CHECK(identifier.lane_key(other) != identifier.lane_key(sample_point()));
}

TEST_CASE("a slug is readable and ends with the identity's first digits") {
  auto sweep = sweep_of(llama3_8b(), {});
  auto point = sample_point();
  point.vars = {};
  point.seq_len = 4096;
  point.layout.recompute = Recompute::none;
  const auto id = identity(sweep, any_runner(), point);
  CHECK(slug(sweep, any_runner(), point) == "llama-3-8b-n8-dp4tp8pp2-mb2ga4-z1-" + id.substr(0, 6));
  point.nodes = 0;
  point.gpus = 2;
  point.layout.sequence_parallel = true;
  point.layout.overlap = false;
  point.layout.schedule = Schedule::afab;
  point.dtype = Dtype::fp32;
  point.repeat = 2;
  const auto text = slug(sweep, any_runner(), point);
  CHECK(text.substr(0, text.size() - 7) ==
      "llama-3-8b-g2-dp4tp8pp2-mb2ga4-fp32-z1-sp-afab-no-overlap-r2");
}

TEST_CASE("a slug is safe in file names and bounded whatever the names are") {
  auto sweep = sample_sweep();
  sweep.models[0].name = "-../$(rm -rf \n'x')";
  sweep.vars[1].values[0] = std::string(300, 'y');
  auto point = sample_point();
  for (const auto& axis : axes()) {
    if (axis.kind != AxisKind::model) axis.set(point, axis.maximum);
  }
  const auto text = slug(sweep, any_runner(), point);
  CHECK(text.size() <= 80);
  CHECK(
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
      std::string::npos);
  CHECK(text.front() != '-');
  CHECK(text.front() != '.');
  auto other = point;
  other.layout.zero = 1;
  CHECK(slug(sweep, any_runner(), other) != text);
}

TEST_CASE("a secret makes a trial another one by its name alone") {
  const auto plain = sample_sweep();
  auto secret = plain;
  secret.secrets = {{"WANDB_API_KEY", "1234"}};
  const auto of = [](const SweepSpec& sweep) {
    return identity(sweep, any_runner(), sample_point());
  };
  CHECK(of(secret) != of(plain));
  auto renewed = secret;
  renewed.secrets = {{"WANDB_API_KEY", "5678"}};
  CHECK(of(renewed) == of(secret));
  renewed.secrets = {};
  renewed.pass_env = {"WANDB_API_KEY"};
  CHECK(of(renewed) == of(secret));
}
