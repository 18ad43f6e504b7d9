// SPDX-License-Identifier: Apache-2.0
#include "report/report_page.hpp"

#include "picture/svg.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "report/sections.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace shardsweep {
namespace {

std::string page_title(const ReportFacts& facts) {
  const auto names = join_first(facts.sweeps, 4, ", ", &ReportedSweep::sweep);
  return names.empty() ? "shardsweep report" : names;
}

}  // namespace

std::optional<std::int64_t> ReportInput::memory_limit() const {
  std::optional<std::int64_t> limit;
  for (const auto& cluster : clusters) {
    if (cluster.memory_bytes <= 0 || (limit && *limit != cluster.memory_bytes)) return std::nullopt;
    limit = cluster.memory_bytes;
  }
  return limit;
}

std::optional<Price> price_from(const std::string& text) {
  Price price;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), price.per_gpu_hour);
  if (error != std::errc() || !(price.per_gpu_hour > 0)) return std::nullopt;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (!rest.empty() && rest.front() != ' ') return std::nullopt;
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  price.currency = std::string(rest);
  return price;
}

std::string report_page(const ReportInput& input) {
  const auto& trials = input.facts.trials;
  const TrialRows rows(trials);
  const auto cells = cells_of_page(input.heatmap, trials);
  const ReportView view{input, trials, rows, cells};
  std::string body = "<main>\n" + header_section(view) + answer_section(view);
  body += parallel_section(view) + axes_section(view);
  body += "<div class=\"pair\">\n" + predicted_section(view) + scaling_section(view) +
      history_section(view) + use_section(view) + failures_section(view) + "</div>\n";
  body += side_runs_section(view) + nodes_section(view) + trials_section(view);
  body += conditions_section(view) + reproduce_section(view);
  body += "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n" + data_element(view);
  auto page = html_page(page_title(input.facts), body, PageScript::whole);
  if (input.refresh_s > 0) {
    const std::string_view head = "<meta charset=\"utf-8\">\n";
    page.insert(page.find(head) + head.size(),
        fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", input.refresh_s));
  }
  return page;
}

// The fixed part of the page. Everything else is made by explorer.js of what the planner in the
// page says: of its axes the controls, of its answers the cards.

namespace {

constexpr std::string_view skeleton = R"html(<main class="explorer">
<form id="ask" onsubmit="return false" aria-label="What do you train, on what?"></form>
<div class="answers">
<header class="wide"><h1>Which layout is fastest?</h1>
<p class="faint">Say what you train on which GPUs. The page predicts memory and speed of every way to divide the work.</p></header>
<section id="card" class="wide" aria-live="polite">
<div class="faint" id="asked" hidden></div>
<div class="use" id="use">The planner is starting …</div>
<p class="headline" id="headline" hidden></p>
<p id="held" class="note" hidden></p>
<p id="limit" class="faint" hidden></p>
<p id="measured" class="seen" hidden></p>
<p id="batch-says" class="faint" hidden></p>
<p id="wrong" class="note" hidden></p>
<p id="batches" class="actions" hidden></p>
<details id="others-box" open><summary>Runners-up with other degrees</summary><ul id="others"></ul>
<p class="faint">Predictions rank; runs decide. sweep.yaml measures these and their neighbours.</p>
<p class="faint" id="short-names"></p></details>
<div class="actions" id="actions" hidden>
<button type="button" id="sweep">sweep.yaml</button>
<button type="button" id="flags">Flags for</button>
<select id="trainer" aria-label="Trainer of the flags"></select>
<button type="button" id="copy">Copy link</button>
<span id="copied" class="faint" role="status"></span>
</div>
</section>
<section id="text-card" class="wide" hidden>
<h2 id="text-title"></h2><pre id="text" tabindex="0"></pre><a id="save" hidden>Save the file</a>
</section>
<section id="why-card" class="wide" hidden>
<h2>Why not this one?</h2><p id="why"></p><p id="place" class="faint"></p><p id="why-layout"></p>
</section>
<section id="bars" class="bars" hidden>
<h2>Where a step goes</h2><div id="step-bars"></div>
<h2>Memory per GPU</h2><div id="memory-bars"></div>
</section>
<section id="splits-card" hidden>
<h2>tp × pp</h2>
<div class="scroll" tabindex="0" role="group" aria-label="tp × pp"><table class="splits" id="splits"></table></div>
<p id="split-says" class="faint" role="status"></p>
<p class="faint">tokens/s per GPU of the best layout with these degrees; press a cell for its layout, or for the reason why none fits.</p>
</section>
<section id="sizes-card" hidden>
<h2>micro-batch × ZeRO</h2>
<div class="scroll" tabindex="0" role="group" aria-label="micro-batch × ZeRO"><table class="splits" id="sizes"></table></div>
<p id="size-says" class="faint" role="status"></p>
<p class="faint">The same with these values, whatever the degrees.</p>
</section>
<section id="gpus-card" class="wide" hidden>
<h2>How many GPUs?</h2><p id="least"></p><div id="curve"></div>
<p id="seen-key" class="seen" hidden>◆ measured: the fastest run of any layout. All else is predicted.</p>
<div class="scroll" tabindex="0" role="group" aria-label="Numbers of GPUs"><table class="list"><thead><tr>
<th scope="col" class="number">GPUs</th><th scope="col" class="number">tokens/s/GPU</th>
<th scope="col" class="number seen">measured</th>
<th scope="col" class="number">speed, of the best row</th><th scope="col" class="number">GPU-hours per 1e9 tokens</th>
<th scope="col">layout</th></tr></thead><tbody id="counts"></tbody></table></div>
</section>
<section id="recipe" class="wide" hidden>
<h2>The three steps</h2>
<ol class="flow" id="flow"></ol>
<div class="steps"><div>
<h3>1. Fit a train step in memory</h3><ul id="step-memory"></ul>
</div><div>
<h3>2. Reach the global batch</h3><ul id="step-batch"></ul>
</div><div>
<h3>3. Optimise throughput</h3><ul id="step-throughput"></ul>
</div></div>
<h3>Rules of thumb</h3><ul id="rules"></ul>
</section>
<section id="trust-card" class="wide" hidden>
<h2>How far to trust this</h2><ul id="trust"></ul><p id="judged" class="faint"></p>
<p class="faint">All numbers are computed by shardsweep's own planner, in this page or by the program that serves it. Nothing is sent elsewhere.</p>
</section>
</div>
</main>
)html";

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const bool is_there = at + i < bytes.size();
      group = group << 8U | (is_there ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool is_there = at + i <= bytes.size();
      text += is_there ? letters[group >> (18U - 6U * i) & 63U] : '=';
    }
  }
  return text;
}

/// A block that no browser runs or shows. `</` would end it: JSON and JavaScript may write
/// `<\/` in their strings.
std::string data_block(std::string_view id, std::string_view type, std::string_view content) {
  std::string inside;
  for (std::size_t at = 0; at < content.size(); ++at) {
    inside += content[at];
    if (content[at] == '<' && at + 1 < content.size() && content[at + 1] == '/') inside += '\\';
  }
  return fmt::format("<script type=\"{}\" id=\"{}\">{}</script>\n", type, id, inside);
}

}  // namespace

std::string explorer_page(const ExplorerInput& input) {
  std::string body(skeleton);
  body += data_block("presets", "application/json", input.presets);
  if (!input.glue.empty()) {
    body += data_block("planner-glue", "text/plain", input.glue);
    body += data_block("planner-wasm", "text/plain", base64(input.wasm_gz));
  }
  return html_page("shardsweep explorer", body, PageScript::explorer);
}

}  // namespace shardsweep
