// SPDX-License-Identifier: Apache-2.0
// Written is what the version asks for; read is every shape of every version, by the shape
// alone: sites patch and upgrade slurmrestd under a running sweep. What is missing or has
// another type counts as not said; an answer that is no object, and a job without id or state,
// are faults, since nothing can be concluded from the rest.
#include "slurm/rest_json.hpp"

#include "slurm/words/submission.hpp"
#include "slurm/words/survey.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

namespace shardsweep::slurm {
namespace {

using Json = nlohmann::json;

constexpr int oldest_version = 38;
constexpr int newest_version = 45;
constexpr int structured_since = 40;       // {set, infinite, number}; states as lists
constexpr int lists_since = 39;            // environment as a list
constexpr std::size_t said_at_most = 400;  // bytes of slurmrestd's words in a message

Result<Json> parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fault(FaultKind::unavailable, "slurmrestd's answer is not a JSON object: '{}'",
        one_line(text, 100));
  }
  return json;
}

/// 0 for what is no number, or none that a double holds exactly.
std::int64_t whole_number(const Json& value) {
  constexpr double most = 9007199254740992;  // 2^53
  if (!value.is_number()) return 0;
  const auto number = value.get<double>();
  return std::abs(number) <= most ? static_cast<std::int64_t>(number) : 0;
}

/// 7 or {"set": true, "infinite": false, "number": 7}
std::int64_t number_of(const Json& value) {
  if (value.is_number()) return whole_number(value);
  if (!value.is_object()) return 0;
  const auto set = value.find("set");
  if (set == value.end() || !set->is_boolean() || !set->get<bool>()) return 0;
  const auto number = value.find("number");
  return number != value.end() ? whole_number(*number) : 0;
}

std::string text_at(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

/// "RUNNING", or ["RUNNING", "COMPLETING"]: a flag takes the base state's place, as in squeue.
std::string state_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array() || value.empty()) return "";
  for (const Json& word : value) {
    if (word == "COMPLETING") return "COMPLETING";
  }
  return value.back().is_string() ? value.back().get<std::string>() : "";
}

bool wanted(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// sbatch's long option and its name in a job description.
struct OptionName {
  std::string_view option;
  const char* key;
  enum class Kind : std::uint8_t { text, number, minutes, yes } kind = Kind::text;
};
constexpr std::array<OptionName, 22> option_names{{
    {"account", "account"},
    {"begin", "begin_time"},
    {"comment", "comment"},
    {"constraint", "constraints"},
    {"cpus-per-gpu", "cpus_per_gpu"},
    {"cpus-per-task", "cpus_per_task", OptionName::Kind::number},
    {"deadline", "deadline"},
    {"dependency", "dependency"},
    {"gpus", "gpus"},
    {"gpus-per-node", "gpus_per_node"},
    {"gpus-per-task", "gpus_per_task"},
    {"gres", "gres"},
    {"licenses", "licenses"},
    {"mem", "memory_per_node", OptionName::Kind::number},
    {"mem-per-cpu", "memory_per_cpu", OptionName::Kind::number},
    {"nice", "nice", OptionName::Kind::number},
    {"ntasks-per-node", "tasks_per_node", OptionName::Kind::number},
    {"open-mode", "open_mode"},
    {"output", "standard_output"},
    {"partition", "partition"},
    {"qos", "qos"},
    {"reservation", "reservation"},
}};

Json number_value(std::int64_t number, const RestApi& api) {
  if (api.version < structured_since) return number;
  return {{"set", true}, {"infinite", false}, {"number", number}};
}

/// "90", "30:00", "4:00:00", "1-12", "1-12:30", "1-12:30:00": minutes, rounded up.
std::optional<std::int64_t> minutes_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  std::int64_t days = 0;
  if (dash != std::string_view::npos) {
    const auto number = number_from<std::int64_t>(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (std::size_t at = 0;;) {
    const std::size_t colon = text.find(':', at);
    const auto number = number_from<std::int64_t>(text.substr(at, colon - at));
    if (!number) return std::nullopt;
    parts.push_back(*number);
    if (colon == std::string_view::npos) break;
    at = colon + 1;
  }
  parts.resize(std::max<std::size_t>(parts.size(), dash != std::string_view::npos ? 3 : 1));
  if (parts.size() > 3) return std::nullopt;
  std::int64_t seconds = 0;
  if (dash != std::string_view::npos || parts.size() == 3) {
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2];
  } else {
    seconds = parts[0] * 60 + (parts.size() == 2 ? parts[1] : 0);
  }
  return days * 1440 + (seconds + 59) / 60;
}

tl::unexpected<Fault> untranslatable(std::string_view line) {
  return fault(FaultKind::rejected,
      "'#SBATCH {}' has no translation for slurmrestd: leave it out, or use Slurm's command line "
      "(backend: slurm without slurmrestd)",
      line);
}

/// Names of generic resources, the only ones that work from lists_since on: slurmrestd ignores the
/// options' own names and starts the job without them.
struct TresName {
  std::string_view option;
  const char* key;
  std::string_view before;  ///< each item of the option's value
};
constexpr std::array<TresName, 5> tres_names{{
    {"cpus-per-gpu", "cpus_per_tres", "gres/gpu:"},
    {"gpus", "tres_per_job", "gres/gpu:"},
    {"gpus-per-node", "tres_per_node", "gres/gpu:"},
    {"gpus-per-task", "tres_per_task", "gres/gpu:"},
    {"gres", "tres_per_node", "gres/"},
}};

/// "gpu:2,shm:1" to "gres/gpu:2,gres/shm:1", after what another option has asked for.
void put_tres(const TresName& name, std::string_view value, Json& job) {
  std::string all = job.value(name.key, std::string());
  for (const std::string_view item : split(value, ',')) {
    if (!all.empty()) all += ',';
    all.append(name.before).append(item);
  }
  job[name.key] = std::move(all);
}

void put_flag(std::string_view option, const RestApi& api, Json& job) {
  const bool list = api.version >= structured_since;
  if (option == "exclusive") {
    if (list) {
      job["shared"] = Json::array({"none"});
    } else {
      job["exclusive"] = "exclusive";  // value that works, unlike "true" in its own document
    }
  } else if (option == "no-requeue") {
    job["requeue"] = false;
  } else if (option == "no-kill") {
    if (list) {
      job["kill_on_node_fail"] = false;
    } else {
      job["no_kill"] = "set";
    }
  }
}

/// "n1,n[3-4]" as a list: a comma within brackets parts nothing.
Json words_of(const std::string& value) {
  Json words = Json::array();
  std::string word;
  int depth = 0;
  for (const char c : value) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || depth > 0) {
      word += c;
      continue;
    }
    words.push_back(word);
    word.clear();
  }
  words.push_back(word);
  return words;
}

/// "2" or "2@30:00": at most so many switches, or others after so long.
Result<void> put_switches(
    std::string_view line, std::string_view value, const RestApi& api, Json& job) {
  constexpr std::int64_t minute = 60;
  const std::size_t mark = value.find('@');
  const auto switches = number_from<std::int64_t>(value.substr(0, mark));
  if (!switches) return untranslatable(line);
  job["required_switches"] = number_value(*switches, api);
  if (mark == std::string_view::npos) return {};
  const auto minutes = minutes_of(value.substr(mark + 1));
  if (!minutes) return untranslatable(line);
  job["wait_for_switch"] = *minutes * minute;
  return {};
}

Result<void> put_valued(std::string_view line, std::string_view option, const std::string& value,
    const RestApi& api, Json& job) {
  if (option == "job-name") return {};
  if (option == "nodes") {
    const auto nodes = number_from<std::int64_t>(value);
    if (!nodes) return untranslatable(line);
    // Send a text: Slurm 22.05 makes one node of the list [2, 2], which its document names.
    job["nodes"] = fmt::format("{0}-{0}", *nodes);
    return {};
  }
  if (option == "time") {
    const auto minutes = minutes_of(value);
    if (!minutes) return untranslatable(line);
    job["time_limit"] = number_value(*minutes, api);
    return {};
  }
  if (option == "exclude" || option == "nodelist") {
    job[option == "exclude" ? "excluded_nodes" : "required_nodes"] = words_of(value);
    return {};
  }
  if (option == "switches" && api.version >= structured_since)
    return put_switches(line, value, api, job);
  const auto tres = std::find_if(tres_names.begin(), tres_names.end(),
      [&](const TresName& name) { return name.option == option; });
  if (tres != tres_names.end() && api.version >= lists_since) {
    put_tres(*tres, value, job);
    return {};
  }
  const auto known = std::find_if(option_names.begin(), option_names.end(),
      [&](const OptionName& name) { return name.option == option; });
  if (known == option_names.end()) return untranslatable(line);
  if (known->kind == OptionName::Kind::text) {
    job[known->key] = value;
    return {};
  }
  const auto number = number_from<std::int64_t>(value);
  if (!number) return untranslatable(line);
  const bool structured = option == "mem" || option == "mem-per-cpu";
  job[known->key] = structured ? number_value(*number, api) : Json(*number);
  return {};
}

Result<void> put_directive(std::string_view line, const RestApi& api, Json& job) {
  constexpr std::array<std::string_view, 3> flags{"exclusive", "no-requeue", "no-kill"};
  if (line.substr(0, 2) != "--") return untranslatable(line);
  const std::size_t equals = line.find('=');
  const std::string_view option =
      line.substr(2, equals == std::string_view::npos ? std::string_view::npos : equals - 2);
  if (equals != std::string_view::npos) {
    std::string_view value = line.substr(equals + 1);
    // Quotes that keep blanks together are sbatch's.
    if (value.size() > 1 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return put_valued(line, option, std::string(value), api, job);
  }
  if (std::find(flags.begin(), flags.end(), option) == flags.end()) return untranslatable(line);
  put_flag(option, api, job);
  return {};
}

Result<void> put_directives(std::string_view script, const RestApi& api, Json& job) {
  constexpr std::string_view mark = "#SBATCH ";
  while (!script.empty()) {
    const std::size_t end = script.find('\n');
    const std::string_view line = script.substr(0, end);
    script.remove_prefix(end == std::string_view::npos ? script.size() : end + 1);
    if (line.substr(0, mark.size()) == mark)
      SHARDSWEEP_TRY(put_directive(line.substr(mark.size()), api, job));
  }
  return {};
}

Json environment_value(const std::vector<std::string>& environment, const RestApi& api) {
  if (api.version >= lists_since) return environment;
  Json map = Json::object();
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) map[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return map;
}

/// Words of slurmctld that has understood and said no; slurmrestd passes them on with HTTP 500.
bool says_no(std::string_view said) {
  constexpr std::array<std::string_view, 8> words{"nvalid", "not available", "denied", "violates",
      "not permitted", "Unable to process key", "not support", "dependency problem"};
  return std::any_of(words.begin(), words.end(),
      [&](std::string_view word) { return said.find(word) != std::string_view::npos; });
}

/// slurm_errno.h: slurmctld's own errors, and those of slurmrestd about a request.
bool is_refusal_number(std::int64_t number) {
  return (number >= 2000 && number < 3000) || (number >= 9000 && number < 9100);
}

bool is_refusal(const Json& json, std::string_view said) {
  if (says_no(said)) return true;
  const auto errors = json.find("errors");
  if (errors == json.end() || !errors->is_array()) return false;
  return std::any_of(errors->begin(), errors->end(), [](const Json& error) {
    if (!error.is_object()) return false;
    // Versions up to 22.05 use two names.
    return is_refusal_number(number_of(error.value("error_number", Json(0)))) ||
        is_refusal_number(number_of(error.value("error_code", Json(0))));
  });
}

/// "errors": [{"error": "…", "description": "…"}]
std::string errors_in(const Json& json) {
  std::string text;
  const auto errors = json.find("errors");
  if (errors == json.end() || !errors->is_array()) return text;
  for (const Json& error : *errors) {
    if (!error.is_object()) continue;
    for (const char* key : {"description", "error"}) {
      const std::string said = text_at(error, key);
      if (!said.empty()) text += (text.empty() ? "" : "; ") + said;
    }
  }
  return one_line(text, said_at_most);
}

std::optional<std::string> ignored_field(const Json& json) {
  const auto warnings = json.find("warnings");
  if (warnings == json.end() || !warnings->is_array()) return std::nullopt;
  for (const Json& warning : *warnings) {
    if (!warning.is_object()) continue;
    const std::string said = text_at(warning, "description");
    if (said.find("Ignoring unknown field") != std::string::npos)
      return one_line(said, said_at_most);
  }
  return std::nullopt;
}

Result<Json> list_in(std::string_view body, const char* key) {
  SHARDSWEEP_ASSIGN(Json json, parse(body));
  const auto list = json.find(key);
  if (list != json.end() && list->is_array()) return std::move(*list);
  return fault(FaultKind::unavailable, "slurmrestd's answer has no {}: {}", key, errors_in(json));
}

/// Reads nodes of a partition: a number of its own up to v0.0.39, then in a map.
std::int64_t nodes_of_partition(const Json& entry) {
  const auto nodes = entry.find("nodes");
  if (nodes != entry.end() && nodes->is_object()) return number_of(nodes->value("total", Json(0)));
  return number_of(entry.value("total_nodes", Json(0)));
}

bool is_default(const Json& entry) {
  for (const char* key : {"flags", "partition_flags"}) {
    const auto flags = entry.find(key);
    if (flags == entry.end() || !flags->is_array()) continue;
    for (const Json& flag : *flags) {
      if (flag == "default" || flag == "DEFAULT") return true;
    }
  }
  return false;
}

}  // namespace

std::string RestApi::path(std::string_view rest) const {
  return fmt::format("/slurm/v0.0.{}/{}", version, rest);
}
std::string RestApi::db_path(std::string_view rest) const {
  return fmt::format("/slurmdb/v0.0.{}/{}", version, rest);
}

Result<RestApi> choose_api(std::string_view openapi) {
  SHARDSWEEP_ASSIGN(const Json json, parse(openapi));
  const auto paths = json.find("paths");
  if (paths == json.end() || !paths->is_object())
    return fault(FaultKind::unavailable, "slurmrestd's OpenAPI document has no paths");
  for (int version = newest_version; version >= oldest_version; --version) {
    RestApi api{version, false};
    const bool jobs = paths->contains(api.path("jobs")) || paths->contains(api.path("jobs/"));
    const bool submit = paths->contains(api.path("job/submit"));
    if (!jobs || !submit) continue;
    api.accounting = paths->contains(api.db_path("jobs")) || paths->contains(api.db_path("jobs/"));
    return api;
  }
  return fault(FaultKind::rejected, "slurmrestd serves no version from v0.0.{} to v0.0.{}",
      oldest_version, newest_version);
}

namespace {

/// Slurm does not start what could not end by then. Older versions read text as sbatch does.
void put_deadline(const AllocationRequest& request, const RestApi& api, Timestamp now, Json& job) {
  if (request.deadline_in_s <= 0) return;
  if (api.version >= lists_since) {
    job["deadline"] = now / 1'000'000 + std::llround(request.deadline_in_s);
  } else {
    job["deadline"] = fmt::format("now+{:.0f}seconds", request.deadline_in_s);
  }
}

}  // namespace

Result<std::string> submission_body(const AllocationRequest& request, std::string_view script,
    const RestApi& api, const std::vector<std::string>& environment, Timestamp now) {
  Json job = Json::object();
  SHARDSWEEP_TRY(put_directives(script, api, job));
  job["name"] = request.job_name;
  job["current_working_directory"] = request.dir.string();
  job["environment"] = environment_value(environment, api);
  put_flag("no-requeue", api, job);
  put_flag("no-kill", api, job);
  if (request.strict) job["hold"] = true;
  put_deadline(request, api, now, job);
  return Json{{"script", script}, {"job", job}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string why_refused(long status, std::string_view body) {
  const auto json = parse(body);
  if (!json) return json.error().what;
  if (auto ignored = ignored_field(*json)) return *std::move(ignored);
  std::string said = errors_in(*json);
  if (status == 200 || !said.empty()) return said;
  return fmt::format("HTTP {}", status);
}

std::string submitted_job(std::string_view body) {
  const auto json = parse(body);
  if (!json) return "";
  const auto id = number_of(json->value("job_id", Json(0)));
  return id > 0 ? std::to_string(id) : "";
}

SchedulerEvent read_rest_submission(const std::string& token, long status, std::string_view body) {
  // The request was not judged: the sender is unknown or no longer known, or asks too often.
  const bool unheard = status == 401 || status == 403 || status == 429;
  const auto json = parse(body);
  if (!json && unheard) return SubmitDeferred{token, fmt::format("HTTP {}", status)};
  if (!json) return SubmitUnknown{token, json.error().what};
  const auto id = json->find("job_id");
  if (const auto ignored = ignored_field(*json)) {
    return SubmitRefused{token,
        fmt::format("slurmrestd does not know a field of the job and ignores it: {}", *ignored)};
  }
  if (id != json->end() && number_of(*id) > 0)
    return SubmitAccepted{token, std::to_string(number_of(*id))};
  const std::string said = errors_in(*json);
  const std::string whole = fmt::format("HTTP {}: {}", status, said);
  if (unheard) return SubmitDeferred{token, whole};
  if (auto known = read_failure(token, said)) return *std::move(known);
  const bool refused = status < 500 || is_refusal(*json, said);
  if (said.empty() || !refused) return SubmitUnknown{token, whole};
  return SubmitRefused{token, whole};
}

Result<std::vector<Job>> read_jobs(std::string_view body, const std::vector<std::string>& names) {
  SHARDSWEEP_ASSIGN(const Json list, list_in(body, "jobs"));
  std::vector<Job> jobs;
  for (const Json& entry : list) {
    if (!entry.is_object()) continue;
    const std::string name = text_at(entry, "name");
    if (!wanted(name, names)) continue;
    Job job{.id = std::to_string(number_of(entry.value("job_id", Json(0)))),
        .name = name,
        .state = state_of(entry.value("job_state", Json())),
        .reason = text_at(entry, "state_reason"),
        .nodes = text_at(entry, "nodes")};
    if (job.id == "0" || job.state.empty())
      return fault(FaultKind::unavailable, "slurmrestd names a job without id or state");
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::vector<Job>> read_accounted_jobs(
    std::string_view body, const std::vector<std::string>& names) {
  SHARDSWEEP_ASSIGN(const Json list, list_in(body, "jobs"));
  std::vector<Job> jobs;
  for (const Json& entry : list) {
    if (!entry.is_object()) continue;
    const std::string name = text_at(entry, "name");
    const auto state = entry.find("state");
    if (!wanted(name, names) || state == entry.end() || !state->is_object()) continue;
    Job job{.id = std::to_string(number_of(entry.value("job_id", Json(0)))),
        .name = name,
        .state = state_of(state->value("current", Json())),
        .reason = text_at(*state, "reason"),
        .nodes = text_at(entry, "nodes"),
        .source = Source::accounting};
    if (job.id == "0" || job.state.empty())
      return fault(FaultKind::unavailable, "slurmrestd names a job without id or state");
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<void> read_rest_partitions(std::string_view body, SiteFacts& into) {
  SHARDSWEEP_ASSIGN(const Json list, list_in(body, "partitions"));
  SiteFacts facts = into;
  for (auto& [name, partition] : facts.partitions)
    partition.nodes = 0;
  for (const Json& entry : list) {
    const std::string name = entry.is_object() ? text_at(entry, "name") : "";
    if (name.empty())
      return fault(FaultKind::unavailable, "slurmrestd lists a partition without a name");
    if (is_default(entry)) facts.default_partition = name;
    facts.partitions[name].nodes = static_cast<std::int32_t>(nodes_of_partition(entry));
  }
  facts.partitions_known = true;
  into = std::move(facts);
  return {};
}

std::string waiting_job(std::string_view element) {
  const Json job = Json::parse(element, nullptr, false);
  if (!job.is_object()) return std::string(element);
  if (state_of(job.value("job_state", Json())) != "PENDING") return "";
  Json kept = Json::object();
  for (const char* const key : {"job_state", "state_reason", "user_id", "partition"}) {
    if (const auto value = job.find(key); value != job.end()) kept[key] = *value;
  }
  return kept.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<void> read_rest_waiting(std::string_view body, std::int64_t own_uid, SiteFacts& into) {
  SHARDSWEEP_ASSIGN(const Json list, list_in(body, "jobs"));
  SiteFacts facts = into;
  for (auto& [name, partition] : facts.partitions)
    partition.others_waiting = 0;
  for (const Json& entry : list) {
    if (!entry.is_object() || state_of(entry.value("job_state", Json())) != "PENDING") continue;
    if (!waits_for_nodes(text_at(entry, "state_reason"))) continue;
    if (number_of(entry.value("user_id", Json(-1))) == own_uid) continue;
    std::istringstream partitions(text_at(entry, "partition"));
    for (std::string name; std::getline(partitions, name, ',');)
      ++facts.partitions[name].others_waiting;
  }
  facts.others_known = true;
  into = std::move(facts);
  return {};
}

}  // namespace shardsweep::slurm
