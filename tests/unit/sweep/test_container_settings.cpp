// SPDX-License-Identifier: Apache-2.0
#include "sweep/launch.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

SiteSpec some_site() {
  SiteSpec site;
  site.env = {{"NCCL_ALGO", "Ring"}};
  site.container.runtime = ContainerRuntime::apptainer;
  site.container.mounts = {"/data", "/fast:/scratch"};
  site.container.env = {{"HF_HOME", "/data/hf"}};
  return site;
}

ContainerSpec with_image() {
  ContainerSpec container;
  container.image = "/images/a.sif";
  container.mounts = {"/mine:/scratch"};
  container.env = {{"HF_HOME", "/mine/hf"}};
  return container;
}

}  // namespace

TEST_CASE("a sweep's image runs as the site starts containers, and its own words win") {
  const ContainerSpec all = joined(with_image(), some_site());
  CHECK(all.runtime == ContainerRuntime::apptainer);
  CHECK(all.mounts == std::vector<std::string>{"/mine:/scratch", "/data"});
  CHECK(all.env.at("HF_HOME") == "/mine/hf");
  CHECK(all.env.at("NCCL_ALGO") == "Ring");  // of the site's `env`: no runtime passes it by itself
  CHECK(check_container(all, LaunchMode::agents));
}

TEST_CASE("without an image a sweep runs on the host, and so where it says none") {
  CHECK(joined({}, some_site()) == ContainerSpec{});
  SiteSpec site = some_site();
  site.container.image = "/images/site.sif";
  CHECK(joined({}, site).image == "/images/site.sif");
  ContainerSpec none;
  none.runtime = ContainerRuntime::none;
  CHECK(!joined(none, site).is_used());
}

TEST_CASE("half a container is an error that says what is missing") {
  const auto no_runtime = check_container(with_image(), LaunchMode::agents);
  REQUIRE(!no_runtime);
  CHECK(no_runtime.error().what.find("no runtime") != std::string::npos);
  SiteSpec site;
  site.container.image = "/images/site.sif";
  CHECK(!check_container(joined({}, site), LaunchMode::agents));  // it must not run on the host
  ContainerSpec no_image;
  no_image.runtime = ContainerRuntime::shifter;
  REQUIRE(!check_container(no_image, LaunchMode::agents));
  ContainerSpec made;
  made.runtime = ContainerRuntime::enroot;
  made.image = "/a.sqsh";
  CHECK(check_container(made, LaunchMode::agents));
  CHECK(!check_container(made, LaunchMode::srun));
  made.image = "mine";
  CHECK(check_container(made, LaunchMode::srun));
}

TEST_CASE("an image is watched if it is one file") {
  ContainerSpec all = joined(with_image(), some_site());
  CHECK(check_watched_image(all));
  for (const char* image : {"docker://a/b:latest", "a+b", "{image}", "/images/{image}"}) {
    all.image = image;
    const auto refused = check_watched_image(all);
    REQUIRE(!refused);
    CHECK(refused.error().what.find(image) != std::string::npos);
  }
  const auto on_host = check_watched_image({});
  REQUIRE(!on_host);
  CHECK(on_host.error().what.find("no container is used") != std::string::npos);
}

TEST_CASE("what ranks of ours need is mounted, unless the user put something in its place") {
  AttemptSpec spec;
  spec.argv = {"/opt/shardsweep/bin/shardbench-cpu"};
  ContainerSpec container = joined(with_image(), some_site());
  const auto ours = container_of(container, spec, "/images/a.sif", "/home/me/attempt-1");
  REQUIRE(ours);
  CHECK(ours->mounts ==
      std::vector<std::string>{"/mine:/scratch", "/data", "/home/me/attempt-1:/home/me/attempt-1",
          "/opt/shardsweep/bin:/opt/shardsweep/bin:ro"});
  spec.trainer.emplace().directory = "/scratch";
  CHECK(container_of(container, spec, "x", "/a")->mounts ==
      std::vector<std::string>{"/mine:/scratch", "/data", "/a:/a"});
  CHECK(!container_of({}, spec, "", "/a"));
}
