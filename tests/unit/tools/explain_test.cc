// `verbena explain`: complete tables, every way to name an entry, and log summaries. The texts are
// frozen in golden/explain.txt; a change shows up there.
#include <errno.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tools/explain_log.h"
#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

TEST(Explain, StatusesAreNumberedZeroTo23) {
  int number = 0;
  for (const Explanation& entry : status_explanations()) {
    EXPECT_EQ(entry.number, number++);
    EXPECT_EQ(std::string(entry.name).rfind("IBV_WC_", 0), 0u);
  }
  EXPECT_EQ(number, 24);
}

TEST(Explain, ErrnosCarryTheSystemsSentence) {
  std::set<int> seen;
  for (const Explanation& entry : errno_explanations()) {
    EXPECT_STREQ(entry.text, strerror(entry.number)) << entry.name;
    EXPECT_STREQ(entry.name, strerrorname_np(entry.number));
    EXPECT_TRUE(seen.insert(entry.number).second) << entry.name;
  }
  for (int wanted : {ENOMEM, EINVAL, EOPNOTSUPP, ENODEV, ETIMEDOUT, EADDRINUSE, EAGAIN})
    EXPECT_EQ(seen.count(wanted), 1u) << wanted;
}

// As programs print them; the first has a status, the others no errno at all.
TEST(Explain, KnowsWholeSentencesOfPrograms) {
  const std::map<std::string, std::string> sentences = {
      {"Failed status transport retry counter exceeded (12) for wr_id 2",
       "IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded\n"},
      {"Failed to modify QP to RTR", "ibv_modify_qp to RTR was refused\n"},
      {" Failed to modify QP 0x11 to RTR", "ibv_modify_qp to RTR was refused\n"},
      {"Failed to modify QP to INIT", "ibv_modify_qp was refused\n"},
      {"Couldn't create QP", "ibv_create_qp was refused\n"},
      {"Unable to Connect the HCA's through the link",
       "perftest's two sides did not find each other over TCP, before any RDMA\n"},
      {"Unable to find the Infiniband/RoCE device", "the program sees no such RDMA device\n"},
      {"No IB devices found", "the program sees no RDMA device\n"},
      {"Couldn't read/write remote address",
       "ibv_*_pingpong's two sides told each other nothing over TCP: the other one ended\n"},
      {"Couldn't connect to 127.0.0.1:18515",
       "the program did not reach its other side over TCP, before any RDMA\n"},
      {"Unexpected CM event bl blka 8",
       "perftest -R got another event of rdma_cm than it waited for; the number is the event's\n"},
  };
  for (const auto& [sentence, first] : sentences)
    EXPECT_EQ(explain_query(sentence).substr(0, first.size()), first) << sentence;
  EXPECT_EQ(explain_query("no such words anywhere"), "");
}

// Every errno that stands as such in what refuses, has its entry.
TEST(Explain, KnowsEveryErrnoThatTheSourcesGive) {
  std::map<std::string, int> numbers;
  for (int number = 1; number < 134; ++number)
    if (const char* name = strerrorname_np(number)) numbers[name] = number;
  std::set<std::string> known;
  for (const Explanation& entry : errno_explanations()) known.insert(entry.name);
  const std::regex given(
      R"(\b(?:refuse|refuse_null|fail|fail_batch|return)\b[\s(?:]*(?:\*?id,\s*)?(E[A-Z0-9]+)\b)");
  size_t found = 0;
  for (const char* room : {"abi", "engine", "cm", "host", "broker", "rdmacm"})
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::string(SOURCES "/") + room)) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path());
      const std::string text(std::istreambuf_iterator<char>(in), {});
      for (std::sregex_iterator at(text.begin(), text.end(), given), end; at != end; ++at) {
        if (!numbers.count((*at)[1])) continue;
        ++found;
        EXPECT_TRUE(known.count((*at)[1])) << (*at)[1] << " in " << file.path();
      }
    }
  EXPECT_GT(found, 200u);
}

TEST(Explain, EventsCarryTheirNumbers) {
  ASSERT_EQ(event_explanations().size(), 16u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(event_explanations()[i].number, static_cast<int>(i));
  const std::map<std::string, int> some = {
      {"RDMA_CM_EVENT_UNREACHABLE", RDMA_CM_EVENT_UNREACHABLE},
      {"RDMA_CM_EVENT_REJECTED", RDMA_CM_EVENT_REJECTED},
      {"RDMA_CM_EVENT_ADDR_CHANGE", RDMA_CM_EVENT_ADDR_CHANGE},
      {"RDMA_CM_EVENT_TIMEWAIT_EXIT", RDMA_CM_EVENT_TIMEWAIT_EXIT}};
  for (const auto& [name, number] : some)
    EXPECT_EQ(event_explanations()[static_cast<size_t>(number)].name, name);
}

// rping, ucmatose and rdma_client as they print a failure.
TEST(Explain, KnowsConnectionsThatFailed) {
  const std::map<std::string, std::pair<std::string, std::string>> sentences = {
      {"cma event RDMA_CM_EVENT_REJECTED, error 28",
       {"RDMA_CM_EVENT_REJECTED (8): ", "\n\nIB_CM_REJ_CONSUMER_DEFINED (28): "}},
      {"cmatose: event: RDMA_CM_EVENT_REJECTED, error: 8",
       {"RDMA_CM_EVENT_REJECTED (8): ", "\n\nIB_CM_REJ_INVALID_SERVICE_ID (8): "}},
      {"cma event RDMA_CM_EVENT_UNREACHABLE, error -110",
       {"RDMA_CM_EVENT_UNREACHABLE (7): ", "\n\nETIMEDOUT (110): "}},
      {"udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: 1",
       {"RDMA_CM_EVENT_UNREACHABLE (7): ", "\n\nIB_SIDR_UNSUPPORTED (1): "}},
      {"cma event RDMA_CM_EVENT_DISCONNECTED, error 0", {"RDMA_CM_EVENT_DISCONNECTED (10): ", ""}},
      {"rdma_connect: Connection refused", {"ECONNREFUSED (111): ", ""}},
      {"REJ 10", {"IB_CM_REJ_STALE_CONN (10): ", ""}},
      {"reason 10", {"IB_CM_REJ_STALE_CONN (10): ", ""}},
      {"event 10", {"RDMA_CM_EVENT_DISCONNECTED (10): ", ""}},
      {"sidr status 2", {"IB_SIDR_REJECT (2): ", ""}},
      {"errno 12", {"ENOMEM (12): ", ""}},
      {"stale_conn", {"IB_CM_REJ_STALE_CONN (10): ", ""}},
      {"rejected", {"RDMA_CM_EVENT_REJECTED (8): ", ""}},
      {"-110", {"ETIMEDOUT (110): ", ""}},
  };
  for (const auto& [sentence, wanted] : sentences) {
    const std::string found = explain_query(sentence);
    EXPECT_EQ(found.substr(0, wanted.first.size()), wanted.first) << sentence;
    if (!wanted.second.empty()) {
      EXPECT_NE(found.find(wanted.second), std::string::npos) << sentence;
    }
    const bool two = found.find("\n\n") != std::string::npos;
    EXPECT_EQ(two, !wanted.second.empty()) << sentence << "\n" << found;
  }
  EXPECT_EQ(first_line(explain_query("REJ")),
            "  1  IB_CM_REJ_NO_QP                       no queue pair available");
  EXPECT_NE(explain_query("event").find("\n 15  RDMA_CM_EVENT_TIMEWAIT_EXIT "), std::string::npos);
  EXPECT_EQ(explain_query("REJ 34"), "");
  EXPECT_EQ(explain_query("-34567"), "");
  EXPECT_EQ(explain_query("event 16"), "");
}

TEST(Explain, EverythingIsSaid) {
  for (const auto& list : all_explanations())
    for (const Explanation& entry : list)
      for (const char* field : {entry.text, entry.where, entry.causes, entry.change})
        EXPECT_GT(strlen(field), 6u) << entry.name;
}

TEST(Explain, GoldenText) {
  std::string all;
  for (const auto& list : all_explanations())
    for (const Explanation& entry : list) all += explanation_text(entry) + "\n";
  const std::string path = GOLDEN "/explain.txt";
  if (getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << all;
  std::ifstream in(path);
  const std::string golden(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(all, golden) << "run with UPDATE_GOLDEN=1 when the change is meant";
}

TEST(Explain, NamesNumbersAndSentences) {
  const std::string line = "IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded";
  for (const char* query : {"IBV_WC_RETRY_EXC_ERR", "retry_exc_err", "RETRY_EXC_ERR",
                            "transport retry counter exceeded", "Transport Retry"})
    EXPECT_EQ(first_line(explain_query(query)), line) << query;
  const std::string both = explain_query("12");
  EXPECT_EQ(first_line(both), line);
  EXPECT_NE(both.find("\nENOMEM (12): "), std::string::npos);
  EXPECT_EQ(first_line(explain_query("enomem")), "ENOMEM (12): Cannot allocate memory");
  EXPECT_EQ(first_line(explain_query("95")), "EOPNOTSUPP (95): Operation not supported");
  EXPECT_EQ(explain_query("4242"), "");
  EXPECT_EQ(explain_query("nonsense"), "");
  EXPECT_EQ(explain_query("xyz"), "");
}

TEST(Explain, FindsTheStatusInALine) {
  EXPECT_EQ(find_in_line("completion RNR_RETRY_EXC_ERR of QP 3")->number, 13);
  EXPECT_EQ(find_in_line("status IBV_WC_REM_ACCESS_ERR")->number, 10);
  EXPECT_EQ(find_in_line("failed: remote access error")->number, 10);
  EXPECT_EQ(find_in_line("post_send: ENOMEM")->number, ENOMEM);
  EXPECT_STREQ(find_in_line("port 7471 of 192.0.2.2 rejected the connection in state REQ_SENT: "
                            "REJ 8 (invalid service ID: nothing listens on that port)")
                   ->name,
               "IB_CM_REJ_INVALID_SERVICE_ID");
  EXPECT_STREQ(find_in_line("refused the lookup: SIDR status 1 (...)")->name,
               "IB_SIDR_UNSUPPORTED");
  EXPECT_EQ(find_in_line("all is well"), nullptr);
  EXPECT_EQ(find_in_line("REJ 34"), nullptr);
}

TEST(ExplainLog, CountsEqualCauses) {
  std::istringstream log(
      "some output\n"
      "verbena: [41] QP 0x030001: rkey 0x1234 names no region (REM_ACCESS_ERR)\n"
      "verbena: [42] QP 0x040007: rkey 0x99 names no region (REM_ACCESS_ERR)\n"
      "[1,0]<stderr>: verbena: [43] post_send: queue full\n");
  EXPECT_EQ(summarise_log(log),
            "3 lines, 2 different causes\n"
            "\n"
            "2 times: [41] QP 0x030001: rkey 0x1234 names no region (REM_ACCESS_ERR)\n"
            "  IBV_WC_REM_ACCESS_ERR (10): remote access error\n"
            "  change   Compare remote_addr, length and rkey with the peer's ibv_reg_mr; set the "
            "remote access flag at both ibv_reg_mr and ibv_modify_qp(INIT) of the peer.\n"
            "\n"
            "1 times: [43] post_send: queue full\n");
}

TEST(ExplainLog, SaysWhenThereIsNothing) {
  std::istringstream log("hello\n");
  EXPECT_EQ(summarise_log(log),
            "no line starts with \"verbena: \"; write a log with VERBENA_LOG=explain:FILE\n");
}

TEST(ExplainLog, KeepsABoundedNumberOfCauses) {
  std::string text;
  for (size_t i = 0; i < kMaxLogCauses + 100; ++i) {
    std::string word;
    for (size_t n = i; n > 0; n /= 20) word += static_cast<char>('a' + n % 20);
    text += "verbena: cause " + word + "\n";
  }
  std::istringstream log(text);
  EXPECT_EQ(first_line(summarise_log(log)), "4196 lines, 4096 different causes");
}

}  // namespace
}  // namespace verbena::tools
