// SPDX-License-Identifier: Apache-2.0
// A runner's records, as far as an agent needs them.
#include "record/json_values.hpp"

#include <shardsweep/record.hpp>

#include <array>
#include <cmath>

namespace shardsweep {
namespace {

using namespace json;

RecordType record_type(std::string_view word) {
  constexpr std::array<std::string_view, 6> words{"start",  "phase", "train_step",
                                                  "result", "error", "refusal"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<RecordType>(i);
  }
  return RecordType::other;
}

template <class T>
void read_optional(const Json& object, const char* key, T& value) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  T read{};
  if (read_value(*found, read)) value = std::move(read);
}

Timestamp read_time(const Json& object) {
  constexpr double microseconds = 1e6;
  constexpr double far_future_s = 1e11;  // above it a number is no count of seconds
  double number = 0;
  read_optional(object, "t", number);
  if (number <= 0 || number > 1e18) return 0;
  return static_cast<Timestamp>(number < far_future_s ? number * microseconds : number);
}

}  // namespace

std::string encode_record(const WrittenRecord& record, std::string_view nonce, Timestamp t) {
  constexpr double microseconds = 1e6;
  constexpr double exact = 9007199254740992.0;  // whole numbers above it are not
  Json object{
      {"type", record.type}, {"run_id", nonce}, {"t", static_cast<double>(t) / microseconds}};
  for (const auto& [key, text] : record.texts)
    object[key] = text;
  for (const auto& [key, number] : record.numbers) {
    if (std::floor(number) == number && std::abs(number) < exact) {
      object[key] = static_cast<std::int64_t>(number);
    } else {
      object[key] = number;
    }
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Record> decode_record(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, longest_line));
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return tl::unexpected(malformed(line, "key 'type'"));
  Record record;
  record.type = record_type(type->get_ref<const std::string&>());
  read_optional(object, "nonce", record.nonce);
  read_optional(object, "run_id", record.nonce);
  record.t = read_time(object);
  read_optional(object, "phase", record.phase);
  read_optional(object, "step", record.step);
  read_optional(object, "step_ms", record.step_ms);
  if (object.contains("timed")) read_optional(object, "timed", record.timed.emplace());
  read_optional(object, "class", record.error_class);
  read_optional(object, "message", record.message);
  return record;
}

bool has_result(std::string_view records, std::string_view nonce) {
  bool found = false;
  while (!records.empty()) {
    const std::size_t end = records.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = records.substr(0, end);
    records.remove_prefix(end + 1);
    if (line.find("\"result\"") == std::string_view::npos &&
        line.find("\"refusal\"") == std::string_view::npos)
      continue;
    const auto record = decode_record(line);
    if (!record || record->nonce != nonce) continue;
    if (record->type == RecordType::refusal) return false;
    found = found || record->type == RecordType::result;
  }
  return found;
}

}  // namespace shardsweep
