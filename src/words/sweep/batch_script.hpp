// SPDX-License-Identifier: Apache-2.0
// A point as a job of its own: what to give to sbatch where nothing of ours is there.
#pragma once

#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

struct BatchScript {
  std::string name;     ///< name of the job
  std::string comment;  ///< text of the layout
  std::string program;  ///< the runner, where the sweep names none
  std::int32_t slots_per_node = 1;
};

/// Makes a script whose folder is created at the place of its submission. The variables that
/// PyTorch's launchers set come from Slurm's own, so that no site has to set them.
[[nodiscard]] std::string batch_script(
    const SweepSpec& sweep, const Point& point, const BatchScript& about);

}  // namespace shardsweep
