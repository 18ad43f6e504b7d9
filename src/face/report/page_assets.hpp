// SPDX-License-Identifier: Apache-2.0
// What every page carries along: src/face/report/page.css, page*.js and explorer*.
#pragma once

namespace shardsweep {

extern const char* const page_style;
extern const char* const page_script;
extern const char* const live_script;
extern const char* const explorer_style;
extern const char* const explorer_script;

}  // namespace shardsweep
