// SPDX-License-Identifier: Apache-2.0
// A model's config.json, as Hugging Face's transformers publishes it, as the planner's model.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>

#include <string>
#include <string_view>

namespace shardsweep {

/// A decoder by its `model_type`, or Meta's params.json; of a model that also sees or hears, its
/// text part. `name` becomes the model's; its note says what predictions leave out and which keys
/// are not understood. Faults (invalid_input): no JSON; a number that is
/// missing and has no default, is no whole number, or differs from layer to layer; numbers that
/// do not belong together; a class that no formula counts, with the reason.
[[nodiscard]] Result<ModelSpec> model_of_config(std::string_view json, std::string name);

}  // namespace shardsweep
