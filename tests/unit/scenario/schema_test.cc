// The schema in docs/scenarios.md is the one that the reader obeys.
#include "scenario/schema_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "scenario/schema_devices.h"

namespace verbena::scenario {
namespace {

constexpr std::string_view kBelow =
    "<!-- Below here: made from the tables of keys; see HACKING.md. -->\n";

// VERBENA_SCHEMA=file writes what the page should have, for the one who changed a key.
TEST(Schema, DocumentsEveryKey) {
  const std::string expected = schema_markdown();
  if (const char* path = std::getenv("VERBENA_SCHEMA")) std::ofstream(path) << expected;
  std::ifstream file(DOCS "/scenarios.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const size_t at = page.find(kBelow);
  ASSERT_NE(at, page.npos);
  EXPECT_EQ(page.substr(at + kBelow.size()), expected);
}

// A key that stores a value shows it: what writes settings back relies on it.
template <typename T>
void every_key_shows_what_it_stores(const std::vector<Key<T>>& keys, const T& usual) {
  for (const Key<T>& key : keys) {
    if (key.name == "priorities" || key.name == "static") continue;  // two fields each
    T changed = usual;
    Value value;
    value.whole = key.kind == Kind::kChoice ? 1 : static_cast<uint64_t>(key.least) + 1;
    value.real = key.least + (key.most - key.least) / 2;
    value.flag = !key.show(usual).flag;
    value.map.assign(key.map_size, 1);
    key.store(changed, value);
    EXPECT_EQ(format_value(key, key.show(changed)), format_value(key, value)) << key.name;
    if (key.word.empty()) continue;
    key.store(changed, Value{.is_word = true});
    EXPECT_TRUE(key.show(changed).is_word) << key.name;
  }
}

TEST(Schema, KeysShowWhatTheyStore) {
  every_key_shows_what_it_stores(switch_keys(), {});
  every_key_shows_what_it_stores(port_keys(), {});
  every_key_shows_what_it_stores(pfc_keys(), {});
  every_key_shows_what_it_stores(group_keys(), {});
  every_key_shows_what_it_stores(ecn_keys(), {});
  every_key_shows_what_it_stores(queue_keys(), {});
  every_key_shows_what_it_stores(routing_keys(), {});
  every_key_shows_what_it_stores(watchdog_keys(), {});
  every_key_shows_what_it_stores(adapter_keys(), {});
  every_key_shows_what_it_stores(congestion_keys(), {});
  every_key_shows_what_it_stores(dcqcn_keys(), {});
  every_key_shows_what_it_stores(np_keys(), {});
  every_key_shows_what_it_stores(swift_keys(), {});
  every_key_shows_what_it_stores(hpcc_keys(), {});
  every_key_shows_what_it_stores(receive_keys(), {});
  every_key_shows_what_it_stores(storm_keys(), {});
}

}  // namespace
}  // namespace verbena::scenario
