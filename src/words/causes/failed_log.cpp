// SPDX-License-Identifier: Apache-2.0
// Decision: Output of ranks is read after they have ended, within bounds, with patterns of
// plain text and `*`. Logs are foreign, and a regular expression can run for ever.
#include "causes/failed_log.hpp"

#include "causes/fragmentation.hpp"
#include "causes/pattern.hpp"
#include "text/characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

constexpr auto npos = std::string_view::npos;

// A longer line is a dump: what it means stands at its beginning.
constexpr std::size_t looked_at = 4096;

/// Takes what stands before `end` off `text`.
std::string_view take_until(char end, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::string without_colours(std::string_view text) {
  std::string plain;
  for (std::size_t at = text.find("\x1b["); at != npos; at = text.find("\x1b[")) {
    plain += text.substr(0, at);
    text.remove_prefix(
        std::min(text.find_first_not_of("0123456789;", at + 2), text.size() - 1) + 1);
  }
  return plain.append(text);
}

/// Speaker of a line: a rank, or the process of one. -1: nobody says.
struct Said {
  int by = -1;
  std::string_view text;
};

int number_at(std::string_view text) {
  int number = -1;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// "[rank3]: …", "[default3]:…", "[1,3]<stderr>:…", "3: …" (srun --label), "(name pid=7) …".
Said said_in(std::string_view line) {
  constexpr std::size_t longest_label = 60;
  const std::string_view head = line.substr(0, longest_label);
  if (head.starts_with('[')) {
    const std::size_t close = head.find(']');
    const std::size_t colon = head.find(':', close == npos ? 0 : close);
    const std::size_t digits = head.find_last_not_of("0123456789", close - 1) + 1;
    const bool label = close != npos && colon != npos && digits < close &&
        (colon == close + 1 || head.substr(close + 1).starts_with("<std"));
    if (!label) return {-1, line};
    const std::size_t from = colon + (line.substr(colon).starts_with(": ") ? 2 : 1);
    return {number_at(line.substr(digits)), line.substr(from)};
  } else if (const std::size_t pid = head.find("pid="); head.starts_with('(') && pid != npos) {
    const std::size_t close = line.find(") ");
    if (close != npos) return {number_at(line.substr(pid + 4)), line.substr(close + 2)};
  } else if (const std::size_t digits = head.find_first_not_of(" 0123456789"); digits != npos) {
    const std::size_t first = head.find_first_not_of(' ');
    if (digits > first && digits < 8 && head.substr(digits).starts_with(": "))
      return {number_at(line.substr(first)), line.substr(digits + 2)};
  }
  return {-1, line};
}

/// "torch.OutOfMemoryError: …", "MemoryError". Below a traceback other names may end it too.
bool is_exception(std::string_view text, bool traced) {
  constexpr std::array<std::string_view, 7> ends{
      "Error", "Exception", "Interrupt", "SystemExit", "Expired", "Timeout", "StopIteration"};
  const auto ends_name = [](char c) {
    return !is_letter(c) && !is_digit(c) && c != '_' && c != '.';
  };
  const auto end = std::find_if(text.begin(), text.end(), ends_name) - text.begin();
  const std::string_view name = text.substr(0, static_cast<std::size_t>(end));
  std::string_view rest = text.substr(name.size());
  // Ray tells whose error it passes on: "RayTaskError(ValueError): …".
  if (rest.starts_with('(')) rest.remove_prefix(std::min(rest.find(')'), rest.size() - 1) + 1);
  const bool alone = rest.empty() || rest == ":" || rest.starts_with(": ");
  if (name.empty() || !alone || is_digit(name.front())) return false;
  const std::size_t dot = name.rfind('.');
  const char first = name[dot == npos ? 0 : std::min(dot + 1, name.size() - 1)];
  return std::any_of(ends.begin(), ends.end(),
             [name](std::string_view word) { return name.ends_with(word); }) ||
      (traced && dot != npos && first >= 'A' && first <= 'Z');
}

bool is_warning(std::string_view text) {
  const bool glog =
      text.starts_with("[W") || (text.starts_with('W') && text.size() > 1 && is_digit(text[1]));
  return glog || text.find("Warning: ") != npos || text.starts_with("WARNING") ||
      text.find(" WARNING") != npos;
}

/// Thing that the output says, and its weight against others.
struct Event {
  const Cause* cause = nullptr;  ///< none: an error that no rule knows
  std::string_view line{};
  bool exception = false;
  int by = -1;
  bool set_up = false;  ///< its traceback is known, and has no train step
  bool own = false;     ///< its cause is the user's

  [[nodiscard]] bool symptom() const {
    return cause != nullptr && cause->weight == Strength::symptom;
  }
  /// Lower is stronger. What stops one rank stops the network of all, so an error that nobody
  /// knows is stronger than what is said of the network.
  [[nodiscard]] int tier() const {
    if (cause == nullptr) return 2;
    if (own && cause->weight <= Strength::cause) return -1;
    if (cause->weight == Strength::fact) return 0;
    if (cause->weight == Strength::end) return 5;
    if (cause->weight == Strength::symptom) return 6;
    if (cause->weight == Strength::hint) return 7;
    if (cause->outcome == Outcome::comm_error) return 4;
    return exception ? 1 : 3;
  }
};

/// Output of one rank, or of nobody by name.
struct Printer {
  std::optional<Event> error;    ///< the last one that counts
  std::string_view frame{};      ///< last file of the traceback
  const Cause* stage = nullptr;  ///< what its frames tell
  bool in_loop = false;          ///< one of them is of a train step
  std::string_view prefix{};     ///< of a logger, before each line of the traceback
  bool traced = false;           ///< within a traceback
  bool chained = false;          ///< the next error was raised because of the last one
  bool aside = false;            ///< the next error is of a thread, or was ignored
  bool reason = false;           ///< NCCL's reason for the last error follows
};

class Reading {
 public:
  explicit Reading(std::span<const Cause> own) : own_(own) {}
  void take(std::string_view line);
  [[nodiscard]] std::optional<Event> verdict() const;

 private:
  void take_frame(Printer& printer, std::string_view line) const;
  void take_error(Printer& printer, const Said& said);
  bool take_reason(Printer& printer, std::string_view line) const;
  void take_line(const Said& said);
  void keep(Event event) {
    event.own = order_of(event.cause) < 0;
    if (!best_line_ || stronger(event, *best_line_)) best_line_ = event;
  }
  [[nodiscard]] const Cause* cause_for(std::string_view line, LinePlace place) const {
    const Cause* own = own_.find(line, place);
    return own != nullptr ? own : built_in_causes().find(line, place);
  }
  /// Negative: of the user's. An unknown one has no place behind others.
  [[nodiscard]] std::ptrdiff_t order_of(const Cause* cause) const {
    const auto own = own_.all();
    const auto mine =
        std::find_if(own.begin(), own.end(), [cause](const Cause& one) { return &one == cause; });
    if (mine != own.end()) return mine - own.end();
    return cause == nullptr ? 0 : cause - built_in_causes().all().data();
  }
  /// The launcher's word decides between ranks, then the order of the causes, then the rank.
  [[nodiscard]] bool stronger(const Event& one, const Event& other) const {
    const auto key = [this](const Event& event) {
      return std::tuple(
          event.tier(), event.by < 0 || event.by != root_, order_of(event.cause), event.by);
    };
    return key(one) < key(other);
  }

  CauseIndex own_;
  std::map<int, Printer> printers_;
  std::optional<Event> best_line_;
  std::optional<Event> aside_;
  bool trained_ = false;
  bool root_next_ = false;  ///< torchrun's table: its root cause stands below
  int root_ = -1;
};

/// The prefix before "Traceback" stands before its other lines, too, but for the time.
std::string_view without_prefix(const Printer& printer, std::string_view text) {
  const std::size_t length = printer.prefix.size();
  constexpr std::size_t end = 2;
  const bool has = printer.traced && length >= end && text.size() > length &&
      text.substr(length - end, end) == printer.prefix.substr(length - end);
  return has ? text.substr(length) : text;
}

void begin_traceback(Printer& printer) {
  printer.traced = true;
  printer.frame = {};
  printer.stage = nullptr;
  printer.in_loop = false;
}

void Reading::take_frame(Printer& printer, std::string_view line) const {
  if (line.starts_with("  File \"")) printer.frame = line;
  printer.traced = true;
  const Cause* cause = cause_for(line, LinePlace::frame);
  if (cause == nullptr) return;
  if (cause->where == LinePlace::loop) {
    printer.in_loop = true;
  } else if (cause->when != When::network &&
      (printer.stage == nullptr || order_of(cause) < order_of(printer.stage))) {
    printer.stage = cause;
  }
}

void Reading::take_error(Printer& printer, const Said& said) {
  Event error{cause_for(said.text, LinePlace::exception), said.text, true, said.by,
      !printer.frame.empty() && !printer.in_loop};
  const Cause* last = cause_for(printer.frame, LinePlace::frame);
  if (error.cause == nullptr) {
    error.cause = printer.stage;
  } else if (error.cause->outcome == Outcome::comm_error && last != nullptr &&
      last->when == When::network) {
    error.cause = last;
  }
  error.own = order_of(error.cause) < 0;
  const bool counts = error.cause == nullptr || error.cause->weight != Strength::never;
  const bool aside = printer.aside;
  const bool chained = printer.chained;
  begin_traceback(printer);
  printer.traced = printer.chained = printer.aside = printer.reason = false;
  if (aside || !counts) {
    if (counts && error.cause != nullptr && !aside_) aside_ = error;
    return;
  }
  if (printer.error) {
    // Errors raised on the way out explain nothing that the first one has told.
    const Cause* first = printer.error->cause;
    const bool general = error.cause == nullptr || error.cause->weight == Strength::late ||
        error.cause->when == When::set_up;
    const bool explains = chained && first != nullptr && general &&
        (error.cause == nullptr || first->weight == Strength::cause);
    const auto weakness = [](const Cause* cause) {
      return cause == nullptr ? Strength::cause : std::max(cause->weight, Strength::late);
    };
    if (explains || weakness(error.cause) > std::max(weakness(first), Strength::late)) return;
  }
  printer.error = error;
}

/// NCCL ends an error by "Last error:", and a line below it says what it was.
bool Reading::take_reason(Printer& printer, std::string_view line) const {
  if (!printer.reason || !printer.error || is_warning(line)) return false;
  const Cause* cause = cause_for(line, LinePlace::line);
  if (cause == nullptr || cause->where == LinePlace::progress || cause->weight >= Strength::hint)
    return false;
  printer.error->cause = cause;
  printer.error->line = line;
  printer.reason = false;
  return true;
}

void Reading::take_line(const Said& said) {
  const Cause* cause = cause_for(said.text, LinePlace::line);
  if (cause == nullptr || cause->weight == Strength::never) return;
  if (cause->where == LinePlace::progress) {
    trained_ = true;
  } else if (cause->weight == Strength::fact || !is_warning(said.text)) {
    keep({cause, said.text, false, said.by});
  }
}

void Reading::take(std::string_view line) {
  line = line.substr(0, looked_at);
  line = line.substr(0, line.find_last_not_of(" \r") + 1);
  if (const Cause* own = own_.find(line, LinePlace::line);
      own != nullptr && own->where == LinePlace::line && own->weight <= Strength::cause)
    keep({own, line});
  Said said = said_in(line);
  if (said.text.starts_with("[rank")) said = said_in(said.text);  // torchrun's and torch's
  if (said.text.empty()) return;
  Printer& printer = printers_[said.by];
  constexpr std::size_t longest_prefix = 120;
  const std::size_t file = said.text.substr(0, longest_prefix).find("File \"");
  if (file != npos && file > 2 && said.text.substr(file - 2, 2) == "  ") {
    printer.prefix = said.text.substr(0, file - 2);
    printer.traced = true;
  }
  said.text = without_prefix(printer, said.text);
  if (take_reason(printer, said.text)) return;
  if (said.text == "Last error:") {
    printer.reason = true;
  } else if (const auto at = said.text.find("Traceback (most recent call last)"); at != npos) {
    begin_traceback(printer);
    printer.prefix = said.text.substr(0, at);
  } else if (said.text.starts_with("  File \"") || said.text.starts_with("    raise ") ||
      (printer.traced && said.text.starts_with("    "))) {
    take_frame(printer, said.text);
  } else if (said.text.starts_with("During handling of the above exception") ||
      said.text.starts_with("The above exception was the direct cause")) {
    printer.chained = true;
  } else if (said.text.starts_with("Exception ignored in") ||
      said.text.starts_with("Exception in ")) {
    printer.aside = true;
  } else if (said.text.starts_with("Root Cause (first observed failure)")) {
    root_next_ = true;
  } else if (root_next_ && said.text.starts_with("  rank ")) {
    root_ = number_at(said.text.substr(std::min(said.text.find(':') + 2, said.text.size())));
    root_next_ = false;
  } else if (is_exception(said.text, printer.traced)) {
    take_error(printer, said);
  } else {
    take_line(said);
  }
}

std::optional<Event> Reading::verdict() const {
  std::optional<Event> best = best_line_;
  bool same = true;
  std::optional<const Cause*> refusal;  // of the first rank
  for (const auto& [by, printer] : printers_) {
    if (!printer.error) continue;
    if (!printer.error->symptom()) {
      const Cause* cause = printer.error->cause;
      same = same && refusal.value_or(cause) == cause;
      refusal = cause;
    }
    if (!best || stronger(*printer.error, *best)) best = printer.error;
  }
  if (!best) return aside_;
  // A refusal is the same at all ranks, before anything was trained.
  const When when = best->cause == nullptr ? When::always : best->cause->when;
  const bool refuses = when == When::untrained || when == When::set_up;
  if (refuses && (trained_ || !same || (when == When::set_up && !best->set_up)))
    best->cause = nullptr;
  return best;
}

/// The line, from its beginning if what the cause looks for is within reach of a quote.
std::string quote_of(const Event& event) {
  if (event.cause == nullptr) return one_line(event.line, longest_quote);
  const std::string& pattern = event.cause->pattern;
  const std::size_t at = event.line.find(pattern.substr(0, pattern.find('*')));
  constexpr std::size_t seen = longest_quote / 2;  // of the words before it, half as much
  const bool far = at != npos && at > seen && event.line.size() > longest_quote;
  const std::size_t from = far ? std::min(event.line.find(' ', at - seen / 2) + 1, at) : 0;
  return one_line(event.line.substr(from), longest_quote);
}

LogFinding finding_of(const Event& event) {
  LogFinding finding{.strength = Strength::late, .line = quote_of(event)};
  if (event.cause == nullptr) return finding;
  finding.rule = event.cause->name;
  finding.outcome = event.cause->outcome;
  finding.strength = event.cause->weight;
  finding.own = event.own && event.tier() < 0;
  finding.whose = event.cause->whose;
  finding.remedy = event.cause->remedy;
  if (finding.outcome != Outcome::oom) return finding;
  if (const auto pieces = fragmentation_in(event.line)) finding.fragmentation = describe(*pieces);
  return finding;
}

}  // namespace

const Cause* own_cause_of(std::string_view line, std::span<const Cause> own) {
  return CauseIndex(own).find(line.substr(0, looked_at), LinePlace::exception);
}

std::optional<LogFinding> find_cause(std::string_view text, std::span<const Cause> own) {
  std::string plain;
  if (text.find("\x1b[") != npos) text = plain = without_colours(text);
  Reading reading(own);
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    // A progress bar's lines end with a carriage return.
    while (!line.empty())
      reading.take(take_until('\r', line));
  }
  const auto event = reading.verdict();
  return event ? std::optional(finding_of(*event)) : std::nullopt;
}

bool judges_its_sample(const Cause& cause) {
  if (cause.sample.empty()) return true;
  const auto finding = find_cause(cause.sample, {&cause, 1});
  if (cause.where == LinePlace::progress || cause.weight == Strength::never) return !finding;
  // A frame of a train step refuses nothing that would be refused before.
  return finding && finding->rule == (cause.where == LinePlace::loop ? "" : cause.name);
}

}  // namespace shardsweep
