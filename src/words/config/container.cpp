// SPDX-License-Identifier: Apache-2.0
#include "config/container.hpp"

#include "config/keys.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "yaml/readers.hpp"
#include "yaml/yaml_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace shardsweep::config {
namespace {

constexpr std::string_view the_container = "'container'";

Result<ContainerRuntime> read_runtime(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const std::string word, read_text(node, "runtime"));
  if (const auto runtime = from_word<ContainerRuntime>(word)) return *runtime;
  const std::vector<std::string_view> words(
      word_table<ContainerRuntime>.begin(), word_table<ContainerRuntime>.end());
  const auto hint = did_you_mean(word, words);
  return refuse(node, "no container runtime is called {}{} Write {} or none.", in_quotes(word),
      hint.empty() ? "." : hint, fmt::join(words.begin() + 1, words.end(), ", "));
}

bool is_image_file(std::string_view image) {
  constexpr std::array<std::string_view, 5> endings{".sif", ".sqsh", ".squashfs", ".img", ".simg"};
  return image.find("://") == std::string_view::npos &&
      std::any_of(endings.begin(), endings.end(),
          [image](std::string_view ending) { return image.ends_with(ending); });
}

/// Checks that both sides are absolute, and hold no character that a runtime takes for a separator.
Result<std::string> read_mount(const YamlNode& node) {
  auto text = read_text(node, "mounts");
  if (!text) return text;
  const ContainerMount mount = mount_of(*text);
  const auto colons = std::count(text->begin(), text->end(), ':');
  const bool absolute = mount.source.starts_with('/') && mount.target.starts_with('/');
  const bool plain = text->find_first_of(", \t") == std::string::npos;
  if (absolute && plain && (colons < 2 || (colons == 2 && mount.read_only))) return text;
  return refuse(node,
      "{} is not a mount. Write /on/the/host:/in/the/container, or one path for both, and ':ro' at "
      "the end to mount for reading only. A path here can have no commas or spaces.",
      in_quotes(*text));
}

Result<std::string> read_workdir(const YamlNode& node) {
  auto text = read_text(node, "workdir");
  if (!text || text->starts_with('/')) return text;
  return refuse(node, "{} is not absolute; write the path inside of the container, from '/'",
      in_quotes(*text));
}

}  // namespace

std::optional<ContainerRuntime> runtime_in(const YamlNode& map) {
  const YamlNode* node = map.kind == YamlNode::Kind::map ? find(map, "runtime") : nullptr;
  return node == nullptr ? std::nullopt : from_word<ContainerRuntime>(node->text);
}

Result<std::string> read_image(const YamlNode& node, std::optional<ContainerRuntime> runtime,
    const std::filesystem::path& folder) {
  auto image = read_text(node, "image");
  if (!image) return image;
  if (image->empty()) return refuse(node, "'image' is empty; name a file or an image");
  if (image->starts_with('-'))
    return refuse(
        node, "{} begins like an option; write options under 'options'", in_quotes(*image));
  const bool is_uri = image->find("://") != std::string::npos;
  if (runtime == ContainerRuntime::enroot && is_uri) {
    return refuse(node,
        "enroot starts a file, not {}. Make one with 'enroot import -o FILE.sqsh {}', and write "
        "its path.",
        in_quotes(*image), *image);
  }
  if (!is_image_file(*image) || image->starts_with('/') || image->starts_with('{')) return image;
  std::error_code ignored;
  const auto beside = folder / *image;
  if (!folder.empty() && std::filesystem::exists(beside, ignored))
    return std::filesystem::absolute(beside).lexically_normal().string();
  return refuse(node,
      "there is no {} beside this file; write the image's path from '/', as the nodes see it",
      in_quotes(*image));
}

ContainerSpec read_container(
    const YamlNode& map, Mistakes& mistakes, const std::filesystem::path& folder) {
  ContainerSpec container;
  if (!mistakes.take(map, expect_map(map, the_container))) return container;
  check_keys(map, the_container, keys_of("container"), mistakes);
  if (const auto* node = find(map, "runtime"))
    container.runtime = mistakes.take(*node, read_runtime(*node));
  if (const auto* node = find(map, "image")) {
    if (node->kind == YamlNode::Kind::list) {
      container.image = image_placeholder;
    } else {
      mistakes.assign(container.image, *node, read_image(*node, container.runtime, folder));
    }
  }
  if (const auto* node = find(map, "mounts")) {
    if (mistakes.take(*node, expect_list(*node, "'mounts'"))) {
      for (const auto& item : node->items) {
        if (auto mount = mistakes.take(*item, read_mount(*item)))
          container.mounts.push_back(*std::move(mount));
      }
    }
  }
  if (const auto* node = find(map, "workdir"))
    mistakes.assign(container.workdir, *node, read_workdir(*node));
  if (const auto* node = find(map, "env")) container.env = read_environment(*node, mistakes);
  if (const auto* node = find(map, "options"))
    mistakes.assign(container.options, *node, read_texts(*node, "options"));
  return container;
}

std::string container_lines(const ContainerSpec& container) {
  if (container.empty()) return "";
  std::string text = "container:\n";
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("  {}: {}\n", key, value);
  };
  if (container.runtime) add("runtime", std::string(word_of(*container.runtime)));
  if (!container.image.empty()) add("image", yaml_text(container.image));
  if (!container.mounts.empty()) add("mounts", value_text(KeyType::texts, container.mounts));
  if (!container.workdir.empty()) add("workdir", yaml_text(container.workdir));
  if (!container.env.empty()) text += "  env:\n";
  for (const auto& [name, value] : container.env)
    add("  " + name, yaml_text(value));
  if (!container.options.empty()) add("options", value_text(KeyType::texts, container.options));
  return text;
}

}  // namespace shardsweep::config
