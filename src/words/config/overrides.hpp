// SPDX-License-Identifier: Apache-2.0
// `--set axes.tp=2,4`: a value put into the tree before it is read, so that a flag is checked
// exactly as the file is.
#pragma once

#include "yaml/yaml_tree.hpp"

#include <string>

namespace shardsweep::config {

/// `root` with `setting` (KEY.KEY=VALUE) in force; what it makes void elsewhere is gone: an
/// axis set under 'constants' no longer varies.
[[nodiscard]] Result<YamlNodePtr> with_override(const YamlNodePtr& root,
                                                const std::string& setting, Sources& sources);

}  // namespace shardsweep::config
