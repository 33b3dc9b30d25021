// Every (type, from, to) of modify_qp with its attributes, against a golden file: a change in
// behaviour is a change a reader sees. VERBENA_UPDATE_GOLDEN=1 writes the file anew.
#include "engine/transitions.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace verbena::engine {
namespace {

std::string attributes(uint32_t mask) {
  std::string text;
  for (; mask; mask &= mask - 1) {
    text += text.empty() ? "" : " ";
    text += std::string(attribute_name(mask)).substr(7);  // without IBV_QP_
  }
  return text.empty() ? "-" : text;
}

std::string all_transitions() {
  std::string text;
  for (QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend, QpType::kXrcRecv}) {
    for (int from = 0; from < 7; ++from) {
      for (int to = 0; to < 7; ++to) {
        auto a = static_cast<QpState>(from), b = static_cast<QpState>(to);
        Transition t = transition(type, a, b);
        text += std::string(name(type)) + " " + name(a) + " -> " + name(b) + ": ";
        text += t.allowed
                    ? "required " + attributes(t.required) + "; optional " + attributes(t.optional)
                    : "no";
        text += "\n";
      }
    }
  }
  return text;
}

TEST(Transitions, EqualTheGoldenFile) {
  std::string path = std::string(VERBENA_TEST_SOURCE) + "/transitions.golden";
  std::string now = all_transitions();
  if (std::getenv("VERBENA_UPDATE_GOLDEN")) std::ofstream(path) << now;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), now);
}

TEST(Transitions, EveryAttributeHasAName) {
  for (int bit = 0; bit <= 20; ++bit)
    EXPECT_EQ(attributes(1u << bit).find("known"), std::string::npos);
  EXPECT_STREQ(attribute_name(kAttrRateLimit), "IBV_QP_RATE_LIMIT");
  EXPECT_STREQ(attribute_name(1u << 30), "an unknown attribute");
  EXPECT_STREQ(attribute_name(0), "none");
}

}  // namespace
}  // namespace verbena::engine
