// SPDX-License-Identifier: Apache-2.0
#include "plan/knowledge_file.hpp"

#include "plan/described_json.hpp"
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "sweep/layout_text.hpp"
#include "text/characters.hpp"
#include "text/checked_line.hpp"
#include "text/content_hash.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

namespace shardsweep {
namespace {

using KnowledgeJson = nlohmann::ordered_json;

constexpr std::int64_t knowledge_format = 1;
constexpr const char* knowledge_key = "shardsweep_knowledge";
constexpr std::string_view knowledge_prefix = "imported:";
constexpr std::int64_t most_sources = 100;
constexpr std::int64_t most_shapes = 200;
constexpr std::int64_t most_runs = 20'000;
constexpr std::size_t longest_version = 32;

/// A version, and no branch, path or person: "0.8", "2.1.0rc1".
bool is_plain_version(std::string_view text) {
  constexpr std::array<std::string_view, 7> words{"alpha", "beta", "rc", "dev", "post", "a", "b"};
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  if (digits == 0 || text.front() == '.' || text.size() > longest_version) return false;
  text.remove_prefix(digits);
  if (text.empty()) return true;
  if (text.front() == '-' || text.front() == '+') text.remove_prefix(1);
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.starts_with(word) &&
        std::all_of(text.begin() + static_cast<std::ptrdiff_t>(word.size()), text.end(), is_digit);
  });
}

bool is_plain_text(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

/// The sweep that a source's runs would have as its trainer.
RunnerSpec runner_of(const KnowledgeSource& source) {
  RunnerSpec runner;
  runner.name = source.family;
  if (!source.profile.empty()) runner.profile = source.profile;
  return runner;
}

// ---- reading

/// Reads the lines of a file, in their order: head, sources, models, runs.
class KnowledgeReader {
 public:
  KnowledgeReader(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  Result<KnowledgeFile> all() {
    number_ = 1;
    if (rest_.size() > most_bytes_of_knowledge)
      return refuse(fmt::format("more than {} MiB", most_bytes_of_knowledge >> 20U));
    if (rest_.empty()) return refuse("the file is empty");
    for (; !rest_.empty(); ++number_) {
      SHARDSWEEP_ASSIGN(auto json, next());
      auto read = number_ == 1                              ? head(json)
          : json.contains("model") && !json.contains("run") ? model(json)
          : json.contains("run")                            ? run(json)
                                                            : source(json);
      // If a newer program wrote the head, the head alone says so, and nothing else is read.
      if (!read && read.error().kind == FaultKind::rejected)
        return tl::unexpected<Fault>(read.error());
      if (!read) return refuse(read.error().what);
    }
    number_ = 1;
    if (std::ssize(file_.sources) != sources_ || std::ssize(file_.models) != models_ ||
        std::ssize(file_.runs) != runs_)
      return refuse(fmt::format(
          "it says {} sources, {} models and {} runs, but {}, {} and {} follow: lines are missing "
          "or were added",
          sources_, models_, runs_, file_.sources.size(), file_.models.size(), file_.runs.size()));
    return std::move(file_);
  }

 private:
  [[nodiscard]] tl::unexpected<Fault> refuse(std::string_view why) const {
    return fault(FaultKind::invalid_input, "{}:{}: {}", where_, number_, why);
  }

  /// JSON of the next line, if its checksum holds.
  Result<KnowledgeJson> next() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) return refuse("the last line is incomplete");
    const auto line = take_apart(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    if (!line)
      return refuse(
          "the line is incomplete or not of a knowledge file; `shardsweep knowledge export` writes "
          "such files");
    if (line->said != check_of(line->object))
      return refuse(
          fmt::format("the line was edited: its checksum is {}, but it says {}. Measurements can't "
                      "be edited: export them again",
              check_of(line->object), escaped(line->said)));
    auto json = KnowledgeJson::parse(line->object, nullptr, false);
    if (!json.is_object()) return refuse("the line is not a JSON object");
    if (json.dump(-1, ' ', false, KnowledgeJson::error_handler_t::replace) != line->object)
      return refuse("the line is not in the form that export writes");
    return json;
  }

  /// An index or a count, which goes from the line.
  static Result<std::int64_t> take(KnowledgeJson& json, const char* key, std::int64_t most) {
    const auto found = json.find(key);
    if (found == json.end()) return refuse_json("'{}' is missing", key);
    SHARDSWEEP_ASSIGN(const auto number, whole_in_json(*found, fmt::format("'{}'", key), 0, most));
    json.erase(key);
    return number;
  }
  static Result<void> take_number(KnowledgeJson& json, const char* key, std::size_t next) {
    SHARDSWEEP_ASSIGN(const auto number, take(json, key, most_runs));
    if (number == static_cast<std::int64_t>(next)) return {};
    return refuse_json("'{}' is {}, but the next number is {}", key, number, next);
  }
  static Result<void> refuse_rest(const KnowledgeJson& json) {
    if (json.empty()) return {};
    return refuse_json(
        "unknown key '{}'; a newer shardsweep may have written it", escaped(json.begin().key()));
  }
  /// All keys of T, which go from the line.
  template <class T>
  static Result<void> take_object(KnowledgeJson& json, std::string_view name, T& into,
      std::initializer_list<std::string_view> required) {
    SHARDSWEEP_TRY(read_object(json, name, into, required));
    visit_fields<T>([&](const auto& key) { json.erase(std::string(key.name)); });
    return refuse_rest(json);
  }

  Result<void> head(KnowledgeJson& json) {
    const auto format = json.find(knowledge_key);
    if (format == json.end() || !format->is_number_integer())
      return refuse_json(
          "the file is not a knowledge file; `shardsweep knowledge export` writes one");
    if (*format > knowledge_format)
      return fault(FaultKind::rejected,
          "{}:1: knowledge of format {}; this program reads format {}. A newer shardsweep wrote it",
          where_, format->get<std::int64_t>(), knowledge_format);
    json.erase(knowledge_key);
    SHARDSWEEP_ASSIGN(sources_, take(json, "sources", most_sources));
    SHARDSWEEP_ASSIGN(models_, take(json, "models", most_shapes));
    SHARDSWEEP_ASSIGN(runs_, take(json, "runs", most_runs));
    return refuse_rest(json);
  }

  Result<void> source(KnowledgeJson& json) {
    SHARDSWEEP_TRY(take_number(json, "source", file_.sources.size()));
    KnowledgeSource source;
    SHARDSWEEP_TRY(
        take_object(json, "a source", source, {"gpu", "gpus_per_node", "memory", "family"}));
    SHARDSWEEP_TRY(find_family(source.family));
    const auto profiles = shardbench_profiles();
    const bool has_profile =
        std::find(profiles.begin(), profiles.end(), source.profile) != profiles.end();
    if (!source.profile.empty() && (!has_profile || !runner_of(source).is_shardbench()))
      return refuse_json(
          "'profile' is no profile of {}: {}", source.family, in_quotes(source.profile));
    if (!source.version.empty() && !is_plain_version(source.version))
      return refuse_json("'version' is no version: {}", in_quotes(source.version));
    if (!is_plain_text(source.gpu))
      return refuse_json("'gpu' is no name of a GPU: {}", in_quotes(source.gpu));
    file_.sources.push_back(std::move(source));
    return {};
  }

  Result<void> model(KnowledgeJson& json) {
    SHARDSWEEP_TRY(take_number(json, "model", file_.models.size()));
    for (const auto* name : {"name", "note"}) {
      if (json.contains(name))
        return refuse_json("a model here has only its shape; remove '{}'", name);
    }
    SHARDSWEEP_ASSIGN(auto model, read_model(json));
    visit_fields<ModelSpec>([&](const auto& key) { json.erase(std::string(key.name)); });
    SHARDSWEEP_TRY(refuse_rest(json));
    file_.models.push_back(std::move(model));
    return {};
  }

  Result<void> run(KnowledgeJson& json) {
    SHARDSWEEP_TRY(take_number(json, "run", file_.runs.size()));
    KnowledgeRun run;
    SHARDSWEEP_ASSIGN(const auto source, take(json, "source", most_sources));
    if (source >= std::ssize(file_.sources))
      return refuse_json("a run has source {} of {}", source, file_.sources.size());
    SHARDSWEEP_ASSIGN(const auto nodes, take(json, "nodes", 1 << 20));
    run.source = static_cast<std::int32_t>(source);
    run.nodes = static_cast<std::int32_t>(nodes);
    if (const auto found = json.find("over_predicted"); found != json.end()) {
      SHARDSWEEP_ASSIGN(run.over_predicted, real_in_json(*found, "over_predicted", KeyType::real));
      json.erase("over_predicted");
    }
    SHARDSWEEP_TRY(take_object(
        json, "a run", run.run, {"model", "gpus", "seq_len", "dtype", "layout", "outcome"}));
    const auto per_node = file_.sources[static_cast<std::size_t>(source)].gpus_per_node;
    if (nodes > 0 && nodes * std::int64_t{per_node} != run.run.gpus)
      return refuse_json(
          "{} nodes with {} GPUs each do not make {} GPUs", nodes, per_node, run.run.gpus);
    SHARDSWEEP_ASSIGN(const auto seen, observation_of(file_.models, run.run, per_node));
    if (layout_text(seen.point) != run.run.layout)
      return refuse_json("'layout' must be written '{}', not {}", layout_text(seen.point),
          in_quotes(run.run.layout));
    if ((seen.outcome == Outcome::completed) != (run.run.tokens_per_s_per_gpu > 0))
      return refuse_json(
          "'tokens_per_s_per_gpu' must be above 0 in a run that completed, and 0 in any other");
    file_.runs.push_back(std::move(run));
    return {};
  }

  std::string_view rest_;
  const std::string& where_;
  std::int64_t number_ = 0;
  std::int64_t sources_ = 0;
  std::int64_t models_ = 0;
  std::int64_t runs_ = 0;
  KnowledgeFile file_;
};

void put_line(std::string& text, const KnowledgeJson& json) {
  text += checked_line(json.dump(-1, ' ', false, KnowledgeJson::error_handler_t::replace));
}

/// Puts a number first, as in lists of one file.
template <class T>
KnowledgeJson numbered(const char* key, std::size_t number, const T& object) {
  KnowledgeJson json = {{key, number}};
  json.update(json_of(object));
  return json;
}

/// Place of an equal value, or the end.
template <class T, class Same>
std::size_t place_in(std::vector<T>& list, const T& value, const Same& same) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const T& other) { return same(value, other); });
  const auto place = static_cast<std::size_t>(found - list.begin());
  if (found == list.end()) list.push_back(value);
  return place;
}

KnowledgeRun run_of(const EarlierRun& earlier, const Predictor& predictor) {
  const auto& point = earlier.is.point.point;
  const auto& news = earlier.is.news;
  const auto& dtype = *find_axis("dtype");
  KnowledgeRun run{.nodes = point.nodes,
      .run = {.gpus = point.gpus,
          .seq_len = point.seq_len,
          .dtype = axis_text(dtype, dtype.get(point)),
          .layout = layout_text(point),
          .outcome = std::string(word_of(news.outcome)),
          .tokens_per_s_per_gpu = news.tokens_per_s_per_gpu,
          .peak_bytes = news.peak_bytes}};
  if (news.tokens_per_s_per_gpu <= 0) return run;
  const auto guess = predictor.guess(earlier.is.point.model, point);
  constexpr double digits = 1e4;
  if (!guess.time.nominal && guess.step_s > 0)
    run.over_predicted =
        std::round(digits * news.tokens_per_s_per_gpu / speed_of(guess.step_s, point)) / digits;
  return run;
}

/// True if two rates are of one class of hardware: within a factor of two, or unknown (0).
bool is_one_class(double a, double b) {
  constexpr double class_width = 2;
  return a <= 0 || b <= 0 || (a <= class_width * b && b <= class_width * a);
}

}  // namespace

Result<KnowledgeFile> read_knowledge(std::string_view text, const std::string& where) {
  return KnowledgeReader(text, where).all();
}

std::string knowledge_text(const KnowledgeFile& file) {
  std::string text;
  put_line(text,
      {{knowledge_key, knowledge_format}, {"sources", file.sources.size()},
          {"models", file.models.size()}, {"runs", file.runs.size()}});
  for (std::size_t i = 0; i < file.sources.size(); ++i)
    put_line(text, numbered("source", i, file.sources[i]));
  for (std::size_t i = 0; i < file.models.size(); ++i)
    put_line(text, numbered("model", i, file.models[i]));
  for (std::size_t i = 0; i < file.runs.size(); ++i) {
    const auto& run = file.runs[i];
    KnowledgeJson json = {{"run", i}, {"source", run.source}, {"nodes", run.nodes}};
    json.update(json_of(run.run));
    if (run.over_predicted > 0) json["over_predicted"] = run.over_predicted;
    put_line(text, json);
  }
  return text;
}

std::string knowledge_name(std::string_view text) {
  Fnv128 hash;
  hash.add(text);
  constexpr std::size_t digits = 8;
  return std::string(knowledge_prefix) + hash.hex().substr(0, digits);
}

bool KnowledgeWriter::may_have(const SweepSpec& sweep) {
  return sweep.proof_of.empty() && is_built_in(family_of(sweep.runner));
}

void KnowledgeWriter::add(const SweepSpec& sweep, std::span<const EarlierRun> runs) {
  const Family& family = family_of(sweep.runner);
  const ClusterSpec& cluster = sweep.cluster;
  const Predictor predictor(cluster, family);
  KnowledgeSource source{.gpu = cluster.gpu,
      .gpus_per_node = cluster.gpus_per_node,
      .memory_bytes = cluster.memory_bytes,
      .intra_node_bandwidth = cluster.intra_node_bandwidth,
      .inter_node_bandwidth = cluster.inter_node_bandwidth,
      .family = std::string(family.name)};
  if (sweep.runner.is_shardbench()) source.profile = sweep.runner.profile;
  const auto kind = place_in(kinds_, source, std::equal_to<>());
  for (const EarlierRun& run : runs) {
    if (is_plain_version(run.version)) source.version = run.version;
    ModelSpec model = run.is.point.model;
    model.name.clear();
    model.note.clear();
    kept_.push_back({run.ended_at, kind, source, std::move(model), run_of(run, predictor)});
    source.version.clear();
  }
}

KnowledgeFile KnowledgeWriter::file() const {
  auto kept = kept_;
  std::stable_sort(kept.begin(), kept.end(),
      [](const KnowledgeEntry& a, const KnowledgeEntry& b) { return a.ended_at < b.ended_at; });
  std::vector<std::size_t> left(kinds_.size(), 0);
  for (const KnowledgeEntry& one : kept)
    ++left[one.kind];
  KnowledgeFile file;
  for (KnowledgeEntry& one : kept) {
    if (left[one.kind]-- > EarlierRuns::most) continue;
    one.run.source =
        static_cast<std::int32_t>(place_in(file.sources, one.source, std::equal_to<>()));
    one.run.run.model =
        static_cast<std::int32_t>(place_in(file.models, one.model, std::equal_to<>()));
    file.runs.push_back(std::move(one.run));
  }
  return file;
}

bool is_kin(const SweepSpec& sweep, const KnowledgeSource& source) {
  const ClusterSpec& cluster = sweep.cluster;
  return sweep.proof_of.empty() && cluster.gpu == source.gpu &&
      cluster.gpus_per_node == source.gpus_per_node &&
      cluster.memory_bytes == source.memory_bytes &&
      is_one_class(cluster.intra_node_bandwidth, source.intra_node_bandwidth) &&
      is_one_class(cluster.inter_node_bandwidth, source.inter_node_bandwidth) &&
      &family_of(sweep.runner) == &family_of(runner_of(source));
}

std::vector<EarlierRun> earlier_runs(const SweepSpec& sweep, const KnowledgeFile& file) {
  std::vector<EarlierRun> runs;
  for (const KnowledgeRun& run : file.runs) {
    const auto& source = file.sources[static_cast<std::size_t>(run.source)];
    if (!is_kin(sweep, source)) continue;
    auto seen = observation_of(file.models, run.run, source.gpus_per_node);
    // Import has already read each run once; skip a run that can't be read.
    if (!seen) continue;
    seen->point.nodes = run.nodes;
    runs.push_back({0, source.version,
        {{.model = seen->model, .point = seen->point, .traits = {}},
            {seen->outcome, seen->tokens_per_s_per_gpu, seen->peak_bytes}}});
  }
  return runs;
}

}  // namespace shardsweep
