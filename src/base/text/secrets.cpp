// SPDX-License-Identifier: Apache-2.0
#include "text/secrets.hpp"

#include <shardsweep/rank_variables.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace shardsweep {

namespace {

std::string in_capitals(std::string_view name) {
  std::string upper;
  for (const char c : name)
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

}  // namespace

bool may_be_secret(std::string_view name) {
  // NCCL_IB_PKEY is no key.
  if (is_setting(name)) return false;
  std::string upper = in_capitals(name);
  // Tokens of a text, not of a login: TOKENIZERS_PARALLELISM, BATCH_TOKENS. Whatever counts as
  // a secret no longer tells trials apart by its value.
  for (const std::string_view counted : {"TOKENIZER", "TOKENS"}) {
    const auto at = upper.find(counted);
    if (at != std::string::npos) upper.erase(at, counted.size());
  }
  // A variable that names a file is no secret.
  if (upper.ends_with("_FILE") || upper.ends_with("_PATH") || upper.ends_with("_DIR")) return false;
  constexpr std::array<std::string_view, 12> words{"TOKEN", "SECRET", "PASSW", "PASSPHRASE",
      "APIKEY", "_KEY", "KEY_", "CREDENT", "COOKIE", "AUTH", "PRIVATE", "_PASS"};
  return upper == "KEY" || std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return upper.find(word) != std::string::npos;
  });
}

namespace {

constexpr std::string_view of_tokens =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

constexpr std::string_view name_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/// Characters of this kind, from `at` to the first other one.
std::string_view run_of(std::string_view text, std::size_t at, std::string_view kind) {
  text.remove_prefix(std::min(at, text.size()));
  return text.substr(0, text.find_first_not_of(kind));
}

/// Tells if a value stands here itself: no variable, no placeholder, and nothing that is hidden.
bool is_literal(std::string_view value) {
  const bool placeholder = value.starts_with('{') && value.ends_with('}') &&
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 1) == value.size() - 1;
  const bool variable = value.size() > 1 && value.front() == '$' &&
      (value[1] == '{' || run_of(value, 1, name_characters).size() + 1 == value.size());
  return !placeholder && !variable && !value.starts_with(hidden_value);
}

/// Tells a token from the name of a user.
bool looks_random(std::string_view name) {
  constexpr std::size_t least = 8;
  constexpr std::size_t longer_than_names = 20;
  return name.size() >= longer_than_names ||
      (name.size() >= least && name.find_first_of("0123456789") != std::string_view::npos);
}

std::string_view password_of_address(std::string_view text) {
  for (auto at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
    std::string_view user = text.substr(at + 3);
    user = user.substr(0, user.find_first_of("/?# \t\"'"));
    const auto host = user.rfind('@');
    if (host == std::string_view::npos) continue;
    user = user.substr(0, host);
    const auto colon = std::min(user.find(':'), user.size());
    if (colon + 1 < user.size()) return user.substr(colon + 1);
    // A name without a password in an HTTP address may be a token: `git+https://TOKEN@host`. In an
    // SSH address it is a user.
    const auto scheme = text.substr(0, at);
    const bool http = scheme.ends_with("http") || scheme.ends_with("https");
    const auto name = user.substr(0, colon);
    if (http && is_literal(name) && looks_random(name)) return name;
  }
  return {};
}

/// Tells if `name` is that of a signed or secret part of an address: `token`, `X-Amz-Signature`.
bool is_secret_of_query(std::string_view name) {
  std::string upper = in_capitals(name);
  std::replace(upper.begin(), upper.end(), '-', '_');
  constexpr std::array ends{"SIG", "PWD", "SIGNATURE", "TOKEN", "PASSWORD", "PASSWD", "SECRET",
      "API_KEY", "APIKEY", "ACCESS_KEY", "CREDENTIAL"};
  return std::any_of(
      ends.begin(), ends.end(), [&](std::string_view end) { return upper.ends_with(end); });
}

/// Tells if `name` is that of a password among the settings of a connection: `Password`, `Pwd`,
/// `AccountKey`.
bool is_secret_of_settings(std::string_view name, std::string_view value) {
  const std::string upper = in_capitals(name);
  if (upper == "PWD") return !value.starts_with('/');
  constexpr std::array ends{"PASSWORD", "PASSWD", "PASSPHRASE", "ACCOUNTKEY", "ACCESSKEY",
      "SHAREDSECRET", "CLIENTSECRET", "APIKEY"};
  return std::any_of(
      ends.begin(), ends.end(), [&](std::string_view end) { return upper.ends_with(end); });
}

/// Value of `?name=value` and `&name=value` of an address, and of `name=value;` of a connection.
std::string_view assigned_secret(std::string_view text) {
  const auto of_names = std::string(of_tokens).append("_-");
  for (auto sign = text.find('='); sign != std::string_view::npos;
       sign = text.find('=', sign + 1)) {
    auto begin = sign;
    while (begin > 0 && of_names.find(text[begin - 1]) != std::string::npos)
      --begin;
    const auto name = text.substr(begin, sign - begin);
    auto value = text.substr(sign + 1);
    const bool quoted = value.starts_with('\'') || value.starts_with('"');
    if (quoted) {
      const auto mark = value.substr(0, 1);
      value.remove_prefix(1);
      value = value.substr(0, value.find(mark));
    } else {
      value = value.substr(0, value.find_first_of("&#; \t\r\n\"'<>"));
    }
    if (name.empty() || value.empty() || !is_literal(value)) continue;
    const bool of_query = begin > 0 && (text[begin - 1] == '?' || text[begin - 1] == '&');
    if (of_query ? is_secret_of_query(name) : is_secret_of_settings(name, value)) return value;
  }
  return {};
}

std::string_view private_key(std::string_view text) {
  const auto begin = text.find("-----BEGIN ");
  if (begin == std::string_view::npos) return {};
  return text.find("PRIVATE KEY", begin) == std::string_view::npos ? std::string_view()
                                                                   : text.substr(begin);
}

/// `least` bytes of a token follow this beginning.
struct TokenForm {
  std::string_view beginning;
  std::size_t least;
  std::string_view more{};  ///< characters beside letters and digits
};

// Forms documented by their issuers: HTTP (RFC 6750, 7617), Hugging Face, GitHub, GitLab, AWS,
// Slack.
constexpr std::array<TokenForm, 14> token_forms{
    {{"Bearer ", 16, "-._~+/="}, {"bearer ", 16, "-._~+/="}, {"Basic ", 16, "-._~+/="}, {"hf_", 30},
        {"ghp_", 36}, {"gho_", 36}, {"ghu_", 36}, {"ghs_", 36}, {"github_pat_", 22, "_"},
        {"glpat-", 20, "-_"}, {"AKIA", 16}, {"ASIA", 16}, {"xoxb-", 20, "-"}, {"xoxp-", 20, "-"}}};

std::string_view token(std::string_view text) {
  for (const auto& form : token_forms) {
    const auto kind = std::string(of_tokens).append(form.more);
    for (auto at = text.find(form.beginning); at != std::string_view::npos;
         at = text.find(form.beginning, at + 1)) {
      const auto found = run_of(text, at + form.beginning.size(), kind);
      const bool begins = at == 0 || of_tokens.find(text[at - 1]) == std::string_view::npos;
      // Prose has long words, too, but no digits in them.
      const bool has_digit = found.find_first_of("0123456789") != std::string_view::npos;
      if (begins && has_digit && found.size() >= form.least) return found;
    }
  }
  return {};
}

std::string without_forms(std::string_view line) {
  std::string hidden;
  for (auto secret = secret_by_form(line); !secret.empty(); secret = secret_by_form(line)) {
    const auto at = static_cast<std::size_t>(secret.data() - line.data());
    hidden.append(line.substr(0, at)).append(hidden_value);
    line.remove_prefix(at + secret.size());
  }
  return hidden.append(line);
}

}  // namespace

std::string_view secret_by_form(std::string_view text) {
  std::string_view first = text.substr(text.size());
  for (const auto find : {password_of_address, assigned_secret, private_key, token}) {
    if (const auto found = find(text); !found.empty() && found.data() < first.data()) first = found;
  }
  return first;
}

std::string without_secret_values(std::string_view yaml) {
  constexpr std::string_view of_names =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string hidden;
  while (!yaml.empty()) {
    const std::size_t length = std::min(yaml.find('\n'), yaml.size());
    const std::string_view line = yaml.substr(0, length);
    yaml.remove_prefix(std::min(length + 1, yaml.size()));
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find_first_not_of(of_names, begin), line.size());
    const bool is_entry = begin > 0 && end > begin && line.substr(end).starts_with(": ");
    if (is_entry && line.substr(end + 2) != "''" &&
        is_secret(line.substr(begin, end - begin), line.substr(end + 2))) {
      hidden.append(line.substr(0, end)).append(": \"").append(hidden_value).append("\"\n");
    } else {
      hidden.append(line).append("\n");
    }
  }
  return hidden;
}

std::string masked(std::string text, const std::map<std::string, std::string>& secrets) {
  // The longest first: one may be a part of another.
  std::vector<std::string_view> values;
  for (const auto& [name, value] : secrets) {
    if (value.size() >= shortest_masked) values.push_back(value);
  }
  std::sort(values.begin(), values.end(),
      [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
  for (const std::string_view value : values) {
    for (auto at = text.find(value); at != std::string::npos;
         at = text.find(value, at + value.size()))
      text.replace(at, value.size(), value.size(), '*');
  }
  return text;
}

std::string MaskedPieces::take(std::string_view piece) {
  std::string text = masked(std::exchange(held_, {}).append(piece), secrets_);
  std::size_t held = 0;
  for (const auto& [name, value] : secrets_) {
    if (value.size() < shortest_masked) continue;
    std::size_t length = std::min(text.size(), value.size() - 1);
    while (length > held && !text.ends_with(std::string_view(value).substr(0, length)))
      --length;
    held = std::max(held, length);
  }
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

std::string without_assigned_secrets(std::string_view whole) {
  std::string shown = without_forms(whole);
  const std::string_view line = shown;
  constexpr std::string_view of_names =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  for (std::size_t at = line.find_first_of(of_names); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_not_of(of_names, at), line.size());
    const std::string_view name = line.substr(at, end - at);
    at = line.find_first_of(of_names, end);
    const std::size_t sign = line.find_first_not_of("\"' \t", end);
    if (sign == std::string_view::npos || (line[sign] != '=' && line[sign] != ':')) continue;
    // "AuthenticationError: …" is what a bug report is for.
    if (name.ends_with("Error") || name.ends_with("Exception")) continue;
    const std::size_t value = line.find_first_not_of(" \t", sign + 1);
    if (value == std::string_view::npos || !may_be_secret(name)) continue;
    return std::string(line.substr(0, value)).append(hidden_value);
  }
  return shown;
}

}  // namespace shardsweep
