// SPDX-License-Identifier: Apache-2.0
// What every page carries along: src/face/report/page.css and page*.js.
#pragma once

namespace shardsweep {

extern const char* const page_style;
extern const char* const page_script;

}  // namespace shardsweep
