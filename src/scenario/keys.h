// A key of a scenario file: its name, what it takes, and the field that it fills. The tables of
// keys drive everything that knows keys: reading and its messages, writing settings back, and the
// schema in docs/scenarios.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "scenario/units.h"

namespace verbena::scenario {

enum class Kind : uint8_t {
  kFlag,        // true, false
  kCount,       // 5
  kNumber,      // 0.5
  kShare,       // "30%" or 0.3
  kBytes,       // "100KB"
  kRate,        // "100G"
  kTime,        // "1us"
  kLength,      // "300m"
  kText,        // any string
  kChoice,      // one of some words
  kPriorities,  // [3, 4]
  kMap,         // { 26 = 3, 0-7 = 0, default = 1 }
  kNode,        // "leaf1" or 3
  kNodes,       // [0, "h3", "8-15"], or one of these
};

struct Value {
  uint64_t whole = 0;  // kCount, kBytes, kRate, kTime (ps), kChoice (index), kPriorities (bits)
  double real = 0;     // kNumber, kShare, kLength
  bool flag = false;
  bool is_word = false;           // KeyInfo::word was written instead
  std::string text;               // kText, kNode
  std::vector<std::string> list;  // kNodes
  std::vector<int> map;           // kMap: by index; -1 where it says nothing
};

struct KeyInfo {
  std::string_view name;
  Kind kind = Kind::kFlag;
  double least = 0, most = 0;             // range, in the smallest unit
  std::string_view help;                  // one line of the schema
  std::vector<std::string_view> choices;  // kChoice, in the order of the enum
  std::string_view word;                  // may be written instead of a value: "auto"
  std::string_view usual;                 // default in the schema, where show() has none
  uint32_t map_size = 0;                  // kMap: how many indices; values are least..most
};

// As a scenario would write it.
std::string format_value(const KeyInfo& key, const Value& value);
// "100KB to 1MB": for messages and the schema.
std::string format_range(const KeyInfo& key);

template <typename T>
struct Key : KeyInfo {
  std::function<void(T&, const Value&)> store;
  std::function<Value(const T&)> show;
};

// A key that is bound to what it fills.
struct BoundKey {
  const KeyInfo* info = nullptr;
  std::function<void(const Value&)> store;
};
template <typename T, typename U>
void bind_keys(std::vector<BoundKey>& bound, const std::vector<Key<T>>& keys, U& target) {
  T& base = target;
  for (const Key<T>& key : keys)
    bound.push_back({&key, [&key, &base](const Value& value) { key.store(base, value); }});
}

// --- How tables are written.

// A key that has no field yet.
template <typename T>
Key<T> ranged_key(std::string_view name, Kind kind, double least, double most,
                  std::string_view help) {
  Key<T> key;
  key.name = name;
  key.kind = kind;
  key.least = least;
  key.most = most;
  key.help = help;
  return key;
}

template <typename T, typename M>
Key<T> whole_key(std::string_view name, Kind kind, M T::* field, double least, double most,
                 std::string_view help) {
  Key<T> key = ranged_key<T>(name, kind, least, most, help);
  key.store = [field](T& to, const Value& value) { to.*field = static_cast<M>(value.whole); };
  key.show = [field](const T& from) { return Value{.whole = static_cast<uint64_t>(from.*field)}; };
  return key;
}
template <typename T, typename M>
Key<T> count_key(std::string_view name, M T::* field, double least, double most,
                 std::string_view help) {
  return whole_key(name, Kind::kCount, field, least, most, help);
}
inline constexpr double kMostBytes = 1e12;
template <typename T, typename M>
Key<T> bytes_key(std::string_view name, M T::* field, double most, std::string_view help,
                 double least = 0) {
  return whole_key(name, Kind::kBytes, field, least, most, help);
}
inline constexpr double kMostRate = 10e12;
template <typename T>
Key<T> rate_key(std::string_view name, uint64_t T::* field, double least, std::string_view help) {
  return whole_key(name, Kind::kRate, field, least, kMostRate, help);
}
inline constexpr double kMostTime = 3600e12;  // an hour
template <typename T>
Key<T> time_key(std::string_view name, fabric::Time T::* field, double least,
                std::string_view help) {
  return whole_key(name, Kind::kTime, field, least, kMostTime, help);
}
template <typename T>
Key<T> time_key(std::string_view name, Duration T::* field, double least, std::string_view help) {
  Key<T> key = ranged_key<T>(name, Kind::kTime, least, kMostTime, help);
  key.store = [field](T& to, const Value& value) {
    to.*field = Duration{static_cast<int64_t>(value.whole)};
  };
  key.show = [field](const T& from) {
    return Value{.whole = static_cast<uint64_t>((from.*field).ps)};
  };
  return key;
}
template <typename T>
Key<T> real_key(std::string_view name, Kind kind, double T::* field, double least, double most,
                std::string_view help) {
  Key<T> key = ranged_key<T>(name, kind, least, most, help);
  key.store = [field](T& to, const Value& value) { to.*field = value.real; };
  key.show = [field](const T& from) { return Value{.real = from.*field}; };
  return key;
}
template <typename T>
Key<T> flag_key(std::string_view name, bool T::* field, std::string_view help) {
  Key<T> key = ranged_key<T>(name, Kind::kFlag, 0, 0, help);
  key.store = [field](T& to, const Value& value) { to.*field = value.flag; };
  key.show = [field](const T& from) { return Value{.flag = from.*field}; };
  return key;
}
template <typename T>
Key<T> text_key(std::string_view name, std::string T::* field, std::string_view help) {
  Key<T> key = ranged_key<T>(name, Kind::kText, 0, 0, help);
  key.store = [field](T& to, const Value& value) { to.*field = value.text; };
  key.show = [field](const T& from) { return Value{.text = from.*field}; };
  return key;
}
template <typename T>
Key<T> node_key(std::string_view name, std::string T::* field, std::string_view help) {
  Key<T> key = text_key(name, field, help);
  key.kind = Kind::kNode;
  return key;
}
template <typename T>
Key<T> nodes_key(std::string_view name, std::vector<std::string> T::* field,
                 std::string_view help) {
  Key<T> key = ranged_key<T>(name, Kind::kNodes, 0, 0, help);
  key.store = [field](T& to, const Value& value) { to.*field = value.list; };
  key.show = [field](const T& from) { return Value{.list = from.*field}; };
  return key;
}
// `choices` in the order of the enum's values, from 0.
template <typename T, typename E>
Key<T> choice_key(std::string_view name, E T::* field, std::vector<std::string_view> choices,
                  std::string_view help) {
  Key<T> key = whole_key(name, Kind::kChoice, field, 0, 0, help);
  key.choices = std::move(choices);
  return key;
}
template <typename T>
Key<T> priorities_key(std::string_view name, uint8_t T::* field, std::string_view help) {
  return whole_key(name, Kind::kPriorities, field, 0, 0, help);
}
// A table of small numbers by small numbers.
template <typename T, size_t N>
Key<T> map_key(std::string_view name, std::array<uint8_t, N> T::* field, double most,
               std::string_view help) {
  Key<T> key = ranged_key<T>(name, Kind::kMap, 0, most, help);
  key.map_size = N;
  key.store = [field](T& to, const Value& value) {
    for (size_t i = 0; i < N; ++i)
      if (value.map[i] >= 0) (to.*field)[i] = static_cast<uint8_t>(value.map[i]);
  };
  key.show = [field, most](const T& from) {
    Value value;
    for (uint8_t entry : from.*field) value.map.push_back(entry <= most ? entry : -1);
    return value;
  };
  return key;
}
// The key takes `word` too, which stands for the field's value `meaning`.
template <typename T, typename M>
Key<T> or_word(Key<T> key, std::string_view word, M T::* field, M meaning) {
  key.word = word;
  key.store = [field, meaning, plain = key.store](T& to, const Value& value) {
    if (value.is_word)
      to.*field = meaning;
    else
      plain(to, value);
  };
  key.show = [field, meaning, plain = key.show](const T& from) {
    if (from.*field == meaning) return Value{.is_word = true};
    return plain(from);
  };
  return key;
}

}  // namespace verbena::scenario
