// SPDX-License-Identifier: Apache-2.0
// Environment variables of the ranks that the number of a trial depends on, wherever they come
// from: a file of the user's, a shell, a module, an image.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace shardsweep {

/// Settings of the allocator, of CUDA's queues and of NCCL. NCCL's own log (NCCL_DEBUG) changes no
/// number, and a retry asks for it.
[[nodiscard]] constexpr bool is_setting(std::string_view name) {
  if (name == "CUDA_DEVICE_MAX_CONNECTIONS") return true;
  if (name.starts_with("NCCL_")) return !name.starts_with("NCCL_DEBUG");
  return name.starts_with("PYTORCH_") && name.ends_with("ALLOC_CONF");
}

/// True for variables of the daemon's shell that ranks on this machine get. These find programs and
/// libraries, come from modules, Python environments and CUDA, or name places for files:
/// sweeps/README.md lists them. Anything else comes from `env`, `secrets` and `pass_env`. A job of
/// Slurm has what its script has set.
[[nodiscard]] constexpr bool is_passed_on(std::string_view name) {
  constexpr std::array<std::string_view, 24> names{"PATH", "HOME", "USER", "LOGNAME", "SHELL",
      "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "HOSTNAME", "PWD", "LD_PRELOAD", "PYTHONPATH",
      "PYTHONHOME", "VIRTUAL_ENV", "MODULEPATH", "MODULESHOME", "_LMFILES_", "CUDA_HOME",
      "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "ROCM_PATH", "LOADEDMODULES"};
  constexpr std::array<std::string_view, 10> beginnings{"LC_", "LD_LIBRARY_PATH", "CONDA_", "LMOD_",
      "__LMOD_", "__MODULES_", "MODULES_", "XDG_", "SHARDSWEEP_", "SHARDBENCH_"};
  return std::find(names.begin(), names.end(), name) != names.end() ||
      std::any_of(beginnings.begin(), beginnings.end(),
          [name](std::string_view begin) { return name.starts_with(begin); }) ||
      name.ends_with("SAN_OPTIONS");
}

}  // namespace shardsweep
