// SPDX-License-Identifier: Apache-2.0
#include "../folder.hpp"

#include <shardsweep/load.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

const std::filesystem::path source = SHARDSWEEP_SOURCE_DIR;

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("every preset, sweep and template of the checkout is built in, byte by byte") {
  const std::filesystem::path nowhere = "/nowhere";
  for (const auto& [kind, folder] : {std::pair{PresetKind::model, "sweeps/models"},
           {PresetKind::cluster, "sweeps/clusters"}, {PresetKind::sweep, "sweeps"}}) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(source / folder)) {
      if (entry.path().extension() != ".yaml" || entry.path().stem() == "causes") continue;
      ++files;
      const auto found = read_preset(nowhere, kind, entry.path().stem().string());
      REQUIRE_MESSAGE(found.has_value(), entry.path().string());
      CHECK(found->text == text_of(entry.path()));
      CHECK(found->where() == "built in");
    }
    CHECK(files > 0);
    CHECK(preset_names(nowhere, kind).size() == files);
  }
  for (const std::string name : {"lane.sbatch", "lane-sbcast.sbatch"}) {
    const auto script = read_job_template(nowhere, name);
    REQUIRE(script.has_value());
    CHECK(script->text == text_of(source / "templates" / name));
  }
}

TEST_CASE("a folder's own file goes before the one that is built in") {
  const Folder folder;
  const auto tiny = text_of(source / "sweeps/models/tiny.yaml");
  folder.write("models/tiny.yaml", "# mine\n" + tiny);
  folder.write("models/mine.yaml", tiny);
  folder.write("models/mini.yaml", text_of(source / "sweeps/models/mini.yaml"));

  const auto own = read_preset(folder.path(), PresetKind::model, "tiny");
  REQUIRE(own.has_value());
  CHECK(own->text == "# mine\n" + tiny);
  CHECK(own->where() == (folder.path() / "models/tiny.yaml").string());
  // A copy of what is built in is no file of the user's own.
  CHECK(read_preset(folder.path(), PresetKind::model, "mini")->where() == "built in");

  const auto names = preset_names(folder.path(), PresetKind::model);
  CHECK(has(names, "mine"));
  CHECK(has(names, "llama-1b"));
  CHECK(std::count(names.begin(), names.end(), "tiny") == 1);
  CHECK(load_model("mine", folder.path()).has_value());
}

TEST_CASE("a mistake in a folder's file is told with its place") {
  const Folder folder;
  folder.write("models/bad.yaml", "layers: many\n");
  const auto bad = load_model("bad", folder.path());
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().what.find((folder.path() / "models/bad.yaml").string() + ":1:") !=
      std::string::npos);
}

TEST_CASE("a preset that nobody has is an error") {
  CHECK_FALSE(read_preset("/nowhere", PresetKind::model, "nothere").has_value());
  CHECK_FALSE(load_cluster("nothere", "/nowhere").has_value());
}

TEST_CASE("a site file names a template of its own, or one that is built in") {
  CHECK(
      load_site_text("template: lane-sbcast.sbatch\n", "s")->job_template == "lane-sbcast.sbatch");
  CHECK(load_site_text("template: /etc/lane.sbatch\n", "s")->job_template == "/etc/lane.sbatch");
  for (const std::string wrong : {"lane", "own/lane.sbatch", "../templates/lane.sbatch"}) {
    const auto refused = load_site_text("template: " + wrong + "\n", "s");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().what.find("lane-sbcast.sbatch") != std::string::npos);
  }
}
