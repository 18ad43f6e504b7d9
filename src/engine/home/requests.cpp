// SPDX-License-Identifier: Apache-2.0
// Requests and answers as JSON files.
#include "machine/host_name.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t longest_request = 1 << 20;

/// Names sort by time, then by who asked: `0001795…-host-pid-n`.
std::string next_id(Timestamp now) {
  static int count = 0;
  std::string safe_host;
  for (const char c : host_name()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        c == '-' || c == '.';
    safe_host += plain ? c : '_';
  }
  return fmt::format("{:020}-{}-{}-{}", now, safe_host, ::getpid(), ++count);
}

/// An id becomes part of a path, and a request that is still being written has a name that only
/// begins with one: nothing but what next_id() makes, which ends in its count.
bool is_id(const std::string& id) {
  constexpr std::string_view digits = "0123456789";
  const std::size_t dash = id.rfind('-');
  return dash != std::string::npos && dash + 1 < id.size() &&
      id.find_first_not_of(digits, dash + 1) == std::string::npos &&
      digits.find(id.front()) != std::string_view::npos &&
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
      std::string::npos;
}

Json to_json(const Request& request) {
  return Json{{"verb", word_of(request.verb)}, {"names", request.names}, {"where", request.where},
      {"inbox", request.inbox}, {"from", request.from}, {"all", request.all},
      {"cancelled", request.cancelled}};
}

// Keys for single verbs: earlier versions do not know them.

void put(Json& json, const HandOut& asked) {
  json["hand_out"] = {{"points", asked.points}, {"lease_s", asked.lease_s},
      {"worker", asked.worker}, {"trial", asked.trial}};
}

void put(Json& json, const OutsideResult& result) {
  json["result"] = {{"outcome", word_of(result.outcome)}, {"tokens_per_s", result.tokens_per_s},
      {"step_ms", result.step_ms}, {"peak_memory_bytes", result.peak_memory_bytes},
      {"steps", result.steps}, {"evidence", result.evidence}};
}

Json whole(const Request& request) {
  Json json = to_json(request);
  if (request.verb == Verb::next) put(json, request.hand_out);
  if (request.verb == Verb::record) put(json, request.result);
  return json;
}

HandOut hand_out_from(const Json& json) {
  return {json.at("points").get<std::int64_t>(), json.at("lease_s").get<double>(),
      json.at("worker").get<std::string>(), json.at("trial").get<std::string>()};
}

Result<OutsideResult> result_from(const Json& json) {
  const auto outcome = from_word<Outcome>(json.at("outcome").get<std::string>());
  if (!outcome) return fault(FaultKind::invalid_input, "unknown outcome");
  return OutsideResult{.outcome = *outcome,
      .tokens_per_s = json.at("tokens_per_s").get<double>(),
      .step_ms = json.at("step_ms").get<double>(),
      .peak_memory_bytes = json.at("peak_memory_bytes").get<double>(),
      .steps = json.at("steps").get<std::int64_t>(),
      .evidence = json.at("evidence").get<std::string>()};
}

Result<Request> request_from(const std::string& id, const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Request request;
    request.id = id;
    const auto word = json.at("verb").get<std::string>();
    const auto verb = from_word<Verb>(word);
    if (!verb) {
      return fault(FaultKind::invalid_input, "unknown verb {}", in_quotes(word));
    }
    request.verb = *verb;
    request.names = json.at("names").get<std::vector<std::string>>();
    request.where = json.at("where").get<std::string>();
    request.inbox = json.at("inbox").get<std::string>();
    request.from = json.at("from").get<std::string>();
    request.all = json.value("all", false);
    request.cancelled = json.value("cancelled", false);
    if (request.verb == Verb::next) request.hand_out = hand_out_from(json.at("hand_out"));
    if (request.verb == Verb::record) {
      SHARDSWEEP_ASSIGN(request.result, result_from(json.at("result")));
    }
    return request;
  } catch (const Json::exception& error) {
    return fault(
        FaultKind::invalid_input, fmt::format("not a request: {}", one_line(error.what(), 200)));
  }
}

Json to_json(const Answer& answer) {
  Json json{{"text", answer.text}, {"counts", answer.counts}};
  if (!answer.document.empty()) json["document"] = answer.document;
  if (answer.fault) {
    json["fault"] = {{"kind", word_of(answer.fault->kind)}, {"what", answer.fault->what}};
  }
  return json;
}

/// Earlier versions wrote the number of the enumeration.
std::optional<FaultKind> kind_from(const Json& json) {
  if (json.is_string()) return from_word<FaultKind>(json.get<std::string>());
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto number = json.get<std::uint64_t>();
  if (number >= word_table<FaultKind>.size()) return std::nullopt;
  return static_cast<FaultKind>(number);
}

std::string dump(const Json& json) {
  // Names and expressions come from a command line and may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `error`: of the disk, as a test asks for it; 0: none.
Result<void> write_where_possible(int error, const fs::path& file, const std::string& text) {
  if (error == 0) return write_own_file(file, text);
  return fault(FaultKind::unavailable, "cannot write {}: {}", file.string(), std::strerror(error));
}

void remove_quietly(const fs::path& file) {
  std::error_code ignored;
  fs::remove(file, ignored);
}

}  // namespace

std::string encode(const Answer& answer) {
  return dump(to_json(answer));
}

std::string encode(const HandedOutPoints& all) {
  Json points = Json::array();
  for (const HandedOut& one : all.points)
    points.push_back(
        {{"id", one.id}, {"trial", one.trial}, {"lease_until", utc_text(one.lease_until)},
            {"values", one.values}, {"start", one.per_node ? "node" : "rank"}, {"world", one.world},
            {"nodes", one.nodes}, {"ranks_per_node", one.ranks_per_node}, {"dir", one.dir},
            {"cwd", one.folder}, {"argv", one.argv}, {"env", one.env}, {"secrets", one.secrets},
            {"files", one.files}, {"image", one.image}});
  return Json{{"sweep", all.sweep}, {"state", all.state}, {"waiting", all.waiting},
             {"out", all.out}, {"points", std::move(points)}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
      "\n";
}

Result<Answer> decode_answer(const std::string& id, const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Answer answer;
    answer.id = id;
    answer.text = json.at("text").get<std::string>();
    answer.counts = json.at("counts").get<std::map<std::string, std::int64_t>>();
    answer.document = json.value("document", "");
    if (json.contains("fault")) {
      const auto kind = kind_from(json.at("fault").at("kind"));
      if (!kind) return fault(FaultKind::corrupt, "answer with an unknown kind of fault");
      answer.fault = Fault{*kind, json.at("fault").at("what").get<std::string>()};
    }
    return answer;
  } catch (const Json::exception& error) {
    return fault(FaultKind::corrupt, "not an answer: {}", one_line(error.what(), 200));
  }
}

Result<std::string> post_request(const Home& home, Request request, Timestamp now) {
  request.id = next_id(now);
  SHARDSWEEP_TRY(write_where_possible(
      fail_point_error("request.write"), home.requests() / request.id, dump(whole(request))));
  fail_point("request.written");
  return request.id;
}

void remove_inbox(const fs::path& inbox) {
  std::error_code ignored;
  if (inbox.extension() == inboxes_ending && fs::is_directory(fs::symlink_status(inbox, ignored))) {
    std::vector<fs::path> files;
    for (fs::directory_iterator entry(inbox, ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
      if (entry->path().extension() == ".db") files.push_back(entry->path());
    }
    for (const auto& file : files)
      fs::remove(file, ignored);
  }
  fs::remove(inbox, ignored);
}

Result<std::vector<PendingRequest>> pending_requests(const Home& home) {
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator entry(home.requests(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string id = entry->path().filename().string();
    if (is_id(id)) ids.push_back(id);
  }
  if (error) {
    return fault(
        FaultKind::unavailable, "cannot list '{}': {}", home.requests().string(), error.message());
  }
  std::sort(ids.begin(), ids.end());
  std::vector<PendingRequest> pending;
  for (const std::string& id : ids) {
    const auto text = read_own_file(home.requests() / id, longest_request);
    if (text) {
      pending.push_back({id, request_from(id, *text)});
    } else if (text.error().kind == FaultKind::rejected) {
      // Another user's request would be obeyed with this user's rights.
      pending.push_back({id, fault(FaultKind::invalid_input, text.error().what)});
    }
    // Skip it: withdrawn meanwhile, or not visible yet. The next look tells.
  }
  return pending;
}

Result<void> answer_request(const Home& home, const Answer& answer) {
  SHARDSWEEP_TRY(write_where_possible(
      fail_point_error("request.answer"), home.answers() / answer.id, encode(answer)));
  fail_point("request.answered");
  remove_quietly(home.requests() / answer.id);
  return {};
}

Result<std::optional<Answer>> take_answer(const Home& home, const std::string& id) {
  const fs::path file = home.answers() / id;
  if (!is_there(file)) return std::nullopt;
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(file, longest_request));
  SHARDSWEEP_ASSIGN(Answer answer, decode_answer(id, text));
  fail_point("request.taken");
  remove_quietly(file);
  return answer;
}

Result<void> withdraw_request(const Home& home, const std::string& id) {
  remove_quietly(home.requests() / id);
  remove_quietly(home.answers() / id);
  return {};
}

}  // namespace shardsweep
