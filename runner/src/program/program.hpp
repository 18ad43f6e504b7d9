// SPDX-License-Identifier: Apache-2.0
// What every program of the benchmark does with its command line.
#pragma once

#include "device/platform.hpp"

namespace shardbench {

/// The exit code; failures of a run leave through fail().
int run_program(int argc, char** argv, const Platforms& platforms);

}  // namespace shardbench
