// Reads tables of TOML by tables of keys: what a key's value may be, which keys there are, and the
// one sentence that says what is wrong. No section's meaning is known here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/toml.h"
#include "scenario/keys.h"
#include "scenario/scenario.h"

namespace verbena::scenario {

using Status = Result<void>;

std::string join_path(std::string_view path, std::string_view key);

// Names of the tables of queues and groups: [switch.queue.3].
inline constexpr std::string_view kClassNumbers[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

class Reader {
 public:
  Reader(std::string file, std::map<std::string, int>& lines)
      : file_(std::move(file)), lines_(lines) {}

  const std::string& file() const { return file_; }

  // "FILE:LINE: PATH: MESSAGE"; for what an override brought "--set PATH: MESSAGE".
  tl::unexpected<Error> error(const toml::source_region& where, std::string_view path,
                              std::string_view message) const;
  // The same where only the path of the key is known: the first of `paths` that the file has.
  tl::unexpected<Error> error(std::initializer_list<std::string> paths,
                              std::string_view message) const;
  void note(const std::string& path, const toml::source_region& where) {
    lines_[path] = static_cast<int>(where.begin.line);
  }

  // Fills what `keys` are bound to from `table`, which is named `path` in messages. Keys among
  // `others` (tables within, mostly) are left alone; any other key is an error.
  Status read(const toml::table& table, const std::string& path, const std::vector<BoundKey>& keys,
              std::span<const std::string_view> others = {});
  Result<Value> value(const toml::node& node, const std::string& path, const KeyInfo& key) const;

  Result<const toml::table*> table(const toml::node& node, const std::string& path) const;
  // The table `name` within `table`; null when there is none.
  Result<const toml::table*> inner(const toml::table& table, const std::string& path,
                                   std::string_view name) const;
  // Fills `target`, which is all that the table holds but for `others`.
  template <typename T>
  Status read_all(const toml::table& table, const std::string& path,
                  const std::vector<Key<T>>& keys, T& target,
                  std::span<const std::string_view> others = {}) {
    std::vector<BoundKey> bound;
    bind_keys(bound, keys, target);
    return read(table, path, bound, others);
  }
  // The same from the table `name` within `table`, if it is there.
  template <typename T>
  Status read_inner(const toml::table& table, const std::string& path, std::string_view name,
                    const std::vector<Key<T>>& keys, T& target) {
    const auto found = inner(table, path, name);
    if (!found) return tl::unexpected(found.error());
    return *found == nullptr ? Status() : read_all(**found, join_path(path, name), keys, target);
  }
  // The tables of [[name]]; none when there are none.
  Result<std::vector<const toml::table*>> tables(const toml::table& root,
                                                 std::string_view name) const;

 private:
  Result<Value> with_unit(const toml::node& node, const std::string& path,
                          const KeyInfo& key) const;
  Result<Value> share(const toml::node& node, const std::string& path, const KeyInfo& key) const;
  Result<Value> choice(const toml::node& node, const std::string& path, const KeyInfo& key) const;
  Result<Value> priorities(const toml::node& node, const std::string& path) const;
  Result<Value> nodes(const toml::node& node, const std::string& path, const KeyInfo& key) const;
  Result<Value> number_map(const toml::node& node, const std::string& path,
                           const KeyInfo& key) const;
  tl::unexpected<Error> unknown(const toml::key& key, const toml::node& value,
                                const std::string& path, const std::vector<BoundKey>& keys,
                                std::span<const std::string_view> others) const;

  std::string file_;
  std::map<std::string, int>& lines_;
};

// "did you mean X?" when one of `words` is near enough, else what there is: "there is a, b, c".
std::string hint(std::string_view name, const std::vector<std::string_view>& words);

// The text of a file, at most `most` bytes. Names the file in its message.
Result<std::string> read_text_file(const std::string& path, size_t most);

}  // namespace verbena::scenario
