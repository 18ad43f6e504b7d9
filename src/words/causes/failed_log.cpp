// SPDX-License-Identifier: Apache-2.0
// Decision: Output of ranks is read after they have ended, within bounds, with patterns of
// plain text and `*`. Logs are foreign, and a regular expression can run for ever.
#include "causes/failed_log.hpp"

#include "causes/fragmentation.hpp"
#include "causes/line_words.hpp"
#include "text/characters.hpp"
#include "text/node_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

constexpr auto npos = std::string_view::npos;

// A longer line is a dump: what it means stands at its beginning.
constexpr std::size_t looked_at = 4096;

/// Speaker of a line: a rank, or the pid of a process; -1: the line names none.
struct SpokenLine {
  int by = -1;
  std::string_view text;
};

/// Most lines differ in their first character: then nothing is called. Of no empty text.
bool begins(std::string_view text, std::string_view mark) {
  return text.front() == mark.front() && text.starts_with(mark);
}

int number_at(std::string_view text) {
  int number = -1;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// "[rank3]: …", "[default3]:…", "[1,3]<stderr>:…", "3: …" (srun --label), "(name pid=7) …".
SpokenLine said_in(std::string_view line) {
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

/// "torch.OutOfMemoryError: …", "MemoryError", and any class of a module, as "pyarrow.lib.Invalid".
/// "Error: …" alone is what many programs print that are none of Python's.
bool is_exception(std::string_view text, bool traced) {
  constexpr std::array<std::string_view, 7> ends{
      "Error", "Exception", "Interrupt", "SystemExit", "Expired", "Timeout", "StopIteration"};
  const auto ends_name = [](char c) {
    return !is_letter(c) && !is_digit(c) && c != '_' && c != '.';
  };
  const auto end = std::find_if(text.begin(), text.end(), ends_name) - text.begin();
  const std::string_view name = text.substr(0, static_cast<std::size_t>(end));
  std::string_view rest = text.substr(name.size());
  // Ray prints "RayTaskError(ValueError): …", other programs "ValueError('…".
  if (rest.starts_with('(') && rest.size() > 1 && is_letter(rest[1]))
    rest.remove_prefix(std::min(rest.find(')'), rest.size() - 1) + 1);
  const bool in_code = rest.starts_with("('") || rest.starts_with("(\"");
  const bool alone = rest.empty() || rest == ":" || rest.starts_with(": ") || in_code;
  if (name.empty() || !alone || is_digit(name.front()) || (name == "Error" && !traced))
    return false;
  const std::size_t dot = name.rfind('.');
  const char first = name[dot == npos ? 0 : std::min(dot + 1, name.size() - 1)];
  return std::any_of(ends.begin(), ends.end(),
             [name](std::string_view word) { return name.ends_with(word); }) ||
      (dot != npos && first >= 'A' && first <= 'Z' && !in_code &&
          (traced || !name.ends_with("Warning")));
}

/// Exception that another program tells of within a line, as loggers and C++ do; empty: none.
std::string_view told_exception(std::string_view line) {
  for (const std::string_view word : {" what():  ", "Error: ", "Exception: "}) {
    const std::size_t at = line.find(word);
    if (at == npos) continue;
    if (word.front() == ' ') return line.substr(at + word.size());
    std::size_t from = at;
    while (from > 0 && is_letter(line[from - 1]))
      --from;
    if (from > 0 && from < at) return line.substr(from);
  }
  return {};
}

/// How far a program had come where an error was raised, as the frames above it tell.
enum class Stage : std::uint8_t { unknown, set_up, step, update };

/// Number behind a figure's name, as in "loss: 0.02", "'loss': '-1.5'"; empty: none. In "loss-0.02"
/// the dash belongs to a name of a file.
std::string_view figure_behind(std::string_view name) {
  const std::size_t from = name.find_first_not_of(" :='\"");
  if (from == 0 || from == npos) return {};
  const std::string_view number = name.substr(from);
  const std::size_t digit = number.front() == '-' ? 1 : 0;
  return digit < number.size() && is_digit(number[digit]) ? number : std::string_view();
}

/// "step: 5700 loss: 0.028", "{'loss': 6.9, 'epoch': 0.1}": a loss as a number, and how far it is.
bool tells_of_step(std::string_view line) {
  constexpr std::array<std::string_view, 5> how_far{"tep", "ter", "poch", "it/s", "'lr'"};
  for (std::size_t at = line.find("oss", 1); at != npos; at = line.find("oss", at + 3)) {
    if ((line[at - 1] | ' ') != 'l') continue;
    const std::string_view loss = figure_behind(line.substr(at + 3));
    // Settings print a loss of -1 if none was given.
    const bool none =
        loss.starts_with("-1") && (loss.size() == 2 || (loss[2] != '.' && !is_digit(loss[2])));
    if (loss.empty() || none) continue;
    return std::any_of(how_far.begin(), how_far.end(),
        [line](std::string_view word) { return line.find(word) != npos; });
  }
  return false;
}

/// The line without names of figures, which hold words of failure: "invalid: 3", and all between
/// bars, as in "| Mismatch KL: 0.2".
std::string without_figures(std::string_view line) {
  std::string plain(line);
  for (std::size_t at = 1; at < plain.size(); ++at) {
    const std::size_t before = at - (plain[at - 1] == '-' ? 2 : 1);
    const std::size_t end = plain.find_last_not_of(" :='\"", before);
    if (!is_digit(plain[at]) || before == npos || end == npos || end == before) continue;
    const bool bars = plain.rfind(" | ", end) != npos;
    const std::size_t from = plain.find_last_of(bars ? "|,;:=" : " ,;|", end) + 1;
    plain.replace(from, end + 1 - from, end + 1 - from, ' ');
  }
  return plain;
}

/// "  1%|▏ | 64/8192 [56:27<87:25:33, 38.72s/it]": a bar without a name that has run for a minute.
bool is_long_bar(std::string_view line) {
  const std::size_t bar = line.find("%|");
  const std::size_t time = line.find('[', std::min(bar, line.size()));
  return time != npos && line.find_first_not_of(" 0123456789") == bar &&
      !line.substr(time).starts_with("[00:") && line.find("it", time) != npos;
}

/// A statement of the output, and its weight against others.
struct Event {
  const Cause* cause = nullptr;  ///< null: an error that no rule knows
  std::string_view line{};
  bool exception = false;
  int by = -1;
  Stage stage = Stage::unknown;
  std::size_t at = 0;  ///< number of the line
  bool own = false;    ///< cause is one of the user's own

  [[nodiscard]] bool symptom() const { return tier() == 6; }
  [[nodiscard]] bool hint() const { return tier() == 7; }
  /// True for a hint whose words follow below it.
  [[nodiscard]] bool headline() const {
    return hint() && (line.ends_with(':') || line.ends_with(" -"));
  }
  /// Lower is stronger. An error in one rank breaks the network of all ranks, so an unknown error
  /// is stronger than errors of the network.
  [[nodiscard]] int tier() const {
    // Tiers in the order of Strength; those of `cause` and `late` depend on what they tell of,
    // below.
    constexpr std::array<int, word_table<Strength>.size()> by_weight{0, 3, 5, 3, 6, 7, 8};
    if (cause == nullptr) return 2;
    if (own && cause->weight <= Strength::cause) return -1;
    const int tier = by_weight.at(static_cast<std::size_t>(cause->weight));
    if (tier == 3 && cause->outcome == Outcome::comm_error) return 4;
    return tier == 3 && exception ? 1 : tier;
  }
};

/// State of a traceback whose error has not come yet.
struct Trace {
  bool open = false;                 ///< the error has not come yet
  bool logged = false;               ///< a logger prints it
  bool cleans = false;               ///< the error came from cleaning up
  std::string_view first{}, last{};  ///< frames: `File "t.py", line 7, in f`
  std::string_view source{};         ///< source below the last one
  const Cause* stage = nullptr;      ///< cause that its frames tell
  Stage reached = Stage::set_up;
};

/// Word of the lines before an error.
struct Announcement {
  bool chained = false;      ///< the error was raised because of the last one
  bool direct = false;       ///< … as its author says
  std::string_view aside{};  ///< the error is of a thread, or was ignored, as this says
  bool sibling = false;      ///< the error is another of an exception group
};

/// Output of one rank, or of nobody by name.
struct Printer {
  std::optional<Event> error;  ///< the last error that counts
  std::optional<Event> weak;   ///< the strongest line that a program may survive, but did not
  Trace trace{};
  Announcement next{};
  std::string_view tried{};   ///< first frame of the last error's traceback, above its handler
  std::string_view above{};   ///< last line
  bool logged = false;        ///< a logger printed the last error
  bool traced = false;        ///< a traceback stood above it
  std::size_t behind = 0;     ///< bytes of train steps behind it
  std::string_view prefix{};  ///< logger's prefix before each line of the traceback
  bool reason = false;        ///< reason of the last error follows below it
  bool below = false;         ///< the next line stands right below it
};

class LogReading {
 public:
  explicit LogReading(std::span<const Cause> own) : own_(own) {}
  void take(std::string_view line);
  [[nodiscard]] std::optional<Event> verdict() const;

 private:
  [[nodiscard]] bool is_known(const Printer& printer, std::string_view text) const;
  void take_frame(Printer& printer, std::string_view line) const;
  void take_error(Printer& printer, const SpokenLine& said);
  bool take_reason(Printer& printer, std::string_view line, bool below) const;
  [[nodiscard]] const Cause* cause_beyond_figures(std::string_view line) const;
  void take_line(Printer& printer, const SpokenLine& said);
  void keep(Printer& printer, Event event) {
    event.own = is_own(event.cause);
    event.at = lines_;
    // Weak events may have been survived, unless the scheduler says them.
    const bool weak =
        event.cause->weight >= Strength::late && event.cause->whose != Whose::scheduler;
    std::optional<Event>& best = weak ? printer.weak : best_line_;
    // A hint says nothing by itself: the last one is nearest to the end. One that follows another
    // within some lines only goes on with what that one has told.
    constexpr std::size_t some = 30;
    const bool last = event.hint() && !(best && best->hint() && event.at <= best->at + some);
    if (!best || (last ? !stronger(*best, event) : stronger(event, *best))) best = event;
  }
  void set_aside(Event error, bool thread) {
    error.exception = thread;
    if (!aside_ || thread > aside_->exception) aside_ = error;
  }
  [[nodiscard]] const Cause* cause_for(std::string_view line, LinePlace place) const {
    const Cause* own = own_.find(line, place);
    return own != nullptr ? own : built_in_causes().find(line, place);
  }
  /// Cause of a line, or if it tells no more, of the signal by which it says that a process ended,
  /// or of its level.
  [[nodiscard]] const Cause* cause_or_ending(const Cause* cause, std::string_view line) const {
    if (cause != nullptr && cause->weight != Strength::symptom && cause->weight != Strength::hint)
      return cause;
    const auto told = ending_signal_in(line);
    const Cause* other =
        told ? cause_for(fmt::format("ended by signal {}", told->signal), LinePlace::line) : cause;
    if (cause == nullptr && other == nullptr && is_error_of_glog(line) && !tells_of_step(line))
      other = built_in_causes().find("logged as an error", LinePlace::line);
    return other != nullptr ? other : cause;
  }
  [[nodiscard]] bool is_own(const Cause* cause) const {
    const auto own = own_.all();
    return std::any_of(own.begin(), own.end(), [cause](const Cause& one) { return &one == cause; });
  }
  /// The user's go before the built-in ones, each in their order.
  [[nodiscard]] std::pair<bool, const Cause*> order_of(const Cause* cause) const {
    return {!is_own(cause), cause};
  }
  /// The launcher's word decides between ranks, then what tells something, then the order of the
  /// causes, then the rank.
  [[nodiscard]] bool stronger(const Event& one, const Event& other) const {
    const auto key = [this](const Event& event) {
      return std::tuple(event.tier(), event.by < 0 || event.by != root_, event.headline(),
          order_of(event.cause), event.by);
    };
    return key(one) < key(other);
  }

  CauseIndex own_;
  std::map<int, Printer> printers_;
  std::optional<Event> best_line_;  ///< strongest line of those that nobody survives
  std::optional<Event> aside_;      ///< error that need not have ended the program, preferably an
                                    ///< exception in a thread
  std::set<std::string> accused_;   ///< nodes that srun names as failed
  std::size_t lines_ = 0;
  bool trained_ = false;
  bool long_bar_ = false;
  bool others_ = false;  ///< torchrun's table: it tells of ranks that failed after its root cause
  bool root_next_ = false;  ///< torchrun's table: its root cause stands below
  int root_ = -1;
};

/// The prefix before "Traceback" stands before its other lines, too, but for the time. Before those
/// of an exception group it is "  | ".
std::string_view without_prefix(const Printer& printer, std::string_view text) {
  const std::size_t length = printer.prefix.size();
  constexpr std::size_t end = 2;
  const bool has = length >= end && text.size() > length &&
      (printer.trace.open ? text.substr(length - end, end) == printer.prefix.substr(length - end)
                          : text.starts_with(printer.prefix));
  return has ? text.substr(length) : text;
}

/// "/lib/python3.7/x.pxi in check()", "File ~/x.py:7, in f(a)": a frame as IPython prints it.
bool is_notebook_frame(std::string_view text) {
  if (begins(text, "File ")) return text.find(", in ") != npos;
  return (begins(text, "/") || begins(text, "<ipython-")) && text.find(" in ") != npos &&
      (text.ends_with(')') || text.ends_with('>'));
}

/// IPython prints classes without their module, and programs "Error: …" without a traceback: those
/// that a cause knows are errors.
bool LogReading::is_known(const Printer& printer, std::string_view text) const {
  const bool bare = begins(text, "Error: ");
  const bool is_class = printer.trace.open && text.front() >= 'A' && text.front() <= 'Z' &&
      text.find(' ') == text.find(": ") + 1;
  const Cause* cause = bare || is_class ? cause_for(text, LinePlace::exception) : nullptr;
  return cause != nullptr &&
      (bare ? cause->weight < Strength::hint : cause->where == LinePlace::error_class);
}

void LogReading::take_frame(Printer& printer, std::string_view line) const {
  Trace& trace = printer.trace;
  if (!line.starts_with("   ")) {
    trace.last = line;
    trace.source = {};
    if (trace.first.empty()) trace.first = line;
  } else if (trace.source.empty()) {
    trace.source = line.substr(line.find_first_not_of(' '));
  }
  trace.open = true;
  const Cause* cause = cause_for(line, LinePlace::frame);
  if (cause == nullptr) return;
  // The weight of one of a loop tells whether a forward pass has ended by then.
  if (cause->where == LinePlace::loop)
    trace.reached =
        std::max(trace.reached, cause->weight == Strength::fact ? Stage::update : Stage::step);
  else if (cause->weight == Strength::never)
    trace.cleans = true;
  else if (cause->when != When::network &&
      (trace.stage == nullptr || order_of(cause) < order_of(trace.stage)))
    trace.stage = cause;
}

void LogReading::take_error(Printer& printer, const SpokenLine& said) {
  Event error{cause_or_ending(cause_for(said.text, LinePlace::exception), said.text), said.text,
      true, said.by, printer.trace.last.empty() ? Stage::unknown : printer.trace.reached};
  const Cause* last = cause_for(printer.trace.last, LinePlace::frame);
  // A hint says that something has failed, which any error says.
  if (error.cause != nullptr && error.cause->weight == Strength::hint) error.cause = nullptr;
  if (error.cause == nullptr) {
    error.cause = printer.trace.stage;
  } else if (last != nullptr && last->when == When::network) {
    // The file tells whose connection it was. A rendezvous that runs out of memory got garbage for
    // a length.
    const Outcome told = error.cause->outcome;
    const bool garbage = told == Outcome::oom && last->outcome == Outcome::comm_error;
    if (garbage || (told == Outcome::comm_error && last->outcome != told)) error.cause = last;
  }
  error.own = is_own(error.cause);
  const bool counts = error.cause == nullptr || error.cause->weight != Strength::never;
  const auto [chained, direct, aside, sibling] = std::exchange(printer.next, {});
  const Trace trace = std::exchange(printer.trace, {});
  const std::string_view tried = std::exchange(printer.tried, trace.first);
  printer.reason = false;
  if (!aside.empty() || !counts) {
    const bool thread = aside.starts_with("Exception in thread");
    if (counts && (error.cause != nullptr || thread)) set_aside(error, thread);
    return;
  }
  if (printer.error) {
    // Errors raised on the way out explain nothing that the first one has told.
    const Cause* first = printer.error->cause;
    const bool general = error.cause == nullptr || error.cause->weight == Strength::late ||
        error.cause->when == When::set_up;
    const bool told = first != nullptr && general && !printer.error->symptom() &&
        (error.cause == nullptr || first->weight == Strength::cause);
    // The handler tried another way if the program can't do the first one, unless it only raises.
    const std::size_t name = trace.last.find(", in ");
    const bool raises = trace.source.starts_with("raise ") && name != npos &&
        tried.ends_with(trace.last.substr(name));
    const bool again = !direct && !trace.source.empty() && !raises &&
        (first == nullptr || first->outcome == Outcome::rejected ||
            first->outcome == Outcome::crashed);
    const bool explains = chained &&
        ((trace.cleans && !direct) || (!again && (told || (direct && error.cause == nullptr))));
    const auto weakness = [](const Cause* cause) {
      // A launcher that tells of a signal only follows.
      if (cause != nullptr && cause->weight == Strength::end) return Strength::symptom;
      return cause == nullptr ? Strength::late : std::max(cause->weight, Strength::late);
    };
    const bool note = printer.traced && !trace.open &&
        (error.cause == nullptr || error.cause->where != LinePlace::exception);
    if (explains || note || weakness(error.cause) > weakness(first) ||
        (sibling && !stronger(error, *printer.error)))
      return;
  }
  printer.error = error;
  printer.logged = trace.logged;
  printer.traced = trace.open;
  printer.behind = 0;
  printer.reason = error.line.ends_with(':') && !error.symptom();
  printer.below = printer.reason && error.line.find(' ') == npos;
}

/// An error that ends with a colon, as NCCL's "Last error:" does, is told by a line below it: by
/// the first that has a cause of no less weight, or right below it by one that is indented, or is
/// words without another cause.
bool LogReading::take_reason(Printer& printer, std::string_view line, bool below) const {
  if (!printer.reason || !printer.error || is_warning(line)) return false;
  const Cause* cause = cause_for(line, LinePlace::exception);
  const Cause* known = printer.error->cause;
  const bool tells = cause != nullptr && cause->where != LinePlace::progress &&
      cause->weight <= (known == nullptr ? Strength::symptom : known->weight);
  // A program that speaks names itself first, as in "srun: error: …".
  const auto is_words = [&] {
    const Cause* other = cause_for(line, LinePlace::line);
    return is_letter(line.front()) &&
        (other == nullptr || (other->weight == Strength::hint && line.find(':') > line.find(' ')));
  };
  if (!tells && !(below && (line.starts_with("  ") || is_words()))) return false;
  if (tells) printer.error->cause = cause;
  printer.error->line = line.substr(line.find_first_not_of(' '));
  printer.reason = line.ends_with(':');
  return true;
}

/// Words of failure in a train step's line may be names of figures. Others of it tell of one.
const Cause* LogReading::cause_beyond_figures(std::string_view line) const {
  const Cause* cause = cause_for(line, LinePlace::line);
  const bool word = cause != nullptr && cause->weight == Strength::hint &&
      cause->name.starts_with("word-") && !is_own(cause);
  const bool step =
      word && (tells_of_step(line) || (line.find("tep ") != npos && line.find(" | ") != npos));
  return !step || is_error(line) || !told_exception(line).empty()
      ? cause
      : cause_for(without_figures(line), LinePlace::line);
}

void LogReading::take_line(Printer& printer, const SpokenLine& said) {
  const Cause* cause = cause_or_ending(cause_beyond_figures(said.text), said.text);
  const bool tells_nothing = cause == nullptr || cause->weight == Strength::never;
  bool goes_on = !tells_nothing && cause->where == LinePlace::progress;
  if (tells_nothing) {
    // Stop looking for train steps once one was seen, unless a later one may show that an error was
    // survived.
    const bool step = (!trained_ || printer.weak || printer.error) && tells_of_step(said.text);
    const bool bar = (!long_bar_ || printer.weak) && is_long_bar(said.text);
    trained_ = trained_ || step;
    long_bar_ = long_bar_ || bar;
    goes_on = step || bar;
  } else if (!goes_on && cause->weight >= Strength::late) {
    const Cause* told = cause_for(told_exception(said.text), LinePlace::exception);
    if (told != nullptr && told->when == When::always && told->weight != Strength::end &&
        told->weight <= cause->weight)
      cause = told;
  }
  if (goes_on) {
    printer.weak.reset();
    // An error that a logger printed was survived if two steps follow, since one may be another
    // rank's, or if training ends. Another error was survived if more follows than pipes hold
    // back: Python keeps 8 KiB for each, and prints errors at once. Twice that is sure.
    constexpr std::size_t held_back = 16384;
    const bool over = !tells_nothing && cause->weight == Strength::hint;
    printer.behind += printer.logged ? held_back / 2 + 1 : said.text.size();
    if (printer.error && ((over && printer.logged) || printer.behind > held_back)) {
      set_aside(*std::exchange(printer.error, {}), false);
      printer.logged = false;
    }
    if (over && aside_ && aside_->by == said.by && !aside_->exception) aside_.reset();
  }
  if (tells_nothing) return;
  const bool accuses = cause->outcome == Outcome::node_failure && cause->weight == Strength::fact;
  if (accuses) accused_.insert(node_accused_in(said.text));
  if (cause->where == LinePlace::progress) {
    trained_ = trained_ || cause->weight < Strength::hint;
  } else if (cause->weight == Strength::fact || cause->where == LinePlace::warning ||
      !(is_warning(said.text) ||
          ((cause->weight == Strength::hint || cause->weight == Strength::end) &&
              is_information(said.text)))) {
    keep(printer, {cause, said.text, false, said.by});
  }
}

void LogReading::take(std::string_view line) {
  ++lines_;
  line = line.substr(0, looked_at);
  line = line.substr(0, line.find_last_not_of(" \r") + 1);
  if (const Cause* own = own_.find(line, LinePlace::line);
      own != nullptr && own->where == LinePlace::line && own->weight <= Strength::cause)
    keep(printers_[-1], {own, line});
  SpokenLine said = said_in(line);
  if (said.text.starts_with("[rank")) said = said_in(said.text);  // label of torchrun and of torch
  if (said.text.empty()) return;
  // Marks before a line that a mail or thread quotes.
  if (said.text.front() == '>') said.text.remove_prefix(begins(said.text, "> ") ? 2 : 1);
  if (said.text.starts_with("```")) said.text.remove_prefix(3);
  if (said.text.empty()) return;
  Printer& printer = printers_[said.by];
  constexpr std::size_t longest_prefix = 120;
  const std::size_t file = said.text.substr(0, longest_prefix).find("File \"");
  if (file != npos && file > 2 && said.text.substr(file - 2, 2) == "  ") {
    printer.prefix = said.text.substr(0, file - 2);
    printer.trace.open = true;
  }
  said.text = without_prefix(printer, said.text);
  const std::string_view above = std::exchange(printer.above, said.text);
  const bool below = std::exchange(printer.below, false);
  if (said.text == "Last error:") {
    printer.reason = true;
  } else if (const auto at = said.text.find("Traceback (most recent call last)"); at != npos) {
    printer.trace = {.open = true,
        .logged = at == 0 &&
            (printer.next.chained ? printer.logged : (is_error(above) || is_warning(above)))};
    printer.reason = false;
    printer.prefix = said.text.substr(0, at);
  } else if (begins(said.text, "  File \"") || begins(said.text, "    raise ") ||
      (printer.trace.open && begins(said.text, "    ")) || is_notebook_frame(said.text)) {
    take_frame(printer, said.text);
  } else if (const bool direct = begins(said.text, "The above exception was the direct cause");
             direct || begins(said.text, "During handling of the above exception")) {
    printer.next.chained = true;
    printer.next.direct = direct;
  } else if (begins(said.text, " ") &&
      said.text.substr(said.text.find_first_not_of(' ')).starts_with("+---------------- ")) {
    printer.next.sibling = true;  // another error of an exception group stands below
  } else if (begins(said.text, "Exception ignored in") ||
      (begins(said.text, "Exception in ") && !begins(said.text, "Exception in device="))) {
    printer.next.aside = said.text;
  } else if (begins(said.text, "Failures:")) {
    others_ = true;
  } else if (begins(said.text, "Root Cause (first observed failure)")) {
    others_ = false;
    root_next_ = true;
  } else if (root_next_ && begins(said.text, "  rank ")) {
    root_ = number_at(said.text.substr(std::min(said.text.find(':') + 2, said.text.size())));
    root_next_ = false;
  } else if (take_reason(printer, said.text, below)) {
    return;
  } else if (is_exception(said.text, printer.trace.open) || is_known(printer, said.text)) {
    take_error(printer, said);
  } else if (!(others_ &&
                 (begins(said.text, "  exitcode ") || begins(said.text, "  traceback ")))) {
    take_line(printer, said);
  }
}

std::optional<Event> LogReading::verdict() const {
  constexpr std::size_t reach = 200;  // lines, within which words alone may be a cause of the end
  std::optional<Event> best = best_line_;
  std::set<const Cause*> refusals;
  for (const auto& [by, printer] : printers_) {
    const bool near = printer.weak && (!printer.weak->hint() || printer.weak->at + reach > lines_);
    if (near && (!best || stronger(*printer.weak, *best))) best = printer.weak;
    if (!printer.error) continue;
    if (!printer.error->symptom()) refusals.insert(printer.error->cause);
    if (!best || stronger(*printer.error, *best)) best = printer.error;
  }
  if (!best) best = aside_;
  if (!best) return {};
  // A thread's death may be all that the main program reports.
  if (best->exception && best->symptom() && aside_ && aside_->exception &&
      (aside_->cause == nullptr || aside_->cause->when != When::network))
    best = aside_;
  // srun may name several nodes, and any or none of them may be sick: then no node is blamed.
  if (accused_.size() - accused_.count("") > 1 && best->cause != nullptr &&
      best->cause->outcome == Outcome::node_failure && !node_accused_in(best->line).empty())
    best->cause = built_in_causes().find("srun lost several nodes", LinePlace::line);
  // A refusal is the same at all ranks, before anything was trained.
  const When when = best->cause == nullptr ? When::always : best->cause->when;
  const bool refuses = when == When::untrained || when == When::set_up;
  // A refusal within a train step has words: "AssertionError: 3 on 2", "ValueError('odd')".
  const Stage late = best->line.find_first_of(" '\"") == npos ? Stage::step : Stage::update;
  const bool early = when == When::set_up ? best->stage == Stage::set_up : best->stage < late;
  // A bar may be of the data. One with an error of a train step behind it is of train steps.
  const bool trained = trained_ || (long_bar_ && best->stage == Stage::step);
  if (refuses && (trained || refusals.size() > 1 || !early)) best->cause = nullptr;
  if (trained && best->stage < Stage::step) best->stage = Stage::step;
  return best;
}

/// The line, from its beginning if what the cause looks for is within reach of a quote. What ends
/// further behind is told by its beginning and its end, as is an error that ends with the reason of
/// one that it wraps.
std::string quote_of(const Event& event) {
  constexpr std::size_t half = longest_quote / 2;
  constexpr std::size_t around = half / 2;
  constexpr std::size_t mark = 5;  // " …" and a blank
  const std::string_view line = event.line;
  if (event.cause == nullptr || line.size() <= longest_quote) return one_line(line, longest_quote);
  const auto told = ending_signal_in(line);
  const Match found =
      match_in(line, event.cause->pattern).value_or(told ? told->where : Match{0, 0});
  // Text from the beginning of a word near by.
  const auto from_word = [line](std::size_t at, std::size_t before) {
    return line.substr(std::min(line.find(' ', at - std::min(at, before)) + 1, at));
  };
  if (found.begin > half)
    return "… " +
        one_line(from_word(std::max(found.begin + longest_quote, found.end + half) - longest_quote,
                     around),
            longest_quote - 4);
  const std::size_t behind = found.end + around;
  const std::size_t last = line.rfind(": ");
  const bool reason = last != npos && last >= half && last + half >= line.size();
  if (behind <= longest_quote && !reason) return one_line(line, longest_quote);
  const std::size_t head = behind > longest_quote ? half : std::max(half, found.end + mark);
  const std::size_t tail = longest_quote - head;
  const std::size_t end = behind > longest_quote ? std::min(behind, line.size()) : line.size();
  return one_line(line, head - 1) + " " +
      one_line(from_word(end - tail + around / 2, around / 2), tail);
}

LogFinding finding_of(const Event& event) {
  constexpr std::array<std::string_view, 3> unknown{"an unknown error",
      "an unknown error before the first train step", "an unknown error while it trained"};
  const Cause* cause = event.cause;
  if (cause == nullptr)
    return {.rule{},
        .strength = Strength::late,
        .line = quote_of(event),
        .whose = Whose::program,
        .unknown = unknown.at(static_cast<std::size_t>(std::min(event.stage, Stage::step)))};
  const auto pieces = cause->outcome == Outcome::oom ? fragmentation_in(event.line) : std::nullopt;
  return {cause->name, cause->outcome, cause->weight, quote_of(event),
      event.own && event.tier() < 0, pieces.value_or(""), cause->whose, cause->remedy};
}

}  // namespace

std::string node_accused_in(std::string_view line) {
  for (const std::string_view before : {" failed on node ", "Node failure on "}) {
    const std::size_t at = line.find(before);
    if (at == npos) continue;
    const std::string_view rest = line.substr(at + before.size());
    return only_node_in(rest.substr(0, rest.find_first_of(": ")));
  }
  return "";
}

std::optional<LogFinding> find_cause(std::string_view text, std::span<const Cause> own) {
  std::string plain;
  if (text.find('\x1b') != npos) text = plain = without_escapes(text);
  LogReading reading(own);
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
  // A pattern of several lines has a sample for each, on a line or, if one is longer, in a
  // paragraph.
  const bool several = cause.pattern.find('\n') != std::string::npos;
  const std::string_view end = cause.sample.find("\n\n") == std::string::npos ? "\n" : "\n\n";
  bool right = true;
  for (std::string_view rest = cause.sample; !rest.empty();) {
    const std::string_view sample = rest.substr(0, several ? rest.find(end) : npos);
    rest.remove_prefix(std::min(sample.size() + end.size(), rest.size()));
    const auto finding = find_cause(sample, {&cause, 1});
    // A frame within a train step is no refusal: refusals come before training.
    right &= cause.where == LinePlace::progress || cause.weight == Strength::never
        ? !finding
        : finding && finding->rule == (cause.where == LinePlace::loop ? "" : cause.name);
  }
  return right;
}

}  // namespace shardsweep
